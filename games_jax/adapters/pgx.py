"""Any pgx environment as a game: `from_pgx(pgx.make("hex"))`; and `to_pgx(game)` the other way.

pgx numbers players by a shuffle drawn at the start, keeps the observation in the state, and shows all actions
as legal once a game is over. Here player 0 is the one who moves first, the observation is computed when asked
for, and a finished game has no legal action.

pgx is an optional package: `pip install pgx`.
"""

from __future__ import annotations

import dataclasses
import re
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.adapters.numbered import NumberedActions, longest_game, strongly_typed
from games_jax.adapters.pgx_like import PgxLikeEnv, PgxLikeState, to_pgx

__all__ = ["PgxGame", "PgxLikeEnv", "PgxLikeState", "PgxState", "from_pgx", "make_pgx", "to_pgx"]

# The longest games by the rules of each environment (pgx 2.6). Othello ends at pgx by two passes in a row.
_MAX_STEPS = {
    "tic_tac_toe": 9,
    "connect_four": 42,
    "othello": 124,
    "hex": 122,
    "go_9x9": 162,
    "go_19x19": 722,
    "chess": 512,
    "gardner_chess": 256,
    "animal_shogi": 256,
    "shogi": 512,
    "kuhn_poker": 3,
    "leduc_holdem": 8,
}


class PgxState(NamedTuple):
    """A pgx state without its observation, where pgx does not need it to go on.

    Attributes:
        env: pgx's own state. Its legal mask stays, since pgx's step reads it: A bytes.
        first: int32 `[]`, pgx's number of the player who moved first.
    """

    env: Any
    first: jax.Array


def _without_observation(state: Any) -> Any:
    return state.replace(observation=None)


@dataclasses.dataclass(frozen=True)
class PgxGame(NumberedActions):
    """A pgx environment behind the game contract; `from_pgx` makes one.

    There are no symmetries.
    """

    env: Any
    max_steps: int
    has_chance: bool
    keeps_observation: bool
    num_actions: int
    observation_shape: tuple[int, ...]

    @property
    def name(self) -> str:
        """`pgx:` and the environment's id."""
        return f"pgx:{self.env.id}"

    @property
    def version(self) -> int:
        """The number in pgx's own version: 2 for "v2"."""
        return int(re.sub(r"\D", "", self.env.version) or 0)

    @property
    def num_players(self) -> int:
        """P."""
        return self.env.num_players

    def init(self, key: jax.Array) -> PgxState:
        """A new game from `key`."""
        state = self.env.init(key)
        return PgxState(self._trim(state), state.current_player)

    def step(self, state: PgxState, action: jax.Array, *key: jax.Array) -> PgxState:
        """The state after `action` (int32 `[]`); takes a key where `has_chance`."""
        moved = self._trim(self.env.step(state.env, jnp.asarray(action, jnp.int32), *key))
        # pgx answers a step after the end with zero rewards; the contract wants the same state again.
        over = self.is_over(state)
        env = jax.tree.map(lambda new, old: jnp.where(over, old, new), moved, state.env)
        return PgxState(env, state.first)

    def legal_actions(self, state: PgxState) -> jax.Array:
        """Bool `[A]`; none once over, where pgx itself says all."""
        return state.env.legal_action_mask & ~self.is_over(state)

    def observe(self, state: PgxState, player: jax.Array) -> jax.Array:
        """pgx's observation for `player`; its planes are the environment's own."""
        pgx_player = (jnp.asarray(player, jnp.int32) + state.first) % self.num_players
        with warnings.catch_warnings():
            # pgx means to drop `player_id`, but has no other way to see the game as the one who waits.
            warnings.simplefilter("ignore", DeprecationWarning)
            return self.env.observe(state.env, pgx_player)

    def current_player(self, state: PgxState) -> jax.Array:
        """Int32 `[]`; 0 moved first."""
        return (state.env.current_player - state.first) % self.num_players

    def rewards(self, state: PgxState) -> jax.Array:
        """Float32 `[P]`, player 0 the one who moved first."""
        return jnp.roll(state.env.rewards, -state.first)

    def is_over(self, state: PgxState) -> jax.Array:
        """Bool `[]`."""
        return state.env.terminated | state.env.truncated

    def render(self, state: PgxState) -> str:
        """Whose turn it is and what is legal; pgx draws boards as pictures only."""
        if bool(self.is_over(state)):
            return f"{self.name}: over, rewards {np.asarray(self.rewards(state)).tolist()}"
        legal = np.flatnonzero(self.legal_actions(state)).tolist()
        return f"{self.name}: player {int(self.current_player(state))} to move, legal actions {legal}"

    def to_svg(self, state: PgxState) -> str:
        """pgx's own picture."""
        return state.env.to_svg()

    def _trim(self, state: Any) -> Any:
        return strongly_typed(state if self.keeps_observation else _without_observation(state))


def from_pgx(env: Any, *, max_steps: int | None = None) -> PgxGame:
    """A pgx environment as a game.

    Its functions jit and vmap like any game's. A state holds what pgx's own holds except the observation, so
    that most of these games cost a search far more memory than ours: see `games_jax.game.num_bytes`.

    Args:
        env: from `pgx.make(...)`, or an environment class of pgx built by hand.
        max_steps: the longest game in plies; known for most of pgx's board games.

    Raises:
        ValueError: `max_steps` is neither given nor known.
    """
    longest = longest_game(_MAX_STEPS.get(env.id), max_steps, f"pgx {env.id!r}")
    state = jax.eval_shape(env.init, jax.random.key(0))
    action = jax.ShapeDtypeStruct((), jnp.int32)
    has_chance = not _traces(env.step, state, action)
    keys = (jax.random.key(0),) if has_chance else ()
    return PgxGame(
        env=env,
        max_steps=longest,
        has_chance=has_chance,
        keeps_observation=not _traces(env.step, _without_observation(state), action, *keys),
        num_actions=state.legal_action_mask.shape[0],
        observation_shape=state.observation.shape,
    )


def make_pgx(env_id: str) -> PgxGame:
    """The game of pgx's `make(env_id)`.

    Raises:
        ImportError: pgx is not installed.
        ValueError: pgx knows no such environment, or how long its games last is not known.
    """
    try:
        import pgx
    except ImportError:
        raise ImportError(f"'pgx:{env_id}' needs the package pgx: pip install pgx") from None
    known = pgx.available_envs()
    if env_id not in known:
        raise ValueError(f"pgx has no environment {env_id!r}; it has {', '.join(known)}.")
    return from_pgx(pgx.make(env_id))


def _traces(function: Any, *arguments: Any) -> bool:
    """Whether a function can be traced with these arguments."""
    try:
        jax.eval_shape(function, *arguments)
    except (AssertionError, AttributeError, TypeError, ValueError):
        return False
    return True
