"""Which cells an n-tuple network reads: random walks over a game's cells, or a published list."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from train.networks.pattern_sets import STONES, pattern_set
from train.ntuple_options import NTupleOptions
from train.schema import ConfigError

__all__ = ["CONNECT_FOUR_70", "make_tuples"]

Tuples = tuple[tuple[int, ...], ...]

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnop"

# A letter is a cell, row by row from the top.
_PUBLISHED = """
    jkdleXfR emfYRZST cOHkdWPI dWPlQfgo HAPIBQJC cVOWPIJC OWPIBXQJ jcVkWlem gZSaTibU OHWPBXQR
    VOHWPXQY mfnohapi OHWPIXQJ AIBJCRKS HIQYRKSL mngohaib BCRDSLTU RgZSaMFG KgZSoaTi HIBJYRKD
    jkdWleXQ CDLEaTMF jkdlmgab VOHAWPIB SaTMibUN HIJRZaTb jkdleYSL jklfghaT cVkdeXQY cVAWBQJC
    eXJmRKDn VOPIBJCK QJCYKDgh QJCRKDLE nZohaTpi lemfYZST cVOWPeXR eXmYnghi XQJRZhbU cVkdleXY
    HAIBCKDE VHAdPIXf APIBQJRS cVOdWeXY cVWPXQRZ KDETMFbG emfngZha SLEhaTib IXQJCYRD HAPIQYRK
    eYgZSaMG ohTMpibU BJDLMFNG OHIBXQJC QYRKZaTU mfgZhaMU HPBQJKDE ZShaTibU YSLTMFNG cVdXYSLE
    WPIQJCKD PXQYRKSa cVOkdWPe IXQJYDgZ jcVkdWeX ckdleYZS WXYgZhTb YRZSLTFN VOHWPBJR cVOHAkBl
"""

CONNECT_FOUR_70: Tuples = tuple(tuple(map(_LETTERS.index, word)) for word in _PUBLISHED.split())
"""The 70 tuples of eight cells with which Scheiermann and Konen (2022) played Connect Four."""


def make_tuples(options: NTupleOptions, values: Sequence[int], board: tuple[int, int] | None) -> Tuples:
    """The tuples that `options` ask for.

    Args:
        options: which.
        values: how many values each of the C cells has.
        board: height and width where the cells are those of a board, row by row.

    Returns:
        Lists of different cells; two tuples may be equal.

    Raises:
        ConfigError: tuples that the cells cannot have.
    """
    count = len(values)
    if options.tuples == "connect_four_70":
        if count != len(_LETTERS):
            raise ConfigError(
                f'network.tuples = "connect_four_70" reads 42 cells and the game has {count}; expected '
                '"random_walk".',
                "network.tuples",
            )
        return CONNECT_FOUR_70
    if options.tuples == "pieces":
        return _pieces(options, count)
    neighbours = _neighbours(options, count, board)
    rng = np.random.default_rng(options.tuple_seed)
    starts = itertools.cycle(_lines(options, board)) if options.start != "cell" else None
    return tuple(
        _walk(rng, neighbours, options.length, next(starts) if starts else (int(rng.integers(count)),))
        for _ in range(options.number)
    )


def _pieces(options: NTupleOptions, count: int) -> Tuples:
    """Different sets of pieces, each piece two cells: its place and its facelet."""
    sizes = options.groups
    if len(sizes) % 2 or sizes[::2] != sizes[1::2] or sum(sizes) != count:
        raise ConfigError(
            f"network.groups = {list(sizes)} are no places and facelets of the game's {count} cells; "
            "expected pairs of equal sizes that add up to them.",
            "network.groups",
        )
    ends = np.cumsum(sizes)
    pieces = [
        (place, place + size)
        for size, end in zip(sizes[::2], ends[::2], strict=True)
        for place in range(end - size, end)
    ]
    possible = math.comb(len(pieces), options.length)
    if possible < options.number:
        raise ConfigError(
            f"network.number = {options.number} is more than the {possible} different sets of "
            f"{options.length} pieces; expected fewer.",
            "network.number",
        )
    rng = np.random.default_rng(options.tuple_seed)
    chosen: set[tuple[int, ...]] = set()
    while len(chosen) < options.number:
        chosen.add(tuple(sorted(rng.choice(len(pieces), options.length, replace=False).tolist())))
    return tuple(
        tuple(int(cell) for piece in members for cell in pieces[piece]) for members in sorted(chosen)
    )


def _lines(options: NTupleOptions, board: tuple[int, int] | None) -> list[tuple[int, ...]]:
    """All straight runs, those first of which no mirror image is already there."""
    if board is None:
        raise ConfigError(
            f'network.start = "{options.start}" needs a board, and the game has none; expected "cell".',
            "network.start",
        )
    height, width = board
    found = [pattern.cells for pattern in pattern_set(options.start, (height, width, STONES))]
    mirrored = [
        frozenset(cell // width * width + width - 1 - cell % width for cell in line) for line in found
    ]
    seen: set[frozenset[int]] = set()
    later = []
    for line, mirror in zip(found, mirrored, strict=True):
        later.append(mirror in seen)
        seen.add(frozenset(line))
    return [line for wait in (False, True) for line, after in zip(found, later) if after == wait]


def _walk(
    rng: np.random.Generator,
    neighbours: Callable[[int], np.ndarray],
    length: int,
    start: tuple[int, ...],
) -> tuple[int, ...]:
    """From `start`, again and again a random new neighbour of a random cell that the walk has."""
    members = list(start)
    while len(members) < length:
        around = np.setdiff1d(neighbours(members[rng.integers(len(members))]), members)
        if len(around):
            members.append(int(rng.choice(around)))
        elif not any(len(np.setdiff1d(neighbours(cell), members)) for cell in members):
            raise ConfigError(
                f"network.length = {length} is more than the {len(members)} cells that a walk can reach; "
                "expected a shorter one.",
                "network.length",
            )
    return tuple(members)


def _neighbours(
    options: NTupleOptions, count: int, board: tuple[int, int] | None
) -> Callable[[int], np.ndarray]:
    """The neighbours of a cell; all cells for -1."""
    every = np.arange(count)
    if options.adjacency == "all":
        return lambda cell: every[every != cell]
    if options.adjacency == "groups":
        if sum(options.groups) != count:
            raise ConfigError(
                f"network.groups has {sum(options.groups)} cells in all and the game {count}; expected "
                "sizes that add up to them.",
                "network.groups",
            )
        group = np.repeat(np.arange(len(options.groups)), options.groups)
        return lambda cell: every if cell < 0 else every[(group == group[cell]) & (every != cell)]
    if board is None:
        raise ConfigError(
            f'network.adjacency = "{options.adjacency}" needs a board, and the game\'s cells are none; '
            'expected "all" or "groups".',
            "network.adjacency",
        )
    row, column = np.divmod(every, board[1])

    def around(cell: int) -> np.ndarray:
        if cell < 0:
            return every
        down, right = abs(row - row[cell]), abs(column - column[cell])
        far = down + right if options.adjacency == "4" else np.maximum(down, right)
        return every[far == 1]

    return around
