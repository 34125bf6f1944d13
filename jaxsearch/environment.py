"""From a game and an evaluator to what a search runs on: signs, discounts and ended games, got right once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxsearch.players import of_player
from jaxsearch.types import (
    Environment,
    Evaluator,
    Params,
    RecurrentFn,
    RecurrentFnOutput,
    RootFnOutput,
    State,
    StepDetails,
)

__all__ = ["make_recurrent_fn", "make_root_fn", "masked_logits", "of_player"]


def make_recurrent_fn(env: Environment, evaluator: Evaluator, *, discount: float = 1.0) -> RecurrentFn:
    """One batched step of the game followed by an evaluation, as mctx's `recurrent_fn`.

    Rewards and values are the mover's. With two players, the value of a state where the other one moves
    is negated (the edge's discount is `-discount`); where the same player moves again it is not. An edge into
    a finished game has discount 0, and stepping on from one brings nothing.

    An evaluator of values `[B, P]`, one per player, as games of more than two players need it, makes rewards
    `[B, P]` too; discounts then have no sign, and a third output, `StepDetails`, says who moves.

    Args:
        env: the game; of two players rewards sum to zero, unless the evaluator's values are `[B, 2]`.
        evaluator: judges the states reached.
        discount: per ply, in (0, 1].

    Raises:
        ValueError: a discount outside (0, 1], or values that are not for each of more than two players.
    """
    if getattr(env, "has_chance", False):  # one outcome kept in a node would count as the only one
        raise ValueError(
            f"a search runs on games without chance, and {getattr(env, 'name', 'this one')} draws in its "
            "steps; search it with stochastic_muzero_policy, which has chance nodes"
        )
    if not 0 < discount <= 1:
        raise ValueError(f"discount is {discount}; expected more than 0 and at most 1")

    def recurrent_fn(params: Params, key: jax.Array, action: jax.Array, embedding: State) -> Any:
        mover = jax.vmap(env.current_player)(embedding)
        was_over = jax.vmap(env.is_over)(embedding)
        states = jax.vmap(env.step)(embedding, action)
        over = jax.vmap(env.is_over)(states)
        rewards = jax.vmap(env.rewards)(states)
        next_mover = jax.vmap(env.current_player)(states)
        logits, value, *played = evaluator(params, key, states)
        _check_values(env, value)
        if value.ndim == 2:
            step = RecurrentFnOutput(
                reward=jnp.where(was_over[:, None], 0.0, rewards),
                discount=jnp.where(over, 0.0, discount),
                prior_logits=masked_logits(logits, jax.vmap(env.legal_actions)(states)),
                value=jnp.where(over[:, None], 0.0, value),
            )
            return step, states, StepDetails(mover=next_mover)
        reward = of_player(rewards, mover)
        same = next_mover == mover
        step = RecurrentFnOutput(
            reward=jnp.where(was_over, 0.0, reward),
            discount=jnp.where(over, 0.0, jnp.where(same, discount, -discount)),
            prior_logits=masked_logits(logits, jax.vmap(env.legal_actions)(states)),
            value=jnp.where(over, 0.0, value),
        )
        if not played:
            return step, states
        return step, states, StepDetails(_by_mover(played[0], next_mover))

    return recurrent_fn


def make_root_fn(env: Environment, evaluator: Evaluator) -> Callable[[Params, jax.Array, Any], RootFnOutput]:
    """Evaluates the states `[B]` that searches start from, as `RootFnOutput`; values as the evaluator's."""

    def root_fn(params: Params, key: jax.Array, states: State) -> RootFnOutput:
        logits, value, *_ = evaluator(params, key, states)
        _check_values(env, value)
        over = jax.vmap(env.is_over)(states)
        return RootFnOutput(
            prior_logits=masked_logits(logits, jax.vmap(env.legal_actions)(states)),
            value=jnp.where(over if value.ndim == 1 else over[:, None], 0.0, value),
            embedding=states,
        )

    return root_fn


def masked_logits(logits: jax.Array, legal: jax.Array) -> jax.Array:
    """Float32 logits `[B, A]` with the lowest finite number at illegal actions.

    A legal action stays one however low its logit: one of -1e8 or less would count as illegal in the tree.
    """
    logits = jnp.maximum(logits.astype(jnp.float32), -1e7)
    return jnp.where(legal, logits, jnp.finfo(jnp.float32).min)


def _by_mover(played: jax.Array, mover: jax.Array) -> jax.Array:
    """Sets of actions `[B, P, A]` with the mover's first."""
    return played if played.shape[1] == 1 else jnp.where((mover == 0)[:, None, None], played, played[:, ::-1])


def _check_values(env: Environment, value: jax.Array) -> None:
    count = env.num_players
    if value.shape[1:] != (count,) and (count > 2 or value.ndim != 1):
        expected = f"[B, {count}]" if count > 2 else f"[B] or [B, {count}]"
        raise ValueError(
            f"the evaluator returned values of shape {value.shape} for a game of {count} players; expected "
            f"{expected}, one value per player where the players are more than two"
        )
