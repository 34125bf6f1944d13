"""The tree of a batch of searches, and how its arrays are laid out.

A node is numbered `node * B + b` for node `node` of tree `b`, so that the nodes made by one simulation are
neighbours and are written in one piece. Its statistics lie in one row of `rows`:

    visits [A] | value sums [A] | priors [A] | value, reward, discount, total visits, total value

`reward` and `discount` belong to the edge that leads to the node; the totals are over actions, and kept only
where rows are wide (`rows.py`), because unrolled ones add up for nothing. Everything in a row is float32:
visits are whole numbers, exact up to 2^24 simulations, which `search` enforces; so one scatter updates visits
and value sums together.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from jaxsearch import rows
from jaxsearch.players import Players
from jaxsearch.storage import Packer

__all__ = ["NO_NODE", "RootSummary", "Tree", "ended", "node_number"]

NO_NODE = -1

_MCTX_FIELDS = frozenset(
    "node_visits raw_values node_values parents action_from_parent children_prior_logits children_rewards "
    "children_discounts children_values embeddings root_invalid_actions extra_data qvalues".split()
)

EXTRA_COLUMNS = 5
"""Columns of a row beyond the three blocks of A."""


def ended(node: jax.Array) -> jax.Array:
    """The mark of a node at which there is no going on: a game that is over, a descent that has ended."""
    return -2 - node


def node_number(child: jax.Array) -> jax.Array:
    """The node, marked or not; `NO_NODE` where it is that."""
    return jnp.maximum(child, -2 - child)


class RootSummary(NamedTuple):
    """What a finished search says about its root; field names are mctx's `SearchSummary`.

    Attributes:
        visit_counts: int32 `[B, A]`.
        visit_probs: float32 `[B, A]`, visit counts as shares.
        value: float32 `[B]`, the mean over the root's own value and all simulations.
        qvalues: float32 `[B, A]`, zero where unvisited.
    """

    visit_counts: jax.Array
    visit_probs: jax.Array
    value: jax.Array
    qvalues: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Tree:
    """B search trees of up to N nodes; see the module's docstring for the layout.

    Attributes:
        rows: float32 `[N * B, W]` with W = 3 A + 5.
        children: int32 `[N * B * A]`, the numbered child behind each edge, `NO_NODE` where there is none, and
            `ended(child)`, a number below that, where the game is over and a descent stops.
        choice: int32 `[N * B]`, the action that selection would take at each node now.
        depths: int32 `[N * B]`, edges between each node and its root.
        taken: int32 `[N * B]`, the edge that the simulation of each node's number expanded, numbered
            `node * A + action`, also where no new node came of it: an ended game met again, `max_depth`. -1
            for roots and for simulations not made.
        states: the nodes' states, packed: arrays `[N, B, F]`; `[1, B, F]`, the roots', where the others are
            worked out anew (`replay.py`).
        amaf: float32 `[N * B, 2 A]`, all-moves-as-first visits and value sums (`amaf.py`); None where
            they are not kept.
        players: who moves at the nodes, and each player's rewards (`players.py`); None where one number is
            the value for both players.
        proofs: int32 `[N * B * A]`, what is proven of each edge (`solver.py`); None where nothing is asked.
        tie_seeds: uint32 `[B]`, from which `rows.tie_codes` decides between equal scores; None if the first
            of equal actions wins.
        num_trees, num_actions: B and A.
        packer: unpacks `states`.
    """

    rows: jax.Array
    children: jax.Array
    choice: jax.Array
    depths: jax.Array
    taken: jax.Array
    states: dict[str, jax.Array]
    amaf: jax.Array | None
    players: Players | None
    proofs: jax.Array | None
    tie_seeds: jax.Array | None
    num_trees: int = dataclasses.field(metadata={"static": True})
    num_actions: int = dataclasses.field(metadata={"static": True})
    packer: Packer = dataclasses.field(metadata={"static": True})

    ROOT_INDEX: ClassVar[int] = 0
    NO_PARENT: ClassVar[int] = -1
    UNVISITED: ClassVar[int] = -1

    def __getattr__(self, name: str) -> Any:
        """The fields of mctx's Tree, such as `node_visits`, worked out when they are read."""
        if name not in _MCTX_FIELDS:
            raise AttributeError(f"a Tree has no {name!r}")
        if self.players is not None:
            raise AttributeError(f"this Tree keeps values of each player, for which mctx has no {name!r}")
        if not self.keeps_states:
            raise AttributeError(f'{name!r} is of mctx\'s Tree, with all states; search with states="keep"')
        from jaxsearch.mctx.convert import to_mctx_tree  # which imports this module

        return getattr(to_mctx_tree(self), name)

    @property
    def num_simulations(self) -> int:
        """S, or of a tree gone on with the room it has for nodes but one."""
        return self.num_nodes - 1

    @property
    def num_nodes(self) -> int:
        """N: how many nodes a tree has room for."""
        return self.rows.shape[0] // self.num_trees

    @property
    def keeps_states(self) -> bool:
        """Whether each node has its state."""
        return all(table.shape[0] == self.num_nodes for table in self.states.values())

    def block(self, index: int) -> jax.Array:
        """Block 0 (visits), 1 (value sums) or 2 (priors) of all rows, `[B, N, A]`."""
        start = index * self.num_actions
        table = self.rows.reshape(self.num_nodes, self.num_trees, -1)
        return jnp.moveaxis(table[:, :, start : start + self.num_actions], 0, 1)

    def column(self, index: int) -> jax.Array:
        """Column 0 (value), 1 (reward) or 2 (discount) of all rows, `[B, N]`."""
        table = self.rows.reshape(self.num_nodes, self.num_trees, -1)
        return table[:, :, 3 * self.num_actions + index].T

    @property
    def children_visits(self) -> jax.Array:
        """Int32 `[B, N, A]`."""
        return self.block(0).astype(jnp.int32)

    @property
    def children_index(self) -> jax.Array:
        """Int32 `[B, N, A]`: each edge's child within its own tree, `NO_NODE` where there is none."""
        table = self.children.reshape(self.num_nodes, self.num_trees, self.num_actions)
        inside = node_number(table) // self.num_trees
        return jnp.moveaxis(jnp.where(table == NO_NODE, NO_NODE, inside), 0, 1)

    def node_states(self, node: jax.Array) -> Any:
        """The states `[B, ...]` of node `node` (int32 `[B]`) of each tree.

        Raises:
            ValueError: the search kept no states but the roots'.
        """
        if not self.keeps_states:
            raise ValueError('this tree keeps no states but its roots\'; search with states="keep"')
        trees = jnp.arange(self.num_trees)
        return self.packer.unpack({name: table[node, trees] for name, table in self.states.items()})

    def root_rows(self, *, unrolled: bool | None = None) -> rows.Row:
        """The roots' rows, as selection rules read them."""
        roots = slice(self.num_trees)
        return make_row(self.rows[roots], None if self.amaf is None else self.amaf[roots], unrolled=unrolled)

    def summary(self) -> RootSummary:
        """Statistics of the root."""
        a = self.num_actions
        root = self.rows[: self.num_trees]
        visits, sums, value = root[:, :a], root[:, a : 2 * a], root[:, 3 * a]
        total = jnp.sum(visits, axis=-1)
        return RootSummary(
            visit_counts=visits.astype(jnp.int32),
            visit_probs=visits / jnp.maximum(total, 1.0)[:, None],
            value=(value + jnp.sum(sums, axis=-1)) / (1.0 + total),
            qvalues=jnp.where(visits > 0, sums / jnp.maximum(visits, 1.0), 0.0),
        )


