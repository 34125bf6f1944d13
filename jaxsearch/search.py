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
from jaxsearch.priors import mask_invalid, prior_probabilities
from jaxsearch.storage import Packer
from jaxsearch.tree import EXTRA_COLUMNS, NO_NODE, Tree, ended, first_rows, make_row, node_number
from jaxsearch.types import Params, RecurrentFn, RecurrentFnOutput, RootFnOutput, State

__all__ = ["RootRule", "Rule", "search"]

Rule = Callable[[rows.Row], rows.PerAction]
"""Scores the actions of each row; see `selection.py`."""

RootRule = Callable[[rows.Row, jax.Array], rows.PerAction]
"""The same for the root; the second argument is the number of simulations done (int32 `[]`)."""

_MAX_SIMULATIONS = 1 << 24

_MAX_NUMBERS = 1 << 31

_ZERO = np.int32(0)  # a plain 0 is int64 where 64-bit numbers are on

_DOWN, _UP = 2, 4
"""Levels that one turn of the descent and of the backup handle. More makes fewer kernels, but longer paths to
pad, and a descent takes as long for one level more in any tree as for one more in all (1 to 8 tried)."""


class _Cursor(NamedTuple):
    """One descent.

    Attributes:
        node: int32 `[B]`, where each tree stands; `ended(leaf)` once its descent has ended there.
        depth: int32 `[]`, levels handled so far.
        path: int32 `[_UP + D + 1, B]`, the nodes passed, negative below the leaf. The first `_UP` rows are
            above the root and always negative, so that the backup's turns need not fit the depth.
    """

    node: jax.Array
    depth: jax.Array
    path: jax.Array


