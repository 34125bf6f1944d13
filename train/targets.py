"""Value targets: what the games brought after each position."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from train.selfplay import Trajectory

__all__ = ["Returns", "mix", "returns_of"]


class Returns(NamedTuple):
    """Sums of the rewards from each ply on, up to the end of its game or of the trajectory.

    Attributes:
        by_player: float32 `[T, G, P]`.
        mine: float32 `[T, G]`, those of the ply's mover.
        known: bool `[T, G]`, whether the game ended within the trajectory, so that nothing is missing.
    """

    by_player: jax.Array
    mine: jax.Array
    known: jax.Array


def returns_of(trajectory: Trajectory) -> Returns:
    """Adds rewards up backwards, game by game."""

    def back(
        carry: tuple[jax.Array, jax.Array], step: tuple[jax.Array, jax.Array]
    ) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
        later, known = carry
        rewards, over = step
        later = rewards + jnp.where(over[:, None], 0.0, later)
        known |= over
        return (later, known), (later, known)

    start = (jnp.zeros_like(trajectory.rewards[0]), jnp.zeros_like(trajectory.over[0]))
    steps = (trajectory.rewards, trajectory.over)
    _, (by_player, known) = jax.lax.scan(back, start, steps, reverse=True)
    return Returns(by_player, of_player(by_player, trajectory.movers), known)


def mix(returns: jax.Array, root_values: jax.Array, share: float) -> jax.Array:
    """The value target: `share` of the search's root value and the rest of the game's result."""
    return (1.0 - share) * returns + share * root_values


def of_player(by_player: jax.Array, player: jax.Array) -> jax.Array:
    """`by_player[..., player]` for `by_player` `[..., P]` and `player` `[...]`."""
    return jnp.take_along_axis(by_player, player[..., None], axis=-1)[..., 0]
