"""mctx's search, batched by hand: the same tree, the same random numbers, no copies of the tree.

mctx maps a loop over trees, and under `vmap` a loop whose length differs by tree becomes a `select` over all
that it carries, the tree included, at every level of every simulation. Here both loops go through the whole
batch at once. The descent carries cursors `[B]` and only reads the tree; the backup writes the few numbers
that change, in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxsearch.mctx.original import mctx
from jaxsearch.mctx.select import Keys, Selector, make_selectors
from jaxsearch.types import Params, RecurrentFn, RecurrentFnOutput, RootFnOutput, State

__all__ = ["search"]

Tree = Any
"""`mctx.Tree`, which type checkers cannot read."""

_UP = 4
"""Levels that one turn of the backup handles: kernels are most of its cost, however little each does."""


class _Cursor(NamedTuple):
    """Where the descents stand.

    Attributes:
        keys: for the choices to come.
        node: int32 `[B]`.
        action: int32 `[B]`, the action chosen at `node`.
        child: int32 `[B]`, where it leads; `UNVISITED` if nowhere yet.
        depth: int32 `[]`, edges from the root to `child`.
        going: bool `[B]`, whether the descent goes on at `child`.
    """

    keys: Keys
    node: jax.Array
    action: jax.Array
    child: jax.Array
    depth: jax.Array
    going: jax.Array


def search(
    params: Params,
    rng_key: jax.Array,
    *,
    root: RootFnOutput,
    recurrent_fn: RecurrentFn,
    root_action_selection_fn: Callable[..., jax.Array],
    interior_action_selection_fn: Callable[..., jax.Array],
    num_simulations: int,
    max_depth: int | jax.Array | None = None,
    invalid_actions: jax.Array | None = None,
    extra_data: Any = None,
    loop_fn: Callable[..., Any] = jax.lax.fori_loop,
    stop_at_ends: bool = False,
) -> Tree:
    """`mctx.search`: any selection functions, one program, the tree that mctx builds.

    Args:
        params: passed on to `recurrent_fn`.
        rng_key: consumed.
        root: prior logits `[B, A]`, values `[B]`, embeddings `[B, ...]`.
        recurrent_fn: `(params, key, action [B], embedding) -> (RecurrentFnOutput, embedding)`.
        root_action_selection_fn: `(key, tree, node) -> action` for one tree, used at the root.
        interior_action_selection_fn: `(key, tree, node, depth) -> action` for one tree, used below it.
        num_simulations: S.
        max_depth: edges from the root at which a descent stops; may be traced.
        invalid_actions: `[B, A]`, nonzero where an action is barred at the root: for the selection functions,
            which find it in `tree.root_invalid_actions`.
        extra_data: `[B, ...]`, for the selection functions, in `tree.extra_data`.
        loop_fn: runs the simulations, with the signature of `jax.lax.fori_loop`.
        stop_at_ends: not in mctx: end descents at edges of discount 0, where a game is over, and ignore the
            value behind them, NaN included.

    Returns:
        The `mctx.Tree` `[B, N, A]` with N = S + 1.

    Raises:
        ValueError: shapes that do not agree, or numbers out of range.

    Example:
        >>> import functools, jax, jax.numpy as jnp
        >>> from jaxsearch import mctx
        >>> def step(params, key, action, state):  # a bandit: action 2 pays
        ...     reward = jnp.where(action == 2, 1.0, 0.0)
        ...     zeros = jnp.zeros_like(reward)
        ...     step = mctx.RecurrentFnOutput(
        ...         reward=reward, discount=zeros, prior_logits=jnp.zeros((2, 3)), value=zeros
        ...     )
        ...     return step, state
        >>> tree = mctx.search(
        ...     None,
        ...     jax.random.key(0),
        ...     root=mctx.RootFnOutput(
        ...         prior_logits=jnp.zeros((2, 3)), value=jnp.zeros((2,)), embedding=()
        ...     ),
        ...     recurrent_fn=step,
        ...     root_action_selection_fn=functools.partial(mctx.muzero_action_selection, depth=0),
        ...     interior_action_selection_fn=mctx.muzero_action_selection,
        ...     num_simulations=16,
        ... )
        >>> tree.summary().visit_counts.argmax(-1).tolist()
        [2, 2]
    """
    _check(root, num_simulations, invalid_actions, max_depth)
    num_trees = root.value.shape[0]
    max_depth = num_simulations if max_depth is None else max_depth
    invalid_actions = jnp.zeros_like(root.prior_logits) if invalid_actions is None else invalid_actions
    at_root, below = make_selectors(root_action_selection_fn, interior_action_selection_fn)

    def simulate(simulation: jax.Array, carry: tuple[jax.Array, Tree]) -> tuple[jax.Array, Tree]:
        key, tree = carry
        key, descent_key, expand_key = jax.random.split(key, 3)
        keys = Keys(jax.random.split(descent_key, num_trees), jnp.int32(0))
        cursor = _descend(keys, tree, at_root, below, max_depth, stop_at_ends)
        new = jnp.asarray(simulation + 1, jnp.int32)  # int64 where 64-bit numbers are on
        # A visited edge was chosen where the descent had to stop: its node is evaluated again.
        index = jnp.where(cursor.child == tree.UNVISITED, new, cursor.child)
        tree = _expand(params, expand_key, tree, recurrent_fn, cursor, index, stop_at_ends)
        return key, _back_up(tree, index)

    tree = _plant(root, num_simulations, invalid_actions, extra_data)
    return loop_fn(0, num_simulations, simulate, (rng_key, tree))[1]


def _descend(
    keys: Keys,
    tree: Tree,
    at_root: Selector,
    below: Selector,
    max_depth: int | jax.Array,
    stop_at_ends: bool,
) -> _Cursor:
    """Takes all trees to an edge to expand, level by level."""
    trees = _trees(tree)

    def choose(selector: Selector, keys: Keys, node: jax.Array, cursor: _Cursor) -> _Cursor:
        chosen, keys = selector(keys, tree, node, cursor.depth, cursor.going)
        action = jnp.where(cursor.going, chosen, cursor.action)
        child = tree.children_index[trees, node, action]
        going = cursor.going & (child != tree.UNVISITED) & (cursor.depth + 1 < max_depth)
        if stop_at_ends:
            going &= tree.children_discounts[trees, node, action] != 0
        return _Cursor(keys, node, action, child, cursor.depth + 1, going)

    def down(cursor: _Cursor) -> _Cursor:
        node = jnp.where(cursor.going, cursor.child, cursor.node)
        return choose(below, cursor.keys, node, cursor)

    node = jnp.zeros_like(trees)
    start = _Cursor(keys, node, node, node, jnp.int32(0), jnp.ones(node.shape, bool))
    # The root has a rule of its own, so its level is not one of the loop's.
    start = choose(at_root, keys, node, start)
    return jax.lax.while_loop(lambda cursor: jnp.any(cursor.going), down, start)


def _expand(
    params: Params,
    key: jax.Array,
    tree: Tree,
    recurrent_fn: RecurrentFn,
    cursor: _Cursor,
    index: jax.Array,
    stop_at_ends: bool,
) -> Tree:
    """Evaluates the chosen edges and writes their nodes, number `index` `[B]` of each tree."""
    trees, node, action = _trees(tree), cursor.node, cursor.action
    before = jax.tree.map(lambda table: table[trees, node], tree.embeddings)
    step, state, *_ = recurrent_fn(params, key, action, before)
    _check_step(step, state, before, tree)
    value = jnp.where(step.discount == 0, 0, step.value) if stop_at_ends else step.value

    def put(table: jax.Array, new: jax.Array) -> jax.Array:
        return table.at[trees, node, action].set(new.astype(table.dtype))

    return _write(tree, index, step.prior_logits, value, state).replace(
        children_index=put(tree.children_index, index),
        children_rewards=put(tree.children_rewards, step.reward),
        children_discounts=put(tree.children_discounts, step.discount),
        parents=tree.parents.at[trees, index].set(node),
        action_from_parent=tree.action_from_parent.at[trees, index].set(action),
    )


def _write(tree: Tree, index: jax.Array, logits: jax.Array, value: jax.Array, state: State) -> Tree:
    """The tree with the evaluations of nodes `index` `[B]`."""
    trees = _trees(tree)

    def put(table: jax.Array, new: jax.Array) -> jax.Array:
        return table.at[trees, index].set(jnp.asarray(new, table.dtype))

    return tree.replace(
        children_prior_logits=put(tree.children_prior_logits, logits),
        raw_values=put(tree.raw_values, value),
        node_values=put(tree.node_values, value),
        node_visits=tree.node_visits.at[trees, index].add(1),
        embeddings=jax.tree.map(put, tree.embeddings, state),
    )


def _back_up(tree: Tree, leaf: jax.Array) -> Tree:
    """Updates means and visits from the nodes `leaf` `[B]` up to the roots, `_UP` levels a turn."""
    trees, num_nodes = _trees(tree), tree.node_values.shape[1]
    dtype = tree.node_values.dtype
    wide = jnp.promote_types(dtype, jnp.float32)  # in which mctx divides

    def up(carry: Any) -> Any:
        index, returns, below, (node_values, node_visits, children_values, children_visits) = carry
        levels = []
        for _ in range(_UP):
            parent = jnp.maximum(tree.parents[trees, index], 0)
            action = tree.action_from_parent[trees, index]
            discount = tree.children_discounts[trees, parent, action]
            returns = tree.children_rewards[trees, parent, action] + discount * returns
            count = node_visits[trees, parent]
            total = node_values[trees, parent] * count.astype(dtype) + returns
            mean = (total.astype(wide) / (count.astype(wide) + 1.0)).astype(dtype)
            # Above the root the place is out of bounds: dropped.
            levels.append((jnp.where(index == tree.ROOT_INDEX, num_nodes, parent), action, mean, below))
            index, below = parent, mean
        # The nodes of a path differ, so its levels can be written at once.
        place, action, mean, child_value = (jnp.concatenate(parts) for parts in zip(*levels, strict=True))
        rows = jnp.tile(trees, _UP)
        stats = (
            node_values.at[rows, place].set(mean, mode="drop"),
            node_visits.at[rows, place].add(1, mode="drop"),
            children_values.at[rows, place, action].set(child_value, mode="drop"),
            children_visits.at[rows, place, action].add(1, mode="drop"),
        )
        return index, returns, below, stats

    value = tree.node_values[trees, leaf]
    stats = tree.node_values, tree.node_visits, tree.children_values, tree.children_visits
    start = leaf, value, value, stats
    stats = jax.lax.while_loop(lambda carry: jnp.any(carry[0] != tree.ROOT_INDEX), up, start)[-1]
    names = "node_values", "node_visits", "children_values", "children_visits"
    return tree.replace(**dict(zip(names, stats, strict=True)))


def _plant(root: RootFnOutput, num_simulations: int, invalid_actions: jax.Array, extra_data: Any) -> Tree:
    """Trees with nothing but their roots."""
    b, a = root.prior_logits.shape
    nodes, edges = (b, num_simulations + 1), (b, num_simulations + 1, a)
    kind = root.value.dtype
    tree = mctx.Tree(
        node_visits=jnp.zeros(nodes, jnp.int32),
        raw_values=jnp.zeros(nodes, kind),
        node_values=jnp.zeros(nodes, kind),
        parents=jnp.full(nodes, mctx.Tree.NO_PARENT, jnp.int32),
        action_from_parent=jnp.full(nodes, mctx.Tree.NO_PARENT, jnp.int32),
        children_index=jnp.full(edges, mctx.Tree.UNVISITED, jnp.int32),
        children_prior_logits=jnp.zeros(edges, root.prior_logits.dtype),
        children_visits=jnp.zeros(edges, jnp.int32),
        children_rewards=jnp.zeros(edges, kind),
        children_discounts=jnp.zeros(edges, kind),
        children_values=jnp.zeros(edges, kind),
        embeddings=jax.tree.map(lambda x: jnp.zeros(nodes + x.shape[1:], x.dtype), root.embedding),
        root_invalid_actions=invalid_actions,
        extra_data=extra_data,
    )
    return _write(tree, jnp.zeros((b,), jnp.int32), root.prior_logits, root.value, root.embedding)


def _trees(tree: Tree) -> jax.Array:
    return jnp.arange(tree.node_values.shape[0], dtype=jnp.int32)


def _check(
    root: RootFnOutput,
    num_simulations: int,
    invalid_actions: jax.Array | None,
    max_depth: int | jax.Array | None,
) -> None:
    if root.prior_logits.ndim != 2:
        raise ValueError(f"root.prior_logits has shape {root.prior_logits.shape}; expected [B, A]")
    b, a = root.prior_logits.shape
    if root.value.shape != (b,):
        raise ValueError(f"root.value has shape {root.value.shape}; expected ({b},) as in prior_logits")
    for leaf in jax.tree.leaves(root.embedding):
        if jnp.shape(leaf)[:1] != (b,):
            raise ValueError(
                f"a leaf of root.embedding has shape {jnp.shape(leaf)}; expected a leading dimension of {b}"
            )
    if num_simulations < 0:
        raise ValueError(f"num_simulations is {num_simulations}; expected 0 or more")
    if invalid_actions is not None and invalid_actions.shape != (b, a):
        raise ValueError(f"invalid_actions has shape {invalid_actions.shape}; expected ({b}, {a})")
    if isinstance(max_depth, int) and max_depth < 1:
        raise ValueError(f"max_depth is {max_depth}; expected at least 1")


def _check_step(step: RecurrentFnOutput, state: State, before: State, tree: Tree) -> None:
    b, a = tree.node_values.shape[0], tree.num_actions
    for name, shape in {"prior_logits": (b, a), "value": (b,), "reward": (b,), "discount": (b,)}.items():
        got = jnp.shape(getattr(step, name))
        if got != shape:
            raise ValueError(f"recurrent_fn returned {name} of shape {got}; expected {shape}")
    kinds = [
        (jax.tree.structure(tree), [jnp.shape(leaf) for leaf in jax.tree.leaves(tree)])
        for tree in (state, before)
    ]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"recurrent_fn returned an embedding of {kinds[0][0]} with shapes {kinds[0][1]}; expected the "
            f"structure and shapes of root.embedding, {kinds[1][0]} with {kinds[1][1]}"
        )