class _Passed(NamedTuple):
    """The nodes that a simulation passed in all trees, without gaps, and what it brought them.

    Attributes:
        nodes: int32 `[M]`.
        returns: float32 `[M]`, of the edge taken at each.
    """

    nodes: jax.Array
    returns: jax.Array


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
    choose = _Choice(tree.tie_seeds, rule, root_rule)
    roots = jnp.arange(num_trees, dtype=jnp.int32)

    def simulate(simulation: jax.Array, carry: tuple[Tree, jax.Array, _Passed]) -> Any:
        tree, path, passed = carry
        simulation = jnp.asarray(simulation, jnp.int32)  # int64 where 64-bit numbers are on
        cursor = _descend(tree, _Cursor(roots, jnp.int32(0), path), limit)
        simulation_key = jax.random.fold_in(key, simulation)
        tree, returns, length = _expand(
            params, simulation_key, tree, recurrent_fn, node_number(cursor.node), simulation + 1, choose
        )
        # Where the root has a rule of its own, it is not among the nodes treated alike.
        first = 0 if root_rule is None else 1
        ends = jnp.cumsum(length - first, dtype=jnp.int32)
        passed, returns = _back_up(tree, passed, cursor, returns, first, ends)
        tree = _update(tree, passed, ends[-1], choose)
        if root_rule is not None:
            tree = choose.at_root(tree, simulation + 1, returns)
        return tree, cursor.path, passed

    # Room that each simulation uses anew; allocated once, because clearing it would cost more than using it.
    levels = -(-max_depth // _DOWN) * _DOWN
    path = jnp.full((_UP + levels + 1, num_trees), NO_NODE, jnp.int32)
    room = levels * num_trees + _rows_a_turn(num_trees)
    passed = _Passed(jnp.zeros((room,), jnp.int32), jnp.zeros((room,), jnp.float32))
    tree = choose.at_root(tree, jnp.int32(0))
    tree, _, _ = jax.lax.fori_loop(0, num_simulations, simulate, (tree, path, passed))
    return tree


class _Choice(NamedTuple):
    """What selection does at given nodes."""

    tie_seeds: jax.Array | None
    rule: Rule
    root_rule: RootRule | None

    def __call__(self, row: rows.Row, nodes: jax.Array) -> jax.Array:
        """The action chosen at R nodes, int32 `[R]`, from their rows."""
        seeds = self.tie_seeds
        seeds = seeds if seeds is None else _take(seeds, nodes % seeds.shape[0])
        return self._best(row, self.rule(row), seeds)

    def at_root(self, tree: Tree, simulation: jax.Array, returns: jax.Array | None = None) -> Tree:
        """The tree with the roots' choices renewed, after `returns` `[B]` if given."""
        if returns is not None:
            roots = jnp.arange(tree.num_trees, dtype=jnp.int32)
            tree = _add(tree, roots, tree.choice[: tree.num_trees], returns)
        row = make_row(tree.rows[: tree.num_trees])
        scores = self.rule(row) if self.root_rule is None else self.root_rule(row, simulation)
        best = self._best(row, scores, self.tie_seeds)
        return _replace(tree, choice=jax.lax.dynamic_update_slice(tree.choice, best, (0,)))

    def _best(self, row: rows.Row, scores: rows.PerAction, seeds: jax.Array | None) -> jax.Array:
        # XLA computes this once per reader, so callers give it one: the write into `choice`.
        legal = row.each(lambda s, p: jnp.where(p > 0, s, -jnp.inf), scores, row.priors)
        return rows.argmax(legal, rows.tie_codes(seeds, row.num_actions))


def _descend(tree: Tree, start: _Cursor, limit: int | None) -> _Cursor:
    """Follows the nodes' choices until every tree stands at an edge to expand, `_DOWN` levels a turn."""

    def down(cursor: _Cursor) -> _Cursor:
        node, levels = cursor.node, [cursor.node]
        for level in range(_DOWN):
            here = node_number(node)
            child = _take(tree.children, here * tree.num_actions + _take(tree.choice, here))
            on = (node >= 0) & (child >= 0)
            if limit is not None:
                on &= cursor.depth + level + 1 < limit
            node = jnp.where(on, child, ended(here))
            levels.append(node)
        path = jax.lax.dynamic_update_slice(cursor.path, jnp.stack(levels), (cursor.depth + _UP, _ZERO))
        return _Cursor(node, cursor.depth + _DOWN, path)

    return jax.lax.while_loop(lambda cursor: jnp.max(cursor.node) >= 0, down, start)


def _expand(
    params: Params,
    key: jax.Array,
    tree: Tree,
    recurrent_fn: RecurrentFn,
    leaf: jax.Array,
    index: jax.Array,
    choose: _Choice,
) -> tuple[Tree, jax.Array, jax.Array]:
    """Evaluates the chosen edge of each leaf and adds its node, number `index` of its tree.

    A choice that already leads to a node (an ended game, or `max_depth`) is evaluated again, and no node
    is added. Returns the tree, the returns `[B]` of the edges, and the number of nodes `[B]` on the paths to
    them.
    """
    b, a = tree.num_trees, tree.num_actions
    action = _take(tree.choice, leaf)
    packed = {name: _take(table.reshape(-1, table.shape[-1]), leaf) for name, table in tree.states.items()}
    step, state = recurrent_fn(params, key, action, tree.packer.unpack(packed))
    _check_step(step, state, tree)
    discount = step.discount.astype(jnp.float32)
    reward = step.reward.astype(jnp.float32)
    value = jnp.where(discount == 0, 0.0, step.value.astype(jnp.float32))
    new_rows = first_rows(prior_probabilities(step.prior_logits), value, reward, discount)
    length = _take(tree.depths, leaf) + 1
    numbers = index * b + jnp.arange(b, dtype=jnp.int32)
    edge = leaf * a + action
    child = _take(tree.children, edge)
    new_child = jnp.where(discount == 0, ended(numbers), numbers)
    child = jnp.where(child == NO_NODE, new_child, child)
    new_states = tree.packer.pack(state)
    tree = _replace(
        tree,
        # Visits and value sums are zero already.
        rows=jax.lax.dynamic_update_slice(tree.rows, new_rows[:, 2 * a :], (index * b, np.int32(2 * a))),
        children=tree.children.at[edge].set(
            child, mode="promise_in_bounds", unique_indices=True, wrap_negative_indices=False
        ),
        choice=jax.lax.dynamic_update_slice(tree.choice, choose(make_row(new_rows), numbers), (index * b,)),
        depths=jax.lax.dynamic_update_slice(tree.depths, length, (index * b,)),
        states={
            name: jax.lax.dynamic_update_slice(table, new_states[name][None], (index, _ZERO, _ZERO))
            for name, table in tree.states.items()
        },
    )
    return tree, reward + discount * value, length


def _back_up(
    tree: Tree, passed: _Passed, cursor: _Cursor, returns: jax.Array, first: int, ends: jax.Array
) -> tuple[_Passed, jax.Array]:
    """Works out the returns along the paths, deepest levels first, `_UP` levels a turn.

    Args:
        returns: `[B]`, of the edges expanded.
        first: level of the first nodes to put into `passed`.
        ends: int32 `[B]`, where the nodes of each tree end in `passed`, one tree after the other.

    Returns:
        The nodes on the paths with their returns, and the returns `[B]` of the roots' edges.
    """
    a, width = tree.num_actions, tree.rows.shape[1]
    table = tree.rows.reshape(-1)

    def up(carry: tuple[jax.Array, jax.Array, _Passed]) -> tuple[jax.Array, jax.Array, _Passed]:
        level, returns, passed = carry
        path = jax.lax.dynamic_slice(cursor.path, (level + _UP, _ZERO), (_UP + 1, tree.num_trees))
        inner, child = path[1:] >= 0, jnp.maximum(path[1:], 0) * width
        reward, discount = _take(table, child + 3 * a + 1), _take(table, child + 3 * a + 2)
        along = []
        for k in reversed(range(_UP)):
            returns = jnp.where(inner[k], reward[k] + discount[k] * returns, returns)
            along.append(returns)
        levels = level + jnp.arange(_UP, dtype=jnp.int32)[:, None]
        # Where a path has ended the place is out of bounds: dropped.
        on = (path[:-1] >= 0) & (levels >= first)
        place = jnp.where(on, ends[None] - 1 - (levels - first), passed.nodes.size)
        passed = _Passed(
            _put(passed.nodes, place, path[:-1]), _put(passed.returns, place, jnp.stack(along[::-1]))
        )
        return level - _UP, returns, passed

    start = (cursor.depth - _UP, returns, passed)
    _, returns, passed = jax.lax.while_loop(lambda carry: carry[0] > -_UP, up, start)
    return passed, returns


def _update(tree: Tree, passed: _Passed, count: jax.Array, choose: _Choice) -> Tree:
    """Adds the returns to the first `count` nodes of `passed` and renews the choices there."""
    turn = _rows_a_turn(tree.num_trees)

    def update(carry: tuple[jax.Array, Tree]) -> tuple[jax.Array, Tree]:
        first, tree = carry
        nodes, returns = (jax.lax.dynamic_slice(part, (first,), (turn,)) for part in passed)
        on = first + jnp.arange(turn, dtype=jnp.int32) < count
        here = jnp.where(on, nodes, 0)
        place = jnp.where(on, nodes, tree.choice.size)
        tree = _add(tree, place, _take(tree.choice, here), returns)
        chosen = choose(make_row(_take(tree.rows, here)), here)
        return first + turn, _replace(tree, choice=_put(tree.choice, place, chosen))

    start = (jnp.int32(0), tree)
    return jax.lax.while_loop(lambda carry: carry[0] < count, update, start)[1]


def _add(tree: Tree, nodes: jax.Array, action: jax.Array, returns: jax.Array) -> Tree:
    """The tree after one more visit of `action` `[R]` at `nodes` `[R]`; nodes out of bounds are dropped."""
    a, width = tree.num_actions, tree.rows.shape[1]
    start = nodes * width
    places = [start + action, start + a + action]
    if a > rows.UNROLL:
        places += [start + 3 * a + 3, start + 3 * a + 4]  # the totals
    added = [jnp.ones_like(returns), returns] * (len(places) // 2)
    table = tree.rows.reshape(-1).at[jnp.stack(places)]
    table = table.add(jnp.stack(added), mode="drop", wrap_negative_indices=False)
    return _replace(tree, rows=table.reshape(-1, width))


def _put(table: jax.Array, index: jax.Array, new: jax.Array) -> jax.Array:
    """The table with `new` at `index`, dropped where that is out of bounds."""
    return table.at[index].set(new, mode="drop", wrap_negative_indices=False)


def _rows_a_turn(num_trees: int) -> int:
    """Nodes whose choice is renewed at once: enough to keep kernels few, not so many that most are idle."""
    return min(max(2 * num_trees, 8), 1024)


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
        depths=jnp.zeros((n * b,), jnp.int32),
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
