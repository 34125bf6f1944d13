"""`jaxsearch match`: two players meet."""

from __future__ import annotations

import argparse
import json
import time

from train.cli.common import PLAYER_HELP, add_seed, make_game, natural, positive_int, start_jax

DESCRIPTION = """\
Let two players meet.

Every opening (a few random moves that decide nothing) is played twice with colours swapped, and all games
run at once. Prints wins, draws and losses of A, its score with a 95 % interval, and the Elo difference that
the score stands for.
"""

EPILOG = f"""\
{PLAYER_HELP}
the interval:
  Wilson's, with the variance estimated from pairs of games on the same opening. The Elo difference counts
  one extra draw, which keeps it finite when one side wins every game.

examples:
  jaxsearch match uct:1000 uct:100 connect_four --games 200
  jaxsearch match run:runs/connect_four@sims=64 uct:1000 connect_four
  jaxsearch match run:runs/othello run:runs/othello_older "othello(size=6)" --games 400 --json
  jaxsearch match run:runs/exit_hex5@sims=0 rave:1000 "hex(size=5)" --openings every
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("a", metavar="A", help="a player; the score is its score")
    parser.add_argument("b", metavar="B", help="its opponent")
    parser.add_argument(
        "game", metavar="GAME", help='a game, e.g. connect_four or "othello(size=6)"; see jaxsearch games'
    )
    parser.add_argument("--games", type=positive_int, metavar="N", help="number of games, even (default 100)")
    parser.add_argument(
        "--opening-plies",
        type=natural,
        default=4,
        metavar="K",
        help="random moves at the start of each game; 0: always the initial position (default 4)",
    )
    parser.add_argument(
        "--openings",
        metavar="LIST",
        help='openings to use instead: "balanced", a list that comes with the package (othello); the path of '
        'one, an opening a line, moves with spaces between; or "every": all first moves, once with each '
        "colour",
    )
    parser.add_argument(
        "--batch",
        type=positive_int,
        default=1024,
        metavar="N",
        help="most games played at once (default 1024)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    add_seed(parser)


def run(arguments: argparse.Namespace) -> int:
    """Plays the match and prints the result."""
    start_jax()
    import jax

    from train.arena import play_match
    from train.opening_files import read_openings
    from train.player_specs import make_player
    from train.tournament import every_opening

    game = make_game(arguments.game)
    a, b = make_player(arguments.a, game), make_player(arguments.b, game)
    key = jax.random.key(arguments.seed)
    openings, games = None, arguments.games or 100
    if arguments.openings == "every":
        if arguments.games is not None:
            raise ValueError("--openings every says how many games there are; leave --games out.")
        openings = every_opening(game)
        games = 2 * len(openings.moves)
    elif arguments.openings is not None:
        list_key = jax.random.fold_in(key, 1)
        openings = read_openings(game, arguments.openings, key=list_key, count=-(-games // 2))
    began = time.perf_counter()
    result = play_match(
        game,
        a,
        b,
        games=games,
        key=key,
        opening_plies=arguments.opening_plies,
        openings=openings,
        batch=arguments.batch,
    )
    seconds = time.perf_counter() - began
    facts = {"game": game.name, "seed": arguments.seed, **result.to_dict(), "seconds": round(seconds, 3)}
    print(json.dumps(facts) if arguments.json else _text(facts))
    return 0


def _text(facts: dict) -> str:
    """The result for a reader."""

    def record(wins: int, draws: int, losses: int) -> str:
        return f"{wins} won, {draws} drawn, {losses} lost"

    first, second = facts["moving_first"], facts["moving_second"]
    interval = f"95 % interval {facts['low']:.1%} to {facts['high']:.1%}"
    variety = f"{facts['distinct_openings']} openings, {facts['distinct_games']} different games"
    return "\n".join(
        [
            f"{facts['first']} v. {facts['second']}, {facts['games']} games of {facts['game']}",
            f"  all games      {record(facts['wins'], facts['draws'], facts['losses'])}",
            f"  moving first   {record(**first)}",
            f"  moving second  {record(**second)}",
            f"  score          {facts['score']:.1%}  ({interval})",
            f"  Elo            {facts['elo']:+.0f}  ({facts['elo_low']:+.0f} to {facts['elo_high']:+.0f})",
            *(f"  note           {note}" for note in facts["notes"]),
            f"  variety        {variety}, {facts['mean_length']:.1f} plies on average",
            f"  time           {facts['seconds']:.1f} s, compilation included",
        ]
    )
