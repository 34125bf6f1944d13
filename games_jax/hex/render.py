"""A Hex board as text and as an SVG picture."""

from __future__ import annotations

import math

import numpy as np

from games_jax import diagram, svg

_FIRST, _FIRST_RIM = "#d9483b", "#b23226"
_SECOND, _SECOND_RIM = "#3f74c7", "#2d599f"
_EMPTY, _EMPTY_RIM = "#fdfcfa", "#cfcac3"
_HEIGHT = svg.CELL / math.sqrt(3)  # from the middle of a hexagon to its upper corner
_ROW = 1.5 * _HEIGHT


def text(first: np.ndarray, second: np.ndarray, status: str) -> str:
    """Rows from the top, each half a cell further right than the one above, numbered at both ends."""
    size = len(first)
    letters = " ".join(diagram.square(column, size)[0] for column in range(size))
    width = len(str(size))
    lines = [" " * width + letters]
    for row, cells in enumerate(diagram.cell_rows(first, second)):
        lines.append(f"{'':{row}}{row + 1:>{width}} {' '.join(cells)} {row + 1}")
    lines.append(" " * (size + width + 1) + letters)
    return "\n".join([*lines, status])


def svg_picture(first: np.ndarray, second: np.ndarray, status: str) -> str:
    """The board as an SVG document."""
    size = len(first)
    board_width, board_height = (1.5 * size - 0.5) * svg.CELL, (size - 1) * _ROW + 2 * _HEIGHT
    columns, rows = math.ceil(board_width / svg.CELL), math.ceil(board_height / svg.CELL)
    # The picture is a whole number of cells; the board stands in its middle.
    left = svg.MARGIN + (columns * svg.CELL - board_width) / 2
    top = svg.MARGIN + (rows * svg.CELL - board_height) / 2

    def centre(row: int, column: int) -> tuple[float, float]:
        return left + (column + 0.5 * row + 0.5) * svg.CELL, top + _HEIGHT + row * _ROW

    shapes = _edges(size, centre)
    for row in range(size):
        for column in range(size):
            x, y = centre(row, column)
            shapes.append(_polygon(_corners(x, y), _EMPTY, _EMPTY_RIM))
            if first[row, column]:
                shapes.append(svg.circle(x, y, svg.CELL * 0.36, _FIRST, stroke=_FIRST_RIM))
            elif second[row, column]:
                shapes.append(svg.circle(x, y, svg.CELL * 0.36, _SECOND, stroke=_SECOND_RIM))
    for i in range(size):
        x, y = centre(0, i)
        shapes.append(svg.label(x - 0.25 * svg.CELL, y - _HEIGHT - 9, diagram.square(i, size)[0]))
        x, y = centre(i, 0)
        shapes.append(svg.label(x - 0.5 * svg.CELL - 13, y - 4, str(i + 1)))
    return svg.picture(rows, columns, shapes, status)


def _corners(x: float, y: float) -> list[tuple[float, float]]:
    """A hexagon's corners clockwise from the top."""
    half = svg.CELL / 2
    sides = [(0, -1), (1, -0.5), (1, 0.5), (0, 1), (-1, 0.5), (-1, -0.5)]
    return [(x + half * dx, y + _HEIGHT * dy) for dx, dy in sides]


def _edges(size: int, centre) -> list[str]:
    """A coloured band along each edge, under the cells."""
    top = [_corners(*centre(0, column))[i] for column in range(size) for i in (5, 0)]
    bottom = [_corners(*centre(size - 1, column))[i] for column in range(size) for i in (4, 3)]
    left = [_corners(*centre(row, 0))[i] for row in range(size) for i in (5, 4)]
    right = [_corners(*centre(row, size - 1))[i] for row in range(size) for i in (1, 2)]
    ends = [*top, _corners(*centre(0, size - 1))[1]], [*bottom, _corners(*centre(size - 1, size - 1))[2]]
    return [_band(points, _FIRST) for points in ends] + [_band(points, _SECOND) for points in (left, right)]


def _band(points: list[tuple[float, float]], colour: str) -> str:
    return (
        f"<polyline points='{_listed(points)}' fill='none' stroke='{colour}' stroke-width='9' "
        f"stroke-linejoin='round' stroke-linecap='round'/>"
    )


def _polygon(points: list[tuple[float, float]], fill: str, stroke: str) -> str:
    return f"<polygon points='{_listed(points)}' fill='{fill}' stroke='{stroke}'/>"


def _listed(points: list[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
