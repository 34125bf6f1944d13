"""What a wrapped game has in common with the game inside: written once, for views, checks and adapters."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import jax

from games_jax.game import Game, State


@dataclasses.dataclass(frozen=True)
class Facts:
    """The sizes of a game, as its own: for whatever stands for the game, be it a game or not.

    Attributes:
        game: the game inside.
    """

    game: Game

    @property
    def num_players(self) -> int:
        """The game's."""
        return self.game.num_players

    @property
    def num_actions(self) -> int:
        """The game's."""
        return self.game.num_actions

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The game's."""
        return self.game.observation_shape


@dataclasses.dataclass(frozen=True)
class Wrapper(Facts):
    """A game that is the game inside wherever a subclass does not say otherwise.

    A subclass whose states hold more than the game's overrides `inner`, and everything that makes a state:
    `init`, `step` and `from_string`. Symmetries are not passed on: they hold only where the subclass keeps
    the game's actions and rules.
    """

    @property
    def name(self) -> str:
        """The game's."""
        return self.game.name

    @property
    def version(self) -> int:
        """The game's."""
        return self.game.version

    @property
    def max_steps(self) -> int:
        """The game's."""
        return self.game.max_steps

    @property
    def has_chance(self) -> bool:
        """The game's."""
        return self.game.has_chance

    def inner(self, state: State) -> State:
        """The game's own state in a state of the wrapper."""
        return state

    def init(self, key: jax.Array) -> State:
        """The game's."""
        return self.game.init(key)

    def step(self, state: State, action: jax.Array, *key: jax.Array) -> State:
        """The game's; takes a key where `has_chance`."""
        return cast(Any, self.game).step(self.inner(state), action, *key)

    def legal_actions(self, state: State) -> jax.Array:
        """The game's."""
        return self.game.legal_actions(self.inner(state))

    def observe(self, state: State, player: jax.Array) -> jax.Array:
        """The game's."""
        return self.game.observe(self.inner(state), player)

    def current_player(self, state: State) -> jax.Array:
        """The game's."""
        return self.game.current_player(self.inner(state))

    def rewards(self, state: State) -> jax.Array:
        """The game's."""
        return self.game.rewards(self.inner(state))

    def is_over(self, state: State) -> jax.Array:
        """The game's."""
        return self.game.is_over(self.inner(state))

    def render(self, state: State) -> str:
        """The game's."""
        return self.game.render(self.inner(state))

    def to_svg(self, state: State) -> str:
        """The game's."""
        return self.game.to_svg(self.inner(state))

    def action_to_string(self, action: int) -> str:
        """The game's."""
        return self.game.action_to_string(action)

    def action_from_string(self, text: str) -> int:
        """The game's."""
        return self.game.action_from_string(text)

    def from_string(self, text: str) -> State:
        """The game's."""
        return self.game.from_string(text)
