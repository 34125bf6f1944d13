"""Flat Monte Carlo: playouts after each move of the root, no tree."""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsearch import rows, selection
from jaxsearch.environment import make_recurrent_fn
from jaxsearch.evaluators import playouts as playout_evaluator
from jaxsearch.players import of_player
from jaxsearch.types import Environment, Evaluator, Params, Search, SearchOutput, State

__all__ = ["flat_monte_carlo"]

_LANES = 4096
"""Games played at once, where the batch is smaller: more take as long each, and more memory."""


class _Counts(NamedTuple):
    """Float32 `[B, A]` each."""

    visits: jax.Array
    sums: jax.Array


def flat_monte_carlo(
    game: Environment,
    *,
    simulations: int,
    allocation: Literal["equal", "ucb1"] = "equal",
    c: float = 1.0,
    playouts: int = 1,
    evaluator: Evaluator | None = None,
    discount: float = 1.0,
) -> Search:
    """Judges each move by the mean of random games after it, and plays the best.

    It does not see that the opponent chooses replies: a move with one refutation among many bad replies looks
    good to it, however many simulations it gets. A yardstick for searches, and quick: with equal shares all
    simulations of a search run side by side.

    Args:
        game: what is judged.
        simulations: S for each state, over all of its moves.
        allocation: the same number for each legal move, give or take one (`"equal"`); or each where UCB1
            wants it (`"ucb1"`), one after the other.
        c: exploration of UCB1, see `selection.uct`.
        playouts: random games per simulation.
        evaluator: judges the states after the moves instead of random playouts.
        discount: per ply.

    Returns:
        A search without a tree. Its `action` has the highest mean (`"equal"`) or the most visits (`"ucb1"`),
        equals at random; its `weights` share 1 among such actions (`"equal"`) or are visit shares (`"ucb1"`);
        its `value` is the mean of all simulations.

    Raises:
        ValueError: fewer than one simulation, an unknown allocation, or as `playouts` does.

    Example:
        >>> import games_jax, jax, jaxsearch
        >>> game = games_jax.make("tic_tac_toe")
        >>> states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 2))
        >>> search = jaxsearch.flat_monte_carlo(game, simulations=900)
        >>> jax.jit(search)(jax.random.key(1), states).visits[0].tolist()
        [100, 100, 100, 100, 100, 100, 100, 100, 100]

    Reference: Bruegmann (1993), Monte Carlo Go; Browne et al. (2012), section 3.1.1.
    """
    if simulations < 1:
        raise ValueError(f"simulations is {simulations}; expected at least 1")
    if allocation not in ("equal", "ucb1"):
        raise ValueError(f"allocation is {allocation!r}; expected 'equal' or 'ucb1'")
    recurrent_fn = make_recurrent_fn(
        game, evaluator or playout_evaluator(game, k=playouts), discount=discount
    )

    def returns(params: Params, key: jax.Array, states: State, actions: jax.Array) -> jax.Array:
        """What each action `[L]` brought its mover."""
        step, *_ = recurrent_fn(params, key, actions, states)
        if step.value.ndim == 1:
            return step.reward + step.discount * step.value
        each = step.reward + step.discount[:, None] * step.value
        return of_player(each, jax.vmap(game.current_player)(states))

    def equal(
        params: Params, order_key: jax.Array, key: jax.Array, states: State, legal: jax.Array
    ) -> _Counts:
        batch = len(legal)
        rounds = -(-simulations // max(1, _LANES // batch))
        per_round = -(-simulations // rounds)
        # Legal moves in random order, so that a remainder falls on any of them.
        noise = jax.random.uniform(order_key, legal.shape)
        order = jnp.argsort(jnp.where(legal, noise, 2.0), axis=-1).astype(jnp.int32)
        count = jnp.maximum(jnp.sum(legal, axis=-1, dtype=jnp.int32), 1)
        many = jax.tree.map(lambda leaf: jnp.repeat(leaf, per_round, axis=0), states)
        trees = np.repeat(np.arange(batch, dtype=np.int32), per_round)
        numbers = np.tile(np.arange(per_round, dtype=np.int32), batch)

        def turn(index: jax.Array, counts: _Counts) -> _Counts:
            index = jnp.asarray(index, jnp.int32)  # int64 where 64-bit numbers are on
            number = index * per_round + numbers
            action = order[trees, number % count[trees]]
            result = returns(params, jax.random.fold_in(key, index), many, action)
            return _add(counts, trees, action, result, number < simulations)

        return jax.lax.fori_loop(0, rounds, turn, _no_counts(legal))

    def ucb1(params: Params, tie_key: jax.Array, key: jax.Array, states: State, legal: jax.Array) -> _Counts:
        batch, num_actions = legal.shape
        codes = rows.tie_codes(jax.random.bits(tie_key, (batch,), jnp.uint32), num_actions)
        trees = np.arange(batch, dtype=np.int32)

        def turn(index: jax.Array, counts: _Counts) -> _Counts:
            row = _row(counts, legal)
            scores = selection.uct(row, c=c)
            scores = row.each(lambda s, p: jnp.where(p > 0, s, -jnp.inf), scores, row.priors)
            action = rows.argmax(scores, codes)
            index = jnp.asarray(index, jnp.int32)
            result = returns(params, jax.random.fold_in(key, index), states, action)
            return _add(counts, trees, action, result, True)

        return jax.lax.fori_loop(0, simulations, turn, _no_counts(legal))

    allocate = equal if allocation == "equal" else ucb1

    def run(key: jax.Array, states: State, params: Params = None) -> SearchOutput:
        order_key, key, action_key = jax.random.split(key, 3)
        legal = jax.vmap(game.legal_actions)(states)
        visits, sums = allocate(params, order_key, key, states, legal)
        visits = jnp.where(legal, visits, 0.0)  # a state that is over has none
        sums = jnp.where(legal, sums, 0.0)
        total = jnp.maximum(jnp.sum(visits, axis=-1, keepdims=True), 1.0)
        value = jnp.sum(sums, axis=-1, keepdims=True) / total
        means = jnp.where(visits > 0, sums / jnp.maximum(visits, 1.0), value)
        score = jnp.where(visits > 0, means if allocation == "equal" else visits, -jnp.inf)
        best = (score == jnp.max(score, axis=-1, keepdims=True)) & (visits > 0)
        action = jax.random.categorical(action_key, jnp.where(best, 0.0, -jnp.inf)).astype(jnp.int32)
        share = best.astype(jnp.float32)
        return SearchOutput(
            action=action,
            visits=visits.astype(jnp.int32),
            value=value[:, 0],
            weights=share / jnp.maximum(jnp.sum(share, axis=-1, keepdims=True), 1.0)
            if allocation == "equal"
            else visits / total,
            qvalues=means,
        )

    return run


def _no_counts(legal: jax.Array) -> _Counts:
    zeros = jnp.zeros(legal.shape, jnp.float32)
    return _Counts(zeros, zeros)


def _add(
    counts: _Counts, trees: np.ndarray, action: jax.Array, result: jax.Array, on: jax.Array | bool
) -> _Counts:
    one = jnp.broadcast_to(jnp.asarray(on), result.shape).astype(jnp.float32)
    return _Counts(counts.visits.at[trees, action].add(one), counts.sums.at[trees, action].add(one * result))


def _row(counts: _Counts, legal: jax.Array) -> rows.Row:
    """The roots as rows; a legal move's prior is 1, which UCB1 does not look at."""
    unrolled = legal.shape[-1] <= rows.UNROLL
    total_visits, total_value = jnp.sum(counts.visits, axis=-1), jnp.sum(counts.sums, axis=-1)
    if not unrolled:
        total_visits, total_value = total_visits[:, None], total_value[:, None]
    visits, sums, priors = (
        rows.columns(part, unrolled=unrolled) for part in (*counts, legal.astype(jnp.float32))
    )
    return rows.Row(visits, sums, priors, jnp.zeros_like(total_visits), total_visits, total_value)
