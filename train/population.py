"""Many agents of one game trained in one program: a member for every seed and choice of numeric settings.

All members play in one batch of searches, the games of member m beside those of the others, each by its own
network and its own constants; then they learn, one after the other. Every game has its own random numbers, so
that each member does what it would do alone, up to rounding; what is saved is the compilation, which is done
once, and much of the cost of small kernels.

Dimensions: M members, G games of each.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.game import Game
from jaxsearch import keys
from jaxsearch.types import Evaluator, Params, State
from train import alphazero, checkpoint, learner, replay, selfplay
from train.config import Config, ConfigError
from train.networks import Network, evaluator
from train.packable import PACKABLE
from train.schema import fields_of
from train.targets import returns_of
from train.trees import nonfinite

__all__ = ["Member", "Population", "member_of", "population"]


@dataclasses.dataclass(frozen=True)
class Member:
    """One agent.

    Attributes:
        name: what it is called in tables, unique.
        settings: the keys in which it differs from the population's config, with their values.
    """

    name: str
    settings: Mapping[str, float]


class PopulationState(NamedTuple):
    """`alphazero.State` of M members side by side.

    Attributes:
        seeds: keys `[M]`.
        iteration: int32 `[]`.
        games: `[M, G, ...]`.
        replay: `[M, R, G, ...]`; cursor and filled rows are common.
        learner: `[M, ...]`.
    """

    seeds: jax.Array
    iteration: jax.Array
    games: selfplay.Games
    replay: replay.Replay
    learner: learner.Learner


_REPLAY_AXES = replay.Replay(*[0] * 6, cursor=None, filled=None)  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True, eq=False)
class Population:
    """The members' common program; an `Experiment` for `train.run`. Made by `population`.

    The metrics are means over members, and `policy_loss.NAME` and the like are a member's own.
    """

    config: Config
    members: tuple[Member, ...]
    alone: alphazero.AlphaZero

    def __post_init__(self):
        object.__setattr__(self, "_iterate", jax.jit(self._iteration, donate_argnums=0))
        object.__setattr__(self, "_nonfinite", jax.jit(lambda state: nonfinite({"learner": state.learner})))

    @property
    def game(self) -> Game:
        """What is played."""
        return self.alone.game

    @property
    def network(self) -> Network:
        """The kind of network that all members have."""
        return self.alone.network

    @property
    def identity(self) -> checkpoint.Identity:
        """What the states belong to."""
        return self.alone.identity

    def init(self, seed: int) -> PopulationState:
        """Every member's first state, by its own `run.seed` or, where it has none, by `seed`."""
        seeds = [int(m.settings.get("run.seed", seed)) for m in self.members]
        # One program for all, which starts them one after the other.
        states = jax.jit(lambda seeds: jax.lax.map(self.alone.start, seeds))(jnp.array(seeds, jnp.uint32))
        buffer = states.replay._replace(cursor=states.replay.cursor[0], filled=states.replay.filled[0])
        return PopulationState(states.seed, states.iteration[0], states.games, buffer, states.learner)

    def iterate(self, state: PopulationState) -> tuple[PopulationState, dict[str, jax.Array]]:
        """One iteration of every member; `state` is donated."""
        return self._iterate(state)  # pyright: ignore[reportAttributeAccessIssue]

    def parameters(self, state: PopulationState) -> dict[str, Any]:
        """The weights that play, `[M, ...]`."""
        return state.learner.average if self.config.learner.average else state.learner.variables

    def nonfinite(self, state: PopulationState) -> dict[str, jax.Array]:
        """Which tensors of networks and optimisers are not finite."""
        return self._nonfinite(state)  # pyright: ignore[reportAttributeAccessIssue]

    def _iteration(self, state: PopulationState) -> tuple[PopulationState, dict[str, jax.Array]]:
        key = jax.vmap(jax.random.fold_in, (0, None))(state.seeds, state.iteration)
        games, trajectory = self._play(state, _purpose(key, alphazero.PLAY))
        fill = jax.vmap(replay.insert, (_REPLAY_AXES, 0, 0), _REPLAY_AXES)
        buffer = fill(state.replay, trajectory, jax.vmap(returns_of)(trajectory))
        learnt, metrics = self._learn(state.learner, buffer, _purpose(key, alphazero.LEARN))
        metrics |= jax.vmap(self.alone.counts)(trajectory)
        return PopulationState(state.seeds, state.iteration + 1, games, buffer, learnt), self._told(metrics)

    def _play(self, state: PopulationState, key: jax.Array) -> tuple[selfplay.Games, selfplay.Trajectory]:
        """All members' plies in one batch; key `[M]`."""
        count, games = len(self.members), self.config.selfplay.games
        config = self._differing(lambda values: jnp.repeat(values, games))
        search = selfplay.make_search(
            self.game,
            _side_by_side(evaluator(self.network, self.game), count),
            config.selfplay,
            config.search,
        )
        slots = jnp.arange(games, dtype=jnp.int32)
        key = jax.vmap(keys.per_row, (0, None))(key, slots).reshape(-1)
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), state.games)
        after, trajectory = selfplay.play(
            self.game, search, self.parameters(state), key, flat, config.selfplay
        )
        by_member = functools.partial(_apart, members=count)
        return jax.tree.map(by_member, after), jax.vmap(lambda ply: jax.tree.map(by_member, ply), out_axes=1)(
            trajectory
        )

    def _learn(
        self, before: learner.Learner, buffer: replay.Replay, key: jax.Array
    ) -> tuple[learner.Learner, dict[str, jax.Array]]:
        """Every member's gradient steps."""
        steps = self.config.run.iterations * self.config.learner.steps_per_iteration

        def one(
            member: tuple[dict[str, jax.Array], learner.Learner, replay.Replay, jax.Array],
        ) -> tuple[learner.Learner, dict[str, jax.Array]]:
            values, before, own, key = member
            own = own._replace(cursor=buffer.cursor, filled=buffer.filled)
            settings = with_values(self.config, values).learner
            optimizer = learner.make_optimizer(settings, total_steps=steps)
            return learner.learn(self.game, self.network, settings, optimizer, before, own, key)

        # One after the other: side by side, the gradients of look-ups take as long and compile slower.
        return jax.lax.map(one, (self._values(), before, buffer._replace(cursor=(), filled=()), key))

    def _values(self) -> dict[str, jax.Array]:
        """The settings in which members differ, `[M]` each."""
        differing = {key for member in self.members for key in member.settings} - {"run.seed"}
        return {
            key: jnp.asarray(
                np.array([m.settings.get(key, value_at(self.config, key)) for m in self.members]), jnp.float32
            )
            for key in sorted(differing)
        }

    def _differing(self, each: Any) -> Config:
        return with_values(self.config, {key: each(values) for key, values in self._values().items()})

    def _told(self, metrics: dict[str, jax.Array]) -> dict[str, jax.Array]:
        """Scalars for the log."""
        counts = ("games", "plies", "simulations", "samples")
        told = {name: jnp.sum(m) if name in counts else jnp.mean(m) for name, m in metrics.items()}
        for number, member in enumerate(self.members):
            for name in ("policy_loss", "value_loss"):
                told[f"{name}.{member.name}"] = metrics[name][number]
        return told


