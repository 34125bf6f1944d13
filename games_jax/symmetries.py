"""Symmetry tables that several games share."""

from __future__ import annotations

import numpy as np

from games_jax.game import Symmetries


def dihedral(size: int, *, extra_actions: int = 0) -> Symmetries:
    """The eight rotations and reflections of a square board whose actions are its cells.

    Args:
        size: cells on a side; cells are numbered row by row from the top.
        extra_actions: actions after the cells that no symmetry moves, such as a pass.

    Returns:
        K = 8: entry `k` is `k % 4` quarter turns, after a left-right mirror where `k >= 4`.
    """
    board = np.arange(size * size).reshape(size, size)
    boards = [np.rot90(start, turns) for start in (board, board[:, ::-1]) for turns in range(4)]
    cells = np.stack([b.ravel() for b in boards])
    rest = np.arange(size * size, size * size + extra_actions)
    return Symmetries(cells=cells, actions=np.concatenate([cells, np.tile(rest, (8, 1))], axis=1))
