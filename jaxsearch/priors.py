"""Prior probabilities from logits, and which actions count as legal."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxsearch import rows

__all__ = ["mask_invalid", "prior_probabilities"]


def prior_probabilities(logits: jax.Array) -> jax.Array:
    """Float32 softmax `[B, A]`, zero exactly where an action is illegal: a logit of -1e8 or less.

    A legal action keeps a little probability however low its logit, and a row with no legal action is zero.
    """
    logits = logits.astype(jnp.float32)
    legal = logits > -1e8
    largest = _across(jnp.maximum, logits)
    weights = jnp.where(legal, jnp.maximum(jnp.exp(logits - largest), 1e-30), 0.0)
    return weights / jnp.maximum(_across(jnp.add, weights), 1e-30)


def mask_invalid(logits: jax.Array, invalid_actions: jax.Array | None) -> jax.Array:
    """Float32 logits `[B, A]`, -inf at barred actions.

    Where every action that is not barred has a logit of -1e8 or less (a network that puts all its mass on
    illegal moves), they are made equal: a search needs an action to take.
    """
    logits = logits.astype(jnp.float32)
    if invalid_actions is None:
        return logits
    valid = ~invalid_actions.astype(bool)
    none_left = ~jnp.any(valid & (logits > -1e8), axis=-1, keepdims=True)
    return jnp.where(valid, jnp.where(none_left, 0.0, logits), -jnp.inf)


def _across(function: Any, array: jax.Array) -> jax.Array:
    """`[B, 1]` from `[B, A]` by a ufunc of `jnp`; short rows column by column, which is faster there."""
    if array.shape[-1] > rows.UNROLL:
        return function.reduce(array, axis=-1, keepdims=True)
    return functools.reduce(function, [array[:, k : k + 1] for k in range(array.shape[-1])])
