"""Many agents of one game trained in one program: a member for every seed and choice of numeric settings.

All members play in one batch of searches, the games of member m beside those of the others, each by its own
network and its own constants; then they learn, one after the other. Every game has its own random numbers, so
that each member does what it would do alone, up to rounding; what is saved is the compilation, which is done
once, and much of the cost of small kernels. Members whose searches are shorter wait for the longest.

Several devices (`mesh.population`) have some members each, and need not talk.

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
from jax.sharding import Mesh, PartitionSpec

from games_jax.game import Game
from jaxsearch import keys
from jaxsearch.types import Evaluator, Params, State
from train import alphazero, checkpoint, learner, replay, selfplay, sharding
from train.config import Config, ConfigError, MeshConfig
from train.networks import Network, evaluator
from train.packable import AT_MOST, check, packable
from train.schema import fields_of
from train.sweep import value_at
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

_ALL: Any = PartitionSpec()
_MEMBERS: Any = PartitionSpec(sharding.POPULATION)
_GAMES: Any = PartitionSpec(sharding.POPULATION, sharding.DATA)
_COLUMNS: Any = PartitionSpec(sharding.POPULATION, None, sharding.DATA)
SPECS = PopulationState(
    seeds=_MEMBERS,
    iteration=_ALL,
    games=_GAMES,
    replay=replay.Replay(*[_COLUMNS] * 6, cursor=_ALL, filled=_ALL),
    learner=_MEMBERS,
)
"""How a state is spread over a mesh of (population, data)."""


class _Here(NamedTuple):
    """One device's part: which members, and which of their games."""

    members: sharding.Slice = sharding.WHOLE
    games: sharding.Slice = sharding.WHOLE


