"""Sets of actions, packed into words of 32 bits: action `a` is bit `a % 32` of word `a // 32`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["WORD", "num_words", "pack", "pack_word", "single", "unpack"]

WORD = 32


def num_words(num_actions: int) -> int:
    """W: words that a set of actions takes."""
    return -(-num_actions // WORD)


def pack_word(bits: jax.Array) -> jax.Array:
    """Up to 32 bits, bool `[..., n]`, as a word, uint32 `[...]`."""
    weights = np.uint32(1) << np.arange(bits.shape[-1], dtype=np.uint32)
    weights = weights.reshape((1,) * (bits.ndim - 1) + (-1,))
    return jnp.sum(jnp.where(bits, weights, np.uint32(0)), axis=-1, dtype=jnp.uint32)


def pack(members: jax.Array) -> jax.Array:
    """Bool `[..., A]` as words, uint32 `[..., W]`."""
    parts = [members[..., start : start + WORD] for start in range(0, members.shape[-1], WORD)]
    return jnp.stack([pack_word(part) for part in parts], axis=-1)


def unpack(words: jax.Array, num_actions: int) -> jax.Array:
    """The inverse of `pack`, as float32 zeros and ones."""
    places = np.arange(WORD, dtype=np.uint32).reshape((1,) * words.ndim + (WORD,))
    bits = ((words[..., None] >> places) & np.uint32(1)).astype(jnp.int32).astype(jnp.float32)
    return bits.reshape(*words.shape[:-1], -1)[..., :num_actions]


def single(action: jax.Array, num_actions: int) -> jax.Array:
    """The sets that hold one action (int32 `[R]`) each, uint32 `[R, W]`."""
    word = np.arange(num_words(num_actions), dtype=np.int32).reshape((1,) * action.ndim + (-1,))
    bit = jnp.uint32(1) << (action & (WORD - 1)).astype(jnp.uint32)[..., None]
    return jnp.where((action >> 5)[..., None] == word, bit, np.uint32(0))
