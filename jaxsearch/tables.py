"""Reading and writing a tree's tables."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["put", "take", "take_column"]


def take(table: jax.Array, index: jax.Array) -> jax.Array:
    """`table[index]` for indices known to be in bounds."""
    if index.size == 1:
        # XLA makes a slice of the gather of one entry, repeats it in every kernel that reads it, some of them
        # after the table is written to, and copies the whole table for them: at each simulation of one tree.
        twice = jnp.concatenate([index.reshape(1)] * 2)
        return take(table, twice)[:1].reshape(*index.shape, *table.shape[1:])
    return table.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def take_column(table: jax.Array, index: jax.Array, column: int) -> jax.Array:
    """`table[index, column]` for indices known to be in bounds.

    Flattening the table to look there would make XLA copy it in a search of one tree, see `take`.
    """
    return table.at[index, np.int32(column)].get(mode="promise_in_bounds", wrap_negative_indices=False)


def put(table: jax.Array, index: jax.Array, new: jax.Array) -> jax.Array:
    """The table with `new` at `index`, dropped where that is out of bounds."""
    return table.at[index].set(new, mode="drop", wrap_negative_indices=False)
