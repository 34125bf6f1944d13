"""How states are kept in a tree: many small leaves become a few arrays of words.

A game state has several scalar leaves. One gather and one write per leaf and simulation would cost more than
the game itself, so leaves of up to 32 bits and few elements share one uint32 array; others keep an array
per dtype.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["Packer"]

_SMALL = 8
"""Leaves with at most so many elements per state are widened into the shared words."""


@dataclasses.dataclass(frozen=True)
class _Slot:
    group: str
    start: int
    size: int
    shape: tuple[int, ...]
    dtype: Any
    is_key: bool


@dataclasses.dataclass(frozen=True)
class Packer:
    """Turns batches of one kind of pytree into a dict of arrays `[B, F]`, and back, bit for bit."""

    treedef: Any
    slots: tuple[_Slot, ...]

    @classmethod
    def of(cls, example: Any) -> Packer:
        """The packer for pytrees like `example`, whose leaves are `[B, ...]`."""
        leaves, treedef = jax.tree.flatten(example)
        slots, used = [], {}
        for leaf in leaves:
            is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            words = jax.eval_shape(jax.random.key_data, leaf) if is_key else leaf
            size = math.prod(words.shape[1:])
            small = size <= _SMALL and words.dtype.itemsize <= 4
            group = "words" if small else str(words.dtype)
            start = used.get(group, 0)
            used[group] = start + size
            dtype = leaf.dtype if is_key else words.dtype
            slots.append(_Slot(group, start, size, words.shape[1:], dtype, is_key))
        return cls(treedef, tuple(slots))

    @property
    def num_bytes(self) -> int:
        """Bytes of one packed state."""
        return sum(
            slot.size * (4 if slot.group == "words" else jnp.dtype(slot.group).itemsize)
            for slot in self.slots
        )

    def describe(self) -> str:
        """The structure and the leaves in words, for error messages."""
        leaves = ", ".join(
            f"{slot.dtype}[B{''.join(f', {size}' for size in slot.shape)}]" for slot in self.slots
        )
        return f"{self.treedef} with leaves ({leaves})"

    def pack(self, tree: Any) -> dict[str, jax.Array]:
        """The leaves of `tree` as `{group: [B, F]}`."""
        groups: dict[str, list[jax.Array]] = {}
        for slot, leaf in zip(self.slots, jax.tree.leaves(tree), strict=True):
            leaf = jax.random.key_data(leaf) if slot.is_key else leaf
            flat = leaf.reshape(leaf.shape[0], slot.size)
            groups.setdefault(slot.group, []).append(_to_words(flat) if slot.group == "words" else flat)
        return {name: jnp.concatenate(parts, axis=-1) for name, parts in groups.items()}

    def unpack(self, packed: dict[str, jax.Array]) -> Any:
        """The inverse of `pack`."""
        leaves = []
        for slot in self.slots:
            flat = packed[slot.group][:, slot.start : slot.start + slot.size]
            if slot.group == "words":
                flat = _from_words(flat, jnp.dtype("uint32") if slot.is_key else slot.dtype)
            leaf = flat.reshape(flat.shape[0], *slot.shape)
            if slot.is_key:
                leaf = jax.random.wrap_key_data(leaf, impl=jax.random.key_impl(jnp.empty((), slot.dtype)))
            leaves.append(leaf)
        return jax.tree.unflatten(self.treedef, leaves)


def _to_words(array: jax.Array) -> jax.Array:
    if array.dtype.itemsize == 4:
        return jax.lax.bitcast_convert_type(array, jnp.uint32)
    if array.dtype == jnp.bool_:
        return array.astype(jnp.uint32)
    unsigned = jnp.dtype(f"uint{8 * array.dtype.itemsize}")
    return jax.lax.bitcast_convert_type(array, unsigned).astype(jnp.uint32)


def _from_words(words: jax.Array, dtype: Any) -> jax.Array:
    if dtype.itemsize == 4:
        return jax.lax.bitcast_convert_type(words, dtype)
    if dtype == jnp.bool_:
        return words != 0
    unsigned = jnp.dtype(f"uint{8 * dtype.itemsize}")
    return jax.lax.bitcast_convert_type(words.astype(unsigned), dtype)
