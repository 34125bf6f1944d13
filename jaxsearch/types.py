"""Types that cross module boundaries: mctx's, and the protocols of what a search is given.

Dimensions, here and throughout: B trees searched at once, N nodes of a tree, A actions, D depth,
S simulations.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax

if TYPE_CHECKING:  # mctx's own classes are made by a decorator that type checkers cannot read

    @dataclasses.dataclass(frozen=True)
    class RootFnOutput:
        """The roots: prior logits `[B, A]`, values `[B]`, embeddings `[B, ...]`."""

        prior_logits: jax.Array
        value: jax.Array
        embedding: Any

        def replace(self, **changes: Any) -> RootFnOutput:
            """A copy with changes."""
            ...

    @dataclasses.dataclass(frozen=True)
    class RecurrentFnOutput:
        """One step: rewards, discounts and values `[B]`, prior logits `[B, A]`."""

        reward: jax.Array
        discount: jax.Array
        prior_logits: jax.Array
        value: jax.Array

    @dataclasses.dataclass(frozen=True)
    class PolicyOutput:
        """What a policy returns: actions `[B]`, weights `[B, A]` to learn from, and the tree."""

        action: jax.Array
        action_weights: jax.Array
        search_tree: Any

else:
    from mctx import PolicyOutput, RecurrentFnOutput, RootFnOutput

__all__ = [
    "Environment",
    "Evaluator",
    "Params",
    "PlayoutGame",
    "PolicyOutput",
    "RecurrentFn",
    "RecurrentFnOutput",
    "RootFnOutput",
    "Search",
    "SearchOutput",
    "State",
    "StepDetails",
]

Params = Any
State = Any


class Environment(Protocol):
    """What search needs of a game; every function takes ONE state. `games_jax` games satisfy it."""

    # Properties, so that a constant and a computed fact both fit.
    @property
    def num_players(self) -> int:
        """How many players take part."""
        ...

    @property
    def num_actions(self) -> int:
        """A."""
        ...

    def step(self, state: State, action: jax.Array) -> State:
        """The state after a legal `action`; a finished game is returned unchanged."""
        ...

    def legal_actions(self, state: State) -> jax.Array:
        """Bool `[A]`."""
        ...

    def current_player(self, state: State) -> jax.Array:
        """Int32 `[]`: who moves."""
        ...

    def rewards(self, state: State) -> jax.Array:
        """Float32 `[num_players]`: what the step that led here brought each player."""
        ...

    def is_over(self, state: State) -> jax.Array:
        """Bool `[]`."""
        ...


class PlayoutGame(Environment, Protocol):
    """An environment that plays random games faster than step by step; `evaluators.playouts` then uses it.

    A game may offer `playouts(states [B], keys [B]) -> [B, num_players]` too, where a batch is faster still.
    And for searches by RAVE `playout_moves(state, key)`, which returns with the rewards what each player
    played: bool `[num_players, A]`, or packed into words, uint32 `[num_players, W]`, action `a` being bit
    `a % 32` of word `a // 32`.
    """

    def playout(self, state: State, key: jax.Array) -> jax.Array:
        """Float32 `[num_players]`: the sum of the rewards of a random game from `state` to its end."""
        ...


class Evaluator(Protocol):
    """Judges a batch of states: a network, playouts, a heuristic."""

    def __call__(self, params: Params, key: jax.Array, states: State) -> tuple[jax.Array, ...]:
        """Returns prior logits `[B, A]` and values `[B]` in [-1, 1] from the mover's point of view.

        With more than two players values are `[B, num_players]`; so they may be with two whose rewards do not
        sum to zero.

        Logits of illegal actions and the outputs at finished games are ignored. An evaluator that plays games
        on may return as a third what each player played, bool `[B, num_players, A]` or packed, uint32
        `[B, num_players, W]` (`action_sets.py`): see `playouts(moves=True)`.
        """
        ...


class RecurrentFn(Protocol):
    """mctx's: one batched step of the model from `[B]` leaves."""

    def __call__(
        self, params: Params, key: jax.Array, action: jax.Array, embedding: Any
    ) -> tuple[RecurrentFnOutput, Any] | tuple[RecurrentFnOutput, Any, StepDetails]:
        """Returns reward, discount, prior logits and value of the states reached, and the states.

        What mctx has no word for may follow as a third: `StepDetails`.
        """
        ...


class StepDetails(NamedTuple):
    """What a search may want to know of a step beyond mctx's `RecurrentFnOutput`.

    Attributes:
        played: what was played where the value comes from a game played on, bool `[B, P, A]` or packed,
            uint32 `[B, P, W]` (`action_sets.py`). P is 1 or 2 players, and the first one is the mover of the
            state reached. For searches that keep `amaf`.
        mover: int32 `[B]`, who moves in the state reached; for searches of values `[B, P]`, one per player,
            whose rewards are `[B, P]` and whose discounts carry no sign (`players.py`).
    """

    played: jax.Array | None = None
    mover: jax.Array | None = None


class SearchOutput(NamedTuple):
    """What a search of a batch of positions says.

    Attributes:
        action: int32 `[B]`, the move to play.
        visits: int32 `[B, A]`, visit counts of the root's actions.
        value: float32 `[B]`, the root's value from the mover's point of view.
        weights: float32 `[B, A]`, the policy target (sums to 1 over legal actions).
        qvalues: float32 `[B, A]`, value of each action for the mover; the root's value where unvisited.
        tree: the whole tree if it was asked for, else None.
    """

    action: jax.Array
    visits: jax.Array
    value: jax.Array
    weights: jax.Array
    qvalues: jax.Array
    tree: Any = None


class Search(Protocol):
    """A configured search: `uct(...)`, `puct(...)`, `gumbel(...)` return one."""

    def __call__(self, key: jax.Array, states: State, params: Params = None) -> SearchOutput:
        """Searches `[B]` states, all not yet over (finished ones get a defined, unused answer)."""
        ...
