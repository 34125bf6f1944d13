"""Random keys: one for a whole batch, or one for each of its rows.

What a row draws from a key of its own depends neither on the other rows nor on how many there are, so that a
batch may be spread over devices, or lie side by side with other batches, and every row gets what it would
have got alone. Searches take either kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

__all__ = ["draw", "is_per_row", "one", "per_row", "split"]


def is_per_row(key: jax.Array) -> bool:
    """Whether `key` is an array of keys `[B]`, not one key."""
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    return key.ndim == (1 if typed else 2)


def per_row(key: jax.Array, rows: jax.Array) -> jax.Array:
    """Keys `[B]` for the rows numbered so (int32 `[B]`), from one key."""
    return jax.vmap(jax.random.fold_in, (None, 0))(key, rows)


def split(key: jax.Array, count: int = 2) -> tuple[jax.Array, ...]:
    """`count` keys of the same kind, one or `[B]`."""
    if not is_per_row(key):
        return tuple(jax.random.split(key, count))
    many = jax.vmap(lambda key: jax.random.split(key, count))(key)
    return tuple(many[:, i] for i in range(count))


def one(key: jax.Array) -> jax.Array:
    """One key for the batch; of keys `[B]`, the first."""
    return key[0] if is_per_row(key) else key


def draw(sample: Callable[..., jax.Array], key: jax.Array, shape: Sequence[int]) -> jax.Array:
    """`sample(key, shape)`; with keys `[B]` each row of `shape` `[B, ...]` from its own."""
    if not is_per_row(key):
        return sample(key, tuple(shape))
    return jax.vmap(lambda key: sample(key, tuple(shape[1:])))(key)
