"""How well a trained agent plays Othello endings, measured against the exact results.

    python scripts/eval_othello.py runs/td_othello --simulations 0 100 1000
    python scripts/eval_othello.py runs/td_othello --simulations 1000 --options solver=true

Prints the share of 500 solved positions (8 to 16 empty cells) in which the chosen move keeps the result: of
all positions, of the decisive ones, where some legal move does not; and the share in which no other move ends
with more discs, each with its standard error. Matches are played by `jaxsearch match --openings balanced`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import jax

import games_jax
from train.cli.common import run_script
from train.player_specs import make_player
from train.solved import accuracy
from train.solved_othello import load_endgames

DATA = Path(__file__).resolve().parent.parent / "tests" / "data" / "othello_endgames.json.gz"


def main() -> int:
    """Parses the command line and prints the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", help="a run directory or a checkpoint")
    parser.add_argument("--data", default=DATA, help="othello_endgames.json.gz")
    parser.add_argument("--simulations", type=int, nargs="+", default=[0, 100, 1000], help="per move")
    parser.add_argument("--options", default="", help='more of the player, "solver=true,c_puct=2", say')
    parser.add_argument("--seed", type=int, default=0)
    return run_script("eval_othello", _report, parser.parse_args())


def _report(arguments: argparse.Namespace) -> None:
    game = games_jax.make("othello")
    positions = load_endgames(arguments.data)
    print(f"{'simulations':>11}  {'keeps':>14}  {'decisive':>14}  {'most discs':>14}  CPU seconds")
    for simulations in arguments.simulations:
        options = ",".join(filter(None, [f"sims={simulations}", arguments.options]))
        player = make_player(f"run:{arguments.checkpoint}@{options}", game)
        began = time.process_time()
        found = accuracy(player, positions, key=jax.random.key(arguments.seed))
        seconds = time.process_time() - began
        shares = "  ".join(f"{share!s:>14}" for share in (found.all, found.decisive, found.optimal))
        print(f"{simulations:>11}  {shares}  {seconds:.1f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
