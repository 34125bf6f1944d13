"""Evaluators that play games on at random.

A random ply at batch 256 takes some microseconds (Connect Four 3, Othello 14, on one CPU core), so the choice
of the move must cost no more than the move: the legal actions are packed into words of 32 bits, of which the
population count and five halvings find the one drawn. A running sum over the actions took 150 for Othello.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsearch import action_sets
from jaxsearch.action_sets import WORD, pack_word
from jaxsearch.players import of_player
from jaxsearch.types import Environment, Evaluator, Params, State

__all__ = ["cut_playouts", "playouts", "random_legal"]

_MOST_WORDS = 16
"""So many words of legal actions are gone through one by one; a running sum is used for more."""


def playouts(env: Environment, *, k: int = 1, max_steps: int | None = None, moves: bool = False) -> Evaluator:
    """Uniformly random games to the end; equal priors, the mean result as value.

    The result is the mover's, or with more than two players that of each: values are then `[B, P]`.

    A game that offers `playout` or `playouts` (`types.PlayoutGame`) plays them itself, by its own rules of
    what is drawn: Hex fills the board once, Go leaves eyes alone.

    Args:
        env: the game; of two players, rewards sum to zero.
        k: playouts per state.
        max_steps: a game not over after so many plies counts as it stands (0 if nothing was won yet), and the
            game's own way to play is not used. Default: `env.max_steps` if the game says it, which no game
            exceeds.
        moves: report what each player played as well, as RAVE wants it: packed, uint32 `[B, num_players, W]`
            (`action_sets.py`), or as the game's own `playout_moves` says it, if it has one.

    Raises:
        ValueError: `k` or `max_steps` below 1, no bound on a game's length, or `moves` with more than one
            playout per state.

    Example:
        >>> import games_jax, jax, jaxsearch
        >>> game = games_jax.make("connect_four")
        >>> states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 3))
        >>> logits, values = jaxsearch.playouts(game, k=4)(None, jax.random.key(1), states)
        >>> logits.shape, values.shape
        ((3, 7), (3,))
    """
    _check_count("k", k, "playout per state")
    if moves and k != 1:
        raise ValueError(f"k is {k}; expected 1, because moves=True tells the moves of one game per state")
    own = None if max_steps is not None else _own_playouts(env, moves=moves)
    if own is not None:
        return _mean_of(env, k, functools.partial(_own_results, env, own, moves=moves))
    limit = max_steps if max_steps is not None else getattr(env, "max_steps", None)
    if limit is None:
        raise ValueError("the game states no max_steps; give playouts(max_steps=...)")
    _check_count("max_steps", limit, "ply")

    def result(key: jax.Array, states: State) -> tuple[jax.Array, ...]:
        end = _play(env, key, states, limit, moves=moves)
        if end.played is None:
            return (end.mine,)
        return end.mine, end.played

    return _mean_of(env, k, result)


def cut_playouts(
    env: Environment, *, plies: int, heuristic: Callable[[State], jax.Array], k: int = 1
) -> Evaluator:
    """Random play for some plies, then a judgement of the position; equal priors, the mean as value.

    Args:
        env: the game; of two players, rewards sum to zero.
        plies: played at random; 0 judges the state itself. A game over by then counts its exact result.
        heuristic: judges ONE state, not over, for its mover: float32 `[]` in [-1, 1]; with more than two
            players for each, `[P]`.
        k: playouts per state.

    Raises:
        ValueError: `k` below 1, or `plies` below 0.

    Reference: Lorentz (2008), Amazons discover Monte-Carlo; Winands and Bjornsson (2009).
    """
    _check_count("k", k, "playout per state")
    if plies < 0:
        raise ValueError(f"plies is {plies}; expected 0 or more")

    def result(key: jax.Array, states: State) -> tuple[jax.Array]:
        end = _play(env, key, states, plies)
        if env.num_players > 2:
            judged = jax.vmap(heuristic)(end.states)
            return (end.mine + jnp.where(end.over[:, None], 0.0, judged),)
        same = jax.vmap(env.current_player)(end.states) == jax.vmap(env.current_player)(states)
        judged = jax.vmap(heuristic)(end.states)
        return (end.mine + jnp.where(end.over, 0.0, jnp.where(same, judged, -judged)),)

    return _mean_of(env, k, result)


def random_legal(word: jax.Array, legal: jax.Array) -> jax.Array:
    """A uniformly random legal action, int32 `[B]`; 0 where there is none.

    Args:
        word: random uint32 `[B]`.
        legal: bool `[B, A]`.
    """
    batch, num_actions = legal.shape
    num_words = -(-num_actions // WORD)
    if num_words > _MOST_WORDS:
        whole = jnp.pad(legal, ((0, 0), (0, num_words * WORD - num_actions)))
        words = pack_word(whole.reshape(batch, num_words, WORD))
        counts = jax.lax.population_count(words)
        up_to = jnp.cumsum(counts, axis=-1, dtype=jnp.uint32)
        rank = _below(word, up_to[:, -1])
        before = up_to - counts
        here = (rank[:, None] >= before) & (rank[:, None] < up_to)

        def at(column: jax.Array | np.ndarray) -> jax.Array:
            return jnp.sum(jnp.where(here, column, np.uint32(0)), axis=-1, dtype=jnp.uint32)

        first = at(np.arange(num_words, dtype=np.uint32)[None] * np.uint32(WORD))
        return _action(first, at(words), rank - at(before))
    parts = [pack_word(legal[:, WORD * w : WORD * (w + 1)]) for w in range(num_words)]
    sizes = [jax.lax.population_count(part) for part in parts]
    rank = _below(word, functools.reduce(jnp.add, sizes))
    chosen, chosen_rank, first = parts[0], rank, jnp.zeros_like(rank)
    for w, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        here = rank < size  # ranks before this word have wrapped to huge numbers
        chosen = jnp.where(here, part, chosen)
        chosen_rank = jnp.where(here, rank, chosen_rank)
        first = jnp.where(here, np.uint32(WORD * w), first)
        rank = rank - size
    return _action(first, chosen, chosen_rank)


def _action(first: jax.Array, word: jax.Array, rank: jax.Array) -> jax.Array:
    """The action of the set bit of `word` with `rank` set bits below it; 0 where no bit is set."""
    return jnp.where(word == 0, np.uint32(0), first + _nth_bit(word, rank)).astype(jnp.int32)


def _below(word: jax.Array, count: jax.Array) -> jax.Array:
    """A whole number below `count`, uint32 `[B]`, from a random word: 24 bits of it decide."""
    # Through int32: conversion from and to unsigned numbers is slow on CPU.
    draw = (word >> 8).astype(jnp.int32).astype(jnp.float32) * np.float32(2.0**-24)
    return jnp.floor(draw * count.astype(jnp.int32).astype(jnp.float32)).astype(jnp.int32).astype(jnp.uint32)


class _Games(NamedTuple):
    """Random games on their way.

    Attributes:
        states, over: where they stand.
        mine: float32 `[B]`, what the first mover got so far; with more than two players what each got,
            `[B, P]`.
        seeds: uint32 `[B]`, of the generators.
        played: uint32 `[B, P, W]`, the actions that each player has played (`action_sets.py`); None where
            nobody asks.
    """

    states: State
    over: jax.Array
    mine: jax.Array
    seeds: jax.Array
    played: jax.Array | None


def _play(env: Environment, key: jax.Array, states: State, limit: int, *, moves: bool = False) -> _Games:
    """Plays uniformly at random until all games are over, or for `limit` plies."""
    mover = jax.vmap(env.current_player)(states)
    count = _batch_size(states)

    def go_on(carry: tuple[jax.Array, _Games]) -> jax.Array:
        return (carry[0] < limit) & ~jnp.all(carry[1].over)

    def ply(carry: tuple[jax.Array, _Games]) -> tuple[jax.Array, _Games]:
        done, games = carry
        seeds, word = _draw(games.seeds)
        action = random_legal(word, jax.vmap(env.legal_actions)(games.states))
        states = jax.vmap(env.step)(games.states, action)
        gained = _mine(env, jax.vmap(env.rewards)(states), mover)
        mine = games.mine + _where(games.over, 0.0, gained)
        played = games.played
        if played is not None:
            player = np.arange(played.shape[1], dtype=np.int32)[None]
            moved = (jax.vmap(env.current_player)(games.states)[:, None] == player) & ~games.over[:, None]
            new = action_sets.single(action, env.num_actions)[:, None]
            played = played | jnp.where(moved[..., None], new, np.uint32(0))
        return done + 1, _Games(states, jax.vmap(env.is_over)(states), mine, seeds, played)

    seeds = _seeds(key, count)
    none = None
    if moves:
        words = action_sets.num_words(env.num_actions)
        none = jnp.zeros((count, env.num_players, words), jnp.uint32)
    mine = jnp.zeros((count, env.num_players) if env.num_players > 2 else (count,), jnp.float32)
    games = _Games(states, jax.vmap(env.is_over)(states), mine, seeds, none)
    return jax.lax.while_loop(go_on, ply, (jnp.int32(0), games))[1]


def _mean_of(
    env: Environment, k: int, result: Callable[[jax.Array, State], tuple[jax.Array, ...]]
) -> Evaluator:
    """The evaluator whose value is the mean of `k` results, each for the mover at the start.

    What `result` returns beside is passed on; `k` is 1 then.
    """

    def evaluate(params: Params, key: jax.Array, states: State) -> tuple[jax.Array, ...]:
        del params
        batch = _batch_size(states)
        many = jax.tree.map(lambda leaf: jnp.repeat(leaf, k, axis=0), states)
        value, *played = result(key, many)
        value = jnp.mean(value.reshape(batch, k, *value.shape[1:]), axis=1)
        return jnp.zeros((batch, env.num_actions)), value, *played

    return evaluate


def _own_playouts(env: Environment, *, moves: bool) -> Callable[[State, jax.Array], Any] | None:
    """The game's own way to play a batch of random games, if it has one."""
    if moves:
        one = getattr(env, "playout_moves", None)
        return None if one is None else jax.vmap(one)
    one = getattr(env, "playout", None)
    return getattr(env, "playouts", None if one is None else jax.vmap(one))


