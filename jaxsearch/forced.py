"""Forced playouts at the root, and the policy target without them.

Noise at the root is wasted on an action that looks bad after one visit. So each action tried gets a number of
visits that grows with its (noisy) prior; and so that they do not teach the policy, visits that PUCT would not
have given are taken out of the target afterwards.

Reference: Wu (2019), https://arxiv.org/abs/1902.10565, section 3.2.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxsearch import rows
from jaxsearch.arithmetic import sqrt
from jaxsearch.steps import RootRule, Rule
from jaxsearch.tree import Tree

__all__ = ["force_playouts", "pruned_visits"]

_ABOVE_ALL = 1e6


def force_playouts(rule: Rule, *, k: float = 2.0) -> RootRule:
    """The rule for the root: an action with fewer than `sqrt(k P N)` visits goes first, once it has one."""

    def root_rule(row: rows.Row, simulation: jax.Array) -> rows.PerAction:
        del simulation

        def score(n: jax.Array, p: jax.Array, s: jax.Array) -> jax.Array:
            return jnp.where((n > 0) & (n < sqrt(k * p * row.total_visits)), _ABOVE_ALL, s)

        return row.each(score, row.visits, row.priors, rule(row))

    return root_rule


def pruned_visits(tree: Tree, rule: Rule, *, k: float = 2.0) -> jax.Array:
    """Root visits float32 `[B, A]` less those that were forced, for a policy target.

    From each action but the most visited, forced visits are taken as long as its score stays below the most
    visited one's, and single visits that remain are dropped. `rule` must be one whose score falls as an
    action's own visits grow, such as `selection.puct`.
    """
    row = tree.root_rows(unrolled=False)
    visits = row.visits
    best = jnp.argmax(visits, axis=-1, keepdims=True)
    is_best = jnp.arange(row.num_actions)[None] == best
    goal = jnp.take_along_axis(rule(row), best, axis=-1)
    forced = jnp.floor(jnp.sqrt(k * row.priors * row.total_visits))

    def take_one(_: jax.Array, left: jax.Array) -> jax.Array:
        # Values stay what they are: only the count of the action itself goes down.
        fewer = jnp.maximum(left - 1.0, 0.0)
        mean = row.value_sums / jnp.maximum(visits, 1.0)
        lower = rule(_replace(row, visits=fewer, value_sums=mean * fewer))
        may = ~is_best & (left > jnp.maximum(visits - forced, 0.0)) & ((lower < goal) | (fewer == 0))
        return jnp.where(may, fewer, left)

    most = jnp.max(jnp.where(is_best, 0.0, jnp.minimum(forced, visits))).astype(jnp.int32)
    left = jax.lax.fori_loop(0, most, take_one, visits)
    return jnp.where(~is_best & (left <= 1) & (left < visits), 0.0, left)


def _replace(row: rows.Row, visits: jax.Array, value_sums: jax.Array) -> rows.Row:
    return rows.Row(visits, value_sums, row.priors, row.value, row.total_visits, row.total_value)
