"""Sequential Halving at the root, as Gumbel MuZero uses it."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from jaxsearch import rows
from jaxsearch.selection import completed_qvalues
from jaxsearch.steps import RootRule

__all__ = [
    "considered_visits",
    "considered_visits_within",
    "halving_score",
    "make_root_rule",
    "make_root_scores",
]

_LOWEST = -1e9
"""Floor of a score: a lone candidate stays selectable however low its logit."""


def considered_visits(num_considered: int, num_simulations: int) -> np.ndarray:
    """How many visits the action chosen by each simulation has had so far, int32 `[S]`.

    All candidates are visited equally often within a phase; after each phase, half of them remain (never
    fewer than two). Reference: Karnin et al. (2013); Danihelka et al. (2022), figure 1.
    """
    if num_considered <= 1:
        return np.arange(num_simulations, dtype=np.int32)
    phases = math.ceil(math.log2(num_considered))
    schedule: list[int] = []
    candidates, visits = num_considered, 0
    while len(schedule) < num_simulations:
        rounds = max(1, num_simulations // (phases * candidates))
        for visit in range(visits, visits + rounds):
            schedule += [visit] * candidates
        visits += rounds
        candidates = max(2, candidates // 2)
    return np.array(schedule[:num_simulations], dtype=np.int32)


def considered_visits_within(
    num_considered: jax.Array, budgets: jax.Array, num_simulations: int, *, most: int
) -> jax.Array:
    """`considered_visits` of trees that differ, int32 `[S, B]`; what lies beyond a budget means nothing.

    Args:
        num_considered: int32 `[B]`, candidates of each tree.
        budgets: int32 `[B]`, simulations of each tree.
        num_simulations: S.
        most: what `num_considered` is at most.
    """
    phases = np.array([max(1, math.ceil(math.log2(max(m, 1)))) for m in range(most + 1)], np.int32)
    phases = jnp.asarray(phases)[num_considered]
    fewest = jnp.minimum(jnp.maximum(num_considered, 1), 2)

    def next_one(carry: tuple[jax.Array, ...], _: None) -> tuple[tuple[jax.Array, ...], jax.Array]:
        candidates, visits, place = carry  # of this phase, and where the simulation is within it
        rounds = jnp.maximum(1, jax.lax.div(budgets, phases * candidates))
        now = visits + jax.lax.div(place, candidates)
        ends = place + 1 == rounds * candidates
        return (
            jnp.where(ends, jnp.maximum(fewest, jax.lax.div(candidates, np.int32(2))), candidates),
            jnp.where(ends, visits + rounds, visits),
            jnp.where(ends, 0, place + 1),
        ), now

    zeros = jnp.zeros_like(num_considered)
    start = (jnp.maximum(num_considered, 1), zeros, zeros)
    return jax.lax.scan(next_one, start, None, length=num_simulations)[1]


def halving_score(
    considered: jax.Array, gumbel: jax.Array, logits: jax.Array, q: jax.Array, visits: jax.Array
) -> jax.Array:
    """`gumbel + logits + q` for candidates with the considered number of visits, -inf for others."""
    return jnp.where(visits == considered, jnp.maximum(_LOWEST, gumbel + logits + q), -jnp.inf)


def make_root_scores(
    gumbel: jax.Array, logits: jax.Array, **options: float | bool
) -> Callable[[rows.Row, jax.Array], rows.PerAction]:
    """The score of the roots' actions, given how many visits the candidates have had.

    Args:
        gumbel: `[B, A]` Gumbel noise, drawn once for the search.
        logits: `[B, A]`, shifted so that the largest is 0.
        **options: for `completed_qvalues`.
    """

    def scores(row: rows.Row, considered: jax.Array) -> rows.PerAction:
        q = completed_qvalues(row, **options)  # pyright: ignore[reportArgumentType]
        return row.each(
            lambda g, l, q, n: halving_score(considered, g, l, q, n),
            row.per_action(gumbel),
            row.per_action(logits),
            q,
            row.visits,
        )

    return scores


def make_root_rule(
    scores: Callable[[rows.Row, jax.Array], rows.PerAction],
    *,
    num_simulations: int,
    max_considered: int,
    num_valid: jax.Array,
    budgets: jax.Array | None = None,
) -> RootRule:
    """The rule for the root: which candidate the next simulation visits.

    Args:
        scores: from `make_root_scores`.
        num_simulations: S.
        max_considered: candidates at the start, fewer where fewer actions are valid.
        num_valid: int32 `[B]`, valid actions; or, if fewer, the candidates of each tree.
        budgets: int32 `[B]`, simulations of each tree, at most S; all S where there are none.
    """
    candidates = jnp.minimum(num_valid, max_considered)
    if budgets is None:
        table = np.stack([considered_visits(m, num_simulations) for m in range(max_considered + 1)])
        schedule = jnp.asarray(table)[candidates].T  # [S, B]
    else:
        schedule = considered_visits_within(candidates, budgets, num_simulations, most=max_considered)

    def rule(row: rows.Row, simulation: jax.Array) -> rows.PerAction:
        # Each simulation visits the root once, so all trees are at the same place of their schedules.
        visits = schedule[jnp.minimum(simulation, num_simulations - 1)]
        return scores(row, row.per_node(visits.astype(jnp.float32)))

    return rule
