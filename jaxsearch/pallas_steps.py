"""EXPERIMENTAL: a simulation's descent and backup as Pallas kernels, one program for a block of trees.

`search(..., kernels="pallas")` takes these in the place of `steps.descend` and `steps.back_up`; the answers
are the same. What they are for: in XLA each level of a descent is a few kernels over all lanes, and all wait
for the deepest tree of the batch; here a level is a turn of a loop within one kernel, and a block of trees
waits for its own deepest alone. They are written for GPUs (Triton, to which they lower) and have been run in
Pallas's interpreter alone, which is what a CPU gets and which is slow: whether they pay is not known.

Trees with all-moves-as-first statistics or values of each player are not for them.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from jaxsearch import steps
from jaxsearch.amaf import Played
from jaxsearch.steps import Cursor, Passed
from jaxsearch.tree import Tree, ended

__all__ = ["back_up", "descend"]

BLOCK = 128
"""Lanes of one program, a power of two."""

_NO_LANE = -2
"""`ended(0)`: where the lanes stand that fill up the last block."""


def descend(tree: Tree, start: Cursor, limit: int | None) -> Cursor:
    """As `steps.descend`; `depth` is the depth of the deepest lane, and not rounded up.

    Raises:
        ValueError: a tree that is not for these kernels.
    """
    _check(tree)
    lanes = start.at.shape[0]
    at, path = _filled(start.at, _NO_LANE), _filled(start.path, 0)
    block = _block(at.shape[0])
    lane = pl.BlockSpec((block,), lambda i: (i,))
    column = pl.BlockSpec((path.shape[0], block), lambda i: (0, i))
    one = pl.BlockSpec((1,), lambda i: (i,))
    blocks = at.shape[0] // block
    at, depth, path = pl.pallas_call(
        functools.partial(_descend, num_actions=tree.num_actions, limit=limit),
        grid=(blocks,),
        in_specs=[_all(tree.choice), _all(tree.children), lane, one, column],
        out_specs=[lane, one, column],
        out_shape=[_like(at), jax.ShapeDtypeStruct((blocks,), jnp.int32), _like(path)],
        input_output_aliases={4: 2},
        interpret=_interpreted(),
        compiler_params=triton.CompilerParams(num_warps=4),
    )(tree.choice, tree.children, at, jnp.broadcast_to(start.depth, (blocks,)), path)
    return Cursor(at[:lanes], jnp.max(depth), path[:, :lanes])


def _descend(
    choice: Any,
    children: Any,
    start: Any,
    first: Any,
    _: Any,
    at_out: Any,
    depth_out: Any,
    path: Any,
    *,
    num_actions: int,
    limit: int | None,
) -> None:
    """The kernel: one block's lanes, until each has come to an edge to expand."""

    def down(cursor: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        at, depth = cursor
        here = jnp.maximum(at, 0)
        edge = here * num_actions + choice[here]
        child = children[edge]
        goes_on = child >= 0
        if limit is not None:
            goes_on &= depth + 1 < limit
        path[pl.ds(depth + steps.ABOVE, 1), :] = edge[None]
        return jnp.where(at >= 0, jnp.where(goes_on, child, ended(edge)), at), depth + 1

    at, depth = jax.lax.while_loop(lambda cursor: jnp.max(cursor[0]) >= 0, down, (start[...], first[0]))
    at_out[...] = at
    depth_out[0] = depth


def back_up(
    tree: Tree,
    passed: Passed,
    cursor: Cursor,
    returns: jax.Array,
    length: jax.Array,
    *,
    first: int = 0,
    played: Played | None = None,
) -> tuple[Passed, jax.Array, jax.Array]:
    """As `steps.back_up`.

    Raises:
        ValueError: a tree that is not for these kernels.
    """
    _check(tree)
    del played  # None in these trees
    lanes = returns.shape[0]
    ends = jnp.cumsum(jnp.maximum(length - first, 0), dtype=jnp.int32)
    path, starts, lengths, ends_ = (_filled(part, 0) for part in (cursor.path, returns, length, ends))
    block = _block(lengths.shape[0])
    lane = pl.BlockSpec((block,), lambda i: (i,))
    column = pl.BlockSpec((path.shape[0], block), lambda i: (0, i))
    edges, brought, at_roots = pl.pallas_call(
        functools.partial(_back_up, num_actions=tree.num_actions, first=first),
        grid=(lengths.shape[0] // block,),
        in_specs=[_all(tree.rows), column, lane, lane, lane, _all(passed.edges), _all(passed.returns)],
        out_specs=[_all(passed.edges), _all(passed.returns), lane],
        out_shape=[_like(passed.edges), _like(passed.returns), _like(starts)],
        input_output_aliases={5: 0, 6: 1},
        interpret=_interpreted(),
        compiler_params=triton.CompilerParams(num_warps=4),
    )(tree.rows, path, starts, lengths, ends_, passed.edges, passed.returns)
    return Passed(edges, brought), ends[-1], at_roots[:lanes]


def _back_up(
    rows: Any,
    path: Any,
    starts: Any,
    lengths: Any,
    ends: Any,
    _: Any,
    __: Any,
    edges_out: Any,
    returns_out: Any,
    roots_out: Any,
    *,
    num_actions: int,
    first: int,
) -> None:
    """The kernel: one block's returns along its paths, from the deepest edge to the root's."""
    length, end = lengths[...], ends[...]
    # What belongs nowhere goes to the last place, which `steps.make_room` leaves over.
    nowhere = np.int32(edges_out.shape[0] - 1)

    def up(carry: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        level, returns, below = carry
        edge = path[pl.ds(level + steps.ABOVE, 1), :][0]
        inner = level + 1 < length
        child = jnp.where(inner, jax.lax.div(below, np.int32(num_actions)), 0)
        reward, discount = rows[child, 3 * num_actions + 1], rows[child, 3 * num_actions + 2]
        returns = jnp.where(inner, reward + discount * returns, returns)
        on = (level < length) & (level >= first)
        place = jnp.where(on, end - 1 - (level - first), nowhere)
        edges_out[place] = edge
        returns_out[place] = returns
        return level - 1, returns, edge

    carry = (jnp.max(length) - 1, starts[...], jnp.zeros_like(length))
    roots_out[...] = jax.lax.while_loop(lambda carry: carry[0] >= 0, up, carry)[1]


def _check(tree: Tree) -> None:
    if tree.amaf is not None or tree.players is not None:
        raise ValueError(
            'kernels="pallas" goes with neither all-moves-as-first statistics nor values of each player; '
            'expected kernels="xla" for these'
        )


def _interpreted() -> bool:
    return jax.default_backend() != "gpu"


def _block(lanes: int) -> int:
    return min(BLOCK, lanes)


def _filled(array: jax.Array, value: int) -> jax.Array:
    """The array with its last axis, the lanes, filled up to whole blocks, which are powers of two."""
    lanes = array.shape[-1]
    whole = -(-lanes // BLOCK) * BLOCK if lanes > BLOCK else 1 << (lanes - 1).bit_length()
    if whole == lanes:
        return array
    return jnp.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, whole - lanes)], constant_values=value)


def _all(table: jax.Array) -> pl.BlockSpec:
    """The whole table, for every block."""
    return pl.BlockSpec(table.shape, lambda i: (0,) * table.ndim)


def _like(array: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)
