"""The batched search loop: descend, expand, back up.

What makes it fast (the layout is in `tree.py`):

- Each node remembers the action that selection would take (`choice`). It can only change when the node's own
  row changes, so it is renewed after the backup, for the nodes passed alone and many at a time, and a descent
  only follows links.
- Loops carry cursors `[B]` and the tables, never a `vmap` over a tree, so nothing is copied.
- Nothing random is drawn inside the loops.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsearch import rows
from jaxsearch.storage import Packer
from jaxsearch.tree import EXTRA_COLUMNS, NO_NODE, Tree, ended, first_rows, make_row, node_number
from jaxsearch.types import Params, RecurrentFn, RecurrentFnOutput, RootFnOutput, State

__all__ = ["RootRule", "Rule", "mask_invalid", "prior_probabilities", "search"]

Rule = Callable[[rows.Row], rows.PerAction]
"""Scores the actions of each row; see `selection.py`."""

RootRule = Callable[[rows.Row, jax.Array], rows.PerAction]
"""The same for the root; the second argument is the number of simulations done (int32 `[]`)."""

_MAX_SIMULATIONS = 1 << 24

_MAX_NUMBERS = 1 << 31

_ZERO = np.int32(0)  # a plain 0 is int64 where 64-bit numbers are on

_STRIDE = 2
"""Levels handled by one turn of the loops: more makes fewer kernels, but pads short paths (1 to 8 tried)."""


class _Cursor(NamedTuple):
    """One descent: where each tree stands, and the nodes passed."""

    node: jax.Array  # [B], NO_NODE once the tree's descent has ended
    leaf: jax.Array  # [B], the last node passed
    length: jax.Array  # [B], nodes passed
    depth: jax.Array  # [], levels handled so far, a multiple of the stride
    path: jax.Array  # [D, B], numbered nodes, NO_NODE below the leaf


def search(
    params: Params,
    key: jax.Array,
    *,
    root: RootFnOutput,
    recurrent_fn: RecurrentFn,
    num_simulations: int,
    rule: Rule,
    root_rule: RootRule | None = None,
    invalid_actions: jax.Array | None = None,
    max_depth: int | None = None,
    random_ties: bool = True,
) -> Tree:
    """Searches B trees in one program.

    Args:
        params: passed on to `recurrent_fn`.
        key: consumed: it seeds tie-breaks and the keys given to `recurrent_fn`.
        root: prior logits `[B, A]`, values `[B]` and embeddings `[B, ...]` of the roots.
        recurrent_fn: evaluates B leaves at once, as in mctx. A `discount` of zero marks the end of a game:
            nothing is searched below and the value returned there is ignored, NaN included.
        num_simulations: S; each adds at most one node per tree.
        rule: scores actions at inner nodes, and at the root unless `root_rule` is given.
        root_rule: scores actions at the root.
        invalid_actions: bool `[B, A]`, actions barred at the root; see `mask_invalid`. Below it, an action
            whose prior logit is -1e8 or less is never chosen.
        max_depth: edges from the root at which a descent stops; S by default.
        random_ties: decide between equal scores at random, in one way for the whole of a tree; else the first
            action wins.

    Returns:
        The finished tree; `tree.summary()` has the root's statistics.

    Raises:
        ValueError: a number of simulations outside 1..2^24, a tree too large for 32-bit indices, inputs whose
            shapes do not agree, or a state that differs in kind from the roots'.
    """
    _check(root, num_simulations, invalid_actions, max_depth)
    max_depth = num_simulations if max_depth is None else min(max_depth, num_simulations)
    limit = max_depth if max_depth < num_simulations else None  # no tree is deeper than S anyway
    tie_key, key = jax.random.split(key)
    tree = _plant(tie_key if random_ties else None, root, num_simulations, invalid_actions)
    num_trees = tree.num_trees
    stride = min(_STRIDE, max_depth)
    choose = _Choice(tree.tie_seeds, rule, root_rule)
    roots = jnp.arange(num_trees, dtype=jnp.int32)

    def simulate(simulation: jax.Array, carry: tuple[Tree, jax.Array, jax.Array]) -> Any:
        tree, path, passed = carry
        simulation = jnp.asarray(simulation, jnp.int32)  # int64 where 64-bit numbers are on
        cursor = _descend(tree, path, roots, stride=stride, limit=limit)
        simulation_key = jax.random.fold_in(key, simulation)
        tree, value = _expand(params, simulation_key, tree, recurrent_fn, cursor.leaf, simulation + 1, choose)
        tree, passed = _back_up(tree, passed, cursor, value, stride=stride)
        tree = _renew(tree, passed, jnp.sum(cursor.length, dtype=jnp.int32), choose)
        if root_rule is not None:
            tree = choose.at_root(tree, simulation + 1)
        return tree, cursor.path, passed

    # Room that each simulation uses anew; allocated once, because clearing it would cost more than using it.
    path = jnp.full((-(-max_depth // stride) * stride, num_trees), NO_NODE, jnp.int32)
    passed = jnp.zeros((path.size + _rows_a_turn(num_trees),), jnp.int32)
    tree = choose.at_root(tree, jnp.int32(0))
    tree, _, _ = jax.lax.fori_loop(0, num_simulations, simulate, (tree, path, passed))
    return tree


class _Choice(NamedTuple):
    """What selection does at given nodes."""

    tie_seeds: jax.Array | None
    rule: Rule
    root_rule: RootRule | None

    def __call__(self, table: jax.Array, nodes: jax.Array) -> jax.Array:
        """The action chosen at R nodes, int32 `[R]`, from their rows `[R, W]`."""
        row = make_row(table)
        seeds = self.tie_seeds
        seeds = seeds if seeds is None else _take(seeds, nodes % seeds.shape[0])
        return self._best(row, self.rule(row), seeds)

    def at_root(self, tree: Tree, simulation: jax.Array) -> Tree:
        """The tree with the roots' choices renewed."""
        row = make_row(tree.rows[: tree.num_trees])
        scores = self.rule(row) if self.root_rule is None else self.root_rule(row, simulation)
        best = self._best(row, scores, self.tie_seeds)
        return _replace(tree, choice=jax.lax.dynamic_update_slice(tree.choice, best, (0,)))

    def _best(self, row: rows.Row, scores: rows.PerAction, seeds: jax.Array | None) -> jax.Array:
        # XLA computes this once per reader, so callers give it one: the write into `choice`.
        legal = row.each(lambda s, p: jnp.where(p > 0, s, -jnp.inf), scores, row.priors)
        return rows.argmax(legal, rows.tie_codes(seeds, row.num_actions))


