"""Going on with a tree after a move: what was searched below the move played is kept.

`reroot(tree, action, capacity=...)` makes a tree whose root is the child behind `action`, and `search(...,
start=...)` goes on from it. Kept nodes move to the front, in their old order, so that a tree may be used
again and again in the same room.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxsearch.players import Players
from jaxsearch.solver import UNKNOWN
from jaxsearch.tree import NO_NODE, Tree, ended, node_number

__all__ = ["reroot"]


def reroot(tree: Tree, action: jax.Array, *, capacity: int | None = None) -> Tree:
    """The trees below the roots' `action`.

    Statistics (all-moves-as-first ones too), children, depths, proofs and states of the nodes kept are those
    of the old subtree. Where more than `capacity` nodes lie below the action, the newest are dropped: the
    edges to them keep their statistics, and a later visit makes their nodes anew. Costs O(N).

    Args:
        tree: of a finished search.
        action: int32 `[B]`, the moves played.
        capacity: K, nodes kept at most; by default all that the tree has room for.

    Returns:
        Trees with room for K nodes. A root that was never searched (an action not visited, or one that ends
        the game) has no visits; `search` evaluates it anew.

    Raises:
        ValueError: `action` is not `[B]`, or `capacity` is below 1.
    """
    n, b, a = tree.num_nodes, tree.num_trees, tree.num_actions
    capacity = n if capacity is None else capacity
    if action.shape != (b,):
        raise ValueError(f"action has shape {action.shape}; expected ({b},), one move per tree")
    if capacity < 1:
        raise ValueError(f"capacity is {capacity}; expected at least 1 node per tree")
    trees = jnp.arange(b, dtype=jnp.int32)
    children = tree.children.reshape(n, b, a)
    root = jnp.take_along_axis(children[0], action.astype(jnp.int32)[:, None], axis=-1)[:, 0]
    kept = _below(tree, root)
    place = jnp.cumsum(kept, axis=0, dtype=jnp.int32) - 1
    kept &= place < capacity
    # Where each old node goes: row `[K * B]`, out of bounds for those dropped.
    target = jnp.where(kept, place * b + trees[None], capacity * b).reshape(-1)

    def moved(table: jax.Array, empty: Any = 0) -> jax.Array:
        """Rows `[N * B, ...]` of kept nodes, moved."""
        room = jnp.full((capacity * b, *table.shape[1:]), empty, table.dtype)
        return room.at[target].set(table, mode="drop")

    # Links to nodes dropped are cut; others follow, their marks with them.
    number = jnp.maximum(node_number(tree.children), 0)
    new_number = target[number]
    new_number = jnp.where(new_number < capacity * b, new_number, NO_NODE)
    linked = jnp.where(tree.children >= 0, new_number, jnp.where(new_number >= 0, ended(new_number), NO_NODE))
    links = jnp.where(tree.children == NO_NODE, NO_NODE, linked).reshape(-1, a)
    above = target[jnp.maximum(tree.taken, 0) // a]
    taken = jnp.where((tree.taken >= 0) & (above < capacity * b), above * a + tree.taken % a, NO_NODE)
    depths = tree.depths - jnp.tile(tree.depths[jnp.maximum(root, 0)], n)
    return dataclasses.replace(
        tree,
        rows=moved(tree.rows),
        children=moved(links, NO_NODE).reshape(-1),
        choice=moved(tree.choice),
        depths=moved(depths),
        taken=moved(taken, NO_NODE),
        # Where the roots' states alone are kept, the new roots' come with the search that goes on.
        states={
            name: moved(table.reshape(n * b, -1)).reshape(capacity, b, -1)
            for name, table in tree.states.items()
        }
        if tree.keeps_states
        else tree.states,
        amaf=None if tree.amaf is None else moved(tree.amaf),
        players=None if tree.players is None else Players(*map(moved, tree.players)),
        proofs=None if tree.proofs is None else moved(tree.proofs.reshape(-1, a), UNKNOWN).reshape(-1),
    )


def _below(tree: Tree, root: jax.Array) -> jax.Array:
    """Bool `[N, B]`: the nodes at or below `root` (int32 `[B]`, negative where there is none)."""
    n, b, a = tree.num_nodes, tree.num_trees, tree.num_actions
    child = jnp.maximum(node_number(tree.children), 0)
    parents = jnp.repeat(jnp.arange(n * b, dtype=jnp.int32), a)
    parent = (
        jnp.zeros((n * b,), jnp.int32)
        .at[jnp.where(tree.children == NO_NODE, n * b, child)]
        .set(parents, mode="drop")
    )
    parent = (parent // b).reshape(n, b)  # the node inside its tree
    trees = jnp.arange(b, dtype=jnp.int32)
    is_root = jnp.arange(n, dtype=jnp.int32)[:, None] == (jnp.where(root >= 0, root // b, n))[None]

    def decide(node: jax.Array, kept: jax.Array) -> jax.Array:
        # A parent has a lower number than its child, so it is decided before.
        below = is_root[node] | (kept[parent[node], trees] & (node > 0))
        return kept.at[node].set(below)

    return jax.lax.fori_loop(0, n, decide, jnp.zeros((n, b), bool))
