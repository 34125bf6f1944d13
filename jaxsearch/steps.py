"""The steps of a simulation: descend, expand, back up, update.

They work on L lanes, each a descent through the tree of its own: one per tree in the plain search, several in
`parallel.py`. Lane `l` belongs to tree `l % B`. An edge is numbered `node * A + action`.

What makes them fast (the layout is in `tree.py`):

- Each node remembers the action that selection would take (`choice`). It can only change when the node's own
  row changes, so it is renewed in the update, for the nodes passed alone and many at a time, and a descent
  only follows links.
- Loops carry cursors `[L]` and the tables, never a `vmap` over a tree, so nothing is copied.
- Nothing random is drawn inside the loops.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsearch import rows
from jaxsearch.priors import prior_probabilities
from jaxsearch.storage import Packer
from jaxsearch.tree import NO_NODE, Tree, ended, first_rows, make_row
from jaxsearch.types import Params, RecurrentFn, RecurrentFnOutput, State

__all__ = [
    "Choice",
    "Cursor",
    "Expansion",
    "Passed",
    "RootRule",
    "Rule",
    "add",
    "back_up",
    "begin",
    "descend",
    "edge_at",
    "expand",
    "length_of",
    "make_room",
    "put",
    "take",
    "update",
]

Rule = Callable[[rows.Row], rows.PerAction]
"""Scores the actions of each row; see `selection.py`."""

RootRule = Callable[[rows.Row, jax.Array], rows.PerAction]
"""The same for the root; the second argument is the number of simulations done (int32 `[]`)."""

ZERO = np.int32(0)  # a plain 0 is int64 where 64-bit numbers are on

_DOWN, _UP = 2, 4
"""Levels that one turn of the descent and of the backup handle. More makes fewer kernels, but longer paths to
pad, and a descent takes as long for one level more in any tree as for one more in all (1 to 8 tried)."""


class Cursor(NamedTuple):
    """Descents in progress.

    Attributes:
        at: int32 `[L]`, the node where each lane stands; `ended(edge)` once it has come to an edge to expand.
        depth: int32 `[]`, levels handled so far.
        path: int32 `[_UP + D + 1, L]`, the edges taken; what lies below the last one means nothing. The first
            `_UP` rows are above the root, so that the backup's turns need not fit the depth.
    """

    at: jax.Array
    depth: jax.Array
    path: jax.Array


class Passed(NamedTuple):
    """The edges that descents took, without gaps, and what each of them brought.

    Attributes:
        edges: int32 `[M]`.
        returns: float32 `[M]`.
    """

    edges: jax.Array
    returns: jax.Array


class Expansion(NamedTuple):
    """What the evaluation of the lanes' last edges said.

    Attributes:
        edge: int32 `[L]`.
        returns: float32 `[L]`, reward and discounted value.
        over: bool `[L]`, the game is over behind the edge.
        length: int32 `[L]`, edges on the path, this one included; 0 for a lane that takes no part.
    """

    edge: jax.Array
    returns: jax.Array
    over: jax.Array
    length: jax.Array


def make_room(lanes: int, max_depth: int) -> tuple[jax.Array, Passed]:
    """A path and a list of passed edges, which each simulation uses anew: clearing them would cost more."""
    levels = -(-max_depth // _DOWN) * _DOWN + 1  # a descent may begin at the second level
    room = levels * lanes + _rows_a_turn(lanes)
    path = jnp.zeros((_UP + levels + 1, lanes), jnp.int32)
    return path, Passed(jnp.zeros((room,), jnp.int32), jnp.zeros((room,), jnp.float32))


@dataclasses.dataclass(frozen=True)
class Choice:
    """What selection does at given nodes."""

    tie_seeds: jax.Array | None
    rule: Rule
    root_rule: RootRule | None = None

    def __call__(self, row: rows.Row, nodes: jax.Array) -> jax.Array:
        """The action chosen at R nodes, int32 `[R]`, from their rows."""
        seeds = self.tie_seeds
        seeds = seeds if seeds is None else take(seeds, nodes % seeds.shape[0])
        return self._best(row, self.rule(row), seeds)

    def at_root(self, tree: Tree, simulation: jax.Array) -> Tree:
        """The tree with the roots' choices renewed."""
        row = make_row(tree.rows[: tree.num_trees])
        scores = self.rule(row) if self.root_rule is None else self.root_rule(row, simulation)
        best = self._best(row, scores, self.tie_seeds)
        return dataclasses.replace(tree, choice=jax.lax.dynamic_update_slice(tree.choice, best, (0,)))

    def _best(self, row: rows.Row, scores: rows.PerAction, seeds: jax.Array | None) -> jax.Array:
        # XLA computes this once per reader, so callers give it one: the write into `choice`.
        legal = row.each(lambda s, p: jnp.where(p > 0, s, -jnp.inf), scores, row.priors)
        return rows.argmax(legal, rows.tie_codes(seeds, row.num_actions))


