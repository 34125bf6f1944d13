"""A searching agent in a game with simultaneous moves, against agents that are models.

Dimensions: B games, P players; the agent is player 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from games_jax.multi_agent import SinglePlayerView, TwoPlayerView
from games_jax.opponents import Model
from jaxsearch.types import Search

__all__ = ["Results", "play"]


class Results(NamedTuple):
    """How the games went for the agent.

    Attributes:
        outcome: float32 `[B]`: 1 won, -1 lost, 0 otherwise.
        timed_out: bool `[B]`, the game reached its last step undecided.
        steps: int32 `[B]`, until it was decided for the agent.
    """

    outcome: jax.Array
    timed_out: jax.Array
    steps: jax.Array


class _Games(NamedTuple):
    states: Any
    memories: Any
    decided: jax.Array
    outcome: jax.Array
    steps: jax.Array


def play(
    view: SinglePlayerView | TwoPlayerView,
    search: Search,
    params: Any,
    opponent: Model,
    key: jax.Array,
    *,
    games: int,
) -> Results:
    """Plays B games to the end; jit it.

    Each move is searched from a view of its own, whose models start anew, as they do in the paper: they are
    of the opponents' kind and not the opponents themselves.

    Args:
        view: what is searched.
        search: of states of the view.
        params: of its evaluator.
        opponent: who plays the others.
        key: consumed.
        games: B.
    """
    game: Any = view.game
    others = jnp.arange(1, game.num_players, dtype=jnp.int32)
    game_key, model_key, play_key = jax.random.split(key, 3)
    keys = jax.random.split(model_key, (game.num_players - 1, games))
    start = _Games(
        jax.vmap(game.init)(jax.random.split(game_key, games)),
        jax.vmap(jax.vmap(opponent.start))(keys),
        jnp.zeros(games, bool),
        jnp.zeros(games, jnp.float32),
        jnp.zeros(games, jnp.int32),
    )

    def step(carry: tuple[jax.Array, _Games]) -> tuple[jax.Array, _Games]:
        number, now = carry
        begin_key, search_key = jax.random.split(jax.random.fold_in(play_key, number))
        seen = jax.vmap(view.begin, (0, None, 0))(now.states, 0, jax.random.split(begin_key, games))
        mine = search(search_key, seen, params).action
        act = jax.vmap(jax.vmap(opponent.act, (0, None, 0)), (None, 0, 0))
        theirs, memories = act(now.states, others, now.memories)
        states = jax.vmap(game.step)(now.states, jnp.concatenate([mine[None], theirs]).T)
        ended = jax.vmap(game.is_over)(states) | jax.vmap(game.is_out)(states)[:, 0]
        outcome = jnp.where(now.decided, now.outcome, jax.vmap(game.outcome)(states)[:, 0])
        return number + 1, _Games(states, memories, now.decided | ended, outcome, now.steps + ~now.decided)

    def go_on(carry: tuple[jax.Array, _Games]) -> jax.Array:
        return ~jnp.all(carry[1].decided)

    end = jax.lax.while_loop(go_on, step, (jnp.int32(0), start))[1]
    undecided = end.steps >= game.max_steps
    return Results(end.outcome, undecided & (end.outcome == 0), end.steps)
