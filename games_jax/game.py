"""The game contract: what a game offers, and what callers may rely on.

Dimensions: B states handled at once, A actions, P players, H x W cells of the board, C observation
planes, K symmetries. A game's functions take ONE state; callers `vmap` them.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

State = Any
"""A frozen pytree that holds what the rules need and nothing else."""


@runtime_checkable
class Game(Protocol):
    """A game as static facts and pure functions of one state.

    The facts are plain Python values, never arrays. They are properties here so that a constant, a field of
    a frozen dataclass and a computed fact all fit.
    """

    @property
    def name(self) -> str:
        """Registry name with its parameters, e.g. `"othello(size=6)"`; a checkpoint records it."""
        ...

    @property
    def version(self) -> int:
        """Raised whenever the same actions would lead to another result."""
        ...

    @property
    def num_players(self) -> int:
        """P."""
        ...

    @property
    def num_actions(self) -> int:
        """A."""
        ...

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """`(H, W, C)`.

        Planes are mover-relative: 0 own stones, 1 the other's, 2 playable cells. Planes exclude one another,
        so that a cell has one code in 0..C.
        """
        ...

    @property
    def max_steps(self) -> int:
        """No game is longer, in plies."""
        ...

    @property
    def has_chance(self) -> bool:
        """Whether `step` takes a key as third argument."""
        ...

    def init(self, key: jax.Array) -> State:
        """The starting state; deterministic games ignore `key`."""
        ...

    def step(self, state: State, action: jax.Array) -> State:
        """The state after `action` (int32 `[]`), which the caller vouches to be legal.

        A finished game is returned unchanged.
        """
        ...

    def legal_actions(self, state: State) -> jax.Array:
        """Bool `[A]`; all false once the game is over."""
        ...

    def observe(self, state: State, player: jax.Array) -> jax.Array:
        """Bool `observation_shape`: the state as `player` sees it."""
        ...

    def current_player(self, state: State) -> jax.Array:
        """Int32 `[]` in 0..P-1: who moves. Stays at the last mover's successor once the game is over."""
        ...

    def rewards(self, state: State) -> jax.Array:
        """Float32 `[P]`: what each player received by the step that led here."""
        ...

    def is_over(self, state: State) -> jax.Array:
        """Bool `[]`."""
        ...

    def render(self, state: State) -> str:
        """The board as text, for a terminal."""
        ...

    def to_svg(self, state: State) -> str:
        """The board as an SVG picture."""
        ...

    def action_to_string(self, action: int) -> str:
        """The move in the game's own notation."""
        ...

    def action_from_string(self, text: str) -> int:
        """The inverse of `action_to_string`; ValueError names what was expected."""
        ...

    def from_string(self, text: str) -> State:
        """A state from a position or a list of moves in text; ValueError says what is wrong."""
        ...


@dataclasses.dataclass(frozen=True)
class Symmetries:
    """The board symmetries under which a game's rules do not change; entry 0 is the identity.

    Attributes:
        cells: int `[K, H * W]`; cell `i` of the transformed board is cell `cells[k, i]` of the old one.
        actions: int `[K, A]`; action `i` on the transformed board is action `actions[k, i]` on the old one.
    """

    cells: np.ndarray
    actions: np.ndarray

    def __len__(self) -> int:
        return len(self.cells)

    def observation(self, observation: jax.Array, k: jax.Array) -> jax.Array:
        """Transforms one observation `[H, W, C]` by symmetry `k` (int32 `[]`)."""
        shape = observation.shape
        cells = jnp.asarray(self.cells)[k]
        return observation.reshape(cells.shape[0], -1)[cells].reshape(shape)

    def policy(self, policy: jax.Array, k: jax.Array) -> jax.Array:
        """Transforms one row over actions `[A]` (a policy, a legal mask) by symmetry `k`."""
        return policy[jnp.asarray(self.actions)[k]]


class SymmetricGame(Game, Protocol):
    """A game that also offers its board symmetries: the optional part of the contract."""

    @property
    def symmetries(self) -> Symmetries | None:
        """The tables, or None for a wrapper of a game without symmetries."""
        ...

    def transform(self, state: State, k: jax.Array) -> State:
        """The state seen through symmetry `k` (int32 `[]`); `step` commutes with it."""
        ...


class SimultaneousGame(Game, Protocol):
    """A game in which all players move at once: what differs from the contract of `Game`.

    `step(state, action)` takes a joint action, int32 `[P]`; an action's number means the same for all.
    `legal_actions(state)` is bool `[P, A]`: a row for each player, in which something is set as long as the
    game runs, also for a player who is out. `current_player` is 0 throughout and means nothing. A search runs
    on a one- or two-player view of such a game: `games_jax.views.single_player_view`, `two_player_view`.
    """

    @property
    def simultaneous(self) -> bool:
        """True."""
        ...


def is_simultaneous(game: Game) -> bool:
    """Whether `step` takes a joint action."""
    return getattr(game, "simultaneous", False)


def symmetries_of(game: Game) -> Symmetries | None:
    """The game's `symmetries`, or None where it has none."""
    return getattr(game, "symmetries", None)


def lattice_of(game: Game) -> str:
    """How the cells `[H, W]` lie: the game's `lattice` if it has one, else `"square"`.

    On a `"hexagonal"` one each row is half a cell further right than the row above, as in Hex.
    """
    return getattr(game, "lattice", "square")


def num_bytes(game: Game) -> int:
    """Bytes of one state: what a search spends on the game at each node of its tree."""
    state = jax.eval_shape(game.init, jax.random.key(0))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
