"""Games for TD learning: where they start.

Dimensions: M starts.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from games_jax.game import Game
from train.networks.ntuple_values import action_values
from train.selfplay import select

__all__ = ["action_values", "make_starts"]


def make_starts(
    game: Game, key: jax.Array, count: int, *, share: float | jax.Array, plies: tuple[int, ...]
) -> Any:
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
    if largest == 0 or (isinstance(share, float | int) and share == 0):
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
