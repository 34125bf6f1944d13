"""Noise at the root, on legal actions only."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from jaxsearch import keys
from jaxsearch.priors import prior_probabilities

__all__ = ["add_dirichlet"]


def add_dirichlet(
    key: jax.Array,
    logits: jax.Array,
    *,
    alpha: float | jax.Array,
    fraction: float | jax.Array,
    legal: jax.Array | None = None,
) -> jax.Array:
    """Mixes Dirichlet noise into the priors: `(1 - fraction) * prior + fraction * noise`.

    The noise is drawn on the legal actions alone, so its effect does not depend on how many illegal ones
    there are; mctx draws over all actions and masks afterwards, which loses nearly all of it in games like
    chess (30 legal of 4,672).

    Args:
        key: consumed; one, or one for each row (see `keys.py`).
        logits: prior logits `[B, A]`.
        alpha: concentration, above 0; a number or `[B]`.
        fraction: weight of the noise, 0 to 1; a number or `[B]`.
        legal: bool `[B, A]`; by default the logits above -1e8.

    Returns:
        Logits `[B, A]` of the noisy priors, -inf at illegal actions.
    """
    logits = logits.astype(jnp.float32)
    legal = logits > -1e8 if legal is None else legal
    priors = prior_probabilities(jnp.where(legal, logits, -jnp.inf))
    # Gamma draws in log space: with alpha << 1 they underflow long before their shares do.
    alpha, fraction = (jnp.asarray(x, jnp.float32) for x in (alpha, fraction))
    fraction = fraction[..., None] if fraction.ndim else fraction
    if keys.is_per_row(key):
        one = functools.partial(jax.random.loggamma, shape=logits.shape[1:], dtype=jnp.float32)
        log_gamma = jax.vmap(one)(key, jnp.broadcast_to(alpha, logits.shape[:1]))
    else:
        alpha = alpha[..., None] if alpha.ndim else alpha
        log_gamma = jax.random.loggamma(key, alpha, logits.shape, jnp.float32)
    noise = jax.nn.softmax(log_gamma, axis=-1, where=legal)
    mixed = (1.0 - fraction) * priors + fraction * noise
    return jnp.where(legal, jnp.log(jnp.maximum(mixed, 1e-30)), -jnp.inf)
