"""How the descents of `loop.py` choose: mctx's selection functions, for all trees at once.

A selection function of mctx sees one tree and gets a random key at each level. mctx's PUCT draws noise of at
most 1e-7 from it, to decide between equal scores, and these draws are half of what its search costs. Here
they are made only where two scores are so close that the noise may decide. They come from the same keys, so
the choice is the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxsearch.mctx.original import mctx

__all__ = ["Keys", "Selector", "make_selectors"]

_NOISE = np.float32(1e-7)
"""mctx's tie-breaking noise is below this."""


class Keys(NamedTuple):
    """Each tree's random keys, split as often as levels were chosen at, or fewer times so far.

    Attributes:
        keys: `[B]` keys.
        level: int32 `[]`, how often they have been split.
    """

    keys: jax.Array
    level: jax.Array

    def split(self) -> tuple[Keys, jax.Array]:
        """The keys a level further down, and those `[B]` to use at this level."""
        pairs = jax.vmap(jax.random.split)(self.keys)
        return Keys(pairs[:, 0], self.level + 1), pairs[:, 1]

    def at(self, level: jax.Array) -> Keys:
        """The keys after `level` splits."""
        return jax.lax.while_loop(lambda keys: keys.level < level, lambda keys: keys.split()[0], self)


class Selector(Protocol):
    """Chooses at one level of all descents."""

    def __call__(
        self, keys: Keys, tree: Any, node: jax.Array, depth: jax.Array, going: jax.Array
    ) -> tuple[jax.Array, Keys]:
        """The actions int32 `[B]` at the nodes `[B]`, of use where `going` `[B]`, and the keys left."""
        ...


def make_selectors(
    root_function: Callable[..., jax.Array], interior_function: Callable[..., jax.Array]
) -> tuple[Selector, Selector]:
    """The batched forms of selection functions with mctx's signatures.

    Args:
        root_function: `(key, tree, node) -> action` for one tree.
        interior_function: `(key, tree, node, depth) -> action` for one tree.

    Returns:
        One for the root and one for the levels below it.
    """
    at_root, below = _puct_options(root_function, {"depth": 0}), _puct_options(interior_function, {})
    if (
        at_root is None or below is None
    ):  # then neither: each form leaves the keys as the other does not expect
        return (
            functools.partial(_choose_by, lambda key, tree, node, depth: root_function(key, tree, node)),
            functools.partial(_choose_by, interior_function),
        )
    return (
        functools.partial(_choose_by_puct, functools.partial(_puct, **at_root), True),
        functools.partial(_choose_by_puct, functools.partial(_puct, **below), False),
    )


def _puct_options(function: Callable[..., Any], fixed: dict[str, int]) -> dict[str, Any] | None:
    """The keywords of a `mctx.muzero_action_selection` in which `fixed` is set; None for other functions."""
    options: dict[str, Any] = {}
    if isinstance(function, functools.partial) and not function.args:
        function, options = function.func, dict(function.keywords)
    depth = {name: options.pop(name) for name in ("depth",) if name in options}
    return options if function is mctx.muzero_action_selection and depth == fixed else None


def _choose_by(
    function: Callable[..., jax.Array],
    keys: Keys,
    tree: Any,
    node: jax.Array,
    depth: jax.Array,
    going: jax.Array,
) -> tuple[jax.Array, Keys]:
    """Any selection function."""
    del going
    left, here = keys.split()
    depth = depth.astype(tree.children_prior_logits.dtype)  # as mctx counts it
    return jax.vmap(function, in_axes=(0, 0, 0, None))(here, tree, node, depth), left


def _choose_by_puct(
    score: Callable[[Any, jax.Array], jax.Array],
    at_root: bool,
    keys: Keys,
    tree: Any,
    node: jax.Array,
    depth: jax.Array,
    going: jax.Array,
) -> tuple[jax.Array, Keys]:
    """`mctx.muzero_action_selection`: the same choice, with random numbers only where they may decide."""
    scores = jax.vmap(score)(tree, node)
    if at_root:
        scores = jnp.where(tree.root_invalid_actions.astype(bool), -jnp.inf, scores)
    # Noise cannot lift a score over one that it does not reach with the most noise: rounding keeps order.
    best = jnp.max(scores, axis=-1, keepdims=True)
    rivals = jnp.sum(scores + _NOISE >= best, axis=-1)

    def draw(keys: Keys) -> tuple[jax.Array, Keys]:
        left, here = keys.at(depth).split()
        noise = 1e-7 * jax.vmap(lambda key: jax.random.uniform(key, scores.shape[1:]))(here)
        return _argmax(scores + noise), left

    return jax.lax.cond(jnp.any(going & (rivals > 1)), draw, lambda keys: (_argmax(scores), keys), keys)


def _puct(
    tree: Any,
    node: jax.Array,
    *,
    pb_c_init: float = 1.25,
    pb_c_base: float = 19652.0,
    qtransform: Callable[[Any, jax.Array], jax.Array] = mctx.qtransform_by_parent_and_siblings,
) -> jax.Array:
    """Scores `[A]` without the noise, one tree; in mctx's order of operations."""
    node_visits = tree.node_visits[node].astype(jnp.float32)
    exploration = pb_c_init + jnp.log((node_visits + pb_c_base + 1.0) / pb_c_base)
    priors = jax.nn.softmax(tree.children_prior_logits[node]).astype(jnp.float32)
    visits = tree.children_visits[node].astype(jnp.float32)
    return qtransform(tree, node).astype(jnp.float32) + (
        jnp.sqrt(node_visits) * exploration * priors / (visits + 1.0)
    )


def _argmax(scores: jax.Array) -> jax.Array:
    """The first action `[B]` of highest score; XLA's own argmax is slow on CPU (see `rows.argmax`)."""
    a = scores.shape[-1]
    best = jnp.max(scores, axis=-1, keepdims=True)
    first = jnp.min(jnp.where(scores < best, a, jnp.arange(a, dtype=jnp.int32)[None]), axis=-1)
    return first.astype(jnp.int32)
