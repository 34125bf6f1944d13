"""From a game and an evaluator to what a search runs on: signs, discounts and ended games, got right once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxsearch.types import (
    Environment,
    Evaluator,
    Params,
    RecurrentFn,
    RecurrentFnOutput,
    RootFnOutput,
    State,
)

__all__ = ["make_recurrent_fn", "make_root_fn", "masked_logits", "of_player"]


def make_recurrent_fn(env: Environment, evaluator: Evaluator, *, discount: float = 1.0) -> RecurrentFn:
    """One batched step of the game followed by an evaluation, as mctx's `recurrent_fn`.

    Rewards and values are the mover's. With two players, the value of a state where the other one moves
    is negated (the edge's discount is `-discount`); where the same player moves again it is not. An edge into
    a finished game has discount 0, and stepping on from one brings nothing.

    Args:
        env: the game; one player, or two whose rewards sum to zero.
        evaluator: judges the states reached.
        discount: per ply, in (0, 1].

    Raises:
        ValueError: more than two players, or a discount outside (0, 1].
    """
    _check(env, discount)

    def recurrent_fn(
        params: Params, key: jax.Array, action: jax.Array, embedding: State
    ) -> tuple[RecurrentFnOutput, State]:
        mover = jax.vmap(env.current_player)(embedding)
        was_over = jax.vmap(env.is_over)(embedding)
        states = jax.vmap(env.step)(embedding, action)
        over = jax.vmap(env.is_over)(states)
        rewards = jax.vmap(env.rewards)(states)
        reward = of_player(rewards, mover)
        same = jax.vmap(env.current_player)(states) == mover
        logits, value = evaluator(params, key, states)
        step = RecurrentFnOutput(
            reward=jnp.where(was_over, 0.0, reward),
            discount=jnp.where(over, 0.0, jnp.where(same, discount, -discount)),
            prior_logits=masked_logits(logits, jax.vmap(env.legal_actions)(states)),
            value=jnp.where(over, 0.0, value),
        )
        return step, states

    return recurrent_fn


def make_root_fn(env: Environment, evaluator: Evaluator) -> Callable[[Params, jax.Array, Any], RootFnOutput]:
    """Evaluates the states `[B]` that searches start from, as `RootFnOutput`."""

    def root_fn(params: Params, key: jax.Array, states: State) -> RootFnOutput:
        logits, value = evaluator(params, key, states)
        return RootFnOutput(
            prior_logits=masked_logits(logits, jax.vmap(env.legal_actions)(states)),
            value=jnp.where(jax.vmap(env.is_over)(states), 0.0, value),
            embedding=states,
        )

    return root_fn


def masked_logits(logits: jax.Array, legal: jax.Array) -> jax.Array:
    """Float32 logits `[B, A]` with the lowest finite number at illegal actions.

    A legal action stays one however low its logit: one of -1e8 or less would count as illegal in the tree.
    """
    logits = jnp.maximum(logits.astype(jnp.float32), -1e7)
    return jnp.where(legal, logits, jnp.finfo(jnp.float32).min)


def of_player(rewards: jax.Array, player: jax.Array) -> jax.Array:
    """`rewards[b, player[b]]`; a select, because a gather of one of two costs more."""
    if rewards.shape[-1] == 1:
        return rewards[:, 0]
    return jnp.where(player == 0, rewards[:, 0], rewards[:, 1])


def _check(env: Environment, discount: float) -> None:
    if env.num_players not in (1, 2):
        raise ValueError(
            f"a search runs on games of one or two players, and this one has {env.num_players}; "
            "give it a one- or two-player view of the game"
        )
    if not 0 < discount <= 1:
        raise ValueError(f"discount is {discount}; expected more than 0 and at most 1")
