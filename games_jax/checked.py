"""A game that survives illegal actions: they end it as a loss for the mover."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.game import Game, SymmetricGame, Symmetries, symmetries_of
from games_jax.wrapper import Wrapper

_NOBODY = -1


class CheckedState(NamedTuple):
    """The wrapped game's bytes and 4 more.

    Attributes:
        inner: the wrapped game's state.
        offender: int32 `[]`, the player who made an illegal move, or -1.
    """

    inner: Any
    offender: jax.Array


@dataclasses.dataclass(frozen=True)
class Checked(Wrapper):
    """A game whose `step` accepts any action; see `checked`."""

    @property
    def name(self) -> str:
        """The wrapped game's name, marked."""
        return f"checked:{self.game.name}"

    @property
    def symmetries(self) -> Symmetries | None:
        """The wrapped game's."""
        return symmetries_of(self.game)

    def inner(self, state: CheckedState) -> Any:
        """The wrapped game's state."""
        return state.inner

    def init(self, key: jax.Array) -> CheckedState:
        """The wrapped game's start."""
        return _started(self.game.init(key))

    def step(self, state: CheckedState, action: jax.Array, *key: jax.Array) -> CheckedState:
        """The state after `action`, which may be illegal or out of range."""
        action = jnp.asarray(action, jnp.int32)
        legal = self.game.legal_actions(state.inner)
        in_range = (action >= 0) & (action < self.num_actions)
        allowed = in_range & legal[jnp.clip(action, 0, self.num_actions - 1)]
        over = self.is_over(state)
        mover = self.game.current_player(state.inner)
        # The raw step may answer an illegal action with anything, so that its answer is not used then.
        safe = jnp.where(allowed, action, jnp.argmax(legal).astype(jnp.int32))
        moved = super().step(state, safe, *key)
        go_on = allowed & ~over
        inner = jax.tree.map(lambda new, old: jnp.where(go_on, new, old), moved, state.inner)
        return CheckedState(inner, jnp.where(over | allowed, state.offender, mover))

    def legal_actions(self, state: CheckedState) -> jax.Array:
        """Bool `[A]`."""
        return super().legal_actions(state) & (state.offender == _NOBODY)

    def current_player(self, state: CheckedState) -> jax.Array:
        """Int32 `[]`; after an illegal action the player after the offender."""
        after = (state.offender + 1) % self.num_players
        return jnp.where(state.offender == _NOBODY, super().current_player(state), after)

    def rewards(self, state: CheckedState) -> jax.Array:
        """Float32 `[P]`; after an illegal action -1 for the offender and +1 for everybody else."""
        players = np.arange(self.num_players)
        penalty = jnp.where(players == state.offender, np.float32(-1), np.float32(1))
        return jnp.where(state.offender == _NOBODY, super().rewards(state), penalty)

    def is_over(self, state: CheckedState) -> jax.Array:
        """Bool `[]`."""
        return super().is_over(state) | (state.offender != _NOBODY)

    def transform(self, state: CheckedState, k: jax.Array) -> CheckedState:
        """The wrapped game's symmetry `k`."""
        return CheckedState(cast(SymmetricGame, self.game).transform(state.inner, k), state.offender)

    def render(self, state: CheckedState) -> str:
        """The wrapped game's, and a line about an illegal action."""
        offender, board = int(state.offender), super().render(state)
        return board if offender == _NOBODY else f"{board}\nplayer {offender} made an illegal move and lost"

    def from_string(self, text: str) -> CheckedState:
        """The wrapped game's."""
        return _started(self.game.from_string(text))


def _started(inner: Any) -> CheckedState:
    return CheckedState(inner, jnp.full((), _NOBODY, jnp.int32))


def checked(game: Game) -> Checked:
    """The game with a `step` that accepts any action.

    An illegal or out-of-range action ends the game: -1 for the mover, +1 for everybody else, as in pgx. It
    costs the legal actions of each state that is stepped; use it where actions come from outside a search.

    Example:
        >>> import jax, games_jax
        >>> game = games_jax.checked(games_jax.make("tic_tac_toe"))
        >>> state = game.step(game.step(game.init(jax.random.key(0)), 4), 4)
        >>> game.rewards(state).tolist()
        [1.0, -1.0]
    """
    return Checked(game)
