"""What judges the leaves of a search; the evaluator made from a network is in `train.networks`."""

from __future__ import annotations

from typing import Literal, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxsearch.environment import masked_logits
from jaxsearch.players import of_player
from jaxsearch.random_play import cut_playouts, playouts
from jaxsearch.types import Environment, Evaluator, Params, State

__all__ = ["ValueFn", "cut_playouts", "mixture", "playouts", "successor_values", "uniform"]


class ValueFn(Protocol):
    """A value function of states."""

    def __call__(self, params: Params, states: State) -> jax.Array:
        """Float32 `[B]`, values of the states `[B]` for the player to move in each."""
        ...


def uniform(env: Environment) -> Evaluator:
    """Equal priors and value 0 everywhere, for each player where they are more than two: search alone."""

    def evaluate(params: Params, key: jax.Array, states: State) -> tuple[jax.Array, jax.Array]:
        del params, key
        batch = jax.tree.leaves(states)[0].shape[0]
        each = (env.num_players,) if env.num_players > 2 else ()
        return jnp.zeros((batch, env.num_actions)), jnp.zeros((batch, *each))

    return evaluate


def mixture(evaluator: Evaluator, other: Evaluator, *, weight: float = 0.5) -> Evaluator:
    """The priors of one evaluator, and the values of two: `(1 - weight) * first + weight * other`.

    Both get the same `params`. AlphaGo mixed its value network with playouts so, at weight 0.5.

    Args:
        evaluator: gives priors and values.
        other: gives values, such as `playouts(game)`. Moves that it reports (`playouts(moves=True)`) are
            passed on.
        weight: of the other's value, 0 to 1.

    Raises:
        ValueError: a weight outside 0..1.

    Reference: Silver et al. (2016), Mastering the game of Go with deep neural networks and tree search.
    """
    if not 0 <= weight <= 1:
        raise ValueError(f"weight is {weight}; expected 0 to 1")

    def evaluate(params: Params, key: jax.Array, states: State) -> tuple[jax.Array, ...]:
        key, other_key = jax.random.split(key)
        logits, value, *_ = evaluator(params, key, states)
        _, other_value, *played = other(params, other_key, states)
        # In float32 whatever a network computes in.
        value, other_value = value.astype(jnp.float32), other_value.astype(jnp.float32)
        return logits, (1.0 - weight) * value + weight * other_value, *played

    return evaluate


def successor_values(
    env: Environment,
    value_fn: ValueFn,
    *,
    temperature: float = 0.1,
    value: Literal["state", "best"] = "state",
    discount: float = 1.0,
) -> Evaluator:
    """Makes a search's evaluator of a value function alone: priors `softmax(q / temperature)`.

    `q(a)` is the reward of action `a` and the value of the state after it, for the mover; of a game that is
    over there, the reward alone. An evaluation looks at A + 1 states.

    Args:
        env: the game; one player, or two whose rewards sum to zero.
        value_fn: judges states; its answer where a game is over is not used.
        temperature: more than 0; small ones trust the values more.
        value: of the state itself, what `value_fn` says of it (`"state"`), or the greatest `q` (`"best"`), a
            search one ply deep, which looks at A states.
        discount: per ply, as in the search.

    Raises:
        ValueError: more than two players, a temperature of 0 or less, or an unknown `value`.

    Example:
        >>> import games_jax, jax, jaxsearch
        >>> game = games_jax.make("tic_tac_toe")
        >>> states = jax.tree.map(lambda leaf: leaf[None], game.from_string("XX./OO./... X"))
        >>> evaluator = jaxsearch.successor_values(game, lambda params, states: states.own * 0.0)
        >>> logits, _ = evaluator(None, jax.random.key(0), states)
        >>> int(logits.argmax())  # three in a row
        2
    """
    if env.num_players > 2:
        raise ValueError(
            f"successor_values is for games of one or two players, and this one has {env.num_players}"
        )
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}; expected more than 0")
    if value not in ("state", "best"):
        raise ValueError(f"value is {value!r}; expected 'state' or 'best'")

    def evaluate(params: Params, key: jax.Array, states: State) -> tuple[jax.Array, jax.Array]:
        del key
        mover, legal = jax.vmap(env.current_player)(states), jax.vmap(env.legal_actions)(states)
        batch, actions = legal.shape
        every = jnp.tile(np.arange(actions, dtype=np.int32), batch)
        before = jax.tree.map(lambda leaf: jnp.repeat(leaf, actions, axis=0), states)
        after = jax.vmap(env.step)(before, every)
        mover = jnp.repeat(mover, actions)
        sign = jnp.where(jax.vmap(env.current_player)(after) == mover, discount, -discount)
        judged = sign * value_fn(params, after).astype(jnp.float32)
        q = of_player(jax.vmap(env.rewards)(after), mover)
        q = q + jnp.where(jax.vmap(env.is_over)(after), 0.0, judged)
        # What the value function says after an illegal action, NaN included, stays out.
        q = jnp.where(legal, q.reshape(batch, actions), -jnp.inf)
        logits = masked_logits(q / temperature, legal)
        if value == "state":
            return logits, value_fn(params, states).astype(jnp.float32)
        return logits, jnp.where(jnp.any(legal, axis=-1), jnp.max(q, axis=-1), 0.0)

    return evaluate
