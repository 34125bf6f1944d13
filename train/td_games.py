"""Games for TD learning: where they start, and what every move from a batch of positions is worth.

Dimensions: B positions, A actions, M starts.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.game import Game
from train.networks.ntuple import NTupleNetwork
from train.selfplay import select

__all__ = ["action_values", "make_starts"]

_FEW = 16
"""Up to so many actions all are judged, the illegal ones too; of more only the legal ones."""

_CHUNK = 8
"""Legal moves per position that one pass judges, where there are many actions."""


def make_starts(game: Game, key: jax.Array, count: int, *, share: float, plies: tuple[int, ...]) -> Any:
    """`count` positions to start from: `share` of them after random plies that do not end the game.

    Args:
        game: which.
        key: consumed.
        count: M.
        share: of the games that open with random plies.
        plies: least and largest number of them, each equally likely.
    """
    least, largest = plies
    init_key, share_key, length_key, move_key = jax.random.split(key, 4)
    states = jax.vmap(game.init)(jax.random.split(init_key, count))
    if share == 0 or largest == 0:
        return states
    lengths = jax.random.randint(length_key, (count,), least, largest + 1)
    lengths = jnp.where(jax.random.uniform(share_key, (count,)) < share, lengths, 0)

    def advance(ply: jax.Array, states: Any) -> Any:
        noise = jax.random.uniform(jax.random.fold_in(move_key, ply), (count, game.num_actions))
        legal = jax.vmap(game.legal_actions)(states)
        action = jnp.argmax(jnp.where(legal, noise, -1.0), axis=-1).astype(jnp.int32)
        moved = jax.vmap(game.step)(states, action)
        return select((ply < lengths) & ~jax.vmap(game.is_over)(moved), moved, states)

    return jax.lax.fori_loop(0, largest, advance, states)


def action_values(
    game: Game,
    network: NTupleNetwork,
    table: jax.Array,
    states: Any,
    movers: jax.Array,
    legal: jax.Array,
    gamma: float,
) -> jax.Array:
    """`r + gamma * V(s' | mover)` of every legal action, float32 `[B, A]`; -inf for the others.

    Where the game is over after the action it is worth its reward alone.
    """
    batch, actions = legal.shape

    def judge(positions: Any, players: jax.Array, chosen: jax.Array) -> jax.Array:
        after = jax.vmap(game.step)(positions, chosen)
        reward = jax.vmap(lambda state, player: game.rewards(state)[player])(after, players)
        value = network.values(table, after, players)
        return reward + gamma * jnp.where(jax.vmap(game.is_over)(after), 0.0, value)

    if actions <= _FEW:
        repeat = lambda x: jnp.repeat(x, actions, axis=0)  # noqa: E731
        every = jnp.tile(np.arange(actions, dtype=np.int32), batch)
        found = judge(jax.tree.map(repeat, states), repeat(movers), every).reshape(batch, actions)
        return jnp.where(legal, found, -jnp.inf)

    size = batch * _CHUNK
    whole = -(-batch * actions // size) * size
    (places,) = jnp.nonzero(legal.ravel(), size=whole, fill_value=batch * actions)
    count = jnp.sum(legal.astype(jnp.int32))

    def some(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        start, found = carry
        place = jax.lax.dynamic_slice(places, (start,), (size,))
        row = jnp.minimum(jax.lax.div(place, np.int32(actions)), batch - 1)
        value = judge(
            jax.tree.map(lambda x: x[row], states), movers[row], jax.lax.rem(place, np.int32(actions))
        )
        return start + size, found.at[place].set(value, mode="drop")

    found = jnp.full(batch * actions, -jnp.inf)
    start = jnp.zeros((), jnp.int32)
    _, found = jax.lax.while_loop(lambda carry: carry[0] < count, some, (start, found))
    return found.reshape(batch, actions)
