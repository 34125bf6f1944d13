"""Which cells a pattern reads: named sets of cell patterns for boards of any shape.

A pattern is a fixed, ordered list of cells and the number of leading observation planes it looks at. With
three planes (own, other, playable) a cell has one of four codes and n cells have 4^n states; long patterns
look at the two planes of stones alone, 3^n states, to keep their tables small.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from train.schema import ConfigError, nearest, quoted

STONES = 2
"""Planes 0 and 1 of every observation are the mover's stones and the other's."""

LONGEST = 8
"""Full lines are cut into pieces of at most this many cells: 3^8 = 6,561 states."""

MAX_STATES = 2**18
"""A pattern with more states than this is refused: its table would not fit beside anything else."""

KEY = "network.patterns"
SET_FORMS = ("auto", "lines", "lines<n>", "blocks<h>x<w>", "tiles<h>x<w>", "corners<h>x<w>", "edges")


class Pattern(NamedTuple):
    """An ordered list of cells, each `row * W + column`, and how many planes are looked at."""

    cells: tuple[int, ...]
    planes: int

    @property
    def states(self) -> int:
        """How many states the cells can be in."""
        return (self.planes + 1) ** len(self.cells)


def _straight_lines(grid: np.ndarray) -> list[np.ndarray]:
    """The rows, columns and diagonals of a board whose cells are numbered in `grid` `[H, W]`."""
    height, width = grid.shape
    shifts = range(1 - height, width)
    falling = [grid.diagonal(shift) for shift in shifts]
    rising = [np.fliplr(grid).diagonal(shift) for shift in shifts]
    return [*grid, *grid.T, *falling, *rising]


def _pieces(line: np.ndarray, length: int, step: int) -> list[np.ndarray]:
    """Pieces of `length` cells that begin `step` cells apart, and one that ends where the line ends."""
    if len(line) <= length:
        return [line]
    starts = sorted({*range(0, len(line) - length, step), len(line) - length})
    return [line[start : start + length] for start in starts]


def _segments(grid: np.ndarray, length: int) -> list[np.ndarray]:
    """Every straight run of exactly `length` cells."""
    lines = [line for line in _straight_lines(grid) if len(line) >= length]
    return [piece for line in lines for piece in _pieces(line, length, 1)]


def _full_lines(grid: np.ndarray) -> list[np.ndarray]:
    """Whole lines of at least 3 cells; longer ones than `LONGEST` in pieces that overlap by a cell."""
    lines = [line for line in _straight_lines(grid) if len(line) >= 3]
    return [piece for line in lines for piece in _pieces(line, LONGEST, LONGEST - 1)]


def _rectangles(grid: np.ndarray, rows: int, columns: int, apart: bool) -> list[np.ndarray]:
    """Rectangles of `rows` x `columns` cells at every place, or side by side (`apart`)."""
    height, width = grid.shape
    tops = range(0, height - rows + 1, rows if apart else 1)
    lefts = range(0, width - columns + 1, columns if apart else 1)
    return [grid[top : top + rows, left : left + columns].ravel() for top in tops for left in lefts]


def _corners(grid: np.ndarray, rows: int, columns: int) -> list[np.ndarray]:
    """The rectangles of `rows` x `columns` cells, upright and lying, that hold a corner of the board."""
    views = (grid, np.fliplr(grid), np.flipud(grid), np.flip(grid))
    sizes = {(rows, columns), (columns, rows)}
    fitting = [size for size in sorted(sizes) if size[0] <= grid.shape[0] and size[1] <= grid.shape[1]]
    return [view[:height, :width].ravel() for height, width in fitting for view in views]


def _edges(grid: np.ndarray) -> list[np.ndarray]:
    """The outer rows and columns, each with the cells diagonally before its corners (X squares)."""
    if min(grid.shape) < 4:
        return []
    views = (grid, np.flipud(grid), grid.T, np.fliplr(grid).T)
    return [np.concatenate([view[1, 1:2], view[0], view[1, -2:-1]]) for view in views]


def auto_set(height: int, width: int) -> str:
    """The set that `patterns="auto"` stands for: by the shape of the board alone.

    3x3 boards get every line of three, square boards with an even side (Othello) whole lines, 3x3 corners
    and 2x2 tiles, all others every line of four.
    """
    if min(height, width) <= 3:
        return "lines3"
    if height == width and height % 2 == 0:
        return "lines+corners3x3+tiles2x2"
    return "lines4"


def _one_set(name: str, grid: np.ndarray, planes: int) -> list[Pattern]:
    """The patterns of one named set (no "+")."""
    stones = min(planes, STONES)
    if name == "lines":
        cells, looked_at = _full_lines(grid), stones
    elif name == "edges":
        cells, looked_at = _edges(grid), stones
    elif match := re.fullmatch(r"lines([1-9]\d?)", name):
        cells, looked_at = _segments(grid, int(match[1])), planes
    elif match := re.fullmatch(r"(blocks|tiles|corners)([1-9])x([1-9])", name):
        kind, rows, columns = match[1], int(match[2]), int(match[3])
        if kind == "corners":
            cells, looked_at = _corners(grid, rows, columns), stones
        else:
            cells, looked_at = _rectangles(grid, rows, columns, apart=kind == "tiles"), planes
    else:
        raise ConfigError(
            f"network.patterns = {quoted(name)} is not a known pattern set{nearest(name, SET_FORMS)}; "
            f"expected one of {', '.join(SET_FORMS)}, or several joined by +.",
            KEY,
        )
    if not cells:
        raise ConfigError(
            f"network.patterns = {quoted(name)} is empty on a board of {grid.shape[0]}x{grid.shape[1]} "
            "cells; expected patterns that fit on it.",
            KEY,
        )
    return [Pattern(tuple(int(cell) for cell in piece), looked_at) for piece in cells]


def pattern_set(name: str, observation_shape: tuple[int, ...]) -> list[Pattern]:
    """The patterns that `name` stands for on a board.

    Args:
        name: "lines<n>" (every straight run of n cells), "lines" (whole rows, columns and diagonals of 3 to 8
            cells, stones only), "blocks<h>x<w>" (rectangles everywhere), "tiles<h>x<w>" (side by side),
            "corners<h>x<w>" (at the corners, upright and lying, stones only), "edges" (outer rows and columns
            with their X squares, stones only), several of these joined by "+", or "auto" (see `auto_set`).
        observation_shape: `(H, W, C)`.

    Returns:
        The patterns, each once.

    Raises:
        ConfigError: the name is unknown, the set is empty on this board, a pattern has more than `MAX_STATES`
            states, or the observation is not a board of planes.
    """
    if len(observation_shape) != 3:
        raise ConfigError(
            f'The network "patterns" reads a board of planes [H, W, C], got the observation shape '
            f'{observation_shape}; choose the network "mlp".'
        )
    height, width, planes = observation_shape
    grid = np.arange(height * width).reshape(height, width)
    if name == "auto":
        name = auto_set(height, width)
    found = [pattern for part in name.split("+") for pattern in _one_set(part.strip(), grid, planes)]
    largest = max(found, key=lambda pattern: pattern.states)
    if largest.states > MAX_STATES:
        raise ConfigError(
            f"network.patterns = {quoted(name)} has a pattern of {len(largest.cells)} cells with "
            f"{largest.states} states; expected at most {MAX_STATES}, so choose shorter patterns.",
            KEY,
        )
    return list(dict.fromkeys(found))
