"""A node's row: what selection sees of one node, for many nodes at once.

A row holds one number per action for each statistic. Two layouts, one interface:

- few actions (at most `UNROLL`): each statistic is a tuple of A arrays `[R]`, one per action. Selection then
  is straight-line code over R nodes, which XLA compiles into a single loop (2x faster than `[R, A]` arrays
  at seven actions on CPU, with a tenth of the kernels).
- many actions: each statistic is one array `[R, A]`, and a number per node is `[R, 1]`, ready to broadcast.

A selection rule written with `each`, `total`, `largest` and `smallest` runs on both.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["UNROLL", "PerAction", "Row", "argmax"]

UNROLL = 16
"""Up to so many actions, rows are unrolled."""

PerAction = Any
"""One number per action: a tuple of A arrays `[R]`, or an array `[R, A]`."""


@dataclasses.dataclass(frozen=True)
class Row:
    """The statistics of R nodes, as selection rules read them.

    Attributes:
        visits: per action, how often it was chosen (float32, whole numbers).
        value_sums: per action, the sum of the returns backed up through it, for the node's mover.
        priors: per action, its prior probability; zero exactly where the action is illegal.
        tie_break: per action, uniform in [0, 1), fixed for the whole search.
        value: per node, the evaluator's value of it, for its mover.
        total_visits: per node, the sum of `visits`.
        total_value: per node, the sum of `value_sums`.
    """

    visits: PerAction
    value_sums: PerAction
    priors: PerAction
    tie_break: PerAction
    value: jax.Array
    total_visits: jax.Array
    total_value: jax.Array

    @property
    def unrolled(self) -> bool:
        """Whether this row's statistics are tuples of A arrays."""
        return isinstance(self.visits, tuple)

    def each(self, function: Callable[..., jax.Array], *columns: PerAction) -> PerAction:
        """Applies an elementwise function action by action; it may close over numbers per node."""
        if self.unrolled:
            return tuple(function(*values) for values in zip(*columns, strict=True))
        return function(*columns)

    def total(self, column: PerAction) -> jax.Array:
        """The sum over actions."""
        if self.unrolled:
            return functools.reduce(operator.add, column)
        return jnp.sum(column, axis=-1, keepdims=True)

    def largest(self, column: PerAction) -> jax.Array:
        """The maximum over actions."""
        if self.unrolled:
            return functools.reduce(jnp.maximum, column)
        return jnp.max(column, axis=-1, keepdims=True)

    def smallest(self, column: PerAction) -> jax.Array:
        """The minimum over actions."""
        if self.unrolled:
            return functools.reduce(jnp.minimum, column)
        return jnp.min(column, axis=-1, keepdims=True)

    def per_action(self, array: jax.Array) -> PerAction:
        """Brings an array `[R, A]` into this row's layout."""
        return columns(array, unrolled=self.unrolled)

    def per_node(self, array: jax.Array) -> jax.Array:
        """Brings an array `[R]` into this row's layout."""
        return array if self.unrolled else array[..., None]


def columns(array: jax.Array, *, unrolled: bool) -> PerAction:
    """An array `[R, A]` as a per-action quantity."""
    if not unrolled:
        return array
    return tuple(array[..., action] for action in range(array.shape[-1]))


def argmax(scores: PerAction) -> jax.Array:
    """The action with the highest score, int32 `[R]`; the first of equals."""
    if isinstance(scores, tuple):
        best, action = scores[0], jnp.zeros(scores[0].shape, jnp.int32)
        for candidate, score in enumerate(scores[1:], start=1):
            better = score > best
            best = jnp.where(better, score, best)
            action = jnp.where(better, candidate, action)
        return action
    # XLA's own argmax reduces (value, index) pairs in scalar code on CPU: 250 ns for a row of 65
    # against 20 ns for two plain reductions, the second over indices kept as floats.
    num_actions = scores.shape[-1]
    index = jnp.arange(num_actions, dtype=jnp.float32)
    hit = scores == jnp.max(scores, axis=-1, keepdims=True)
    first = jnp.min(jnp.where(hit, index, float(num_actions - 1)), axis=-1)
    return first.astype(jnp.int32)
