"""A cube as five words of bits, and the turn of a face as a few operations on whole words.

A cubie is a bit: bits 0-7 are the corners, bits 8-19 the edges. Word `x` says which cubies are at a positive
x coordinate, and so on. An edge has one coordinate that is zero; bits 20-31 of the three words say for the
twelve edges which. Words `ox` and `oy` say along which axis each cubie's first sticker faces (z if neither).

So all cubies of a face turn together: they are those of one sign on one axis, and a quarter turn exchanges
the two other axes and changes one sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.cube import geometry

NUM_CORNERS = 8
ZERO = 12  # an edge's bit for the coordinate that is zero lies so far above its own
CUBIES = np.uint32(0xFFFFF)
EDGES = np.uint32(0xFFF00)
CORNERS = np.uint32(0xFF)
_NONE = np.uint32(0)
_ALL = np.uint32(0xFFFFFFFF)


class Planes(NamedTuple):
    """Uint32 words of shape `[]`."""

    x: jax.Array
    y: jax.Array
    z: jax.Array
    ox: jax.Array
    oy: jax.Array


def solved(edges: bool) -> Planes:
    """Every cubie at home, as numpy words."""
    corners = np.array([geometry.code(name, 0) for name in geometry.CORNERS])
    codes = np.array([geometry.code(name, 0) for name in geometry.EDGES]) if edges else None
    words = np.zeros(5, np.uint32)
    for bit, number in enumerate(corners if codes is None else [*corners, *codes]):
        words |= _bits_of(int(number), bit)
    return Planes(*cast(tuple[jax.Array, ...], tuple(words)))


def third(cube: Planes) -> jax.Array:
    """The cubies whose first sticker faces along z: those that are in neither `ox` nor `oy`."""
    return CUBIES & ~(cube.ox | cube.oy)


def to_device(cube: Planes) -> Planes:
    """The same words as JAX arrays."""
    return Planes(*(jnp.asarray(word) for word in cube))


def _bits_of(code: int, bit: int) -> np.ndarray:
    words = [(code >> axis & 1) << bit for axis in range(3)]
    words += [int(code >> 3 & 3 == axis) << bit for axis in range(2)]
    if bit >= NUM_CORNERS:
        words[code >> 5] |= 1 << (bit + ZERO)
    return np.array(words, np.uint32)


def from_codes(codes: jax.Array) -> Planes:
    """The words of the cubies' first stickers, `geometry.code`, int32 `[8]` or `[20]`, corners first."""
    cubies = np.arange(codes.shape[0], dtype=np.uint32)

    def word(bits: jax.Array, numbers: np.ndarray = cubies) -> jax.Array:
        return jnp.sum(bits.astype(jnp.uint32) << numbers, dtype=jnp.uint32)

    xyz = [word(codes >> axis & 1) for axis in range(3)]
    orientation = [word((codes >> 3 & 3) == axis) for axis in range(2)]
    edges, numbers = codes[NUM_CORNERS:] >> 5, cubies[NUM_CORNERS:] + np.uint32(ZERO)
    if codes.shape[0] > NUM_CORNERS:
        xyz = [plane | word(edges == axis, numbers) for axis, plane in enumerate(xyz)]
    return Planes(*xyz, *orientation)


def to_codes(planes: Planes, cubies: np.ndarray) -> jax.Array:
    """Int32 `[cubies]`: `geometry.code` of the first sticker of the numbered cubies."""

    def bit(word: jax.Array, above: int = 0) -> jax.Array:
        return (word >> (cubies + above).astype(np.uint32) & np.uint32(1)).astype(jnp.int32)

    position = bit(planes.x) | bit(planes.y) << 1 | bit(planes.z) << 2
    axis = bit(planes.oy) | (1 - bit(planes.ox) - bit(planes.oy)) << 1
    if (cubies < NUM_CORNERS).all():
        return position | axis << 3
    return position | axis << 3 | (bit(planes.y, ZERO) | bit(planes.z, ZERO) << 1) << 5


