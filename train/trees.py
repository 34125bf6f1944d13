"""Trees of arrays by name: `optimizer.0.mu.dense.kernel` instead of nested containers."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["named_leaves", "nonfinite"]


def named_leaves(tree: Any) -> dict[str, Any]:
    """The leaves of `tree` by dotted path, in the order of `jax.tree.leaves`.

    Raises:
        ValueError: if two leaves would share a name.
    """
    leaves: dict[str, Any] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        name = re.sub(r"[^\w.-]", "_", name) or "value"
        if name in leaves:
            raise ValueError(f'Two arrays of one tree would both be named "{name}"; rename a key.')
        leaves[name] = leaf
    return leaves


def nonfinite(tree: Any) -> dict[str, jax.Array]:
    """Bool `[]` for each floating-point leaf, by name: whether it holds a NaN or an infinity. Jittable."""
    return {
        name: ~jnp.all(jnp.isfinite(leaf))
        for name, leaf in named_leaves(tree).items()
        if jnp.issubdtype(leaf.dtype, jnp.inexact)
    }
