"""Our trees in mctx's terms."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxsearch.mctx.original import mctx
from jaxsearch.tree import Tree

__all__ = ["to_mctx_tree"]


def to_mctx_tree(tree: Tree, *, invalid_actions: jax.Array | None = None, extra_data: Any = None) -> Any:
    """A tree of `jaxsearch.search` as an `mctx.Tree`, for code that reads mctx's fields.

    The fields have mctx's shapes `[B, N]` and `[B, N, A]`, its numbers, and its fillings where there is no
    node or no child. Two things differ: prior logits are logarithms of the priors (equal up to a constant per
    node, and the lowest finite number at illegal actions), and behind an edge of discount 0 the value is 0.

    Args:
        tree: B finished searches.
        invalid_actions: `[B, A]`, for `root_invalid_actions`; by default the root's actions of prior 0.
        extra_data: for `extra_data`.

    Raises:
        ValueError: `invalid_actions` of another shape.

    Example:
        >>> import games_jax, jax, jaxsearch
        >>> game = games_jax.make("tic_tac_toe")
        >>> states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 2))
        >>> search = jaxsearch.uct(game, simulations=20, keep_tree=True)
        >>> tree = jaxsearch.mctx.to_mctx_tree(search(jax.random.key(1), states).tree)
        >>> tree.node_visits.shape, int(tree.node_visits[0, tree.ROOT_INDEX])
        ((2, 21), 21)
    """
    b, n, a = tree.num_trees, tree.num_nodes, tree.num_actions
    if invalid_actions is not None and invalid_actions.shape != (b, a):
        raise ValueError(f"invalid_actions has shape {invalid_actions.shape}; expected ({b}, {a})")
    trees = jnp.arange(b, dtype=jnp.int32)[:, None, None]
    children, visits, sums, priors = tree.children_index, tree.children_visits, tree.block(1), tree.block(2)
    value, reward, discount = (tree.column(k) for k in range(3))
    place = jnp.where(children >= 0, children, n)  # out of bounds: dropped

    def of_child(table: jax.Array) -> jax.Array:
        """From a number per node `[B, N]` to one per edge `[B, N, A]`."""
        return jnp.where(children >= 0, table[trees, jnp.maximum(children, 0)], 0.0)

    def from_parent(edges: jax.Array, root: Any, default: int) -> jax.Array:
        """From a number per edge to one per node, with the root's own."""
        nodes = jnp.full((b, n), default, jnp.int32).at[:, 0].set(root)
        return nodes.at[trees, place].set(jnp.broadcast_to(edges, children.shape), mode="drop")

    # A node's visits are its edge's: the end of a game, evaluated again and again, has none of its own.
    node_visits = from_parent(visits, 1 + jnp.sum(visits[:, 0], axis=-1), 0)
    exists = node_visits > 0
    inner = jnp.sum(visits, axis=-1)
    means = (value + jnp.sum(sums, axis=-1)) / (1.0 + inner.astype(jnp.float32))
    node_values = jnp.where(exists, means, 0.0)
    lowest = jnp.finfo(jnp.float32).min
    logits = jnp.where(priors > 0, jnp.log(jnp.maximum(priors, jnp.finfo(jnp.float32).tiny)), lowest)
    if invalid_actions is None:
        invalid_actions = (priors[:, 0] <= 0).astype(jnp.float32)
    return mctx.Tree(
        node_visits=node_visits,
        raw_values=jnp.where(exists, value, 0.0),
        node_values=node_values,
        parents=from_parent(jnp.arange(n, dtype=jnp.int32)[None, :, None], -1, mctx.Tree.NO_PARENT),
        action_from_parent=from_parent(jnp.arange(a, dtype=jnp.int32)[None, None], -1, mctx.Tree.NO_PARENT),
        children_index=children,
        children_prior_logits=jnp.where(exists[..., None], logits, 0.0),
        children_visits=visits,
        children_rewards=of_child(reward),
        children_discounts=of_child(discount),
        children_values=of_child(node_values),
        embeddings=_embeddings(tree, exists),
        root_invalid_actions=invalid_actions,
        extra_data=extra_data,
    )


def _embeddings(tree: Tree, exists: jax.Array) -> Any:
    """All states `[B, N, ...]`, zero where there is no node."""
    b, n = exists.shape
    flat = {name: jnp.moveaxis(table, 0, 1).reshape(b * n, -1) for name, table in tree.states.items()}

    def clean(leaf: jax.Array) -> jax.Array:
        leaf = leaf.reshape(b, n, *leaf.shape[1:])
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return leaf
        here = exists.reshape(b, n, *[1] * (leaf.ndim - 2))
        return jnp.where(here, leaf, jnp.zeros((), leaf.dtype).reshape([1] * leaf.ndim))

    return jax.tree.map(clean, tree.packer.unpack(flat))
