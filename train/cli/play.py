"""`jaxsearch play`: a person against an agent, in the terminal."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from train.cli.common import PLAYER_HELP, add_seed, make_game, natural, start_jax, table

if TYPE_CHECKING:
    import jax

    from games_jax.game import Game
    from train.players import AnyPlayer

DESCRIPTION = """\
Play against an agent in the terminal.

Shows the board, asks for your move in the game's own notation, and shows what the agent thought: the share
of its search that went into each move, and how good it takes its position to be.
"""

EPILOG = f"""\
at the prompt:
  a move      in the game's notation (Connect Four: a column 1-7; Othello: a square such as f5, or pass;
              chess: e2e4 or Nf3)
  ?           the legal moves
  u           take back your last move
  q           quit

{PLAYER_HELP}
examples:
  jaxsearch play connect_four
  jaxsearch play connect_four --checkpoint runs/connect_four --second
  jaxsearch play "othello(size=6)" --opponent uct:5000
  jaxsearch play connect_four --opponent bitbully:full --position 4453
"""

SHOWN_MOVES = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("game", metavar="GAME", help='a game, e.g. connect_four or "othello(size=6)"')
    agent = parser.add_mutually_exclusive_group()
    agent.add_argument(
        "--checkpoint", metavar="PATH", help="play a trained agent: a run directory or checkpoint"
    )
    agent.add_argument(
        "--opponent", default="uct:1000", metavar="PLAYER", help="play any other player (default uct:1000)"
    )
    parser.add_argument(
        "--simulations",
        type=natural,
        default=200,
        metavar="N",
        help="simulations per move of a --checkpoint agent; 0 for the network alone (default 200)",
    )
    seat = parser.add_mutually_exclusive_group()
    seat.add_argument(
        "--first", dest="seat", action="store_const", const=0, default=0, help="you start (default)"
    )
    seat.add_argument("--second", dest="seat", action="store_const", const=1, help="the agent starts")
    parser.add_argument(
        "--position",
        metavar="TEXT",
        help="start from a position or a list of moves, as jaxsearch analyze takes it",
    )
    add_seed(parser)


def run(arguments: argparse.Namespace) -> int:
    """Plays one game."""
    start_jax()
    import jax

    from train.player_specs import make_player

    game = make_game(arguments.game)
    if game.num_players != 2:
        raise ValueError(
            f"A person plays against one agent here, and {game.name} is a game for {game.num_players}; "
            f"jaxsearch analyze shows what a search would do."
        )
    spec = arguments.opponent
    if arguments.checkpoint:
        spec = f"run:{arguments.checkpoint}@sims={arguments.simulations}"
    agent = make_player(spec, game)
    key = jax.random.key(arguments.seed)
    start = game.from_string(arguments.position) if arguments.position else game.init(key)
    print(
        f"{game.name}: you against {agent.name}. Type a move, ? for the legal moves, u to undo, q to quit.\n"
    )
    play_game(game, agent, start, seat=arguments.seat, key=key)
    return 0


def play_game(game: Game, agent: AnyPlayer, start: Any, *, seat: int, key: jax.Array) -> None:
    """Plays from `start` until the end or until the person quits.

    Args:
        game: a two-player game.
        agent: the person's opponent.
        start: one state.
        seat: the person's, 0 or 1.
        key: consumed by the agent.
    """
    import jax

    from games_jax.play import play, write_move

    line = [start]  # all states of the game, so that moves can be taken back
    asked = 0
    print(game.render(start))
    while not bool(game.is_over(line[-1])):
        state = line[-1]
        if int(game.current_player(state)) == seat:
            move = _ask(game, state)
            if move is None:
                print("Goodbye.")
                return
            if move == "u":
                if not _take_back(game, line, seat):
                    print("There is no move of yours to take back.")
                    continue
            else:
                line.append(play(game, state, move))
        else:
            move_key = jax.random.fold_in(key, asked)
            action, thoughts = agent_move(game, agent, move_key, state)
            asked += 1
            print(f"{agent.name} plays {write_move(game, state, action)}{thoughts}")
            line.append(play(game, state, action))
        print("\n" + game.render(line[-1]))
    print(_verdict(game, line[-1], seat))


def _ask(game: Game, state: Any) -> int | str | None:
    """A legal action, "u" to take back, or None to quit."""
    from games_jax.play import check_action, legal_moves, list_moves, read_move

    while True:
        try:
            text = input("your move: ").strip()
        except EOFError:
            print()
            return None
        if text.lower() in ("q", "quit"):
            return None
        if text.lower() in ("u", "undo"):
            return "u"
        if text == "?":
            print("legal moves: " + ", ".join(legal_moves(game, state)))
        elif text:
            try:
                action = read_move(game, state, text)
            except ValueError as error:
                print(f"{error} The legal moves: {list_moves(game, state)}.")
                continue
            try:
                return check_action(game, state, action)
            except ValueError as error:  # names the legal moves itself
                print(error)


def _take_back(game: Game, line: list[Any], seat: int) -> bool:
    """Drops states back to the person's last decision; False if there was none."""
    for length in range(len(line) - 1, 0, -1):
        if int(game.current_player(line[length - 1])) == seat:
            del line[length:]
            return True
    return False


def agent_move(game: Game, agent: AnyPlayer, key: jax.Array, state: Any) -> tuple[int, str]:
    """An agent's move in one state and, if it searches, what it thought as text."""
    import jax
    import numpy as np

    from games_jax.play import write_move
    from train.players import Player, choose_actions, consult

    states = jax.tree.map(lambda x: x[None], state)
    if not isinstance(agent, Player):
        return int(choose_actions(agent, key, states)[0]), ""
    actions, output = consult(agent, key, states)
    if output is None:
        return int(actions[0]), ""
    visits = np.asarray(output.visits[0])
    order = [a for a in np.argsort(-visits, kind="stable")[:SHOWN_MOVES] if visits[a] > 0]
    rows = [
        [
            write_move(game, state, a),
            f"{visits[a] / visits.sum():.0%}",
            f"{float(output.qvalues[0, a]):+.2f}",
        ]
        for a in order
    ]
    text = table(["move", "share", "value"], rows)
    return int(actions[0]), f" (it takes its position to be worth {float(output.value[0]):+.2f})\n{text}"


def _verdict(game: Game, state: Any, seat: int) -> str:
    mine, other = float(game.rewards(state)[seat]), float(game.rewards(state)[1 - seat])
    return "You win." if mine > other else "You lose." if mine < other else "A draw."
