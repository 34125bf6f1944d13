"""Learning from demonstrations of a game with simultaneous moves: what agents did, and how it ended for them.

Dimensions: T steps, B games, P players.

Reference: Weil, Czech, Meuser and Kersting (2023), Know your Enemy, section on supervised learning: a million
positions of four heuristic agents, from the point of view of each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.multi_agent import SinglePlayerView
from games_jax.opponents import Model
from train.imitation import Dataset

__all__ = ["Recorded", "dataset", "record", "returns"]


class Recorded(NamedTuple):
    """Games that never stop: one that is over is followed by a new one.

    Attributes:
        states: `[T, B, ...]`, before the actions.
        actions: int32 `[T, B, P]`.
        playing: bool `[T, B, P]`, for whom the game was not decided yet.
        over: bool `[T, B]`, whether the step ended the game.
        outcomes: float32 `[T, B, P]`, of the step's end; of a game that goes on for those who are out.
    """

    states: Any
    actions: jax.Array
    playing: jax.Array
    over: jax.Array
    outcomes: jax.Array


def record(game: Any, model: Model, key: jax.Array, *, games: int, steps: int) -> Recorded:
    """Plays `games` games at once for some steps, every agent by `model`; jit it.

    Args:
        game: a simultaneous game with `is_out` and `outcome`.
        model: of all agents.
        key: consumed.
        games: B.
        steps: T.
    """
    players = jnp.arange(game.num_players, dtype=jnp.int32)

    def begin(key: jax.Array) -> tuple[Any, Any]:
        game_key, model_key = jax.random.split(key)
        starts = jax.vmap(game.init)(jax.random.split(game_key, games))
        keys = jax.random.split(model_key, (game.num_players, games))
        return starts, jax.vmap(jax.vmap(model.start))(keys)

    def step(carry: tuple[Any, Any], key: jax.Array) -> tuple[tuple[Any, Any], Recorded]:
        states, memories = carry
        act = jax.vmap(jax.vmap(model.act, (0, None, 0)), (None, 0, 0))
        actions, memories = act(states, players, memories)
        actions = jnp.moveaxis(actions, 0, 1)
        after = jax.vmap(game.step)(states, actions)
        over = jax.vmap(game.is_over)(after)
        playing = ~jax.vmap(game.is_out)(states)
        seen = Recorded(states, actions, playing, over, jax.vmap(game.outcome)(after))
        fresh, young = begin(key)
        states = jax.tree.map(lambda new, old: _where(over, new, old), fresh, after)
        renewed = lambda new, old: jax.vmap(lambda n, o: _where(over, n, o))(new, old)  # noqa: E731
        return (states, jax.tree.map(renewed, young, memories)), seen

    first_key, step_key = jax.random.split(key)
    return jax.lax.scan(step, begin(first_key), jax.random.split(step_key, steps))[1]


def returns(recorded: Recorded) -> tuple[jax.Array, jax.Array]:
    """What each position came to, float32 `[T, B, P]`, and whether that is known, bool `[T, B, P]`.

    The outcome of the game's end; of games that had not ended it is not known.
    """

    def back(later: tuple[jax.Array, jax.Array], row: tuple[jax.Array, jax.Array]) -> Any:
        value, known = later
        over, outcome = row
        value = _where(over, outcome, value)
        known = known | over
        return (value, known), (value, known)

    start = (jnp.zeros_like(recorded.outcomes[0]), jnp.zeros_like(recorded.over[0]))
    _, (values, known) = jax.lax.scan(back, start, (recorded.over, recorded.outcomes), reverse=True)
    return values, known[..., None] & recorded.playing


def dataset(view: SinglePlayerView, recorded: Recorded) -> Dataset:
    """The positions of all agents as `imitation.fit` takes them, `T * B * P` rows in random order.

    So the rows that `fit` holds out come from the games that it learns from: its losses on them say when to
    stop, not how well new games would be predicted.

    Args:
        view: the game seen by one of its players, whose states the rows are.
        recorded: games.
    """
    values, usable = returns(recorded)
    steps, games, count = recorded.actions.shape
    size = steps * games * count
    order = np.random.default_rng(0).permutation(size)
    time, rest = np.divmod(order, games * count)
    place, player = np.divmod(rest, count)
    weights = jax.nn.one_hot(recorded.actions[time, place, player], view.num_actions, dtype=jnp.float32)
    blank = jax.eval_shape(view.init, jax.random.key(0))
    states = jax.tree.map(lambda leaf: jnp.zeros((size, *leaf.shape), leaf.dtype), blank)._replace(
        inner=jax.tree.map(lambda leaf: leaf[time, place], recorded.states),
        player=jnp.asarray(player, jnp.int32),
    )
    return Dataset(
        states=states,
        movers=jnp.zeros(size, jnp.int32),
        weights=weights,
        values=values[time, place, player],
        usable=usable[time, place, player],
        cursor=jnp.int32(0),
        filled=jnp.int32(size),
    )


def _where(condition: jax.Array, new: jax.Array, old: jax.Array) -> jax.Array:
    """`where` for leaves `[B, ...]` and a condition `[B]`."""
    return jnp.where(condition.reshape(condition.shape + (1,) * (new.ndim - 1)), new, old)
