"""Our games as environments with the interface of pgx, for programs written against it. pgx is not needed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from games_jax.checked import CheckedState, checked
from games_jax.game import Game
from games_jax.wrapper import Facts


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PgxLikeState:
    """A state with the fields of a pgx state.

    Attributes:
        current_player: int32 `[]`; player 0 moves first (pgx draws who does).
        observation: as the current player sees it, `env.observation_shape`.
        rewards: float32 `[P]`, of the step that led here; zeros after any further step.
        terminated: bool `[]`.
        truncated: bool `[]`, always false: a game's own limit ends it.
        legal_action_mask: bool `[A]`; all true once over, as in pgx, so that a masked softmax stays finite.
    """

    current_player: jax.Array
    observation: jax.Array
    rewards: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    legal_action_mask: jax.Array
    _step_count: jax.Array
    _x: CheckedState
    _game: Game = dataclasses.field(metadata={"static": True})

    @property
    def env_id(self) -> str:
        """The game's name."""
        return self._game.name

    def replace(self, **changes: Any) -> PgxLikeState:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_svg(self) -> str:
        """The game's picture of one state."""
        return self._game.to_svg(self._x.inner)

    def save_svg(self, filename: str | Path) -> None:
        """Writes the picture to a file."""
        Path(filename).write_text(self.to_svg())


@dataclasses.dataclass(frozen=True)
class PgxLikeEnv(Facts):
    """A game of ours with the interface of a pgx environment; `to_pgx` makes one."""

    @property
    def id(self) -> str:
        """The game's name."""
        return self.game.name

    @property
    def version(self) -> str:
        """The game's version as pgx writes it, such as "v1"."""
        return f"v{self.game.version}"

    def init(self, key: jax.Array) -> PgxLikeState:
        """A new game from `key`."""
        return self._wrap(checked(self.game).init(key), jnp.zeros((), jnp.int32))

    def step(self, state: PgxLikeState, action: jax.Array, key: jax.Array | None = None) -> PgxLikeState:
        """The state after `action` (int32 `[]`), which may be illegal: then its player loses.

        A finished game stays as it is with rewards of zero, as in pgx.

        Args:
            key: for games with chance; others do without.

        Raises:
            ValueError: a game with chance and no key.
        """
        if self.game.has_chance and key is None:
            raise ValueError(f"{self.id} has chance; give step a key as its third argument.")
        keys = () if key is None or not self.game.has_chance else (key,)
        over = state.terminated
        after = self._wrap(checked(self.game).step(state._x, action, *keys), state._step_count + 1)
        kept = state.replace(rewards=jnp.zeros_like(state.rewards))
        return jax.tree.map(lambda old, new: jnp.where(over, old, new), kept, after)

    def observe(self, state: PgxLikeState, player_id: jax.Array | None = None) -> jax.Array:
        """The state as a player sees it; by default the current one."""
        player = state.current_player if player_id is None else jnp.asarray(player_id, jnp.int32)
        return self.game.observe(state._x.inner, player)

    def _wrap(self, inner: CheckedState, count: jax.Array) -> PgxLikeState:
        game = checked(self.game)
        over, player = game.is_over(inner), game.current_player(inner)
        return PgxLikeState(
            current_player=player,
            observation=game.observe(inner, player),
            rewards=game.rewards(inner),
            terminated=over,
            truncated=jnp.zeros((), bool),
            legal_action_mask=game.legal_actions(inner) | over,
            _step_count=count,
            _x=inner,
            _game=self.game,
        )


def to_pgx(game: Game) -> PgxLikeEnv:
    """A game of ours as an environment with the interface of pgx.

    An illegal action ends the game: -1 for its player and +1 for everybody else.

    Example:
        >>> import jax, games_jax
        >>> env = to_pgx(games_jax.make("connect_four"))
        >>> state = jax.jit(env.step)(env.init(jax.random.key(0)), 3)
        >>> int(state.current_player), bool(state.terminated), state.observation.shape
        (1, False, (6, 7, 3))
    """
    return PgxLikeEnv(game)