def _descend(tree: Tree, path: jax.Array, roots: jax.Array, *, stride: int, limit: int | None) -> _Cursor:
    """Follows the nodes' choices until every tree stands at an edge to expand, `stride` levels a turn."""

    def down(cursor: _Cursor) -> _Cursor:
        node, leaf, length, levels = cursor.node, cursor.leaf, cursor.length, []
        for level in range(stride):
            levels.append(node)
            on = node >= 0
            leaf, length = jnp.where(on, node, leaf), length + on.astype(jnp.int32)
            if limit is not None:
                on &= cursor.depth + level + 1 < limit
            here = jnp.maximum(node, 0)
            child = _take(tree.children, here * tree.num_actions + _take(tree.choice, here))
            node = jnp.where(on, jnp.maximum(child, NO_NODE), NO_NODE)
        path = jax.lax.dynamic_update_slice(cursor.path, jnp.stack(levels), (cursor.depth, _ZERO))
        return _Cursor(node, leaf, length, cursor.depth + stride, path)

    start = _Cursor(roots, roots, jnp.zeros_like(roots), jnp.int32(0), path)
    return jax.lax.while_loop(lambda cursor: jnp.max(cursor.node) >= 0, down, start)


def _expand(
    params: Params,
    key: jax.Array,
    tree: Tree,
    recurrent_fn: RecurrentFn,
    leaf: jax.Array,
    index: jax.Array,
    choose: _Choice,
) -> tuple[Tree, jax.Array]:
    """Evaluates the chosen edge of each leaf and adds its node, number `index` of its tree.

    A choice that already leads to a node (an ended game, or `max_depth`) is evaluated again, and no node
    is added. Returns the tree and the values `[B]` of the states reached.
    """
    b, a = tree.num_trees, tree.num_actions
    action = _take(tree.choice, leaf)
    packed = {name: _take(table.reshape(-1, table.shape[-1]), leaf) for name, table in tree.states.items()}
    step, state = recurrent_fn(params, key, action, tree.packer.unpack(packed))
    _check_step(step, state, tree)
    discount = step.discount.astype(jnp.float32)
    value = jnp.where(discount == 0, 0.0, step.value.astype(jnp.float32))
    priors = prior_probabilities(step.prior_logits)
    new_rows = first_rows(priors, value, step.reward.astype(jnp.float32), discount)
    numbers = index * b + jnp.arange(b, dtype=jnp.int32)
    edge = leaf * a + action
    child = _take(tree.children, edge)
    new_child = jnp.where(discount == 0, ended(numbers), numbers)
    child = jnp.where(child == NO_NODE, new_child, child)
    new_states = tree.packer.pack(state)
    tree = _replace(
        tree,
        rows=jax.lax.dynamic_update_slice(tree.rows, new_rows, (index * b, _ZERO)),
        children=tree.children.at[edge].set(
            child, mode="promise_in_bounds", unique_indices=True, wrap_negative_indices=False
        ),
        choice=jax.lax.dynamic_update_slice(tree.choice, choose(new_rows, numbers), (index * b,)),
        states={
            name: jax.lax.dynamic_update_slice(table, new_states[name][None], (index, _ZERO, _ZERO))
            for name, table in tree.states.items()
        },
    )
    return tree, value


