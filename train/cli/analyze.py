"""`jaxsearch analyze`: what a search thinks of one position."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from train.cli.common import add_seed, make_game, positive_int, start_jax, table

if TYPE_CHECKING:
    from games_jax.game import Game
    from train.thoughts import Thoughts

DESCRIPTION = """\
Show what a search thinks of a position.

Prints the moves with their visits, share of visits, prior and value for the mover, and the line that the
search expects. With --png also a picture: the board with the visit shares, and bars beside it.
"""

EPILOG = """\
POSITION is what the game reads: a list of moves from the start ("4453" in Connect Four, "f5d6c3" in
Othello, "1. e4 e5" in chess), or a board diagram: rows from the top with / between them, X O and . for the
cells, then the side to move. Chess reads a FEN instead, a cube a scramble. "" is the starting position (of a
cube: the solved one).

examples:
  jaxsearch analyze connect_four 4453
  jaxsearch analyze connect_four 4453 --checkpoint runs/connect_four --simulations 800 --png 4453.png
  jaxsearch analyze tic_tac_toe "X.O/.X./... O" --simulations 200 --json
  jaxsearch analyze chess "6k1/5ppp/8/8/8/8/8/3R2K1 w - - 0 1" --simulations 200
  jaxsearch analyze cube2 "R U F"
"""

SHOWN_MOVES = 15
"""Rows of the table; --json has all moves."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("game", metavar="GAME", help='a game, e.g. connect_four or "othello(size=6)"')
    parser.add_argument("position", metavar="POSITION", help="moves or a board diagram; see below")
    parser.add_argument(
        "--checkpoint", metavar="PATH", help="judge by a trained network: a run directory or a checkpoint"
    )
    parser.add_argument(
        "--search",
        choices=("uct", "puct", "gumbel"),
        help="uct judges by random playouts; puct and gumbel need --checkpoint (default: puct with "
        "--checkpoint, else uct)",
    )
    parser.add_argument(
        "--simulations", type=positive_int, default=1000, metavar="N", help="simulations (default 1000)"
    )
    parser.add_argument(
        "--leaves",
        type=positive_int,
        metavar="K",
        help="leaves that uct and puct judge at once, a divisor of N: sooner done, a little less well spent "
        "(default 1 on a CPU; on an accelerator 8 from N = 800 on where it divides N)",
    )
    parser.add_argument("--png", metavar="FILE", help="write a picture; the name ends in .png, .svg or .pdf")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    add_seed(parser)


def run(arguments: argparse.Namespace) -> int:
    """Searches and prints."""
    start_jax()
    import jax

    from train.thoughts import think_about

    game = make_game(arguments.game)
    state = game.from_string(arguments.position)
    if arguments.png:
        from train.draw import check_picture_name, draw_thoughts

        check_picture_name(arguments.png)  # before the search, not after it
    kind = arguments.search or ("puct" if arguments.checkpoint else "uct")
    thoughts = think_about(
        game,
        state,
        search=kind,
        checkpoint=arguments.checkpoint,
        simulations=arguments.simulations,
        leaves=arguments.leaves,
        key=jax.random.key(arguments.seed),
    )
    facts = _facts(game, state, thoughts)
    if arguments.png:
        effort = f"{kind}, {arguments.simulations} simulations"
        title = f"{game.name}: {effort}, value {thoughts.value:+.2f} for the mover"
        draw_thoughts(game, state, thoughts, arguments.png, title=title)
    print(json.dumps(facts) if arguments.json else _text(game, state, facts))
    return 0


def _facts(game: Game, state: Any, thoughts: Thoughts) -> dict[str, Any]:
    """The analysis as plain values."""
    from games_jax.play import write_line, write_move

    moves = []
    for action in thoughts.order:
        visits = int(thoughts.visits[action])
        moves.append(
            {
                "move": write_move(game, state, action),
                "visits": visits,
                "share": float(thoughts.shares[action]),
                "prior": None if thoughts.priors is None else float(thoughts.priors[action]),
                "value": float(thoughts.qvalues[action]) if visits else None,
            }
        )
    line = write_line(game, state, thoughts.line)
    return {
        "game": game.name,
        "mover": int(game.current_player(state)),
        "value": thoughts.value,
        "line": line,
        "moves": moves,
    }


def _text(game: Game, state: Any, facts: dict[str, Any]) -> str:
    """The analysis for a reader."""
    rows = [
        [
            move["move"],
            str(move["visits"]),
            f"{move['share']:.1%}",
            "-" if move["prior"] is None else f"{move['prior']:.1%}",
            "-" if move["value"] is None else f"{move['value']:+.3f}",
        ]
        for move in facts["moves"][:SHOWN_MOVES]
    ]
    more = len(facts["moves"]) - len(rows)
    return "\n".join(
        [
            game.render(state),
            "",
            table(["move", "visits", "share", "prior", "value"], rows),
            *([f"and {more} more moves"] if more > 0 else []),
            "",
            f"value for the mover  {facts['value']:+.3f}",
            f"expected line        {' '.join(facts['line']) or '-'}",
        ]
    )
