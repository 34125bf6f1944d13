"""A searching agent in a game with simultaneous moves, against agents that are models.

Games end at very different times, so a batch that is played until its last game ends would mostly search
games that are over. Here a few lanes are searched at a time, and the next game takes the lane of one that has
ended. Every game is played to its end, so that short ones do not count more.

Dimensions: G games, W lanes, C positions, P players; the agent is player 0.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.multi_agent import SinglePlayerView, TwoPlayerView
from games_jax.opponents import Model, row_of
from jaxsearch import keys
from jaxsearch.types import Evaluator, Search

__all__ = ["Results", "Searched", "judged", "play", "shares", "trusting"]


class Searched(NamedTuple):
    """The positions that were searched, in the order of their searches.

    Attributes:
        states: `[C, ...]`, of the game.
        weights: float32 `[C, A]`, the search's policy target.
        game: int32 `[C]`, the game that each belongs to.
    """

    states: Any
    weights: np.ndarray
    game: np.ndarray


class Results(NamedTuple):
    """How the games went for the agent.

    Attributes:
        outcome: float32 `[G]`: 1 won, -1 lost, 0 otherwise.
        timed_out: bool `[G]`, the game reached its last step undecided.
        steps: int32 `[G]`, until it was decided for the agent.
        searched: the positions, if asked for.
    """

    outcome: np.ndarray
    timed_out: np.ndarray
    steps: np.ndarray
    searched: Searched | None


class _Games(NamedTuple):
    """Leaves `[G, ...]`; the models' memories are `[P - 1, G, ...]`."""

    states: Any
    memories: Any
    keys: jax.Array
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
    lanes: int = 32,
    record: bool = False,
    told: Callable[[Any], Any] | None = None,
    watch: Callable[[np.ndarray], None] | None = None,
) -> Results:
    """Plays G games to the end.

    Each move is searched from a view of its own, whose models start anew, as they do in the paper: they are
    of the opponents' kind and not the opponents themselves. A game depends on `key` and its number alone,
    and not on `lanes`, which only says how many are searched at a time.

    Args:
        view: what is searched.
        search: of states of the view.
        params: of its evaluator.
        opponent: who plays the others.
        key: consumed.
        games: G.
        lanes: W; of 16 or more, once few games are left, a quarter.
        record: keep the positions.
        told: makes of a state the one that is searched, such as `Pommerman.without_hidden_items`; by default
            the search is told everything.
        watch: is shown the outcomes so far after each move, float32 `[G]`, NaN where a game is still on.
    """
    now = _start(view.game, opponent, key, games)
    widths = [lanes] if lanes < 16 else [lanes // 4, lanes]
    parts: list[Searched] = []
    while len(left := np.flatnonzero(~np.asarray(now.decided))):
        if watch is not None:
            watch(np.where(now.decided, now.outcome, np.nan))
        left = left[:lanes]
        rows = np.full(lanes, games, np.int32)  # past the last game where a lane has none
        rows[: len(left)] = left
        width = next(width for width in widths if width >= len(left))
        states, row_keys = _take(now, rows)
        action, weights = _search(search, width, params, *_begin(view, told, states, row_keys))
        now = _advance(view.game, opponent, now, rows, np.resize(np.asarray(action), lanes))
        if record:
            seen = jax.tree.map(np.asarray, Searched(states, weights, rows))
            parts.append(jax.tree.map(operator.itemgetter(slice(len(left))), seen))
    outcome, steps = np.asarray(now.outcome), np.asarray(now.steps)
    searched = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts) if record else None
    return Results(outcome, (steps >= view.game.max_steps) & (outcome == 0), steps, searched)


@functools.partial(jax.jit, static_argnums=(0, 1, 3))
def _start(game: Any, opponent: Model, key: jax.Array, games: int) -> _Games:
    game_keys, model_keys, play_keys = keys.split(keys.per_row(key, jnp.arange(games)), 3)
    seats = jax.vmap(lambda key: jax.random.split(key, game.num_players - 1), out_axes=1)(model_keys)
    return _Games(
        states=jax.vmap(game.init)(game_keys),
        memories=jax.vmap(jax.vmap(opponent.start))(seats),
        keys=play_keys,
        decided=jnp.zeros(games, bool),
        outcome=jnp.zeros(games, jnp.float32),
        steps=jnp.zeros(games, jnp.int32),
    )


# Programs of their own: what takes long to compile does not depend on the number of games, and only the
# search is there for two numbers of lanes.


@jax.jit
def _take(now: _Games, rows: jax.Array) -> tuple[Any, jax.Array]:
    """The states of games, and the keys of their searches."""
    here = jnp.minimum(rows, len(now.steps) - 1)
    return jax.tree.map(lambda leaf: leaf[here], now.states), jax.vmap(jax.random.fold_in)(
        now.keys[here], now.steps[here]
    )


