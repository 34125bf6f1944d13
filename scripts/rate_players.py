"""Rates a group of players: all pairs meet in every opening of a game, once with each colour.

    python scripts/rate_players.py "hex(size=5)" rave:1000 rave:100 uct:1000
    python scripts/rate_players.py "hex(size=5)" run:runs/exit_hex5@sims=0 rave:1000 --keep ratings.json

Prints each match and the players' Elo by a Bradley-Terry fit to all of them, with 95 % intervals. An opening
is every line of `--plies` legal moves: of Hex 9x9 with one ply 81, which makes 162 games. With `--keep`
matches go to a file as they end; a later call with more players, or after an interruption, plays what is
missing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from train.cli.common import make_game, start_jax
from train.ratings import rate, table


def main() -> int:
    """Plays, rates and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("game", help='for two players and without chance, e.g. "hex(size=5)"')
    parser.add_argument("players", nargs="+", help="as for jaxsearch match, at least two")
    parser.add_argument("--plies", type=int, default=1, help="of the openings (default 1)")
    parser.add_argument("--anchor", help="the player whose Elo is 0 (default: the first)")
    parser.add_argument("--keep", type=Path, help="a JSON file of results")
    arguments = parser.parse_args()
    start_jax()
    from train.experiments import Notes, meet_all
    from train.player_specs import make_player

    with tempfile.TemporaryDirectory() as scratch:
        try:
            game = make_game(arguments.game)
            players = [make_player(spec, game) for spec in arguments.players]
            notes = Notes(arguments.keep or Path(scratch) / "matches.json")
            prefix = f"{game.name}, {arguments.plies} plies: "
            encounters = meet_all(game, players, notes, prefix, arguments.plies)
            for e in encounters:
                low, high = e.interval
                print(f"{e.first} v. {e.second}: {e.score:.1%} ({low:.1%} to {high:.1%}), {e.games} games")
            print("\n" + table(rate(encounters, anchor=arguments.anchor or players[0].name)))
        except ValueError as error:
            print(f"rate_players: error: {error}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
