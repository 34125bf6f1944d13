"""Evaluators that need no network. One made from a network's parameters is in `train.networks`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxsearch.types import Environment, Evaluator, Params, State

__all__ = ["playouts", "uniform"]


def uniform(env: Environment) -> Evaluator:
    """Equal priors and value 0 everywhere: search alone."""

    def evaluate(params: Params, key: jax.Array, states: State) -> tuple[jax.Array, jax.Array]:
        del params, key
        batch = jax.tree.leaves(states)[0].shape[0]
        return jnp.zeros((batch, env.num_actions)), jnp.zeros((batch,))

    return evaluate


def playouts(env: Environment, *, k: int = 1, max_steps: int | None = None) -> Evaluator:
    """Uniformly random games to the end; equal priors, the mean result as value.

    Args:
        env: the game; one player, or two whose rewards sum to zero.
        k: playouts per state.
        max_steps: a game not over after so many plies counts as it stands (0 if nothing was won yet).
            Default: `env.max_steps` if the game says it, which no game exceeds.

    Raises:
        ValueError: `k` or `max_steps` below 1, or no bound on a game's length.
    """
    limit = max_steps if max_steps is not None else getattr(env, "max_steps", None)
    if k < 1:
        raise ValueError(f"k is {k}; expected at least 1 playout per state")
    if limit is not None and limit < 1:
        raise ValueError(f"max_steps is {limit}; expected at least 1 ply")
    if limit is None:
        raise ValueError("the game states no max_steps; give playouts(max_steps=...)")

    def evaluate(params: Params, key: jax.Array, states: State) -> tuple[jax.Array, jax.Array]:
        del params
        batch = jax.tree.leaves(states)[0].shape[0]
        many = jax.tree.map(lambda leaf: jnp.repeat(leaf, k, axis=0), states)
        mover = jax.vmap(env.current_player)(many)
        seeds = jax.random.bits(key, (batch * k,), jnp.uint32)
        rewards = jnp.zeros((batch * k, env.num_players), jnp.float32)

        def unfinished(carry: tuple) -> jax.Array:
            ply, over = carry[0], carry[1]
            return (ply < limit) & ~jnp.all(over)

        def play(carry: tuple) -> tuple:
            ply, over, seeds, rewards, states = carry
            seeds, draws = _draw(seeds)
            action = _random_legal(draws, jax.vmap(env.legal_actions)(states))
            states = jax.vmap(env.step)(states, action)
            rewards += jnp.where(over[:, None], 0.0, jax.vmap(env.rewards)(states))
            return ply + 1, jax.vmap(env.is_over)(states), seeds, rewards, states

        start = (jnp.int32(0), jax.vmap(env.is_over)(many), seeds, rewards, many)
        rewards = jax.lax.while_loop(unfinished, play, start)[3]
        mine = jnp.take_along_axis(rewards, mover[:, None], axis=-1)[:, 0]
        value = jnp.mean(mine.reshape(batch, k), axis=-1)
        return jnp.zeros((batch, env.num_actions)), value

    return evaluate


def _draw(seeds: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The next seeds and uniform numbers in [0, 1) `[B]`, by a PCG generator per game.

    JAX's own generator would cost more than the game here. Reference: O'Neill (2014), PCG-RXS-M-XS-32.
    """
    word = ((seeds >> ((seeds >> 28) + np.uint32(4))) ^ seeds) * np.uint32(277803737)
    word = (word >> 22) ^ word
    # Through int32: conversion from unsigned numbers is slow on CPU.
    draws = (word >> 8).astype(jnp.int32).astype(jnp.float32) * np.float32(2.0**-24)
    return seeds * np.uint32(747796405) + np.uint32(2891336453), draws


def _random_legal(draws: jax.Array, legal: jax.Array) -> jax.Array:
    """A uniformly random legal action, int32 `[B]`; 0 where there is none."""
    count = jnp.sum(legal.astype(jnp.float32), axis=-1)
    target = jnp.floor(draws * count)
    # The action with exactly `target` legal ones before it.
    before = jnp.cumsum(legal.astype(jnp.float32), axis=-1) - 1.0
    hit = legal & (before == target[:, None])
    index = jnp.arange(legal.shape[-1], dtype=jnp.float32)
    return jnp.sum(jnp.where(hit, index, 0.0), axis=-1).astype(jnp.int32)