def begin(edge: jax.Array, at: jax.Array, path: jax.Array) -> Cursor:
    """Descents that have taken the root's `edge` (int32 `[L]`) and stand `at` what is behind it."""
    return Cursor(at, jnp.int32(1), jax.lax.dynamic_update_slice(path, edge[None], (_UP, 0)))


def descend(tree: Tree, start: Cursor, limit: int | None) -> Cursor:
    """Follows the nodes' choices until every lane has come to an edge to expand, `_DOWN` levels a turn.

    Args:
        tree: read only.
        start: where the lanes are.
        limit: edges from the root after which a descent stops; None where no tree can be so deep.
    """

    def down(cursor: Cursor) -> Cursor:
        at, levels = cursor.at, []
        for level in range(_DOWN):
            here, on = jnp.maximum(at, 0), at >= 0
            edge = here * tree.num_actions + take(tree.choice, here)
            child = take(tree.children, edge)
            goes_on = child >= 0
            if limit is not None:
                goes_on &= cursor.depth + level + 1 < limit
            levels.append(edge)
            at = jnp.where(on, jnp.where(goes_on, child, ended(edge)), at)
        path = jax.lax.dynamic_update_slice(cursor.path, jnp.stack(levels), (cursor.depth + _UP, ZERO))
        return Cursor(at, cursor.depth + _DOWN, path)

    return jax.lax.while_loop(lambda cursor: jnp.max(cursor.at) >= 0, down, start)


def length_of(tree: Tree, edge: jax.Array) -> jax.Array:
    """How many edges, int32 `[L]`, a path that ends with `edge` (int32 `[L]`) has."""
    return take(tree.depths, jax.lax.div(edge, np.int32(tree.num_actions))) + 1


def edge_at(cursor: Cursor, level: jax.Array) -> jax.Array:
    """The edge, int32 `[L]`, that each lane's path takes at `level` (int32 `[L]`)."""
    lanes = jnp.arange(level.shape[0], dtype=jnp.int32)
    return cursor.path[level + _UP, lanes]


def expand(
    params: Params,
    key: jax.Array,
    tree: Tree,
    recurrent_fn: RecurrentFn,
    edge: jax.Array,
    index: jax.Array,
    choose: Choice,
    on: jax.Array | None = None,
) -> tuple[Tree, Expansion]:
    """Evaluates the edges `[L]` and adds the nodes behind them, numbers `index * B` and on.

    An edge that already leads to a node (an ended game, or `max_depth`) is evaluated again, and no node is
    added. Nor is it for lanes that are not `on` (bool `[L]`).
    """
    b, a = tree.num_trees, tree.num_actions
    leaf = jax.lax.div(edge, np.int32(a))
    packed = {name: take(table.reshape(-1, table.shape[-1]), leaf) for name, table in tree.states.items()}
    step, state = recurrent_fn(params, key, edge - leaf * a, tree.packer.unpack(packed))
    _check_step(step, state, tree, edge.shape[0])
    discount = step.discount.astype(jnp.float32)
    reward = step.reward.astype(jnp.float32)
    over = discount == 0
    value = jnp.where(over, 0.0, step.value.astype(jnp.float32))
    new_rows = first_rows(prior_probabilities(step.prior_logits), value, reward, discount)
    length = length_of(tree, edge)
    first = index * b
    numbers = first + jnp.arange(edge.shape[0], dtype=jnp.int32)
    child = take(tree.children, edge)
    child = jnp.where(child == NO_NODE, jnp.where(over, ended(numbers), numbers), child)
    new_states = tree.packer.pack(state)
    tree = dataclasses.replace(
        tree,
        # Visits and value sums are zero already.
        rows=jax.lax.dynamic_update_slice(tree.rows, new_rows[:, 2 * a :], (first, np.int32(2 * a))),
        children=put(tree.children, edge if on is None else jnp.where(on, edge, tree.children.size), child),
        choice=jax.lax.dynamic_update_slice(tree.choice, choose(make_row(new_rows), numbers), (first,)),
        depths=jax.lax.dynamic_update_slice(tree.depths, length, (first,)),
        taken=jax.lax.dynamic_update_slice(
            tree.taken, edge if on is None else jnp.where(on, edge, NO_NODE), (first,)
        ),
        states={
            name: jax.lax.dynamic_update_slice(
                table, new_states[name].reshape(-1, b, table.shape[-1]), (index, ZERO, ZERO)
            )
            for name, table in tree.states.items()
        },
    )
    return tree, Expansion(edge, reward + discount * value, over, length)


