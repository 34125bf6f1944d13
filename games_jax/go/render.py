"""The Go board as a picture: a wooden board, lines, star points and stones."""

from __future__ import annotations

import numpy as np

from games_jax import svg
from games_jax.go import notation

_WOOD = "#e3b873"
_LINE = "#6b4f2a"


def stars(size: int) -> list[tuple[int, int]]:
    """The rows and columns of the star points."""
    if size < 7:
        return [(size // 2, size // 2)] if size == 5 else []
    edge = 2 if size < 13 else 3
    near, far, middle = edge, size - 1 - edge, size // 2
    corners = [(row, column) for row in (near, far) for column in (near, far)]
    if size % 2 == 0:
        return corners
    sides = [(near, middle), (far, middle), (middle, near), (middle, far)] if size >= 15 else []
    return [*corners, (middle, middle), *sides]


def picture(first: np.ndarray, second: np.ndarray, ko: np.ndarray, caption: str) -> str:
    """An SVG document.

    Args:
        first: bool `[size, size]`, Black's stones.
        second: White's.
        ko: the point of a ko, if any.
        caption: below the board.
    """
    size, cell = len(first), svg.CELL
    low, side = svg.MARGIN, size * cell
    shapes = [svg.rectangle(low, low, side, side, _WOOD, radius=4)]
    rows = [str(size - row) for row in range(size)]
    shapes += svg.coordinates(notation.columns(size), rows)
    start, end = svg.centre(0, 0)[0], svg.centre(0, size - 1)[0]
    for i in range(size):
        at = svg.centre(i, i)[0]
        shapes += [svg.line(at, start, at, end, _LINE), svg.line(start, at, end, at, _LINE)]
    shapes += [svg.circle(*svg.centre(row, column), cell * 0.08, _LINE) for row, column in stars(size)]
    for row in range(size):
        for column in range(size):
            x, y = svg.centre(row, column)
            if first[row, column]:
                shapes.append(svg.circle(x, y, cell * 0.46, "#1f2937", stroke="#111827"))
            elif second[row, column]:
                shapes.append(svg.circle(x, y, cell * 0.46, "#f9fafb", stroke="#9ca3af"))
            elif ko[row, column]:
                shapes.append(svg.rectangle(x - 6, y - 6, 12, 12, "#b4483a"))
    return svg.picture(size, size, shapes, caption)
