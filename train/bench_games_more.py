"""The other speeds of the games: random playouts, chess move generation, cube moves.

Each side does the same work in turn, as in `bench_games`. A peer that is not installed leaves its column
empty.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import games_jax
import jaxsearch
from games_jax.chess.perft import perft
from train import timing

# Our games and OpenSpiel's names of them. Go's playouts spare the mover's eyes here, as is usual; OpenSpiel
# fills them and plays on to its limit of moves.
PLAYOUTS = {
    "go(size=7)": "go(board_size=7)",
    "go(size=9)": "go(board_size=9)",
    "hex(size=9)": "hex(board_size=9)",
    "othello": "othello",
}
CUBES = ("cube2", "cube3")
PERFT_DEPTH = 4


@dataclasses.dataclass(frozen=True)
class Line:
    """One comparison.

    Attributes:
        what: what is done, and the game.
        unit: of the rates.
        ours: our side.
        peer: the other side, or None.
        peer_name: who that is.
    """

    what: str
    unit: str
    ours: timing.Side
    peer: timing.Side | None
    peer_name: str


def bench_more(
    *, batch: int = 1024, moves: int = 200, repeats: int = 5, depth: int = PERFT_DEPTH
) -> list[Line]:
    """Times playouts, chess perft and cube moves.

    Args:
        batch: playouts, or cubes turned at once.
        moves: turns of each cube in one call.
        repeats: timed runs a side.
        depth: of the perft from the start of chess.
    """
    lines = [playout_line(name, batch=batch, repeats=repeats) for name in PLAYOUTS]
    lines.append(perft_line(depth=depth, repeats=repeats))
    return lines + [cube_line(name, batch=batch, moves=moves, repeats=repeats) for name in CUBES]


def table(lines: Sequence[Line]) -> str:
    """The lines as text."""
    head = f"{'what':<24}{'ours':>24}{'peer':>24}{'ratio':>20}  peer"
    rows = [head]
    for line in lines:
        theirs, ratio = "-", ""
        if line.peer is not None:
            theirs, ratio = timing.spread(line.peer, _scale(line)), timing.ratio(line.ours, line.peer)
        ours = timing.spread(line.ours, _scale(line))
        rows.append(f"{line.what:<24}{ours:>24}{theirs:>24}{ratio:>20}  {line.peer_name}")
    return "\n".join([*rows, "k playouts/s, M positions/s, M moves/s: medians (least-greatest)"])


def _scale(line: Line) -> float:
    return 1e3 if line.unit == "playouts" else 1e6


def playout_line(name: str, *, batch: int, repeats: int) -> Line:
    """Random games from the start to the end: `jaxsearch.playouts` against OpenSpiel's in C++."""
    game = games_jax.make(name)
    states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), batch))
    run = jax.jit(jaxsearch.playouts(game))
    ours = functools.partial(run, None, jax.random.key(1), states)
    sides = _take_turns(ours, _open_spiel_playouts(PLAYOUTS[name], batch), work=batch, repeats=repeats)
    return Line(f"playouts {name}", "playouts", *sides, "OpenSpiel, one thread")


def _open_spiel_playouts(name: str, count: int) -> Callable[[], Any] | None:
    try:
        import pyspiel
    except ImportError:
        return None
    game = pyspiel.load_game(name)
    # Its random rollouts are open to Python only through a search: one simulation with `count` of them.
    evaluator = pyspiel.RandomRolloutEvaluator(n_rollouts=count, seed=0)
    bot = pyspiel.MCTSBot(game, evaluator, 1.0, 1, 10, False, 0, False)
    return lambda: bot.step(game.new_initial_state())


def perft_line(*, depth: int, repeats: int) -> Line:
    """Move sequences from the start of chess; both sides count the last move and do not make it."""
    state = games_jax.make("chess").init(jax.random.key(0))
    count = perft(state, depth)
    ours = functools.partial(perft, state, depth)
    sides = _take_turns(ours, _python_chess_perft(depth, count), work=count, repeats=repeats)
    return Line(f"chess perft({depth})", "positions", *sides, "python-chess")


def _python_chess_perft(depth: int, expected: int) -> Callable[[], Any] | None:
    try:
        import chess
    except ImportError:
        return None

    def count(board: Any, depth: int) -> int:
        if depth == 1:
            return board.legal_moves.count()
        total = 0
        for move in board.legal_moves:
            board.push(move)
            total += count(board, depth - 1)
            board.pop()
        return total

    def run() -> None:
        found = count(chess.Board(), depth)
        if found != expected:
            raise RuntimeError(f"python-chess counts {found} sequences of {depth} moves, ours {expected}.")

    return run


def cube_line(name: str, *, batch: int, moves: int, repeats: int) -> Line:
    """Turns of scrambled cubes, drawn before."""
    game = games_jax.make(name)
    cubes = jax.vmap(game.init)(jax.random.split(jax.random.key(0), batch))
    drawn = np.random.default_rng(0).integers(0, game.num_actions, (moves, batch), np.int32)

    @jax.jit
    def run(cubes: Any, drawn: jax.Array) -> Any:
        step = jax.vmap(game.step)
        return jax.lax.scan(lambda cubes, turns: (step(cubes, turns), None), cubes, drawn)[0]

    program = functools.partial(run, cubes, jnp.asarray(drawn))
    (ours,) = timing.take_turns([program], work=batch * moves, repeats=repeats)
    return Line(f"moves {name}", "moves", ours, None, "")


def _take_turns(
    ours: Callable[[], Any], theirs: Callable[[], Any] | None, *, work: float, repeats: int
) -> tuple[timing.Side, timing.Side | None]:
    programs = [ours] if theirs is None else [ours, theirs]
    sides = timing.take_turns(programs, work=work, repeats=repeats)
    return sides[0], sides[1] if len(sides) > 1 else None
