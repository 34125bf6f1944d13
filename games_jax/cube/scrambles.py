"""Random cubes: by random turns, and uniformly over all that turns can reach."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.cube import geometry, planes
from games_jax.cube.planes import Planes, Turns


def unsolved(key: jax.Array, draw: Callable[[jax.Array], Planes], solved: Planes) -> Planes:
    """What `draw` makes of a key, drawn again for as long as it is the solved cube."""

    def again(carry: tuple[Planes, jax.Array]) -> tuple[Planes, jax.Array]:
        key, next_key = jax.random.split(carry[1])
        return draw(key), next_key

    def is_solved(carry: tuple[Planes, jax.Array]) -> jax.Array:
        return bits.equal(tuple(carry[0]), tuple(solved))

    return jax.lax.while_loop(is_solved, again, (planes.to_device(solved), key))[0]


def by_turns(key: jax.Array, start: Planes, turns: Turns, turns_a_face: int, count: jax.Array) -> Planes:
    """The cube `start` after `count` random turns, never the same face twice running."""
    faces = turns.number // turns_a_face

    def turn(index: jax.Array, carry: tuple[Planes, jax.Array]) -> tuple[Planes, jax.Array]:
        cube, face = carry
        draws = jax.random.bits(jax.random.fold_in(key, index), (2,), jnp.uint32)
        # Any face the first time, afterwards one of the others.
        step = _below(draws[0], jnp.where(index == 0, faces, faces - 1))
        face = jnp.where(index == 0, step, jax.lax.rem(face + 1 + step, np.int32(faces)))
        number = face * turns_a_face + _below(draws[1], jnp.int32(turns_a_face))
        return turns.turn(cube, number, jnp.zeros((), bool)), face

    return jax.lax.fori_loop(0, count, turn, (planes.to_device(start), jnp.zeros((), jnp.int32)))[0]


def uniform(key: jax.Array, edges: bool) -> Planes:
    """One of the positions that turns can reach, each equally likely; without edges DBL stays in place."""
    moving = np.array([c for c in range(planes.NUM_CORNERS) if edges or c != geometry.FIXED], np.int32)
    num_edges = len(geometry.EDGES) if edges else 0
    draws = jax.random.bits(key, (2, len(moving) + num_edges), jnp.uint32)
    corners = jnp.zeros(planes.NUM_CORNERS, jnp.int32).at[geometry.FIXED].set(geometry.FIXED)
    corners = corners.at[moving].set(jnp.asarray(moving)[_ranks(draws[0, : len(moving)])])
    twists = jnp.zeros(planes.NUM_CORNERS, jnp.int32)
    twists = twists.at[moving].set(_summing_to_zero(draws[1, : len(moving)], 3))
    codes = jnp.asarray(geometry.kind(geometry.CORNERS).codes, jnp.int32)[corners, twists]
    if not edges:
        return planes.from_codes(codes)
    places = _ranks(draws[0, len(moving) :])
    # A turn is an odd permutation of corners and of edges: both are even or both odd.
    odd = _is_odd(corners) ^ _is_odd(places)
    places = jnp.where(odd, places[np.array([1, 0, *range(2, num_edges)])], places)
    flips = _summing_to_zero(draws[1, len(moving) :], 2)
    edge_codes = jnp.asarray(geometry.kind(geometry.EDGES).codes, jnp.int32)[places, flips]
    return planes.from_codes(jnp.concatenate([codes, edge_codes]))


def _below(draw: jax.Array, bound: jax.Array) -> jax.Array:
    """A random word as int32 in 0..bound-1, for small bounds (uniform but for some 1e-9)."""
    return jax.lax.rem(draw, bound.astype(jnp.uint32)).astype(jnp.int32)


def _ranks(draws: jax.Array) -> jax.Array:
    """The rank of each random word: a random permutation. A sort would take ten times as long to compile."""
    index = np.arange(draws.shape[0])
    smaller = draws[None, :] < draws[:, None]
    tied = (draws[None, :] == draws[:, None]) & (index[None, :] < index[:, None])
    return jnp.sum((smaller | tied).astype(jnp.int32), axis=-1)


def _summing_to_zero(draws: jax.Array, modulus: int) -> jax.Array:
    """Random numbers below `modulus`, the last such that the sum is a multiple of it."""
    free = _below(draws[:-1], jnp.int32(modulus))
    return jnp.append(free, jax.lax.rem((modulus - 1) * jnp.sum(free), np.int32(modulus)))


def _is_odd(order: jax.Array) -> jax.Array:
    index = np.arange(order.shape[0])
    inversions = (order[:, None] > order[None, :]) & (index[:, None] < index[None, :])
    return jnp.sum(inversions.astype(jnp.int32)) & 1 != 0
