"""Reading and writing a tree's tables."""

from __future__ import annotations

import jax

__all__ = ["put", "take"]


def take(table: jax.Array, index: jax.Array) -> jax.Array:
    """`table[index]` for indices known to be in bounds."""
    return table.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def put(table: jax.Array, index: jax.Array, new: jax.Array) -> jax.Array:
    """The table with `new` at `index`, dropped where that is out of bounds."""
    return table.at[index].set(new, mode="drop", wrap_negative_indices=False)
