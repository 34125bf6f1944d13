"""`jaxsearch games`: what can be played."""

from __future__ import annotations

import argparse
import json

from train.cli.common import start_jax, table

DESCRIPTION = """\
List the games.

For each: its name, its parameters with their defaults, the number of actions and players, the bytes of one
state (a search keeps one per node) and a bound on its length in plies.
"""

EPILOG = """\
A game with parameters is written like a call: "othello(size=6)".

examples:
  jaxsearch games
  jaxsearch games --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """Prints the table."""
    start_jax()
    import jax

    import games_jax

    games = []
    for name in games_jax.names():
        game = games_jax.make(name)
        state = jax.eval_shape(game.init, jax.random.key(0))
        games.append(
            {
                "name": name,
                "parameters": games_jax.parameters(name),
                "actions": game.num_actions,
                "players": game.num_players,
                "bytes_per_state": sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)),
                "max_plies": game.max_steps,
            }
        )
    if arguments.json:
        print(json.dumps(games))
        return 0
    rows = [
        [
            g["name"],
            str(g["actions"]),
            str(g["players"]),
            str(g["bytes_per_state"]),
            str(g["max_plies"]),
            ", ".join(f"{key}={value!r}" for key, value in g["parameters"].items()) or "-",
        ]
        for g in games
    ]
    print(table(["game", "actions", "players", "bytes/state", "max plies", "parameters"], rows, left=(0, 5)))
    return 0
