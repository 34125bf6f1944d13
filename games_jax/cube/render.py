"""The cube unfolded, as text and as an SVG picture."""

from __future__ import annotations

import numpy as np

from games_jax import svg
from games_jax.cube import geometry

# The usual colours: white up, red right, green in front, yellow down, orange left, blue behind.
_COLOURS = {"U": "#fbfbf8", "R": "#d0382b", "F": "#2f9e55", "D": "#f5d13d", "L": "#ee8a2e", "B": "#2f62c0"}
_PLASTIC = "#1f2328"
# Row and column of each face in the unfolded cube, counted in faces.
_NET = {"U": (0, 1), "L": (1, 0), "F": (1, 1), "R": (1, 2), "B": (1, 3), "D": (2, 1)}


def facelets(observation: np.ndarray) -> str:
    """The letters of an observation, face by face."""
    return "".join(geometry.FACES[colour] for colour in observation.argmax(axis=-1).ravel())


def text(letters: str, size: int, status: str) -> str:
    """The faces as a cross: U above F, then L F R B, then D."""
    rows = [[" "] * 4 * size for _ in range(3 * size)]
    for row, column, letter in _cells(letters, size):
        rows[row][column] = letter
    return "\n".join([*(" ".join(row).rstrip() for row in rows), status])


def svg_picture(letters: str, size: int, status: str) -> str:
    """The same cross in colour."""
    cell, gap = svg.CELL, 2.5
    shapes = []
    for face_row, face_column in _NET.values():
        x, y = svg.MARGIN + face_column * size * cell, svg.MARGIN + face_row * size * cell
        shapes.append(svg.rectangle(x + 1, y + 1, size * cell - 2, size * cell - 2, _PLASTIC, radius=7))
    for row, column, letter in _cells(letters, size):
        x, y = svg.MARGIN + column * cell + gap, svg.MARGIN + row * cell + gap
        shapes.append(svg.rectangle(x, y, cell - 2 * gap, cell - 2 * gap, _COLOURS[letter], radius=5))
    return svg.picture(3 * size, 4 * size, shapes, status)


def _cells(letters: str, size: int) -> list[tuple[int, int, str]]:
    """Row, column and letter of each facelet in the unfolded cube."""
    found = []
    for number, letter in enumerate(letters):
        face, cell = divmod(number, size**2)
        top, left = _NET[geometry.FACES[face]]
        found.append((top * size + cell // size, left * size + cell % size, letter))
    return found
