"""The replay buffer: a ring of plies `[R, G]` on the device, whose values are filled in as games end.

Positions of game slot g are column g, in the order they were played. A position whose game is still under way
is pending: it has the rewards so far, and is not learnt from until its game has ended.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from train import sharding
from train.selfplay import Trajectory
from train.targets import Returns, of_player

__all__ = ["Batch", "Replay", "insert", "new_replay", "sample"]


class Replay(NamedTuple):
    """R plies of G games.

    Attributes:
        states: `[R, G, ...]`.
        movers: int32 `[R, G]`.
        weights: float32 `[R, G, A]`, policy targets.
        root_values: float32 `[R, G]`.
        returns: float32 `[R, G]`, rewards of the mover from here on, so far.
        pending: bool `[R, G]`, whether the game is still under way.
        cursor: int32 `[]`, the row to be written next.
        filled: int32 `[]`, rows that hold anything.
    """

    states: Any
    movers: jax.Array
    weights: jax.Array
    root_values: jax.Array
    returns: jax.Array
    pending: jax.Array
    cursor: jax.Array
    filled: jax.Array


class Batch(NamedTuple):
    """Positions to learn from, `[N, ...]`; `usable` is false for those still pending."""

    states: Any
    movers: jax.Array
    weights: jax.Array
    root_values: jax.Array
    returns: jax.Array
    usable: jax.Array


def new_replay(states: Any, num_actions: int, *, capacity: int, plies: int) -> Replay:
    """An empty buffer.

    Args:
        states: an example of G game states.
        num_actions: A.
        capacity: positions wanted; rounded down to whole blocks of `plies` plies of G games, at least one.
        plies: plies inserted at a time.
    """
    games = jax.tree.leaves(states)[0].shape[0]
    rows = max(capacity // games // plies, 1) * plies
    return Replay(
        states=jax.tree.map(lambda leaf: jnp.zeros((rows, *leaf.shape), leaf.dtype), states),
        movers=jnp.zeros((rows, games), jnp.int32),
        weights=jnp.zeros((rows, games, num_actions), jnp.float32),
        root_values=jnp.zeros((rows, games), jnp.float32),
        returns=jnp.zeros((rows, games), jnp.float32),
        pending=jnp.zeros((rows, games), bool),
        cursor=jnp.int32(0),
        filled=jnp.int32(0),
    )


def insert(replay: Replay, trajectory: Trajectory, returns: Returns) -> Replay:
    """Adds T plies over the oldest and settles pending positions with what their games brought since."""
    rows, plies = replay.pending.shape[0], trajectory.over.shape[0]
    later = jnp.broadcast_to(returns.by_player[0], (rows, *returns.by_player.shape[1:]))
    settled = replay.returns + jnp.where(replay.pending, of_player(later, replay.movers), 0.0)
    pending = replay.pending & ~returns.known[0]

    def write(table: jax.Array, new: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_slice_in_dim(table, new.astype(table.dtype), replay.cursor, axis=0)

    return Replay(
        states=jax.tree.map(write, replay.states, trajectory.states),
        movers=write(replay.movers, trajectory.movers),
        weights=write(replay.weights, trajectory.weights),
        root_values=write(replay.root_values, trajectory.root_values),
        returns=write(settled, returns.mine),
        pending=write(pending, ~returns.known),
        cursor=(replay.cursor + plies) % rows,
        filled=jnp.minimum(replay.filled + plies, rows),
    )


def sample(replay: Replay, key: jax.Array, count: int, slice_: sharding.Slice = sharding.WHOLE) -> Batch:
    """Positions drawn uniformly, with replacement, from all the buffer holds.

    They are spread evenly over the games: position n of N comes from the n-th part of the G columns, so that
    each device draws its share of the batch from its share of the games. Pending positions are drawn too and
    marked: leaving them out of the draw would cost a pass over the buffer.

    Args:
        replay: the buffer, or one device's columns of it.
        key: consumed; the same on every device.
        count: N, all devices together.
        slice_: which part this device has.
    """
    games = slice_.whole(replay.pending.shape[1])
    row_key, column_key = jax.random.split(key)
    row = jax.random.randint(row_key, (count,), 0, replay.filled)
    # Of the N * G equally likely numbers x, x // N is a column, and those of position n lie side by side.
    first, rest = np.divmod(games * np.arange(count), count)
    place = jax.random.randint(column_key, (count,), 0, games) + rest.astype(np.int32)
    column = first.astype(np.int32) + place // count
    row, column = slice_.of(row), slice_.of(column) - slice_.start(games)
    take = lambda table: table[row, column]  # noqa: E731
    return Batch(
        states=jax.tree.map(take, replay.states),
        movers=take(replay.movers),
        weights=take(replay.weights),
        root_values=take(replay.root_values),
        returns=take(replay.returns),
        usable=~take(replay.pending),
    )
