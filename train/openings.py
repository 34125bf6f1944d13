"""Openings for matches: positions a few random moves into a game, so that games differ.

Dimensions: N openings, K opening plies, P players.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.game import Game

ROUND = 256
"""Random games played at once: one compiled shape per game and number of plies."""

MAX_ROUNDS = 40
"""Rounds of random play tried before the openings found are taken to be all there are."""

SUCCESSORS = 1 << 15
"""Most states looked at together when one asks what the next move may do, which bounds memory."""


class Openings(NamedTuple):
    """Positions from which a match starts.

    Attributes:
        states: `[N]` positions, none of them over.
        moves: int32 `[N, K]`, the moves that lead there from the start.
        returns: float32 `[N, P]`, rewards received on the way (zero in games that pay at the end).
        distinct: how many of the N positions differ; fewer than N where the game has not that many.
    """

    states: Any
    moves: np.ndarray
    returns: jax.Array
    distinct: int


def step_batch(game: Game, key: jax.Array, states: Any, actions: jax.Array) -> Any:
    """Steps `[B]` states by `[B]` actions; `key` is consumed by games of chance only."""
    if game.has_chance:
        keys = jax.random.split(key, actions.shape[0])
        return jax.vmap(game.step)(states, actions, keys)  # pyright: ignore[reportCallIssue]
    return jax.vmap(game.step)(states, actions)


@functools.partial(jax.jit, static_argnames=("game", "plies"))
def _random_walks(key: jax.Array, *, game: Game, plies: int):
    """Plays `plies` uniformly random legal moves in B = ROUND games.

    Returns states `[B]`, moves `[B, K]`, returns `[B, P]`, a bool `[B]` that says which are fit to start
    a game from, and the observations and movers by which positions are told apart.
    """
    count = ROUND
    init_key, move_key, chance_key = jax.random.split(key, 3)
    states = jax.vmap(game.init)(jax.random.split(init_key, count))
    returns = jnp.zeros((count, game.num_players), jnp.float32)

    noise = jax.random.uniform(move_key, (plies, count, game.num_actions))

    def ply(carry, inputs):
        states, returns = carry
        noise, number = inputs
        legal = jax.vmap(game.legal_actions)(states)
        over = jax.vmap(game.is_over)(states)
        actions = jnp.argmax(jnp.where(legal, noise, -1.0), axis=-1).astype(jnp.int32)
        states = step_batch(game, jax.random.fold_in(chance_key, number), states, actions)
        rewards = jax.vmap(game.rewards)(states)
        return (states, returns + jnp.where(over[:, None], 0.0, rewards)), actions

    (states, returns), moves = jax.lax.scan(ply, (states, returns), (noise, jnp.arange(plies)))
    movers = jax.vmap(game.current_player)(states)
    looks = jax.vmap(game.observe)(states, movers)
    fit = ~jax.vmap(game.is_over)(states) & ~_can_end_now(game, states)
    return states, moves.T.reshape(count, plies), returns, fit, looks, movers


def _can_end_now(game: Game, states: Any) -> jax.Array:
    """Bool `[B]`: whether one legal move ends the game, which would decide the opening by itself."""
    if game.has_chance:  # what a move leads to is not known
        return jnp.zeros_like(jax.vmap(game.is_over)(states))

    def one(state):
        actions = jnp.arange(game.num_actions, dtype=jnp.int32)
        after = jax.vmap(game.step, in_axes=(None, 0))(state, actions)
        return jnp.any(game.legal_actions(state) & jax.vmap(game.is_over)(after))

    # A power of two, so that it divides ROUND and there is no remainder to compile for.
    at_once = 1 << max(SUCCESSORS // game.num_actions, 1).bit_length() - 1
    return jax.lax.map(one, states, batch_size=min(at_once, ROUND))


def random_openings(game: Game, key: jax.Array, *, count: int, plies: int) -> Openings:
    """Draws `count` openings of `plies` uniformly random legal moves each.

    An opening is not over and cannot be ended by the next move. Openings differ as positions (what the
    mover sees), so that transpositions count once. Where the game has fewer than `count`, each is used as
    often as any other, give or take one, and `distinct` says how many there are.

    Args:
        game: any game of the contract.
        key: consumed.
        count: how many, at least 1.
        plies: how many random moves, at least 0; 0 gives the starting position.

    Raises:
        ValueError: for a count or number of plies out of range, or if every game is decided that early.
    """
    if count < 1 or plies < 0:
        raise ValueError(f"Openings need count >= 1 and plies >= 0, got count={count} and plies={plies}.")
    rounds, rows, seen = [], [], set()
    barren = 0  # rounds in a row that found nothing new
    for number, round_key in enumerate(jax.random.split(key, MAX_ROUNDS + 4 * count // ROUND)):
        states, moves, returns, fit, looks, movers = _random_walks(round_key, game=game, plies=plies)
        rounds.append((states, moves, returns))
        before = len(seen)
        looks, movers = np.asarray(looks), np.asarray(movers)
        for i in np.flatnonzero(fit):
            look = looks[i].tobytes() + movers[i].tobytes()
            if look not in seen:
                seen.add(look)
                rows.append(number * ROUND + i)
        barren = barren + 1 if len(seen) == before else 0
        if len(seen) >= count or barren >= 4 or plies == 0:
            break
    if not rows:
        raise ValueError(
            f"No opening of {plies} random plies of {game.name} leaves the game open; use fewer plies."
        )
    picked = np.resize(rows, count)
    states, moves, returns = jax.tree.map(lambda *parts: jnp.concatenate(parts)[picked], *rounds)
    return Openings(states, np.asarray(moves), returns, min(len(seen), count))
