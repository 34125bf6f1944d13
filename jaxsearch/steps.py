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
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsearch import amaf, players, rows
from jaxsearch.amaf import Played
from jaxsearch.choice import Choice, RootRule, Rule
from jaxsearch.priors import prior_probabilities
from jaxsearch.storage import Packer
from jaxsearch.tables import put, take, take_column
from jaxsearch.tree import NO_NODE, Tree, ended, first_rows, make_row
from jaxsearch.types import Params, RecurrentFn, RecurrentFnOutput, State, StepDetails

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
    "edges_of",
    "expand",
    "length_of",
    "make_room",
    "put",
    "take",
    "update",
]

ZERO = np.int32(0)  # a plain 0 is int64 where 64-bit numbers are on

_DOWN, _UP = 2, 4
"""Levels that one turn of the descent and of the backup handle. More makes fewer kernels, but longer paths to
pad, and a descent takes as long for one level more in any tree as for one more in all (1 to 8 tried)."""


ABOVE = _UP
"""Rows of a path above the root."""


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
        played: uint32 `[M, W]`, what the edges' movers played there or later; None without `Tree.amaf`.
    """

    edges: jax.Array
    returns: jax.Array
    played: jax.Array | None = None


class Expansion(NamedTuple):
    """What the evaluation of the lanes' last edges said.

    Attributes:
        edge: int32 `[L]`.
        returns: float32 `[L]`, reward and discounted value; `[L, P]` where the tree keeps `players`.
        over: bool `[L]`, the game is over behind the edge.
        length: int32 `[L]`, edges on the path, this one included; 0 for a lane that takes no part.
        played: what was played behind the edge, as its mover sees it; None without `Tree.amaf`.
    """

    edge: jax.Array
    returns: jax.Array
    over: jax.Array
    length: jax.Array
    played: Played | None = None


def make_room(tree: Tree, lanes: int, max_depth: int) -> tuple[jax.Array, Passed]:
    """A path and a list of passed edges, which each simulation uses anew: clearing them would cost more."""
    levels = -(-max_depth // _DOWN) * _DOWN + 1  # a descent may begin at the second level
    room = levels * lanes + _rows_a_turn(lanes)
    path = jnp.zeros((_UP + levels + 1, lanes), jnp.int32)
    played = None if tree.amaf is None else amaf.nothing(room, tree.num_actions).own
    return path, Passed(jnp.zeros((room,), jnp.int32), jnp.zeros((room,), jnp.float32), played)


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


def edges_of(cursor: Cursor, level: jax.Array) -> jax.Array:
    """The edges, int32 `[L]`, that the paths take at the one `level` (int32 `[]`)."""
    return jax.lax.dynamic_slice(cursor.path, (level + _UP, ZERO), (1, cursor.path.shape[1]))[0]


def expand(
    params: Params,
    key: jax.Array,
    tree: Tree,
    recurrent_fn: RecurrentFn,
    edge: jax.Array,
    index: jax.Array,
    choose: Choice,
    on: jax.Array | None = None,
    leaves: State | None = None,
) -> tuple[Tree, Expansion]:
    """Evaluates the edges `[L]` and adds the nodes behind them, numbers `index * B` and on.

    An edge that already leads to a node (an ended game, or `max_depth`) is evaluated again, and no node is
    added. Nor is it for lanes that are not `on` (bool `[L]`). The states of the nodes that the edges lead
    from are `leaves`; without these they are the tree's, which keeps the new ones then.
    """
    b, a = tree.num_trees, tree.num_actions
    leaf = jax.lax.div(edge, np.int32(a))
    if leaves is None:
        packed = {name: take(table.reshape(-1, table.shape[-1]), leaf) for name, table in tree.states.items()}
        leaves, keep_states = tree.packer.unpack(packed), True
    else:
        keep_states = False
    step, state, *details = recurrent_fn(params, key, edge - leaf * a, leaves)
    _check_step(step, state, tree, edge.shape[0])
    discount = step.discount.astype(jnp.float32)
    reward = step.reward.astype(jnp.float32)
    over = discount == 0
    said = details[0] if details else StepDetails()
    if tree.players is None:
        value = jnp.where(over, 0.0, step.value.astype(jnp.float32))
        seats = None
    else:
        (reward, value, returns), new = players.of_step(tree.players, leaf, step, said)
        seats = players.write(tree.players, new, index * b)
    new_rows = first_rows(prior_probabilities(step.prior_logits), value, reward, discount)
    new_amaf, played, later = None, None, tree.amaf
    if tree.amaf is not None:
        played = amaf.of_leaf(said.played, over, a)
        new_amaf = amaf.first_rows(played, value, a)
        played = amaf.turned(played, discount < 0)
        later = jax.lax.dynamic_update_slice(tree.amaf, new_amaf, (index * b, ZERO))
    length = length_of(tree, edge)
    first = index * b
    numbers = first + jnp.arange(edge.shape[0], dtype=jnp.int32)
    child = take(tree.children, edge)
    child = jnp.where(child == NO_NODE, jnp.where(over, ended(numbers), numbers), child)
    states = _with_states(tree, state, index) if keep_states else tree.states
    tree = dataclasses.replace(
        tree,
        # Visits and value sums are zero already.
        rows=jax.lax.dynamic_update_slice(tree.rows, new_rows[:, 2 * a :], (first, np.int32(2 * a))),
        children=put(tree.children, edge if on is None else jnp.where(on, edge, tree.children.size), child),
        choice=jax.lax.dynamic_update_slice(
            tree.choice, choose(make_row(new_rows, new_amaf), numbers), (first,)
        ),
        depths=jax.lax.dynamic_update_slice(tree.depths, length, (first,)),
        taken=jax.lax.dynamic_update_slice(
            tree.taken, edge if on is None else jnp.where(on, edge, NO_NODE), (first,)
        ),
        states=states,
        amaf=later,
        players=seats,
    )
    if seats is None:
        returns = reward + discount * value
    return tree, Expansion(edge, returns, over, length, played)


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
    """Works out the returns along the paths, deepest levels first, `_UP` levels a turn.

    Args:
        tree: read only.
        passed: room for the result.
        cursor: the descents.
        returns: `[L]`, of their last edges; `[L, P]` where the tree keeps `players`.
        length: int32 `[L]`, edges on each path; 0 for lanes that take no part.
        first: level of the first edges to put into the result.
        played: what was played behind the last edges, as their movers see it.

    Returns:
        The edges with their returns, one lane after the other; how many, int32 `[]`; and the returns `[L]` of
        the roots' edges.
    """
    a, lanes = tree.num_actions, returns.shape[0]
    ends = jnp.cumsum(jnp.maximum(length - first, 0), dtype=jnp.int32)

    def up(carry: tuple) -> tuple:
        level, returns, played, passed = carry
        path = jax.lax.dynamic_slice(cursor.path, (level + _UP, ZERO), (_UP + 1, lanes))
        levels = level + jnp.arange(_UP, dtype=jnp.int32)[:, None]
        inner = levels + 1 < length[None]
        child = jax.lax.div(path[1:], np.int32(a))
        reward, discount = (take_column(tree.rows, child, 3 * a + k) for k in (1, 2))
        along, sets = [], []
        for k in reversed(range(_UP)):
            above = inner[k] & (level + k >= 0)
            if tree.players is None:
                returns = jnp.where(above, reward[k] + discount[k] * returns, returns)
                along.append(returns)
            else:
                nodes = jax.lax.div(path[k : k + 2], np.int32(a))
                here = take(tree.players.rewards, nodes[1]) + discount[k][:, None] * returns
                returns = jnp.where(above[:, None], here, returns)
                along.append(players.seen_by_movers(tree.players, nodes[0], returns))
            if played is not None:
                here = (level + k < length) & (level + k >= 0)
                action = jax.lax.rem(path[k], np.int32(a))
                played = amaf.go_up(played, above & (discount[k] < 0), action, here)
                sets.append(played.own)
        # Where there is no edge the place is out of bounds: dropped.
        on = (levels < length[None]) & (levels >= first)
        place = jnp.where(on, ends[None] - 1 - (levels - first), passed.edges.size)
        edges = put(passed.edges, place, path[:-1])
        next_level = level - _UP
        brought = put(passed.returns, place, jnp.stack(along[::-1]))
        later = put(passed.played, place, jnp.stack(sets[::-1])) if passed.played is not None else None
        return next_level, returns, played, Passed(edges, brought, later)

    start = (cursor.depth - _UP, returns, played, passed)
    _, returns, _, passed = jax.lax.while_loop(lambda carry: carry[0] > -_UP, up, start)
    if tree.players is not None:
        roots = jnp.arange(lanes, dtype=jnp.int32) % np.int32(tree.num_trees)
        returns = players.seen_by_movers(tree.players, roots, returns)
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
        edges, returns = (
            jax.lax.dynamic_slice(part, (first,), (turn,)) for part in (passed.edges, passed.returns)
        )
        on = first + jnp.arange(turn, dtype=jnp.int32) < count
        edges = jnp.where(on, edges, 0)
        nodes = jax.lax.div(edges, np.int32(tree.num_actions))
        place = jnp.where(on, nodes, tree.choice.size)
        tree = add(tree, place, edges - nodes * tree.num_actions, returns, visits)
        later = None
        if tree.amaf is not None:
            assert passed.played is not None
            sets = jax.lax.dynamic_slice(passed.played, (first, ZERO), (turn, passed.played.shape[1]))
            later = amaf.renewed(take(tree.amaf, nodes), sets, returns)
            tree = dataclasses.replace(tree, amaf=put(tree.amaf, place, later))
        chosen = choose(make_row(take(tree.rows, nodes), later), nodes)
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


def _rows_a_turn(lanes: int) -> int:
    """Nodes whose choice is renewed at once: enough to keep kernels few, not so many that most are idle."""
    return min(max(2 * lanes, 8), 1024)


def _with_states(tree: Tree, state: State, index: jax.Array) -> dict[str, jax.Array]:
    """The tree's states with those of the new nodes, number `index` and on of each tree."""
    new, b = tree.packer.pack(state), tree.num_trees
    return {
        name: jax.lax.dynamic_update_slice(
            table, new[name].reshape(-1, b, table.shape[-1]), (index, ZERO, ZERO)
        )
        for name, table in tree.states.items()
    }


def _check_step(step: RecurrentFnOutput, state: State, tree: Tree, lanes: int) -> None:
    """A state of another kind would be stored as bits and read back as nonsense."""
    each = (lanes,) if tree.players is None else (lanes, tree.players.rewards.shape[1])
    shapes = {"prior_logits": (lanes, tree.num_actions), "value": each, "reward": each}
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