@dataclasses.dataclass(frozen=True, eq=False)
class Population:
    """The members' common program; an `Experiment` for `train.run`. Made by `population`.

    The metrics are means over members, and `policy_loss.NAME` and the like are a member's own.

    Attributes:
        config: what the members have in common; of `packable.AT_MOST` it says the most.
        members: who they are.
        alone: the parts of a run alone.
        mesh: axes (population, data).
    """

    config: Config
    members: tuple[Member, ...]
    alone: alphazero.AlphaZero
    mesh: Mesh

    def __post_init__(self):
        iteration = functools.partial(self._iteration, _Here())
        if self.mesh.devices.size > 1:
            population, data = self.mesh.devices.shape
            here = _Here(sharding.Slice(sharding.POPULATION, population), sharding.Slice(sharding.DATA, data))
            iteration = jax.shard_map(
                functools.partial(self._iteration, here),
                mesh=self.mesh,
                in_specs=(SPECS,),
                out_specs=(SPECS, _MEMBERS),
                check_vma=False,
            )

        def told(state: PopulationState) -> tuple[PopulationState, dict[str, jax.Array]]:
            state, metrics = iteration(state)
            return state, self._told(metrics)

        object.__setattr__(self, "_iterate", jax.jit(told, donate_argnums=0))
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
        start = functools.partial(self._start, seed)
        return jax.jit(start, out_shardings=self._shardings(jax.eval_shape(start)))()

    def abstract(self, seed: int) -> PopulationState:
        """The shapes, types and places of `init(seed)`, for a checkpoint to be restored into."""
        shapes = jax.eval_shape(functools.partial(self._start, seed))
        return jax.tree.map(
            lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place),
            shapes,
            self._shardings(shapes),
        )

    def _start(self, seed: int) -> PopulationState:
        seeds = jnp.array([int(m.settings.get("run.seed", seed)) for m in self.members], jnp.uint32)
        states = jax.lax.map(self.alone.start, seeds)  # one after the other: no program of M times the size
        buffer = states.replay._replace(cursor=states.replay.cursor[0], filled=states.replay.filled[0])
        return PopulationState(states.seed, states.iteration[0], states.games, buffer, states.learner)

    def _shardings(self, state: PopulationState) -> PopulationState:
        return sharding.place(self.mesh, sharding.spread_over(SPECS, state))

    def iterate(self, state: PopulationState) -> tuple[PopulationState, dict[str, jax.Array]]:
        """One iteration of every member; `state` is donated."""
        return self._iterate(state)  # pyright: ignore[reportAttributeAccessIssue]

    def parameters(self, state: PopulationState) -> dict[str, Any]:
        """The weights that play, `[M, ...]`."""
        return state.learner.average if self.config.learner.average else state.learner.variables

    def nonfinite(self, state: PopulationState) -> dict[str, jax.Array]:
        """Which tensors of networks and optimisers are not finite."""
        return self._nonfinite(state)  # pyright: ignore[reportAttributeAccessIssue]

    def _iteration(self, here: _Here, state: PopulationState) -> tuple[PopulationState, dict[str, jax.Array]]:
        """One iteration of the members that are `here`, and each one's metrics."""
        values = {key: here.members.of(values) for key, values in self._values().items()}
        key = jax.vmap(jax.random.fold_in, (0, None))(state.seeds, state.iteration)
        games, trajectory = self._play(here, values, state, _purpose(key, alphazero.PLAY))
        fill = jax.vmap(replay.insert, (_REPLAY_AXES, 0, 0), _REPLAY_AXES)
        buffer = fill(state.replay, trajectory, jax.vmap(returns_of)(trajectory))
        learnt, metrics = self._learn(here, values, state.learner, buffer, _purpose(key, alphazero.LEARN))
        metrics |= jax.vmap(lambda own: self.alone.counts(own, here.games))(trajectory)
        if "selfplay.simulations" in values:
            metrics["simulations"] = metrics["plies"] * values["selfplay.simulations"]
        return PopulationState(state.seeds, state.iteration + 1, games, buffer, learnt), metrics

    def _play(
        self, here: _Here, values: dict[str, jax.Array], state: PopulationState, key: jax.Array
    ) -> tuple[selfplay.Games, selfplay.Trajectory]:
        """The members' plies in one batch; key `[M]`, values `[M]` each."""
        count, games = state.games.plies.shape
        each = {name: jnp.repeat(numbers, games) for name, numbers in values.items()}
        own = {name.partition(".")[2]: each.pop(name) for name in AT_MOST if name in each}
        config = with_values(self.config, each)
        search = selfplay.make_search(
            self.game,
            _side_by_side(evaluator(self.network, self.game), count),
            config.selfplay,
            config.search,
            own=own,
        )
        slots = here.games.start(self.config.selfplay.games) + jnp.arange(games, dtype=jnp.int32)
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
        self,
        here: _Here,
        values: dict[str, jax.Array],
        before: learner.Learner,
        buffer: replay.Replay,
        key: jax.Array,
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
            return learner.learn(self.game, self.network, settings, optimizer, before, own, key, here.games)

        # One after the other: side by side, the gradients of look-ups take as long and compile slower.
        return jax.lax.map(one, (values, before, buffer._replace(cursor=(), filled=()), key))

    def _values(self) -> dict[str, np.ndarray]:
        """The settings in which members differ, `[M]` each: int32, or float32 where there are fractions."""
        differing = {key for member in self.members for key in member.settings} - {"run.seed"}
        return {
            key: np.array(
                [m.settings.get(key, value_at(self.config, key)) for m in self.members],
                np.int32 if key in AT_MOST else np.float32,
            )
            for key in sorted(differing)
        }

    def _told(self, metrics: dict[str, jax.Array]) -> dict[str, jax.Array]:
        """Scalars for the log, from each member's."""
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
            or members or games that cannot be spread evenly over the devices.
    """
    names = [member.name for member in members]
    if not members or len(set(names)) < len(names):
        raise ConfigError(f"A population needs members of different names, got {names}.")
    allowed = packable(config.selfplay.search)
    for member in members:
        check(config, member.settings)
        for key, value in member.settings.items():
            if key not in allowed:
                raise ConfigError(
                    f"{key} changes the program; members of a population may differ in {', '.join(allowed)}.",
                    key,
                )
            _check_value(key, value)
    config = with_values(config, _greatest(config, members))
    mesh = sharding.make_mesh(config.mesh.data, config.mesh.population)
    if mesh.devices.ndim == 1:
        mesh = Mesh(mesh.devices[None], (sharding.POPULATION, sharding.DATA))
    sharding.check_divisible(config, mesh.devices.shape[1])
    sharding.check_members(len(members), config.mesh.population)
    alone = alphazero.setup(dataclasses.replace(config, mesh=MeshConfig()))
    return Population(config, tuple(members), alone, mesh)


def _greatest(config: Config, members: Sequence[Member]) -> dict[str, int]:
    """Of the settings `AT_MOST` in which members differ, the greatest value of any."""
    return {
        key: max(int(member.settings.get(key, value_at(config, key))) for member in members)
        for key in AT_MOST
        if any(key in member.settings for member in members)
    }


def member_of(tree: Any, number: int) -> Any:
    """One member's part of arrays `[M, ...]`."""
    return jax.tree.map(lambda leaf: leaf[number], tree)


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
