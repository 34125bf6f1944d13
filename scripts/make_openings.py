r"""Draws random openings and keeps those that a strong player judges even.

    python scripts/make_openings.py othello run:runs/td_othello@sims=3000 --count 200 --plies 8 --limit 0.1 \
        > train/data/othello_openings.txt

Openings that are symmetric images of one another count once. `jaxsearch match --openings FILE` plays them.
"""

from __future__ import annotations

import argparse
import sys

import jax
import numpy as np

from games_jax.game import Game, symmetries_of
from train.cli.common import make_game, natural, positive_int, run_script
from train.openings import random_openings
from train.player_specs import make_player
from train.players import Player, consult

BATCH = 64
"""Openings searched at once."""


def main() -> int:
    """Parses the command line and prints the list."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("game")
    parser.add_argument("player", help="who judges: a player that searches")
    parser.add_argument("--count", type=positive_int, default=200)
    parser.add_argument("--plies", type=natural, default=8)
    parser.add_argument("--limit", type=float, default=0.1, help="greatest value of an even opening")
    parser.add_argument("--seed", type=int, default=0)
    return run_script("make_openings", _report, parser.parse_args())


def _report(arguments: argparse.Namespace) -> None:
    game = make_game(arguments.game)
    player = make_player(arguments.player, game)
    if not isinstance(player, Player) or player.think is None:
        raise ValueError(f"{arguments.player} does not search, so it has no value; expected run:DIR@sims=N.")
    key = jax.random.key(arguments.seed)
    kept: list[tuple[tuple[int, ...], float]] = []
    seen: set[bytes] = set()
    tried = 0
    while len(kept) < arguments.count:
        key, draw_key, search_key = jax.random.split(key, 3)
        openings = random_openings(game, draw_key, count=BATCH, plies=arguments.plies)
        _, output = consult(player, search_key, openings.states)
        assert output is not None
        values = np.asarray(output.value)
        boards = _boards(game, openings.states)
        for i in range(BATCH):
            tried += 1
            if boards[i] not in seen and abs(values[i]) <= arguments.limit:
                kept.append((tuple(int(move) for move in openings.moves[i]), float(values[i])))
            seen.add(boards[i])
        print(f"{len(kept)} of {tried}", file=sys.stderr)
        if tried > 1000 * arguments.count:
            raise ValueError(f"only {len(kept)} of {tried} openings are even to {arguments.limit}; widen it.")
    print(f"# {game.name}: openings of {arguments.plies} random moves that are worth between", end=" ")
    print(f"-{arguments.limit:g} and {arguments.limit:g} to the mover (1 is a win).")
    print("# Judged by a search with an n-tuple network; made by scripts/make_openings.py.")
    for moves, value in kept[: arguments.count]:
        print(" ".join(game.action_to_string(move) for move in moves), f" # {value:+.3f}")


def _boards(game: Game, states) -> list[bytes]:
    """The position as its mover sees it, the least of its symmetric images."""
    movers = jax.vmap(game.current_player)(states)
    looks = np.asarray(jax.vmap(game.observe)(states, movers))
    flat = looks.reshape(len(looks), -1, looks.shape[-1])
    symmetries = symmetries_of(game)
    images = np.arange(flat.shape[1])[None] if symmetries is None else np.asarray(symmetries.cells)
    return [min(look[image].tobytes() for image in images) for look in flat]


if __name__ == "__main__":
    sys.exit(main())
