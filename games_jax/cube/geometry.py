"""The cube in space: faces, places, facelets, and the tables that follow from them.

The axes point right, up and to the front: R is at +x, U at +y, F at +z. A place is named by its faces, the U
or D face first, for the middle edges the F or B face, then clockwise round the corner. Places, cubies and
facelets are numbered as in Kociemba's programs; a cubie has the number and the name of its home. Everything
here is numpy and plain Python, made once per size.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools

import numpy as np

FACES = "URFDLB"
CORNERS = ("URF", "UFL", "ULB", "UBR", "DFR", "DLF", "DBL", "DRB")
EDGES = ("UR", "UF", "UL", "UB", "DR", "DF", "DL", "DB", "FR", "FL", "BL", "BR")
FIXED = CORNERS.index("DBL")  # the corner that the moves of the 2x2x2 leave alone

_AXES = {"R": 0, "L": 0, "U": 1, "D": 1, "F": 2, "B": 2}
_POSITIVE = "RUF"
# What each face shows from the upper left to the lower right, as an unfolded cube is drawn: the axis and the
# direction of its rows, and of its columns.
_READING = {
    "U": ((2, 1), (0, 1)),
    "R": ((1, -1), (2, -1)),
    "F": ((1, -1), (0, 1)),
    "D": ((2, -1), (0, 1)),
    "L": ((1, -1), (2, 1)),
    "B": ((1, -1), (0, -1)),
}


def axis_of(face: str) -> int:
    """0, 1, 2 for x, y, z."""
    return _AXES[face]


def is_positive(face: str) -> bool:
    """Whether the face lies on the positive side of its axis."""
    return face in _POSITIVE


def signs(place: str) -> tuple[int, int, int]:
    """The coordinates of a place: +1, -1, and 0 where an edge lies in the middle."""
    found = {axis_of(face): 1 if is_positive(face) else -1 for face in place}
    return found.get(0, 0), found.get(1, 0), found.get(2, 0)


def code(place: str, facelet: int) -> int:
    """Where a sticker is: bits 0-2 the positive coordinates, 3-4 its axis, 5-6 the axis of an edge's zero."""
    coordinates = signs(place)
    positive = sum(1 << axis for axis, sign in enumerate(coordinates) if sign > 0)
    zero = coordinates.index(0) if 0 in coordinates else 0
    return positive | axis_of(place[facelet]) << 3 | zero << 5


@dataclasses.dataclass(frozen=True)
class Kind:
    """Corners or edges: what their places and stickers are.

    Attributes:
        names: of places and of cubies.
        codes: int `[places, stickers]`, `code` of each facelet of each place.
        place: int `[128]`, the place of each code.
        facelet: int `[128]`, which of the place's facelets a code is.
    """

    names: tuple[str, ...]
    codes: np.ndarray
    place: np.ndarray
    facelet: np.ndarray


@functools.cache
def kind(names: tuple[str, ...]) -> Kind:
    """The tables of `CORNERS` or `EDGES`."""
    stickers = len(names[0])
    codes = np.array([[code(name, k) for k in range(stickers)] for name in names])
    place, facelet = np.zeros(128, np.int32), np.zeros(128, np.int32)
    for number, k in itertools.product(range(len(names)), range(stickers)):
        place[codes[number, k]], facelet[codes[number, k]] = number, k
    return Kind(names, codes, place, facelet)


@functools.cache
def facelet_positions(size: int) -> tuple[tuple[tuple[int, ...], str], ...]:
    """For each of the `6 * size**2` facelets the coordinates of its cubie and the face it is on.

    Facelets are numbered face by face, U R F D L B, and row by row.
    """
    line = (-1, 1) if size == 2 else (-1, 0, 1)
    found = []
    for face, row, column in itertools.product(FACES, line, line):
        (row_axis, row_sign), (column_axis, column_sign) = _READING[face]
        at = [1 if is_positive(face) else -1] * 3
        at[row_axis], at[column_axis] = row * row_sign, column * column_sign
        found.append((tuple(at), face))
    return tuple(found)


@functools.cache
def facelets(size: int, names: tuple[str, ...]) -> np.ndarray:
    """Int `[places, stickers]`: the numbers of each place's facelets."""
    numbers = {position: number for number, position in enumerate(facelet_positions(size))}
    return np.array([[numbers[signs(name), face] for face in name] for name in names])
