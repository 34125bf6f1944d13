"""Random games of ours in the form that the comparisons read: numpy, one row a ply."""

from __future__ import annotations

import functools

import jax
import numpy as np

import games_jax
from games_jax.conformance import Record, play_random


@functools.cache
def record(name: str, *, games: int, seed: int = 0) -> tuple[Record, np.ndarray]:
    """Random games and the boards they pass through.

    Returns:
        The record, and int8 `[T + 1, games, cells]`, row by row from the top: 0 empty, 1 the first player's,
        2 the second player's.
    """
    game = games_jax.make(name)
    played = play_random(game, games=games, seed=seed)
    observe = jax.jit(jax.vmap(jax.vmap(lambda state: game.observe(state, 0))))
    seen = np.asarray(observe(played.states))
    boards = seen[..., 0] + 2 * seen[..., 1].astype(np.int8)
    return played, boards.reshape(*played.over.shape, -1)


def length(played: Record, index: int) -> int:
    """Plies of one game."""
    return int(played.over[:, index].argmax())
