"""Tuples of an n-tuple network that are patterns of the board: edges, corners, lines.

They are what strong Othello programs read. A board of 64 cells has eleven of them up to symmetry, and each
cell is in several.

Reference: Buro (1997), Experiments with Multi-ProbCut and a new high-quality evaluation function for Othello.
"""

from __future__ import annotations

import numpy as np

from train.networks.pattern_sets import pattern_set
from train.networks.tuple_sets import Tuples

__all__ = ["pattern_tuples"]


def pattern_tuples(name: str, observation_shape: tuple[int, ...], images: np.ndarray) -> Tuples:
    """One pattern of each family of symmetric ones.

    Args:
        name: see `pattern_sets.pattern_set`.
        observation_shape: `(H, W, C)`.
        images: int `[K, C]`, the symmetries by which the look-ups are added up; with the identity alone every
            pattern is taken.

    Raises:
        ConfigError: there is no such set on this board.
    """
    chosen: list[tuple[int, ...]] = []
    seen: set[frozenset[int]] = set()
    for pattern in pattern_set(name, observation_shape):
        cells = np.array(pattern.cells)
        if frozenset(pattern.cells) not in seen:
            chosen.append(pattern.cells)
            seen.update(frozenset(image[cells].tolist()) for image in images)
    return tuple(chosen)
