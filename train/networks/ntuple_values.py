"""What every move from a batch of positions is worth to an n-tuple network: the positions after it, judged.

Dimensions: B positions, A actions, S slots of one pass.
"""

from __future__ import annotations

import typing
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.game import Game
from jaxsearch import action_sets

if typing.TYPE_CHECKING:  # which imports this module
    from train.networks.ntuple import NTupleNetwork

__all__ = ["action_values"]

_FEW = 16
"""Up to so many actions all are judged, the illegal ones too; of more only the legal ones."""

_CHUNK = 8
"""Legal moves per position that one pass judges, where there are many actions."""

_SLOTS = (16, 512)
"""Least and most legal moves of one pass: below, turning the loop costs more than the moves; above, the last
pass has too many slots that nobody needs."""


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

    Args:
        game: whose positions they are.
        network: the value function.
        table: its weights, as in `ntuple.look_up`.
        states: `[B]`.
        movers: int32 `[B]`.
        legal: bool `[B, A]`.
        gamma: discount.
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

    size = min(max(batch * _CHUNK, _SLOTS[0]), _SLOTS[1])
    words = action_sets.pack(legal)
    ends = jnp.cumsum(jnp.sum(jax.lax.population_count(words), axis=1, dtype=jnp.int32))

    def some(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        start, found = carry
        number = start + jnp.arange(size, dtype=jnp.int32)
        row = jnp.minimum(jnp.searchsorted(ends, number, side="right").astype(jnp.int32), batch - 1)
        before = jnp.where(row > 0, ends[row - 1], 0)
        action = _member(words[row].T, number - before)
        value = judge(jax.tree.map(lambda x: x[row], states), movers[row], action)
        place = jnp.where(number < ends[-1], row * np.int32(actions) + action, batch * actions)
        return start + size, found.at[place].set(value, mode="drop")

    found = jnp.full(batch * actions, -jnp.inf)
    start = jnp.zeros((), jnp.int32)
    _, found = jax.lax.while_loop(lambda carry: carry[0] < ends[-1], some, (start, found))
    return found.reshape(batch, actions)


def _member(words: jax.Array, rank: jax.Array) -> jax.Array:
    """The member of that rank (0 is the least) of each set of actions, int32 `[S]`; any if there is none.

    Args:
        words: uint32 `[W, S]`, as `action_sets.pack` makes them.
        rank: int32 `[S]`.
    """
    word, place = words[0], jnp.zeros_like(rank)
    for index in range(1, len(words)):
        before = jax.lax.population_count(word).astype(jnp.int32)
        # Past this word's members: go on with the next one.
        past = (rank >= before) & (place == (index - 1) * action_sets.WORD)
        rank = jnp.where(past, rank - before, rank)
        word = jnp.where(past, words[index], word)
        place = jnp.where(past, index * action_sets.WORD, place)
    for width in (16, 8, 4, 2, 1):
        low = word & np.uint32((1 << width) - 1)
        before = jax.lax.population_count(low).astype(jnp.int32)
        past = rank >= before
        rank = jnp.where(past, rank - before, rank)
        word = jnp.where(past, word >> np.uint32(width), low)
        place = place + jnp.where(past, width, 0)
    return place
