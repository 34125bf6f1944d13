"""What a player sees: the colour of every sticker, read off the planes without moving a cubie."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.cube import geometry, planes
from games_jax.cube.planes import CORNERS, CUBIES, EDGES, ZERO, Planes


@dataclasses.dataclass(frozen=True)
class _Tables:
    """Facelets are rows, `[6 * size**2, 1]`; colours are columns, `[1, 6]`.

    Attributes:
        x: uint32, what word `x` has at the bits of a cubie that is at the facelet's place; so `y` and `z`.
        kind: uint32, the bits of the corners, of the edges, or none for a centre.
        axis: int, along which the facelet faces.
        colour_axis: int, of the face whose colour it is.
        bearers: uint32, the cubies with a sticker of the colour.
        first: uint32, the cubies whose first sticker faces along the colour's axis when they are at home.
        centre: bool `[6 * size**2, 6]`, the stickers that never move.
    """

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    kind: np.ndarray
    axis: np.ndarray
    colour_axis: np.ndarray
    bearers: np.ndarray
    first: np.ndarray
    centre: np.ndarray


@functools.cache
def _tables(size: int) -> _Tables:
    facelets = geometry.facelet_positions(size)
    words = np.zeros((3, len(facelets)), np.uint32)
    kind, centre = np.zeros(len(facelets), np.uint32), np.zeros((len(facelets), 6), bool)
    for number, (coordinates, face) in enumerate(facelets):
        zeros = coordinates.count(0)
        kind[number] = (CORNERS, EDGES, 0)[zeros]
        centre[number, geometry.FACES.index(face)] = zeros == 2
        for axis, sign in enumerate(coordinates):
            words[axis, number] = CUBIES if sign > 0 else EDGES << ZERO if sign == 0 else 0
    names = (*geometry.CORNERS, *geometry.EDGES)
    axis_of, faces = geometry.axis_of, geometry.FACES
    bearers = [sum(1 << bit for bit, name in enumerate(names) if face in name) for face in faces]
    first = [sum(1 << b for b, name in enumerate(names) if axis_of(name[0]) == axis_of(f)) for f in faces]
    x, y, z = words[:, :, None]
    return _Tables(
        x,
        y,
        z,
        kind=kind[:, None],
        axis=np.array([axis_of(face) for _, face in facelets])[:, None],
        colour_axis=np.array([axis_of(face) for face in faces])[None],
        bearers=np.array(bearers, np.uint32)[None],
        first=np.array(first, np.uint32)[None],
        centre=centre,
    )


def stickers(cube: Planes, size: int) -> jax.Array:
    """Bool `[6, size**2, 6]`: the colour of each facelet one-hot, faces in the order U R F D L B."""
    tables = _tables(size)
    mismatch = (cube.x ^ tables.x) | (cube.y ^ tables.y) | (cube.z ^ tables.z)
    here = tables.kind & ~(mismatch | (mismatch >> ZERO & EDGES))
    facing = (_corners_facing(cube, tables) & CORNERS) | (_edges_facing(cube, tables) & EDGES)
    shown = (here & facing & tables.bearers) != 0
    return (shown | tables.centre).reshape(6, size**2, 6)


def _along(axis: np.ndarray, x: jax.Array, y: jax.Array, z: jax.Array) -> jax.Array:
    return jnp.where(axis % 3 == 0, x, jnp.where(axis % 3 == 1, y, z))


def _corners_facing(cube: Planes, tables: _Tables) -> jax.Array:
    """The corners whose sticker from the colour's axis now faces along the facelet's axis."""
    orientation = cube.ox, cube.oy, planes.third(cube)
    own, after, before = (_along(tables.axis + shift, *orientation) for shift in (0, 1, 2))
    # At home the first sticker faces along y. Elsewhere the others follow it in the same order of axes, or in
    # the reverse one if the number of positive coordinates has changed from even to odd or back.
    changed = cube.x ^ cube.y ^ cube.z ^ _ODD_AT_HOME
    shift = (tables.colour_axis - 1) % 3
    same_way = jnp.where(shift == 1, before, after)
    other_way = jnp.where(shift == 1, after, before)
    return jnp.where(shift == 0, own, (other_way & changed) | (same_way & ~changed))


def _edges_facing(cube: Planes, tables: _Tables) -> jax.Array:
    """The edges whose sticker from the colour's axis now faces along the facelet's axis."""
    first = _along(tables.axis, cube.ox, cube.oy, planes.third(cube))
    zero = _along(tables.axis, cube.x, cube.y, cube.z) >> ZERO
    return (first & tables.first) | ~(first | zero | tables.first)


_ODD_AT_HOME = np.uint32(
    sum(1 << bit for bit, name in enumerate(geometry.CORNERS) if geometry.signs(name).count(1) % 2)
)