@functools.partial(jax.jit, static_argnums=(0, 1))
def _begin(
    view: SinglePlayerView | TwoPlayerView,
    told: Callable[[Any], Any] | None,
    states: Any,
    row_keys: jax.Array,
) -> tuple[Any, jax.Array]:
    """The views to search, with models of their own, and the keys of the searches."""
    begin_keys, search_keys = keys.split(row_keys)
    states = states if told is None else jax.vmap(told)(states)
    return jax.vmap(view.begin, (0, None, 0))(states, 0, begin_keys), search_keys


@functools.partial(jax.jit, static_argnums=(0, 1))
def _search(
    search: Search, width: int, params: Any, roots: Any, search_keys: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The agent's actions in the first `width` games, int32 `[width]`, and the targets, `[width, A]`."""
    out = search(search_keys[:width], jax.tree.map(lambda leaf: leaf[:width], roots), params)
    return out.action, out.weights


@functools.partial(jax.jit, static_argnums=(0, 1))
def _advance(game: Any, opponent: Model, now: _Games, rows: jax.Array, mine: jax.Array) -> _Games:
    """One step of the games `rows` (int32 `[W]`; those past the last are none) by the agent's actions."""
    others = jnp.arange(1, game.num_players, dtype=jnp.int32)
    here = jnp.minimum(rows, len(now.steps) - 1)
    states = jax.tree.map(lambda leaf: leaf[here], now.states)
    memories = jax.tree.map(lambda leaf: leaf[:, here], now.memories)
    act = jax.vmap(jax.vmap(opponent.act, (0, None, 0)), (None, 0, 0))
    theirs, memories = act(states, others, memories)
    after = jax.vmap(game.step)(states, jnp.concatenate([mine[None], theirs]).T)
    ended = jax.vmap(game.is_over)(after) | jax.vmap(game.is_out)(after)[:, 0]
    put = lambda table, new: table.at[rows].set(new, mode="drop")  # noqa: E731
    put_memory = lambda table, new: table.at[:, rows].set(new, mode="drop")  # noqa: E731
    return _Games(
        states=jax.tree.map(put, now.states, after),
        memories=jax.tree.map(put_memory, now.memories, memories),
        keys=now.keys,
        decided=put(now.decided, ended),
        outcome=put(now.outcome, jax.vmap(game.outcome)(after)[:, 0]),
        steps=put(now.steps, now.steps[here] + 1),
    )


def shares(results: Results) -> dict[str, float]:
    """`games`, and what came of them: the shares of `wins` (with the standard `error`), `ties` and `losses`.

    Also the share of games that were `timed_out`, which are among the ties, and the mean number of `steps`.
    """
    games = len(results.outcome)
    wins, losses = (float(np.mean(results.outcome == sign)) for sign in (1, -1))
    return {
        "games": games,
        "wins": wins,
        "error": math.sqrt(wins * (1 - wins) / games),
        "ties": 1 - wins - losses,
        "timed_out": float(np.mean(results.timed_out)),
        "losses": losses,
        "steps": float(results.steps.mean()),
    }


def judged(view: SinglePlayerView | TwoPlayerView) -> Evaluator:
    """What the network of the view's opponents, a `NetworkModel`, has already said of the states.

    So the search judges by the same network, and asks it once for each state: a batch of all players.
    """

    def evaluate(params: Any, key: jax.Array, states: Any) -> tuple[jax.Array, jax.Array]:
        del params, key
        if isinstance(view, TwoPlayerView):
            seats, memories = jax.vmap(view.seat)(states), states.base.memories
        else:
            seats, memories = states.player, states.memories
        return jax.vmap(row_of)(memories.logits, seats), jax.vmap(row_of)(memories.values, seats)

    return evaluate


def trusting(view: TwoPlayerView, evaluate: Evaluator, trust: float) -> Evaluator:
    """For a two-player search that expects the opponent's model to be right, and looks out in case it is not.

    The published TP-MCTS asks the network at the opponent's plies too: what would it do in the opponent's
    place, and how well does the opponent stand? A network that has learnt to win against such opponents
    answers both for a player like itself. Here the prior of the model's answer is `trust`, the rest is shared
    by all allowed actions, and the value is the own player's at every ply: the state is that of the ply
    before.

    Args:
        view: what is searched.
        evaluate: of states of `view.single`, such as `evaluator(network, view.single)`.
        trust: from 0 (any action is as likely) to below 1.

    Raises:
        ValueError: a `trust` out of range.
    """
    if not 0 <= trust < 1:
        raise ValueError(f"trust is {trust}; expected a share of the prior from 0 to below 1.")

    def evaluate_both(params: Any, key: jax.Array, states: Any) -> tuple[jax.Array, jax.Array]:
        logits, values = evaluate(params, key, states.base)
        allowed = jnp.sum(jax.vmap(view.legal_actions)(states), axis=-1, dtype=jnp.float32)
        answer = jax.nn.one_hot(jax.vmap(view.expected)(states), view.num_actions)
        theirs = jnp.log(trust * answer + (1 - trust) / jnp.maximum(allowed, 1)[:, None])
        waits = jax.vmap(view.current_player)(states) == 1
        return jnp.where(waits[:, None], theirs, logits), jnp.where(waits, -values, values)

    return evaluate_both
