"""When to stop searching a tree before its simulations are used up: the `stop` of `search.search`."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxsearch.search import Stop
from jaxsearch.tree import Tree

__all__ = ["any_of", "at_budget", "playout_cap", "when_decided"]


def at_budget(budgets: jax.Array) -> Stop:
    """Each tree has its own number of simulations, int32 `[B]`.

    The batch costs what its greatest budget costs on an accelerator, and a little less on a CPU.
    """

    def stop(tree: Tree, simulation: jax.Array) -> jax.Array:
        del tree
        return simulation >= budgets

    return stop


def when_decided(num_simulations: int, budgets: jax.Array | None = None) -> Stop:
    """The most visited action stays so, even if all simulations left went to the second.

    Nothing is lost for a player who plays the most visited action; visit counts as a training target are.
    """

    def stop(tree: Tree, simulation: jax.Array) -> jax.Array:
        budget = jnp.asarray(num_simulations, jnp.int32) if budgets is None else budgets
        left = (budget - simulation).astype(jnp.float32)
        visits, _ = jax.lax.top_k(tree.rows[: tree.num_trees, : tree.num_actions], min(2, tree.num_actions))
        second = visits[:, 1] if tree.num_actions > 1 else jnp.zeros_like(visits[:, 0])
        return visits[:, 0] - second > left

    return stop


def any_of(*stops: Stop) -> Stop:
    """Stops where one of the rules does."""

    def stop(tree: Tree, simulation: jax.Array) -> jax.Array:
        named = stops[0](tree, simulation)
        for other in stops[1:]:
            named |= other(tree, simulation)
        return named

    return stop


def playout_cap(
    key: jax.Array, batch: int, *, full: int, fast: int, share: float
) -> tuple[jax.Array, jax.Array]:
    """Budgets for playout cap randomisation: most moves are searched fast, and the rest teach the policy.

    Args:
        key: consumed.
        batch: B.
        full, fast: simulations of a full and of a fast search.
        share: probability of a full one, 0 to 1.

    Returns:
        Budgets int32 `[B]`, for `at_budget`, and bool `[B]`: the full ones, whose visits make policy targets.

    Raises:
        ValueError: not `1 <= fast <= full`, or a share outside [0, 1].

    Reference: Wu (2019), https://arxiv.org/abs/1902.10565, section 3.1.
    """
    if not 1 <= fast <= full:
        raise ValueError(f"full is {full} and fast is {fast}; expected 1 <= fast <= full")
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}; expected 0 to 1")
    is_full = jax.random.bernoulli(key, share, (batch,))
    return jnp.where(is_full, full, fast).astype(jnp.int32), is_full
