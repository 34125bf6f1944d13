"""Models of other players: what a view of a simultaneous game plays them by.

A model's memory is a pytree that goes along with the states of a game or of a search tree, so that each
branch has its own; random numbers come from a seed in it (`games_jax.dice`), so that the same path always
meets the same answers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import dice
from games_jax.game import Game, State

__all__ = ["FixedModel", "GreedyModel", "JointModel", "Judged", "Model", "NetworkModel", "RandomModel"]

Memory = Any


class Model(Protocol):
    """One way to play a simultaneous game; functions of ONE state and ONE player."""

    def start(self, key: jax.Array) -> Memory:
        """The memory before the first move."""
        ...

    def act(self, state: State, player: jax.Array, memory: Memory) -> tuple[jax.Array, Memory]:
        """The player's action, int32 `[]`, and its memory after it; `player` is int32 `[]`."""
        ...


@runtime_checkable
class JointModel(Protocol):
    """Several players at once, with one memory; functions of ONE state."""

    def start(self, key: jax.Array) -> Memory:
        """The memory before the first move."""
        ...

    def act_all(self, state: State, players: jax.Array, memory: Memory) -> tuple[jax.Array, Memory]:
        """The actions of `players` (int32 `[K]`), int32 `[K]`, and the memory after them."""
        ...


@dataclasses.dataclass(frozen=True)
class FixedModel:
    """Always the same action; 0 by default, which is to do nothing in Pommerman."""

    action: int = 0

    def start(self, key: jax.Array) -> tuple[()]:
        """Nothing."""
        del key
        return ()

    def act(self, state: State, player: jax.Array, memory: tuple[()]) -> tuple[jax.Array, tuple[()]]:
        """The action."""
        del state, player
        return jnp.full((), self.action, jnp.int32), memory


@dataclasses.dataclass(frozen=True)
class RandomModel:
    """A uniformly random one of the legal actions, or of those that `allowed` gives.

    Attributes:
        game: the game.
        allowed: bool `[P, A]` of a state; the game's legal actions by default.
    """

    game: Game
    allowed: Callable[[State], jax.Array] | None = None

    def start(self, key: jax.Array) -> jax.Array:
        """A seed."""
        return dice.seed_of(key)

    def act(self, state: State, player: jax.Array, memory: jax.Array) -> tuple[jax.Array, jax.Array]:
        """A draw."""
        memory, word = dice.roll(memory)
        rows = (self.allowed or self.game.legal_actions)(state)
        return dice.choose(word, row_of(rows, player)), memory


@dataclasses.dataclass(frozen=True)
class GreedyModel:
    """The allowed action with the highest logit: a network without search.

    Attributes:
        game: the game.
        logits: float `[A]` of what the player sees (`observation_shape`).
        allowed: bool `[P, A]` of a state; the game's legal actions by default.
    """

    game: Game
    logits: Callable[[jax.Array], jax.Array]
    allowed: Callable[[State], jax.Array] | None = None

    def start(self, key: jax.Array) -> tuple[()]:
        """Nothing."""
        del key
        return ()

    def act(self, state: State, player: jax.Array, memory: tuple[()]) -> tuple[jax.Array, tuple[()]]:
        """The arg max."""
        allowed = row_of((self.allowed or self.game.legal_actions)(state), player)
        scores = jnp.where(allowed, self.logits(self.game.observe(state, player)), -jnp.inf)
        return jnp.argmax(scores).astype(jnp.int32), memory


class Judged(NamedTuple):
    """What a network says of a state from every player's side.

    Attributes:
        logits: float32 `[P, A]`.
        values: float32 `[P]`.
    """

    logits: jax.Array
    values: jax.Array


@dataclasses.dataclass(frozen=True)
class NetworkModel:
    """`GreedyModel` for all players at once: one batch of observations a state, the searching player's too.

    What the network said is the memory, so that a search whose own network is the same one need not ask it
    again for priors and values.

    Attributes:
        game: the game.
        judge: observations `[P, ...]` of the players to logits `[P, A]` and values `[P]`.
        allowed: bool `[P, A]` of a state; the game's legal actions by default.
    """

    game: Game
    judge: Callable[[jax.Array], tuple[jax.Array, jax.Array]]
    allowed: Callable[[State], jax.Array] | None = None

    def start(self, key: jax.Array) -> Judged:
        """Nothing judged yet."""
        del key
        count = self.game.num_players
        return Judged(jnp.zeros((count, self.game.num_actions)), jnp.zeros(count))

    def act_all(self, state: State, players: jax.Array, memory: Judged) -> tuple[jax.Array, Judged]:
        """The arg max of each."""
        del memory
        everybody = jnp.arange(self.game.num_players, dtype=jnp.int32)
        seen = jax.vmap(self.game.observe, in_axes=(None, 0))(state, everybody)
        judged = Judged(*self.judge(seen))
        allowed = (self.allowed or self.game.legal_actions)(state)
        best = jnp.argmax(jnp.where(allowed, judged.logits, -jnp.inf), axis=-1).astype(jnp.int32)
        return jax.vmap(row_of, in_axes=(None, 0))(best, players), judged


def row_of(rows: jax.Array, player: jax.Array) -> jax.Array:
    """`rows[player]` by a select: a gather of one of a few costs more."""
    mine = (np.arange(rows.shape[0], dtype=np.int32) == player)[(...,) + (None,) * (rows.ndim - 1)]
    if rows.dtype == bool:
        return (rows & mine).any(axis=0)
    return jnp.sum(jnp.where(mine, rows, jnp.zeros((), rows.dtype)), axis=0, dtype=rows.dtype)