def first_rows(priors: jax.Array, value: jax.Array, reward: jax.Array, discount: jax.Array) -> jax.Array:
    """Rows `[B, W]` of nodes not yet visited, from priors `[B, A]` and numbers `[B]`."""
    b, a = priors.shape
    zeros = jnp.zeros((b, 2 * a), jnp.float32)
    extra = jnp.stack([value, reward, discount, jnp.zeros_like(value), jnp.zeros_like(value)], axis=-1)
    return jnp.concatenate([zeros, priors, extra], axis=-1)


def make_row(table: jax.Array, amaf: jax.Array | None = None, *, unrolled: bool | None = None) -> rows.Row:
    """Splits table rows `[R, W]`, and those of all-moves-as-first, into the view that selection rules read.

    `unrolled` asks for one of the two layouts of `rows.py`; by default it is the one that suits the number of
    actions. What is not reduced to one number per row afterwards is better off with arrays `[R, A]`.
    """
    a = (table.shape[-1] - EXTRA_COLUMNS) // 3
    unrolled = a <= rows.UNROLL if unrolled is None else unrolled
    visits, value_sums, priors = (
        rows.columns(table[..., k * a : (k + 1) * a], unrolled=unrolled) for k in range(3)
    )
    if a > rows.UNROLL:
        total_visits, total_value = (table[..., 3 * a + k : 3 * a + k + 1] for k in (3, 4))
    elif unrolled:
        total_visits, total_value = (
            functools.reduce(operator.add, column) for column in (visits, value_sums)
        )
    else:
        total_visits, total_value = (jnp.sum(column, -1, keepdims=True) for column in (visits, value_sums))
    value = table[..., 3 * a] if unrolled else table[..., 3 * a : 3 * a + 1]
    later = None
    if amaf is not None:
        later = rows.Amaf(*(rows.columns(amaf[..., k * a : (k + 1) * a], unrolled=unrolled) for k in (0, 1)))
    return rows.Row(visits, value_sums, priors, value, total_visits, total_value, later)
