"""Any single-agent jumanji environment as a game: `from_jumanji(jumanji.make("RubiksCube-v0"))`.

jumanji returns the observation, the reward and the mask of legal actions beside the state and cannot make
them of the state again. So they are kept in the state here, which makes it larger than a state of ours.

jumanji is an optional package: `pip install jumanji`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import svg
from games_jax.adapters.numbered import NumberedActions, longest_game, strongly_typed

Observe = Callable[[Any], jax.Array]


class JumanjiState(NamedTuple):
    """jumanji's own state and what it said of it.

    Attributes:
        env: jumanji's state, with a random key as two plain words.
        observation: jumanji's observation, a pytree.
        reward: float32 `[]`, of the step that led here.
        over: bool `[]`.
    """

    env: Any
    observation: Any
    reward: jax.Array
    over: jax.Array


@dataclasses.dataclass(frozen=True)
class JumanjiGame(NumberedActions):
    """A jumanji environment behind the game contract, a game for one player; `from_jumanji` makes one.

    There are no symmetries.
    """

    env: Any
    max_steps: int
    has_chance: bool
    observation_to_array: Observe
    choices: tuple[int, ...]
    observation_shape: tuple[int, ...]

    version = 1
    num_players = 1

    @property
    def name(self) -> str:
        """`jumanji:` and the environment's class."""
        return f"jumanji:{type(self.env).__name__}"

    @property
    def num_actions(self) -> int:
        """A: the product of an action's choices, if it has several; the last one varies fastest."""
        return math.prod(self.choices)

    def init(self, key: jax.Array) -> JumanjiState:
        """A new game from `key`."""
        # Plain words, since a state that holds a typed key cannot be read into numpy.
        return self._state(*self.env.reset(_words(key)))

    def step(self, state: JumanjiState, action: jax.Array, *key: jax.Array) -> JumanjiState:
        """The state after `action` (int32 `[]`); takes a key where `has_chance`."""
        env = dataclasses.replace(state.env, key=_words(*key)) if self.has_chance else state.env
        after = self._state(*self.env.step(env, self._to_jumanji(jnp.asarray(action, jnp.int32))))
        return jax.tree.map(lambda new, old: jnp.where(state.over, old, new), after, state)

    def legal_actions(self, state: JumanjiState) -> jax.Array:
        """Bool `[A]`: the observation's `action_mask`, or all actions if it has none; none once over."""
        mask = getattr(state.observation, "action_mask", None)
        legal = jnp.ones(self.num_actions, bool) if mask is None else mask.reshape(-1).astype(bool)
        return legal & ~state.over

    def observe(self, state: JumanjiState, player: jax.Array) -> jax.Array:
        """What `observation_to_array` makes of jumanji's observation."""
        del player
        return self.observation_to_array(state.observation)

    def current_player(self, state: JumanjiState) -> jax.Array:
        """Int32 `[]`: 0."""
        del state
        return jnp.zeros((), jnp.int32)

    def rewards(self, state: JumanjiState) -> jax.Array:
        """Float32 `[1]`."""
        return state.reward[None]

    def is_over(self, state: JumanjiState) -> jax.Array:
        """Bool `[]`: jumanji's last step of an episode, for whatever reason."""
        return state.over

    def render(self, state: JumanjiState) -> str:
        """What is legal; jumanji draws its environments itself: `env.render(state.env)`."""
        if bool(state.over):
            return f"{self.name}: over, reward {float(state.reward):g}"
        return f"{self.name}: legal actions {np.flatnonzero(self.legal_actions(state)).tolist()}"

    def to_svg(self, state: JumanjiState) -> str:
        """The text of `render` as a picture."""
        return svg.picture(0, 12, [], self.render(state))

    def _to_jumanji(self, action: jax.Array) -> jax.Array:
        if len(self.choices) == 1:
            return action
        return jnp.stack(jnp.unravel_index(action, self.choices)).astype(jnp.int32)

    def _state(self, env: Any, timestep: Any) -> JumanjiState:
        reward = jnp.asarray(timestep.reward, jnp.float32)
        over = jnp.asarray(timestep.last(), bool)
        return strongly_typed(JumanjiState(env, timestep.observation, reward, over))


def from_jumanji(
    env: Any,
    *,
    max_steps: int | None = None,
    has_chance: bool = False,
    observe: Observe | None = None,
) -> JumanjiGame:
    """A jumanji environment as a game.

    Args:
        env: from `jumanji.make(...)`, or an environment of it built by hand; without auto-reset, so that
            games end.
        max_steps: the longest game in steps; by default the environment's `time_limit`.
        has_chance: whether `step` takes a key, which replaces the one in jumanji's state. Without it the
            state foretells its future, and a search plans with what it cannot know. Say True for environments
            in which chance plays on after the start, such as Game2048.
        observe: makes an array of jumanji's observation; by default all its numbers in one float32 vector,
            without the mask of legal actions.

    Raises:
        ValueError: actions that are not discrete, a reward for more than one agent, a state without a key
            where `has_chance`, or a longest game that is neither given nor known.
    """
    longest = longest_game(getattr(env, "time_limit", None), max_steps, type(env).__name__)
    choices = getattr(env.action_spec, "num_values", None)
    if choices is None:
        raise ValueError(
            f"{type(env).__name__} has actions {env.action_spec}; only discrete ones make a game."
        )
    state, timestep = jax.eval_shape(lambda: env.reset(_words(jax.random.key(0))))
    if timestep.reward.shape:
        raise ValueError(
            f"{type(env).__name__} gives rewards of shape {timestep.reward.shape}; only environments of a "
            f"single agent make a game."
        )
    if has_chance and not hasattr(state, "key"):
        raise ValueError(f"the state of {type(env).__name__} has no key; leave has_chance out.")
    to_array = observe or _flatten
    return JumanjiGame(
        env=env,
        max_steps=longest,
        has_chance=has_chance,
        observation_to_array=to_array,
        choices=tuple(int(choice) for choice in np.atleast_1d(np.asarray(choices)).ravel()),
        observation_shape=jax.eval_shape(to_array, timestep.observation).shape,
    )


def _words(key: jax.Array) -> jax.Array:
    return jax.random.key_data(key)


def _flatten(observation: Any) -> jax.Array:
    """All numbers of an observation but its action mask, float32 `[D]`."""
    if hasattr(observation, "_asdict"):
        fields = {name: value for name, value in observation._asdict().items() if name != "action_mask"}
        leaves = jax.tree.leaves(fields)
    else:
        leaves = jax.tree.leaves(observation)
    return jnp.concatenate([jnp.ravel(leaf).astype(jnp.float32) for leaf in leaves])