def _back_up(
    tree: Tree, passed: jax.Array, cursor: _Cursor, value: jax.Array, *, stride: int
) -> tuple[Tree, jax.Array]:
    """Adds the returns along the paths, deepest levels first.

    Returns the tree and, in `passed`, the nodes on the paths without gaps, one tree after the other.
    """
    a, width = tree.num_actions, tree.rows.shape[1]
    ends = jnp.cumsum(cursor.length)

    def up(carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        level, returns, table, passed = carry
        path = jax.lax.dynamic_slice(cursor.path, (level, _ZERO), (stride, tree.num_trees))
        on, node = path >= 0, jnp.maximum(path, 0)
        action = _take(tree.choice, node)
        child = node_number(_take(tree.children, node * a + action))
        reward = _take(table, child * width + 3 * a + 1)
        discount = _take(table, child * width + 3 * a + 2)
        along = []
        for k in reversed(range(stride)):
            returns = jnp.where(on[k], reward[k] + discount[k] * returns, returns)
            along.append(returns)
        along = jnp.stack(along[::-1])

        # One scatter for all that changes; where a path has ended the index is out of bounds: dropped.
        start = jnp.where(on, node * width, table.size)
        places = [start + action, start + a + action]
        if a > rows.UNROLL:
            places += [start + 3 * a + 3, start + 3 * a + 4]  # the totals
        added = [jnp.ones_like(along), along] * (len(places) // 2)
        table = table.at[jnp.stack(places)].add(jnp.stack(added), mode="drop", wrap_negative_indices=False)
        slot = (ends - 1 - level)[None] - jnp.arange(stride, dtype=jnp.int32)[:, None]
        passed = passed.at[jnp.where(on, slot, passed.size)].set(
            node, mode="drop", wrap_negative_indices=False
        )
        return level - stride, returns, table, passed

    start = (cursor.depth - stride, value, tree.rows.reshape(-1), passed)
    _, _, table, passed = jax.lax.while_loop(lambda carry: carry[0] >= 0, up, start)
    return _replace(tree, rows=table.reshape(-1, width)), passed


def _renew(tree: Tree, passed: jax.Array, count: jax.Array, choose: _Choice) -> Tree:
    """Renews the choices at the first `count` nodes of `passed`."""
    turn = _rows_a_turn(tree.num_trees)

    def renew(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        first, choice = carry
        on = first + jnp.arange(turn, dtype=jnp.int32) < count
        nodes = jnp.where(on, jax.lax.dynamic_slice(passed, (first,), (turn,)), 0)
        chosen = choose(_take(tree.rows, nodes), nodes)
        choice = choice.at[jnp.where(on, nodes, choice.size)].set(
            chosen, mode="drop", wrap_negative_indices=False
        )
        return first + turn, choice

    start = (jnp.int32(0), tree.choice)
    return _replace(tree, choice=jax.lax.while_loop(lambda carry: carry[0] < count, renew, start)[1])


def _rows_a_turn(num_trees: int) -> int:
    """Nodes whose choice is renewed at once: enough to keep kernels few, not so many that most are idle."""
    return min(max(2 * num_trees, 8), 1024)


def prior_probabilities(logits: jax.Array) -> jax.Array:
    """Float32 softmax `[B, A]`, zero exactly where an action is illegal: a logit of -1e8 or less.

    A legal action keeps a little probability however low its logit, and a row with no legal action is zero.
    """
    logits = logits.astype(jnp.float32)
    legal = logits > -1e8
    largest = jnp.max(logits, axis=-1, keepdims=True)
    weights = jnp.where(legal, jnp.maximum(jnp.exp(logits - largest), 1e-30), 0.0)
    return weights / jnp.maximum(jnp.sum(weights, axis=-1, keepdims=True), 1e-30)


def mask_invalid(logits: jax.Array, invalid_actions: jax.Array | None) -> jax.Array:
    """Float32 logits `[B, A]`, -inf at barred actions.

    Where every action that is not barred has a logit of -1e8 or less (a network that puts all its mass on
    illegal moves), they are made equal: a search needs an action to take.
    """
    logits = logits.astype(jnp.float32)
    if invalid_actions is None:
        return logits
    valid = ~invalid_actions.astype(bool)
    none_left = ~jnp.any(valid & (logits > -1e8), axis=-1, keepdims=True)
    return jnp.where(valid, jnp.where(none_left, 0.0, logits), -jnp.inf)


def _plant(
    key: jax.Array | None, root: RootFnOutput, num_simulations: int, invalid_actions: jax.Array | None
) -> Tree:
    """Trees with nothing but their roots."""
    b, a = root.prior_logits.shape
    n = num_simulations + 1
    logits = mask_invalid(root.prior_logits, invalid_actions)
    packer = Packer.of(root.embedding)
    value = root.value.astype(jnp.float32)
    first = first_rows(prior_probabilities(logits), value, jnp.zeros_like(value), jnp.ones_like(value))
    return Tree(
        rows=jnp.zeros((n * b, 3 * a + EXTRA_COLUMNS), jnp.float32).at[:b].set(first),
        children=jnp.full((n * b * a,), NO_NODE, jnp.int32),
        choice=jnp.zeros((n * b,), jnp.int32),
        states={
            name: jnp.zeros((n, *part.shape), part.dtype).at[0].set(part)
            for name, part in packer.pack(root.embedding).items()
        },
        tie_seeds=key if key is None else jax.random.bits(key, (b,), jnp.uint32),
        num_trees=b,
        num_actions=a,
        packer=packer,
    )


def _take(table: jax.Array, index: jax.Array) -> jax.Array:
    """`table[index]` for indices known to be in bounds."""
    return table.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _replace(tree: Tree, **changes: Any) -> Tree:
    return dataclasses.replace(tree, **changes)


def _check(
    root: RootFnOutput, num_simulations: int, invalid_actions: jax.Array | None, max_depth: int | None
) -> None:
    if root.prior_logits.ndim != 2:
        raise ValueError(f"root.prior_logits has shape {root.prior_logits.shape}; expected [B, A]")
    b, a = root.prior_logits.shape[:2]
    if root.value.shape != (b,):
        raise ValueError(f"root.value has shape {root.value.shape}; expected ({b},) as in prior_logits")
    for leaf in jax.tree.leaves(root.embedding):
        if leaf.shape[:1] != (b,):
            raise ValueError(
                f"a leaf of root.embedding has shape {leaf.shape}; expected a leading dimension of {b}"
            )
    if not 1 <= num_simulations < _MAX_SIMULATIONS:
        raise ValueError(f"num_simulations is {num_simulations}; expected 1 to {_MAX_SIMULATIONS - 1}")
    numbers = (num_simulations + 1) * b * (3 * a + EXTRA_COLUMNS)
    if numbers >= _MAX_NUMBERS:
        raise ValueError(
            f"{b} trees of {num_simulations} simulations and {a} actions hold {numbers} numbers; expected "
            f"fewer than {_MAX_NUMBERS} (32-bit indices): search fewer trees at once"
        )
    if invalid_actions is not None and invalid_actions.shape != (b, a):
        raise ValueError(f"invalid_actions has shape {invalid_actions.shape}; expected ({b}, {a})")
    if max_depth is not None and max_depth < 1:
        raise ValueError(f"max_depth is {max_depth}; expected at least 1")


def _check_step(step: RecurrentFnOutput, state: State, tree: Tree) -> None:
    """A state of another kind would be stored as bits and read back as nonsense."""
    b, a = tree.num_trees, tree.num_actions
    for name, shape in {"prior_logits": (b, a), "value": (b,), "reward": (b,), "discount": (b,)}.items():
        got = jnp.shape(getattr(step, name))
        if got != shape:
            raise ValueError(f"recurrent_fn returned {name} of shape {got}; expected {shape}")
    packer = Packer.of(state)
    if packer != tree.packer:
        raise ValueError(
            f"recurrent_fn returned a state of {packer.describe()}; expected the structure, shapes and "
            f"dtypes of root.embedding, {tree.packer.describe()}"
        )
