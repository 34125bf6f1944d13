"""The choice of an action: what selection does at given nodes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxsearch import rows
from jaxsearch.tables import take
from jaxsearch.tree import Tree

__all__ = ["Choice", "PerTree", "RootRule", "Rule", "with_constants"]

Rule = Callable[[rows.Row], rows.PerAction]
"""Scores the actions of each row; see `selection.py`."""

RootRule = Callable[[rows.Row, jax.Array], rows.PerAction]
"""The same for the root; the second argument is the number of simulations done (int32 `[]`)."""


@dataclasses.dataclass(frozen=True)
class PerTree:
    """A rule whose constants differ from tree to tree.

    Attributes:
        rule: takes the constants by keyword.
        constants: `[B]` each.
    """

    rule: Callable[..., rows.PerAction]
    constants: dict[str, jax.Array]

    def __call__(self, row: rows.Row, trees: jax.Array | None = None) -> rows.PerAction:
        """Scores rows of the trees with these numbers, int32 `[R]`; by default of each tree once."""
        here = self.constants
        if trees is not None:
            here = {name: take(constant, trees) for name, constant in here.items()}
        return self.rule(row, **{name: row.per_node(constant) for name, constant in here.items()})


def with_constants(rule: Callable[..., rows.PerAction], **constants: Any) -> Rule:
    """The rule with these constants, each a number or, where trees differ in it, an array `[B]`."""
    each = {name: value for name, value in constants.items() if getattr(value, "ndim", 0) == 1}
    rest = {name: value for name, value in constants.items() if name not in each}
    rule = functools.partial(rule, **rest)
    return PerTree(rule, each) if each else rule


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
        if isinstance(self.rule, PerTree):
            trees = next(iter(self.rule.constants.values())).shape[0]
            return self._best(row, self.rule(row, nodes % trees), seeds)
        return self._best(row, self.rule(row), seeds)

    def at_root(self, tree: Tree, simulation: jax.Array) -> Tree:
        """The tree with the roots' choices renewed."""
        row = tree.root_rows()
        scores = self.rule(row) if self.root_rule is None else self.root_rule(row, simulation)
        best = self._best(row, scores, self.tie_seeds)
        return dataclasses.replace(tree, choice=jax.lax.dynamic_update_slice(tree.choice, best, (0,)))

    def _best(self, row: rows.Row, scores: rows.PerAction, seeds: jax.Array | None) -> jax.Array:
        # XLA computes this once per reader, so callers give it one: the write into `choice`.
        legal = row.each(lambda s, p: jnp.where(p > 0, s, -jnp.inf), scores, row.priors)
        return rows.argmax(legal, rows.tie_codes(seeds, row.num_actions))
