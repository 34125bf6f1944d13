"""Opponents that are other people's programs.

BitBully (https://github.com/MarkusThill/BitBully) solves Connect Four; it is an optional package under the
AGPL. rust-reversi (https://github.com/neodymium6/rust_reversi) plays Othello. Both are imported only when
they are asked for. Any program that speaks GTP is reached by its command.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.game import Game
from train.gtp import RESIGN, Engine, EngineError, dialect_of
from train.players import FAULT, RESIGNED, EnginePlayer, HostPlayer, Incidents


def bitbully_scores(engine: Any, stones: np.ndarray) -> dict[int, int]:
    """BitBully's score of every playable column.

    Args:
        engine: a `bitbully.BitBully`.
        stones: bool `[6, 7, 2 or more]`, top row first: the first player's stones, then the second's.

    Returns:
        Column (0-6) to score: its sign is the result for the mover, its size how early that comes.
    """
    import bitbully

    board = bitbully.Board.from_array((stones[..., 0] + 2 * stones[..., 1]).tolist())
    return engine.score_all_moves(board)


def bitbully_player(game: Game, depth: int | None = None) -> HostPlayer:
    """Connect Four by BitBully; among moves of the best score it draws one.

    Args:
        game: Connect Four.
        depth: plies of search, without opening book; None plays perfectly: it wins as early and loses as
            late as can be.

    Raises:
        ValueError: if the game is another one, the depth is below 1, or the package is not installed.
    """
    if game.name != "connect_four":
        raise ValueError(f"bitbully plays connect_four only, not {game.name}.")
    if depth is not None and depth < 1:
        raise ValueError(f"bitbully's depth is at least 1, got {depth}; 'bitbully:full' plays perfectly.")
    try:
        import bitbully

        engine = (
            bitbully.BitBully("12-ply-dist")
            if depth is None
            else bitbully.BitBully(opening_book=None, max_depth=depth)
        )
    except ImportError as error:
        raise ValueError(
            "bitbully is not installed; `pip install bitbully bitbully-databases` brings it."
        ) from error
    observe = jax.jit(lambda state: game.observe(state, jnp.int32(0)))

    def choose(state: Any, rng: np.random.Generator) -> int:
        scores = bitbully_scores(engine, np.asarray(observe(state)))
        best = max(scores.values())
        return int(rng.choice([column for column, score in scores.items() if score == best]))

    return HostPlayer("bitbully:full" if depth is None else f"bitbully:{depth}", choose)


_REVERSI_WEIGHTS = (
    (100, -20, 10, 5, 5, 10, -20, 100),
    (-20, -50, -2, -2, -2, -2, -50, -20),
    (10, -2, -1, -1, -1, -1, -2, 10),
    (5, -2, -1, -1, -1, -1, -2, 5),
    (5, -2, -1, -1, -1, -1, -2, 5),
    (10, -2, -1, -1, -1, -1, -2, 10),
    (-20, -50, -2, -2, -2, -2, -50, -20),
    (100, -20, 10, 5, 5, 10, -20, 100),
)
"""The classical weights of Othello's squares: corners good, the squares beside them bad."""


def rust_reversi_player(game: Game, depth: int) -> HostPlayer:
    """Othello by the alpha-beta search of rust-reversi with square weights.

    Args:
        game: Othello on 8x8.
        depth: plies of search, at least 1.

    Raises:
        ValueError: if the game is another one, the depth is below 1, or the package is not installed.
    """
    if game.name != "othello":
        raise ValueError(f"rust-reversi plays othello (8x8) only, not {game.name}.")
    if depth < 1:
        raise ValueError(f"rust-reversi's depth is at least 1, got {depth}.")
    try:
        import rust_reversi
    except ImportError as error:
        raise ValueError("rust-reversi is not installed; `pip install rust-reversi` brings it.") from error
    evaluator = rust_reversi.MatrixEvaluator([list(row) for row in _REVERSI_WEIGHTS])
    engine = rust_reversi.AlphaBetaSearch(evaluator, depth, 1 << 20)
    observe = jax.jit(lambda state: (game.observe(state, jnp.int32(0)), game.current_player(state)))

    def choose(state: Any, rng: np.random.Generator) -> int:
        del rng  # the engine is deterministic
        stones, mover = jax.device_get(observe(state))
        cells = np.where(stones[..., 0], "X", np.where(stones[..., 1], "O", "-"))
        turn = rust_reversi.Turn.BLACK if mover == 0 else rust_reversi.Turn.WHITE
        board = rust_reversi.Board()
        board.set_board_str("".join(cells.ravel().tolist()), turn)
        return game.num_actions - 1 if board.is_pass() else int(engine.get_move(board))

    return HostPlayer(f"rust-reversi:{depth}", choose)


def gtp_player(game: Game, command: str, *, timeout: float = 120.0, workers: int = 1) -> EnginePlayer:
    """Go, Hex or Othello by any program that speaks GTP (HTP), such as `gtp-rhino -l 2`.

    A crash, a silence or an illegal answer loses the game at hand, is noted in `incidents`, and the program
    is started anew for the next one.

    Args:
        game: what is played.
        command: starts the program, as typed in a shell.
        timeout: seconds to wait for one answer.
        workers: copies of the program that think side by side in different games.

    Raises:
        ValueError: there is no such program, or no GTP for this game.
    """
    dialect_of(game)
    program = command.split()[0] if command.split() else ""
    if shutil.which(program) is None:
        raise ValueError(f"There is no program {program!r} to run {command!r}; give its path.")
    if timeout <= 0 or workers < 1:
        raise ValueError(f"timeout must be above 0 and workers at least 1, got {timeout:g} and {workers}.")
    engines = [Engine(command, game, timeout=timeout) for _ in range(workers)]
    incidents = Incidents()

    def fault(sentence: str) -> int:
        incidents.faults.append(sentence)
        return FAULT

    def choose(worker: int, moves: Sequence[int], legal: np.ndarray) -> int:
        try:
            answer = engines[worker].genmove(moves)
        except EngineError as error:
            return fault(str(error))
        if answer == RESIGN:
            incidents.resigned += 1
            return RESIGNED
        try:
            action = game.action_from_string(answer)
        except ValueError:
            return fault(f"{command!r} answered {answer!r}, which is no move of {game.name}")
        if not legal[action]:
            return fault(f"{command!r} answered {answer!r}, which is not legal after {len(moves)} plies")
        return action

    return EnginePlayer(f"gtp:{command}", choose, workers=workers, incidents=incidents)