class Turns:
    """What each of a list of turns does, read off by its number with shifts of constants.

    Args:
        turns: face and number of clockwise quarter turns, 1 to 3; at most 32 of them.

    Attributes:
        number: how many turns there are.
    """

    def __init__(self, turns: Sequence[tuple[str, int]]):
        self.number = len(turns)
        # Counted clockwise as seen from the positive side.
        quarters = [count if geometry.is_positive(face) else 4 - count for face, count in turns]
        self._on_x = _bit_set(geometry.axis_of(face) == 0 for face, _ in turns)
        self._on_y = _bit_set(geometry.axis_of(face) == 1 for face, _ in turns)
        self._negative = _bit_set(not geometry.is_positive(face) for face, _ in turns)
        self._quarter = _bit_set(count != 2 for count in quarters)
        self._flip_b = _bit_set(count != 1 for count in quarters)
        self._flip_c = _bit_set(count != 3 for count in quarters)

    def turn(self, planes: Planes, number: jax.Array, stay: jax.Array) -> Planes:
        """The cube after turn `number` (int32 `[]`), or the same one where `stay` (bool `[]`)."""
        number = number.astype(jnp.uint32)
        on_x, on_y = _is_in(self._on_x, number), _is_in(self._on_y, number)
        quarter = _is_in(self._quarter, number)
        # The turned axis is a; b and c follow it in the cyclic order of x, y, z.
        a, b, c = _rotate(on_x, on_y, planes.x, planes.y, planes.z)
        oa, ob, oc = _rotate(on_x, on_y, planes.ox, planes.oy, third(planes))
        side = jnp.where(_is_in(self._negative, number), _ALL, _NONE)
        face = jnp.where(stay, _NONE, (a ^ side) & _not_zero(a))
        # Clockwise seen from the positive end, b becomes c and c becomes -b.
        new_b, new_c = jnp.where(quarter, c, b), jnp.where(quarter, b, c)
        new_b = new_b ^ jnp.where(_is_in(self._flip_b, number), _not_zero(new_b), _NONE)
        new_c = new_c ^ jnp.where(_is_in(self._flip_c, number), _not_zero(new_c), _NONE)
        moved = face | (face & EDGES) << ZERO
        b, c = b ^ (b ^ new_b) & moved, c ^ (c ^ new_c) & moved
        exchanged = jnp.where(quarter, (ob ^ oc) & face, _NONE)
        x, y, z = _rotate_back(on_x, on_y, a, b, c)
        ox, oy, _ = _rotate_back(on_x, on_y, oa, ob ^ exchanged, oc ^ exchanged)
        return Planes(x, y, z, ox, oy)


def _bit_set(flags) -> np.uint32:
    return np.uint32(sum(1 << number for number, flag in enumerate(flags) if flag))


def _is_in(bit_set: np.uint32, number: jax.Array) -> jax.Array:
    return (bit_set >> number & np.uint32(1)) != 0


def _not_zero(plane: jax.Array) -> jax.Array:
    """The cubies whose coordinate in this word is not zero."""
    return CUBIES & ~(plane >> ZERO & EDGES)


def _rotate(
    on_x: jax.Array, on_y: jax.Array, x: jax.Array, y: jax.Array, z: jax.Array
) -> tuple[jax.Array, ...]:
    def pick(first: jax.Array, second: jax.Array, third: jax.Array) -> jax.Array:
        return jnp.where(on_x, first, jnp.where(on_y, second, third))

    return pick(x, y, z), pick(y, z, x), pick(z, x, y)


def _rotate_back(
    on_x: jax.Array, on_y: jax.Array, a: jax.Array, b: jax.Array, c: jax.Array
) -> tuple[jax.Array, ...]:
    def pick(first: jax.Array, second: jax.Array, third: jax.Array) -> jax.Array:
        return jnp.where(on_x, first, jnp.where(on_y, second, third))

    return pick(a, c, b), pick(b, a, c), pick(c, b, a)
