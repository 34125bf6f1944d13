"""Small games with known answers, each made to trip one thing; the interface is `jaxsearch.Environment`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Pile(NamedTuple):
    stones: jax.Array  # int32 []
    player: jax.Array  # int32 [], who moves
    winner: jax.Array  # int32 [], -1 while nobody has won


@dataclasses.dataclass(frozen=True)
class Nim:
    """Take 1, 2 or 3 stones; who takes the last one wins."""

    stones: int
    num_players = 2
    num_actions = 3

    @property
    def max_steps(self) -> int:
        return self.stones

    def init(self, key: jax.Array) -> Pile:
        del key
        return Pile(jnp.int32(self.stones), jnp.int32(0), jnp.int32(-1))

    def passes_turn(self, left: jax.Array) -> jax.Array:
        return jnp.full_like(left, True, dtype=bool)

    def step(self, state: Pile, action: jax.Array) -> Pile:
        over = self.is_over(state)
        left = jnp.where(over, state.stones, state.stones - action - 1)
        player = jnp.where(self.passes_turn(left) & ~over, 1 - state.player, state.player)
        winner = jnp.where(left == 0, jnp.where(over, state.winner, state.player), -1)
        return Pile(left, player, winner)

    def legal_actions(self, state: Pile) -> jax.Array:
        return jnp.arange(1, 4) <= state.stones

    def current_player(self, state: Pile) -> jax.Array:
        return state.player

    def rewards(self, state: Pile) -> jax.Array:
        first = jnp.where(state.winner < 0, 0.0, jnp.where(state.winner == 0, 1.0, -1.0))
        return jnp.stack([first, -first])

    def is_over(self, state: Pile) -> jax.Array:
        return state.stones == 0


@dataclasses.dataclass(frozen=True)
class AgainNim(Nim):
    """Nim in which who leaves a multiple of three moves again."""

    def passes_turn(self, left: jax.Array) -> jax.Array:
        return left % 3 != 0


def solve_pile(stones: int, passes_turn: Callable[[int], bool]) -> tuple[int, set[int]]:
    """The value for the mover, and the takes (1 to 3) that reach it, by exhaustive search."""

    @functools.cache
    def value(stones: int) -> int:
        return max(result(stones, take) for take in range(1, min(3, stones) + 1))

    def result(stones: int, take: int) -> int:
        left = stones - take
        if left == 0:
            return 1
        return -value(left) if passes_turn(left) else value(left)

    best = value(stones)
    return best, {take for take in range(1, min(3, stones) + 1) if result(stones, take) == best}


class Walk(NamedTuple):
    place: jax.Array  # int32 []
    gained: jax.Array  # float32 [], by the last step
    over: jax.Array  # bool []


@dataclasses.dataclass(frozen=True)
class Corridor:
    """One player. Action 0 takes `small` and ends the game; action 1 walks on, and step `length` brings 1."""

    length: int
    small: float
    num_players = 1
    num_actions = 2

    @property
    def max_steps(self) -> int:
        return self.length

    def init(self, key: jax.Array) -> Walk:
        del key
        return Walk(jnp.int32(0), jnp.float32(0), jnp.bool_(False))

    def step(self, state: Walk, action: jax.Array) -> Walk:
        place = state.place + 1
        arrived = (action == 1) & (place == self.length)
        gained = jnp.where(action == 0, self.small, jnp.where(arrived, 1.0, 0.0))
        new = Walk(place, gained, (action == 0) | arrived)
        return jax.tree.map(lambda a, b: jnp.where(state.over, a, b), state, new)

    def legal_actions(self, state: Walk) -> jax.Array:
        return jnp.full((2,), ~state.over)

    def current_player(self, state: Walk) -> jax.Array:
        return jnp.zeros_like(state.place)

    def rewards(self, state: Walk) -> jax.Array:
        return state.gained[None]

    def is_over(self, state: Walk) -> jax.Array:
        return state.over


def start(game, batch: int):
    """The game's first state, `batch` times."""
    return jax.vmap(game.init)(jax.random.split(jax.random.key(0), batch))