def _own_results(
    env: Environment, own: Callable[[State, jax.Array], Any], key: jax.Array, states: State, *, moves: bool
) -> tuple[jax.Array, ...]:
    """What the games' own playouts bring the movers, nothing where the game is over; and what was played."""
    mover, over = jax.vmap(env.current_player)(states), jax.vmap(env.is_over)(states)
    end = own(states, _keys(key, _batch_size(states)))
    rewards, *played = end if moves else (end,)
    return _where(over, 0.0, _mine(env, rewards, mover)), *played


def _mine(env: Environment, rewards: jax.Array, mover: jax.Array) -> jax.Array:
    """The mover's of rewards `[B, P]`; all of them where the players are more than two."""
    return rewards if env.num_players > 2 else of_player(rewards, mover)


def _where(condition: jax.Array, a: float, b: jax.Array) -> jax.Array:
    return jnp.where(condition if b.ndim == 1 else condition[:, None], a, b)


def _batch_size(states: State) -> int:
    return jax.tree.leaves(states)[0].shape[0]


def _check_count(name: str, count: int, unit: str) -> None:
    if count < 1:
        raise ValueError(f"{name} is {count}; expected at least 1 {unit}")


def _keys(key: jax.Array, count: int) -> jax.Array:
    """One key per game, `[B]`, made like `_seeds`."""
    size = jax.random.key_data(key).shape[-1]
    words = _seeds(key, count * size).reshape(count, size)
    return jax.random.wrap_key_data(words, impl=jax.random.key_impl(key))


