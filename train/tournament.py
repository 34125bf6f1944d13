"""Tournaments: every player of a group meets every other one, from every opening of one ply.

Reference: the match protocol of Anthony, Tian and Barber (2017), appendix: every legal first move, once with
each colour, without swap.

Dimensions: N openings, P players of a game.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.game import Game
from train.arena import MatchResult, play_match
from train.openings import Openings
from train.players import AnyPlayer
from train.ratings import Encounter

__all__ = ["every_opening", "round_robin"]


def every_opening(game: Game, plies: int = 1) -> Openings:
    """The positions after each line of `plies` legal moves that does not end the game, in order of actions.

    Lines that lead to the same position stand for themselves; `distinct` counts lines.

    Raises:
        ValueError: the game is one of chance, so that a line leads to no one position; no such line leaves it
            open; or `plies` is below 1.
    """
    if plies < 1:
        raise ValueError(f"Openings have at least one ply, got plies={plies}.")
    if game.has_chance:
        raise ValueError(
            f"{game.name} is a game of chance: no list of first moves makes up its openings; expected a game "
            "without, or give random openings."
        )
    states = jax.tree.map(lambda leaf: leaf[None], game.init(jax.random.key(0)))
    moves = np.zeros((1, 0), np.int32)
    returns = jnp.zeros((1, game.num_players), jnp.float32)
    actions = jnp.arange(game.num_actions, dtype=jnp.int32)
    every_step = jax.jit(jax.vmap(jax.vmap(game.step, in_axes=(None, 0)), in_axes=(0, None)))
    for _ in range(plies):
        after = every_step(states, actions)
        legal = jax.vmap(game.legal_actions)(states)
        over = jax.vmap(jax.vmap(game.is_over))(after)
        line, action = np.nonzero(np.asarray(legal & ~over))
        if not len(line):
            raise ValueError(f"No line of {plies} plies of {game.name} leaves the game open; use fewer.")
        rewards = jax.vmap(jax.vmap(game.rewards))(after)[line, action]
        states, returns = jax.tree.map(lambda leaf: leaf[line, action], after), returns[line] + rewards  # noqa: B023
        moves = np.concatenate([moves[line], action[:, None].astype(np.int32)], axis=1)
    return Openings(states, moves, returns, len(moves))


def round_robin(
    game: Game,
    players: Sequence[AnyPlayer],
    *,
    key: jax.Array,
    openings: Openings | None = None,
    known: Iterable[Encounter] = (),
    batch: int = 1024,
) -> Iterator[MatchResult]:
    """Plays the matches between all pairs of `players`, one result at a time, in a fixed order.

    Players that share their `act`, such as the networks of one kind, share a compiled program.

    Args:
        game: for two players.
        players: with different names.
        key: consumed; a pair's games depend on it and on the two names alone, so that a group may grow.
        openings: N positions, each played with both colours; by default `every_opening`.
        known: encounters that need no repetition.
        batch: see `play_match`.

    Raises:
        ValueError: two players have the same name.
    """
    names = [player.name for player in players]
    if len(set(names)) < len(names):
        raise ValueError(f"A tournament needs players with different names, got {', '.join(names)}.")
    openings = every_opening(game) if openings is None else openings
    met = {frozenset((encounter.first, encounter.second)) for encounter in known}
    for first, second in itertools.combinations(players, 2):
        if frozenset((first.name, second.name)) in met:
            continue
        pair_key = key
        for name in (first.name, second.name):
            pair_key = jax.random.fold_in(pair_key, _number(name))
        yield play_match(
            game,
            first,
            second,
            games=2 * len(openings.moves),
            key=pair_key,
            openings=openings,
            batch=batch,
        )


def _number(name: str) -> np.uint32:
    """A name as 32 bits, the same in every process (FNV-1a)."""
    number = 2166136261
    for byte in name.encode():
        number = (number ^ byte) * 16777619 % 2**32
    return np.uint32(number)
