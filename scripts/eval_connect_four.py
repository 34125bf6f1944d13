"""How well a trained agent plays Connect Four, measured against the truth.

    python scripts/eval_connect_four.py runs/connect_four
    python scripts/eval_connect_four.py runs/connect_four --bitbully 100

Prints, for the network alone and for searches, the share of 1,000 solved positions in which the chosen move
keeps the perfect result (all positions, and the decisive ones, where some legal move does not) and the share
in which it is also the best by distance, each with its standard error. With --bitbully N it also plays N
games moving first against perfect play, from the empty board.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import jax

import games_jax
from train.cli.common import positive_int, run_script
from train.player_specs import make_player
from train.solved import accuracy, load_solved, play_first

DATA = Path(__file__).resolve().parent.parent / "tests" / "data" / "connect_four_solved.json.gz"


def main() -> int:
    """Parses the command line and prints the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", help="a run directory or a checkpoint")
    parser.add_argument("--data", default=DATA, help="connect_four_solved.json.gz")
    parser.add_argument(
        "--simulations",
        type=int,
        nargs="+",
        default=[0, 64, 200],
        help="simulations per move; 0: network alone",
    )
    parser.add_argument("--search", choices=("puct", "gumbel"), default="puct")
    parser.add_argument("--bitbully", type=positive_int, metavar="N", help="games against perfect play")
    parser.add_argument(
        "--bitbully-simulations",
        type=positive_int,
        default=200,
        metavar="N",
        help="simulations in those games",
    )
    parser.add_argument("--seed", type=int, default=0)
    return run_script("eval_connect_four", _report, parser.parse_args())


def _report(arguments: argparse.Namespace) -> None:
    game = games_jax.make("connect_four")
    positions = load_solved(arguments.data)
    key = jax.random.key(arguments.seed)

    def player(simulations: int):
        return make_player(f"run:{arguments.checkpoint}@sims={simulations},search={arguments.search}", game)

    players = [player(simulations) for simulations in arguments.simulations]
    print(f"{len(positions.ply)} solved positions, {int(positions.decisive.sum())} of them decisive")
    print(f"{'':<18}{'keeps the result':>20}{'decisive ones':>20}{'best by distance':>20}{'seconds':>9}")
    for simulations, asked in zip(arguments.simulations, players):
        began = time.perf_counter()
        found = accuracy(asked, positions, key=key)
        name = f"{simulations} simulations" if simulations else "network alone"
        shares = "".join(f"{share!s:>20}" for share in (found.all, found.decisive, found.optimal))
        print(f"{name:<18}{shares}{time.perf_counter() - began:>9.1f}", flush=True)
    if arguments.bitbully:
        perfect = make_player("bitbully:full", game)
        points = play_first(
            player(arguments.bitbully_simulations), perfect, games=arguments.bitbully, key=key
        )
        won, drawn, lost = (int((points == p).sum()) for p in (1, 0.5, 0))
        print(
            f"moving first against perfect play, {arguments.bitbully_simulations} simulations, "
            f"{len(points)} games: {won} won, {drawn} drawn, {lost} lost"
        )


if __name__ == "__main__":
    raise SystemExit(main())
