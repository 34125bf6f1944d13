"""Other views of a game: the same rules with another set of actions.

A view is a game like any other, and its states are the game's own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.multi_agent import single_player_view, two_player_view
from games_jax.wrapper import Wrapper

__all__ = ["ByRank", "Restricted", "single_player_view", "two_player_view"]


@dataclasses.dataclass(frozen=True)
class Restricted(Wrapper):
    """A game in which some legal actions may not be chosen, such as Go without filling one's own eyes.

    Attributes:
        game: the game.
        allowed: bool `[A]` of a state: a subset of the legal actions, and not empty unless the game is over.

    Example:
        >>> import games_jax
        >>> go = games_jax.make("go", size=7)
        >>> view = Restricted(go, allowed=go.playout_actions)
        >>> view.num_actions
        50
    """

    allowed: Callable[[Any], jax.Array] = dataclasses.field(kw_only=True)

    def legal_actions(self, state: Any) -> jax.Array:
        """Bool `[A]`: the allowed actions; none once the game is over."""
        return self.allowed(state) & ~self.game.is_over(state)


@dataclasses.dataclass(frozen=True)
class ByRank(Wrapper):
    """A game whose action `k` is the `k`-th legal one: few actions where a position has few of many.

    A search keeps 16 bytes per node and action. Chess has 4,672 actions, of which 218 at most are legal:
    75 kB a node become 3.5 kB. What an action means depends on the state, so what a policy has learnt in one
    state means nothing in the next: this is for searches without a policy network.

    Attributes:
        game: the game. Its `num_legal(state)` and `nth_action(state, n)` are used where it has them.
        width: actions of the view. In a position with more legal ones the last cannot be chosen.

    Example:
        >>> import games_jax, jax
        >>> view = ByRank(games_jax.make("chess"), width=218)
        >>> state = view.init(jax.random.key(0))
        >>> int(view.legal_actions(state).sum())
        20
    """

    width: int = dataclasses.field(kw_only=True)

    def __post_init__(self):
        if not 1 <= self.width <= self.game.num_actions:
            raise ValueError(
                f"width is {self.width}; expected 1 to {self.game.num_actions}, the actions of "
                f"{self.game.name}"
            )

    @property
    def num_actions(self) -> int:
        """The width."""
        return self.width

    def legal_actions(self, state: Any) -> jax.Array:
        """Bool `[width]`: as many as there are legal actions, first ones first."""
        count = getattr(self.game, "num_legal", None)
        legal = count(state) if count else jnp.sum(self.game.legal_actions(state), dtype=jnp.int32)
        legal = jnp.where(self.game.is_over(state), 0, legal)
        return jnp.arange(self.width, dtype=jnp.int32) < legal

    def action_of(self, state: Any, rank: jax.Array) -> jax.Array:
        """The game's action, int32 `[]`, with this rank (int32 `[]`) among the legal ones of `state`."""
        nth = getattr(self.game, "nth_action", None)
        if nth is not None:
            return nth(state, jnp.asarray(rank, jnp.int32).astype(jnp.uint32))
        before = jnp.cumsum(self.game.legal_actions(state), dtype=jnp.int32)
        return jnp.argmax(before == rank + 1).astype(jnp.int32)

    def step(self, state: Any, action: jax.Array, *key: jax.Array) -> Any:
        """The state after the legal action of this rank; takes a key where `has_chance`."""
        over = self.game.is_over(state)
        played = super().step(state, jnp.where(over, np.int32(0), self.action_of(state, action)), *key)
        return jax.tree.map(lambda new, old: jnp.where(over, old, new), played, state)

    def random_action(self, state: Any, random: jax.Array) -> jax.Array:
        """A rank drawn uniformly, int32 `[]`, from random bits (uint32 `[]`)."""
        count = jnp.sum(self.legal_actions(state), dtype=jnp.uint32)
        return ((random >> 16) * count >> 16).astype(jnp.int32)
