"""More than two players, or two whose interests are not opposed: max^n.

With two opposed players one number is the value for both, up to its sign. Here values and rewards are
`[B, P]`, one number per player, and a discount carries no sign. Every player maximises what is their own, so
selection needs no more than before: an edge keeps the sum of the returns to the player who moves along it.
The backup alone carries all players' returns, and a table remembers each node's mover and rewards.

Reference: Luckhardt and Irani (1986), An algorithmic solution of N-person games; Sturtevant (2008), An
analysis of UCT in multi-player games.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsearch.tables import take
from jaxsearch.types import RecurrentFnOutput, StepDetails

__all__ = ["Players", "Step", "of_player", "of_step", "seen_by_movers", "write"]


class Players(NamedTuple):
    """What a tree keeps of its players beside the rows.

    Attributes:
        movers: int32 `[N * B]`, who moves at each node.
        rewards: float32 `[N * B, P]`, what the edge that leads to each node brought the players.
    """

    movers: jax.Array
    rewards: jax.Array


class Step(NamedTuple):
    """An evaluation `[L]` in the terms of a tree.

    Attributes:
        reward: `[L]`, for the player who moved.
        value: `[L]`, for the player to move.
        returns: `[L, P]`, reward and discounted value of each player.
    """

    reward: jax.Array
    value: jax.Array
    returns: jax.Array


def of_player(vectors: jax.Array, player: jax.Array) -> jax.Array:
    """`vectors[b, player[b]]`; selects, because a gather of one of two costs more."""
    count = vectors.shape[-1]
    if count == 1:
        return vectors[..., 0]
    chosen = vectors[..., count - 1]
    for other in reversed(range(count - 1)):
        chosen = jnp.where(player == other, vectors[..., other], chosen)
    return chosen


def of_step(
    tree: Players, leaf: jax.Array, step: RecurrentFnOutput, details: StepDetails
) -> tuple[Step, Players]:
    """An evaluation of edges of the nodes `leaf` `[L]`, and the new nodes' entries.

    Raises:
        ValueError: the step does not say who moves.
    """
    if details.mover is None:
        raise ValueError(
            "recurrent_fn returned values for each player but not who moves; expected StepDetails(mover=...) "
            "as its third output, as make_recurrent_fn returns it"
        )
    over = (step.discount == 0)[:, None]
    discount = step.discount.astype(jnp.float32)[:, None]
    rewards = step.reward.astype(jnp.float32)
    values = jnp.where(over, 0.0, step.value.astype(jnp.float32))
    moved = take(tree.movers, leaf)
    new = Players(details.mover.astype(jnp.int32), rewards)
    return Step(of_player(rewards, moved), of_player(values, new.movers), rewards + discount * values), new


def write(tree: Players, new: Players, first: jax.Array) -> Players:
    """The entries of new nodes, from number `first` (int32 `[]`) on."""
    zero = jnp.zeros_like(first)
    return Players(
        jax.lax.dynamic_update_slice(tree.movers, new.movers, (first,)),
        jax.lax.dynamic_update_slice(tree.rewards, new.rewards, (first, zero)),
    )


def seen_by_movers(tree: Players, nodes: jax.Array, returns: jax.Array) -> jax.Array:
    """Of returns `[L, P]` those of the movers of `nodes` `[L]`."""
    return of_player(returns, take(tree.movers, nodes))
