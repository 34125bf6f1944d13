"""Opponents that are other people's programs.

BitBully (https://github.com/MarkusThill/BitBully) solves Connect Four; it is an optional package under the
AGPL and is imported only when it is asked for.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.game import Game
from train.players import HostPlayer


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