def back_up(
    tree: Tree, passed: Passed, cursor: Cursor, returns: jax.Array, length: jax.Array, *, first: int = 0
) -> tuple[Passed, jax.Array, jax.Array]:
    """Works out the returns along the paths, deepest levels first, `_UP` levels a turn.

    Args:
        tree: read only.
        passed: room for the result.
        cursor: the descents.
        returns: `[L]`, of their last edges.
        length: int32 `[L]`, edges on each path; 0 for lanes that take no part.
        first: level of the first edges to put into the result.

    Returns:
        The edges with their returns, one lane after the other; how many, int32 `[]`; and the returns `[L]` of
        the roots' edges.
    """
    a, width, lanes = tree.num_actions, tree.rows.shape[1], returns.shape[0]
    table = tree.rows.reshape(-1)
    ends = jnp.cumsum(jnp.maximum(length - first, 0), dtype=jnp.int32)

    def up(carry: tuple[jax.Array, jax.Array, Passed]) -> tuple[jax.Array, jax.Array, Passed]:
        level, returns, passed = carry
        path = jax.lax.dynamic_slice(cursor.path, (level + _UP, ZERO), (_UP + 1, lanes))
        levels = level + jnp.arange(_UP, dtype=jnp.int32)[:, None]
        inner = levels + 1 < length[None]
        child = jax.lax.div(path[1:], np.int32(a)) * width
        reward, discount = take(table, child + 3 * a + 1), take(table, child + 3 * a + 2)
        along = []
        for k in reversed(range(_UP)):
            returns = jnp.where(inner[k] & (level + k >= 0), reward[k] + discount[k] * returns, returns)
            along.append(returns)
        # Where there is no edge the place is out of bounds: dropped.
        on = (levels < length[None]) & (levels >= first)
        place = jnp.where(on, ends[None] - 1 - (levels - first), passed.edges.size)
        edges = put(passed.edges, place, path[:-1])
        return level - _UP, returns, Passed(edges, put(passed.returns, place, jnp.stack(along[::-1])))

    start = (cursor.depth - _UP, returns, passed)
    _, returns, passed = jax.lax.while_loop(lambda carry: carry[0] > -_UP, up, start)
    return passed, ends[-1], returns


def update(
    tree: Tree, passed: Passed, count: jax.Array, choose: Choice, *, lanes: int, visits: float = 1.0
) -> Tree:
    """Adds the returns of the first `count` edges of `passed`, and renews the choices of their nodes.

    Args:
        tree: what is updated.
        passed: edges and returns.
        count: int32 `[]`.
        choose: renews the choices.
        lanes: L, as the room for `passed` was made.
        visits: added to each edge.
    """
    turn = _rows_a_turn(lanes)

    def renew(carry: tuple[jax.Array, Tree]) -> tuple[jax.Array, Tree]:
        first, tree = carry
        edges, returns = (jax.lax.dynamic_slice(part, (first,), (turn,)) for part in passed)
        on = first + jnp.arange(turn, dtype=jnp.int32) < count
        edges = jnp.where(on, edges, 0)
        nodes = jax.lax.div(edges, np.int32(tree.num_actions))
        place = jnp.where(on, nodes, tree.choice.size)
        tree = add(tree, place, edges - nodes * tree.num_actions, returns, visits)
        chosen = choose(make_row(take(tree.rows, nodes)), nodes)
        return first + turn, dataclasses.replace(tree, choice=put(tree.choice, place, chosen))

    return jax.lax.while_loop(lambda carry: carry[0] < count, renew, (jnp.int32(0), tree))[1]


def add(tree: Tree, nodes: jax.Array, action: jax.Array, returns: jax.Array, visits: float = 1.0) -> Tree:
    """The tree after `action` `[R]` at `nodes` `[R]` brought `returns`; nodes out of bounds are dropped."""
    a, width = tree.num_actions, tree.rows.shape[1]
    start = nodes * width
    places = [start + action, start + a + action]
    if a > rows.UNROLL:
        places += [start + 3 * a + 3, start + 3 * a + 4]  # the totals
    added = [jnp.full_like(returns, visits), returns] * (len(places) // 2)
    table = tree.rows.reshape(-1).at[jnp.stack(places)]
    table = table.add(jnp.stack(added), mode="drop", wrap_negative_indices=False)
    return dataclasses.replace(tree, rows=table.reshape(-1, width))


def take(table: jax.Array, index: jax.Array) -> jax.Array:
    """`table[index]` for indices known to be in bounds."""
    return table.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def put(table: jax.Array, index: jax.Array, new: jax.Array) -> jax.Array:
    """The table with `new` at `index`, dropped where that is out of bounds."""
    return table.at[index].set(new, mode="drop", wrap_negative_indices=False)


def _rows_a_turn(lanes: int) -> int:
    """Nodes whose choice is renewed at once: enough to keep kernels few, not so many that most are idle."""
    return min(max(2 * lanes, 8), 1024)


def _check_step(step: RecurrentFnOutput, state: State, tree: Tree, lanes: int) -> None:
    """A state of another kind would be stored as bits and read back as nonsense."""
    shapes = {"prior_logits": (lanes, tree.num_actions), "value": (lanes,), "reward": (lanes,)}
    for name, shape in {**shapes, "discount": (lanes,)}.items():
        got = jnp.shape(getattr(step, name))
        if got != shape:
            raise ValueError(f"recurrent_fn returned {name} of shape {got}; expected {shape}")
    packer = Packer.of(state)
    if packer != tree.packer:
        raise ValueError(
            f"recurrent_fn returned a state of {packer.describe()}; expected the structure, shapes and "
            f"dtypes of root.embedding, {tree.packer.describe()}"
        )
