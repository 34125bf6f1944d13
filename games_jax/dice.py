"""Small random numbers carried inside a state: one uint32 seed, cloned with whatever it is part of.

JAX's own generator is for keys that are split outside of loops; within a game step it would cost more than
the game.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np


def seed_of(key: jax.Array) -> jax.Array:
    """A seed, uint32 `[]`, from a key."""
    return jax.random.bits(key, (), jnp.uint32)


def roll(seed: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The next seed and a random word, both uint32 of the seed's shape.

    Reference: O'Neill (2014), PCG-RXS-M-XS-32, https://www.pcg-random.org.
    """
    word = ((seed >> ((seed >> 28) + np.uint32(4))) ^ seed) * np.uint32(277803737)
    return seed * np.uint32(747796405) + np.uint32(2891336453), (word >> 22) ^ word


def mix(word: jax.Array, number: int | np.ndarray | jax.Array) -> jax.Array:
    """Another random word for each `number`, uint32 of the joint shape.

    Reference: the finaliser of MurmurHash3 (Appleby).
    """
    mixed = word ^ (jnp.asarray(number).astype(jnp.uint32) + np.uint32(1)) * np.uint32(0x9E3779B9)
    mixed = (mixed ^ (mixed >> 16)) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> 13)) * np.uint32(0xC2B2AE35)
    return mixed ^ (mixed >> 16)


def unit(word: jax.Array) -> jax.Array:
    """A number in [0, 1), float32, from a random word: 24 bits of it."""
    return (word >> 8).astype(jnp.int32).astype(jnp.float32) * np.float32(2.0**-24)


def choose(word: jax.Array, among: jax.Array) -> jax.Array:
    """One of the places set in `among` (bool `[K]`), each as likely, int32 `[]`; 0 where none is."""
    count = jnp.sum(among, dtype=jnp.int32)
    rank = jnp.minimum((unit(word) * count.astype(jnp.float32)).astype(jnp.int32), count - 1)
    before = jnp.cumsum(among, dtype=jnp.int32)
    return jnp.argmax((before == rank + 1) & among).astype(jnp.int32)