def _seeds(key: jax.Array, count: int) -> jax.Array:
    """One seed per game, uint32 `[B]`: a hash of the key and the game's number.

    JAX's generator starts with a loop of its own, which costs a tenth of a batch of Connect Four games.
    Reference: the finaliser of MurmurHash3 (Appleby).
    """
    seeds = jnp.arange(count, dtype=jnp.uint32) * np.uint32(0x9E3779B9)
    words = jax.random.key_data(key)
    for i in range(words.shape[-1]):
        seeds = seeds ^ words[i]
        seeds = (seeds ^ (seeds >> 16)) * np.uint32(0x85EBCA6B)
        seeds = (seeds ^ (seeds >> 13)) * np.uint32(0xC2B2AE35)
        seeds = seeds ^ (seeds >> 16)
    return seeds


def _draw(seeds: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The next seeds and random words, uint32 `[B]`, by a PCG generator per game.

    JAX's own generator would cost more than the game here. Reference: O'Neill (2014), PCG-RXS-M-XS-32.
    """
    word = ((seeds >> ((seeds >> 28) + np.uint32(4))) ^ seeds) * np.uint32(277803737)
    return seeds * np.uint32(747796405) + np.uint32(2891336453), (word >> 22) ^ word


def _nth_bit(word: jax.Array, rank: jax.Array) -> jax.Array:
    """The place of the set bit of `word` with `rank` set bits below it, uint32 `[B]`."""
    place = jnp.zeros_like(word)
    for half in (16, 8, 4, 2, 1):
        below = jax.lax.population_count((word >> place) & np.uint32((1 << half) - 1))
        up = rank >= below
        rank = jnp.where(up, rank - below, rank)
        place = jnp.where(up, place + np.uint32(half), place)
    return place
