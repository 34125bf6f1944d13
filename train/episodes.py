"""Games played to their ends by one policy, for trainers that need results and independent positions.

Dimensions: G games, P players, A actions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import jaxsearch
from games_jax.game import Game
from jaxsearch.types import Evaluator, Search
from train.config import ConfigError
from train.openings import step_batch
from train.selfplay import new_games, select

__all__ = ["Choose", "Episodes", "by_network", "by_search", "play_out", "starts"]

Choose = Callable[[jax.Array, Any], jax.Array]
"""`choose(key, states [G])` returns legal actions int32 `[G]`."""


class Episodes(NamedTuple):
    """What G games brought.

    Attributes:
        picked: `[G]`, one position of each, drawn uniformly among those in which somebody was to move.
        returns: float32 `[G, P]`, rewards from that position on.
        totals: float32 `[G, P]`, rewards of the whole game.
        plies: int32 `[G]`.
        rounds: int32 `[]`, how often moves were asked for.
    """

    picked: Any
    returns: jax.Array
    totals: jax.Array
    plies: jax.Array
    rounds: jax.Array


def starts(
    game: Game, key: jax.Array, count: int, *, opening_plies: int = 0, opening_share: float = 1.0
) -> Any:
    """`[G]` states from which games begin: the game's own, or up to `opening_plies` random plies later.

    `opening_share` of the games have a random opening; see `train.selfplay.new_games`.

    Raises:
        ConfigError: random openings of a game of chance.
    """
    if opening_plies == 0:
        return jax.vmap(game.init)(jax.random.split(key, count))
    if game.has_chance:
        raise ConfigError(
            f"random_opening_plies = {opening_plies} does not go with {game.name}, a game of chance; "
            "expected 0.",
            "random_opening_plies",
        )
    return new_games(game, key, count, opening_plies=opening_plies, opening_share=opening_share).states


def by_network(evaluator: Evaluator, game: Game, params: Any, temperature: float) -> Choose:
    """Moves drawn from the policy to the power of `1 / temperature`; 0 takes its best."""

    def choose(key: jax.Array, states: Any) -> jax.Array:
        network_key, move_key = jax.random.split(key)
        logits, *_ = evaluator(params, network_key, states)
        logits = jnp.where(jax.vmap(game.legal_actions)(states), logits, -jnp.inf)
        if temperature == 0:
            return jnp.argmax(logits, axis=-1).astype(jnp.int32)
        return jax.random.categorical(move_key, logits / temperature).astype(jnp.int32)

    return choose


def by_search(search: Search, temperature: float, params: Any = None) -> Choose:
    """Moves drawn from a search's weights to the power of `1 / temperature`; 0 takes the greatest.

    The weights are shares of the visits, unless the search's solver knows that a move loses.
    """

    def choose(key: jax.Array, states: Any) -> jax.Array:
        search_key, move_key = jax.random.split(key)
        return jaxsearch.sample_visits(move_key, search(search_key, states, params).weights, temperature)

    return choose


def play_out(game: Game, choose: Choose, key: jax.Array, states: Any) -> Episodes:
    """Plays `[G]` games on from `states` until all are over; finished ones wait.

    Args:
        game: what is played.
        choose: moves for all players.
        key: consumed.
        states: where to start. One that is over picks itself and returns nothing.
    """
    count = jax.tree.leaves(states)[0].shape[0]
    nothing = jnp.zeros((count, game.num_players), jnp.float32)
    start = Episodes(states, nothing, nothing, jnp.zeros(count, jnp.int32), jnp.int32(0))

    def running(carry: tuple[Any, Episodes]) -> jax.Array:
        states, episodes = carry
        return jnp.any(~jax.vmap(game.is_over)(states)) & (episodes.rounds < game.max_steps)

    def ply(carry: tuple[Any, Episodes]) -> tuple[Any, Episodes]:
        states, episodes = carry
        move_key, chance_key, pick_key = jax.random.split(jax.random.fold_in(key, episodes.rounds), 3)
        on = ~jax.vmap(game.is_over)(states)
        moved = step_batch(game, chance_key, states, choose(move_key, states))
        rewards = jnp.where(on[:, None], jax.vmap(game.rewards)(moved), 0.0)
        # A reservoir of one: the position of ply n + 1 takes the kept one's place with chance 1 / (n + 1).
        chance = 1.0 / (episodes.plies + 1).astype(jnp.float32)
        take = on & (jax.random.uniform(pick_key, (count,)) < chance)
        return select(on, moved, states), Episodes(
            picked=select(take, states, episodes.picked),
            returns=jnp.where(take[:, None], 0.0, episodes.returns) + rewards,
            totals=episodes.totals + rewards,
            plies=episodes.plies + on,
            rounds=episodes.rounds + 1,
        )

    return jax.lax.while_loop(running, ply, (states, start))[1]