def population(config: Config, members: Sequence[Member]) -> Population:
    """Makes the common program of a config's members.

    Raises:
        ConfigError: a key in which members cannot differ, a value out of its range, two members of one name,
            or more than one device.
    """
    names = [member.name for member in members]
    if not members or len(set(names)) < len(names):
        raise ConfigError(f"A population needs members of different names, got {names}.")
    if config.mesh.data != 1:
        raise ConfigError(
            f"mesh.data = {config.mesh.data}: a population runs on one device; expected 1.", "mesh.data"
        )
    for member in members:
        for key, value in member.settings.items():
            if key not in PACKABLE:
                raise ConfigError(
                    f"{key} changes the program; members of a population may differ in "
                    f"{', '.join(PACKABLE)}.",
                    key,
                )
            _check_value(key, value)
    if config.selfplay.search == "gumbel" and any("search." in key for m in members for key in m.settings):
        raise ConfigError("Members that search by gumbel cannot differ in [search].", "selfplay.search")
    return Population(config, tuple(members), alphazero.setup(config))


def member_of(tree: Any, number: int) -> Any:
    """One member's part of arrays `[M, ...]`."""
    return jax.tree.map(lambda leaf: leaf[number], tree)


def value_at(config: Any, key: str) -> Any:
    """The setting with a dotted key."""
    return functools.reduce(getattr, key.split("."), config)


def with_values(config: Config, values: Mapping[str, Any]) -> Config:
    """The config with arrays in the place of numbers, which are not checked."""
    config = copy.copy(config)
    for key, value in values.items():
        section, name = key.split(".")
        inner = copy.copy(getattr(config, section))
        object.__setattr__(inner, name, value)
        object.__setattr__(config, section, inner)
    return config


def _check_value(key: str, value: Any) -> None:
    section, name = key.split(".")
    kinds = {field.name: field.kind for field in fields_of(Config)}
    field = next(field for field in fields_of(kinds[section]) if field.name == name)
    field.checked(value, key)


def _purpose(key: jax.Array, purpose: int) -> jax.Array:
    return jax.vmap(jax.random.fold_in, (0, None))(key, purpose)


def _side_by_side(judge: Evaluator, members: int) -> Evaluator:
    """An evaluator of M * G states by M networks; parameters `[M, ...]`."""

    def evaluate(params: Params, key: jax.Array, states: State) -> tuple[jax.Array, ...]:
        apart = jax.tree.map(functools.partial(_apart, members=members), states)
        out = jax.vmap(judge, (0, None, 0))(params, key, apart)
        return tuple(part.reshape(-1, *part.shape[2:]) for part in out)

    return evaluate


def _apart(leaf: jax.Array, *, members: int) -> jax.Array:
    """`[M, G, ...]` from `[M * G, ...]`."""
    return leaf.reshape(members, -1, *leaf.shape[1:])
