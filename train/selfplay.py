"""Self-play: a batch of games that never stops, advanced a few plies at a time inside a jitted program.

Dimensions: G games, T plies, A actions, P players.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import jaxsearch
from games_jax.game import Game
from jaxsearch import keys
from jaxsearch.types import Evaluator, Search
from train.config import SearchConfig, SelfplayConfig

__all__ = ["Games", "Trajectory", "make_search", "new_games", "play"]


class Games(NamedTuple):
    """The games under way.

    Attributes:
        states: `[G, ...]`, none of them over.
        plies: int32 `[G]`, plies played in each, its random opening included.
    """

    states: Any
    plies: jax.Array


class Trajectory(NamedTuple):
    """What T plies of G games brought, `[T, G, ...]`: the position, what the search said, what followed.

    Attributes:
        states: positions before the move.
        movers: int32, who moved.
        weights: float32 `[T, G, A]`, the search's policy target.
        root_values: float32, the search's value for the mover.
        rewards: float32 `[T, G, P]`, of the move played.
        over: bool, whether it ended the game.
        lengths: int32, plies of the game after the move.
    """

    states: Any
    movers: jax.Array
    weights: jax.Array
    root_values: jax.Array
    rewards: jax.Array
    over: jax.Array
    lengths: jax.Array


def make_search(
    game: Game,
    evaluator: Evaluator,
    selfplay: SelfplayConfig,
    constants: SearchConfig,
    *,
    own: Mapping[str, jax.Array] | None = None,
) -> Search:
    """The search of self-play, with exploration noise.

    Args:
        game: what is searched.
        evaluator: gives priors and values.
        selfplay, constants: the settings, numbers or, where games differ in them, arrays `[G]`.
        own: whole numbers in which games differ, int32 `[G]`: `simulations` and `considered_actions` of each
            game, of which `selfplay` and `constants` say the most.
    """
    own = own or {}
    budgets = {"budgets": own["simulations"]} if "simulations" in own else {}
    if selfplay.search == "gumbel":
        scale = jnp.asarray(constants.gumbel_scale)
        search = jaxsearch.gumbel(
            game,
            evaluator,
            simulations=selfplay.simulations,
            max_considered=constants.considered_actions,
            gumbel_scale=scale[:, None] if scale.ndim else constants.gumbel_scale,
        )
        considered = {"considered": own["considered_actions"]} if "considered_actions" in own else {}
        return functools.partial(search, **budgets, **considered)
    make = jaxsearch.regularised if selfplay.search == "regularised" else jaxsearch.puct
    search = make(
        game,
        evaluator,
        simulations=selfplay.simulations,
        c_init=constants.c_puct,
        c_base=constants.c_puct_base,
        first_play=constants.first_play,
        first_play_reduction=constants.first_play_reduction,
        dirichlet_alpha=selfplay.dirichlet_alpha,
        dirichlet_fraction=selfplay.dirichlet_fraction,
    )
    return functools.partial(search, **budgets)


def new_games(
    game: Game, key: jax.Array, count: int, *, opening_plies: int, opening_share: float = 1.0
) -> Games:
    """`count` fresh games; `opening_share` of them are advanced by random plies that do not end them.

    The number of these plies is uniform in 0 to `opening_plies`, their moves among the legal ones. `key` is
    one, or one for each game.
    """
    if not keys.is_per_row(key):
        key = keys.per_row(key, jnp.arange(count, dtype=jnp.int32))
    init_key, share_key, length_key, move_key = keys.split(key, 4)
    states = jax.vmap(game.init)(init_key)
    lengths = keys.draw(functools.partial(_whole_number, below=opening_plies + 1), length_key, (count,))
    lengths = jnp.where(keys.draw(jax.random.uniform, share_key, (count,)) < opening_share, lengths, 0)
    noise = keys.draw(jax.random.uniform, move_key, (count, opening_plies, game.num_actions))

    def advance(games: Games, noise: jax.Array) -> tuple[Games, None]:
        legal = jax.vmap(game.legal_actions)(games.states)
        action = jnp.argmax(jnp.where(legal, noise, -1.0), axis=-1).astype(jnp.int32)
        moved = jax.vmap(game.step)(games.states, action)
        go = (games.plies < lengths) & ~jax.vmap(game.is_over)(moved)
        return Games(select(go, moved, games.states), games.plies + go), None

    start = Games(states, jnp.zeros(count, jnp.int32))
    return jax.lax.scan(advance, start, jnp.swapaxes(noise, 0, 1))[0]


def _whole_number(key: jax.Array, shape: tuple[int, ...], *, below: int) -> jax.Array:
    return jax.random.randint(key, shape, 0, below)


def play(
    game: Game,
    search: Search,
    params: Any,
    key: jax.Array,
    games: Games,
    settings: SelfplayConfig,
    *,
    first: jax.Array | int = 0,
) -> tuple[Games, Trajectory]:
    """Advances every game by `settings.plies_per_iteration` plies; a game that ends is replaced at once.

    Args:
        game: what is played.
        search: chooses moves; see `make_search`.
        params: the evaluator's parameters.
        key: consumed; one, or one for each game.
        games: the games under way.
        settings: plies, temperature and openings.
        first: the number of the first of these games, where others are played elsewhere.
    """
    count = games.plies.shape[0]
    if not keys.is_per_row(key):
        key = keys.per_row(key, first + jnp.arange(count, dtype=jnp.int32))

    def ply(games: Games, key: jax.Array) -> tuple[Games, Trajectory]:
        search_key, move_key, new_key = keys.split(key, 3)
        out = search(search_key, games.states, params)
        if settings.search == "gumbel":
            action = out.action  # its noise is its exploration
        else:
            temperature = jnp.where(games.plies < settings.temperature_plies, settings.temperature, 0.0)
            counts = out.weights if settings.search == "regularised" else out.visits
            action = jaxsearch.sample_visits(move_key, counts, temperature)
        moved = jax.vmap(game.step)(games.states, action)
        over = jax.vmap(game.is_over)(moved)
        step = Trajectory(
            states=games.states,
            movers=jax.vmap(game.current_player)(games.states),
            weights=out.weights,
            root_values=out.value,
            rewards=jax.vmap(game.rewards)(moved),
            over=over,
            lengths=games.plies + 1,
        )
        fresh = new_games(
            game,
            new_key,
            count,
            opening_plies=settings.random_opening_plies,
            opening_share=settings.random_opening_share,
        )
        return select(over, fresh, Games(moved, games.plies + 1)), step

    return jax.lax.scan(ply, games, jnp.stack(keys.split(key, settings.plies_per_iteration)))


def select(condition: jax.Array, yes: Any, no: Any) -> Any:
    """`where` over pytrees whose leaves are `[G, ...]`, for a condition `[G]`."""

    def pick(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(condition.reshape(condition.shape + (1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(pick, yes, no)
