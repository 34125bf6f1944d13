"""Proven results in the tree: wins, losses and draws, with the distance to the end.

For games that end in -1, 0 or 1 and give no reward before. A result is a code, int32, from the view of the
player who moves along the edge: `WIN - d` for a win d plies ahead, `-(WIN - d)` for a loss, 0 for a draw,
`UNKNOWN` for none. The greatest code is the best result: the shortest win, a draw, or the longest loss.

When a simulation meets the end of a game, the result goes up its path for as long as it settles nodes: one
move that wins does, and so does a last open move settled. What follows for the search:

- an edge proven lost loses its prior, so that no rule selects it again;
- a node that is settled counts as an ended game for its parent, worth what is proven;
- a tree whose root is settled stops.

Reference: Winands, Bjornsson and Saito (2008), Monte-Carlo Tree Search Solver.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsearch.steps import Cursor, Expansion, edge_at, put, take
from jaxsearch.tree import Tree, ended

__all__ = ["UNKNOWN", "WIN", "RootProof", "prove", "root_proof"]

WIN = np.int32(1 << 20)
UNKNOWN = np.int32(-(1 << 30))


class RootProof(NamedTuple):
    """What is proven at the roots, from the view of the player to move.

    Attributes:
        proven: bool `[B]`.
        value: float32 `[B]`, -1, 0 or 1; 0 where nothing is proven.
        distance: int32 `[B]`, plies to the end with best play by both sides as far as proven; 0 for a draw
            or where nothing is proven.
        best: bool `[B, A]`, the actions that reach this result at this distance; none where none is proven.
        lost: bool `[B, A]`, actions proven to lose.
    """

    proven: jax.Array
    value: jax.Array
    distance: jax.Array
    best: jax.Array
    lost: jax.Array


def root_proof(tree: Tree) -> RootProof:
    """What a search with `prove=True` has proven at its roots.

    Raises:
        ValueError: the search did not prove anything.
    """
    if tree.proofs is None:
        raise ValueError("this tree holds no proofs; search with prove=True")
    b, a = tree.num_trees, tree.num_actions
    codes = tree.proofs[: b * a].reshape(b, a)
    settled, code = _settled(codes, tree.rows[:b, 2 * a : 3 * a])
    return RootProof(
        proven=settled,
        value=jnp.where(settled, _value(code), 0.0),
        distance=jnp.where(settled & (code != 0), WIN - jnp.abs(code), 0),
        best=settled[:, None] & (codes == code[:, None]),
        lost=is_lost(codes),
    )


def is_lost(codes: jax.Array) -> jax.Array:
    """Bool of the shape of `codes`: proven losses."""
    return (codes < 0) & (codes != UNKNOWN)


def stop_when_proven(stop: Any) -> Any:
    """The stopping rule `stop` (or None), or a proven root."""

    def proven(tree: Tree, simulation: jax.Array) -> jax.Array:
        settled = root_proof(tree).proven
        return settled if stop is None else settled | stop(tree, simulation)

    return proven


def prove(tree: Tree, cursor: Cursor, new: Expansion) -> tuple[Tree, Expansion]:
    """Records the results that the expanded edges `[L]` have reached, and all that follows from them."""
    assert tree.proofs is not None
    a, width, lanes = tree.num_actions, tree.rows.shape[1], new.edge.shape[0]
    known = take(tree.proofs, new.edge)
    result = jnp.sign(new.returns).astype(jnp.int32) * (WIN - 1)

    def unsettled(carry: tuple) -> jax.Array:
        return jnp.any(carry[0])

    def settle(carry: tuple) -> tuple:
        on, edge, code, level, proofs, children, table = carry
        place = jnp.where(on, edge, proofs.size)
        proofs = put(proofs, place, code)
        node = jax.lax.div(edge, np.int32(a))
        prior = node * width + 2 * a + (edge - node * a)
        table = put(table, jnp.where(on & (code < 0), prior, table.size), jnp.zeros((lanes,)))
        priors = take(table.reshape(-1, width), node)[:, 2 * a : 3 * a]
        settled, best = _settled(take(proofs.reshape(-1, a), node), priors)
        # One ply further from the end, and seen from the other side if the mover changed.
        mover_changed = take(table, node * width + 3 * a + 2) < 0
        best = jnp.where(mover_changed, -best, best)
        code = best - jnp.sign(best)
        level = level - 1
        parent = edge_at(cursor, jnp.maximum(level, 0))
        on = on & settled & (level >= 0)
        parent = jnp.where(on, parent, 0)
        children = put(children, jnp.where(on, parent, children.size), ended(node))
        return on, parent, code, level, proofs, children, table

    reached = new.over & (new.length > 0) & (known == UNKNOWN)
    start = (reached, new.edge, result, new.length - 1, tree.proofs, tree.children, tree.rows.reshape(-1))
    *_, proofs, children, table = jax.lax.while_loop(unsettled, settle, start)
    tree = dataclasses.replace(tree, proofs=proofs, children=children, rows=table.reshape(-1, width))
    # A settled node is evaluated like any other; what is proven counts instead.
    return tree, new._replace(returns=jnp.where(known == UNKNOWN, new.returns, _value(known)))


def _settled(codes: jax.Array, priors: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Whether nodes are proven, bool `[R]`, and their best results, from `[R, A]`."""
    is_open = (codes == UNKNOWN) & (priors > 0)
    best = jnp.max(codes, axis=-1)
    settled = (best > 0) | (~jnp.any(is_open, axis=-1) & (best != UNKNOWN))
    return settled, best


def _value(code: jax.Array) -> jax.Array:
    return jnp.sign(code).astype(jnp.float32)
