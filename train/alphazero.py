"""AlphaZero: search plays against itself, the network learns what the search found out.

One iteration is one jitted program with donated state: every game advances some plies, the plies enter the
replay buffer, the learner takes its steps, and the next iteration plays with the new weights.

Reference: Silver et al. (2018), "A general reinforcement learning algorithm that masters chess, shogi, and
Go through self-play"; Danihelka et al. (2022) for the Gumbel search.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, PartitionSpec

from games_jax.game import Game
from jaxsearch.types import Search
from train import checkpoint, learner, replay, selfplay, sharding
from train.config import Config, ConfigError
from train.game_of import game_of
from train.networks import Network, evaluator, make_network
from train.targets import returns_of
from train.trees import nonfinite

__all__ = ["AlphaZero", "State", "setup"]

# What random numbers are for: a stream of keys per purpose, so that none depends on how many another drew.
_INIT, _GAMES, PLAY, LEARN = range(4)


class State(NamedTuple):
    """The whole state of a run: with the config, all that its future depends on."""

    seed: jax.Array  # the run's key, never consumed
    iteration: jax.Array  # int32 []
    games: selfplay.Games
    replay: replay.Replay
    learner: learner.Learner


_ALL: Any = PartitionSpec()
_GAMES_AXIS: Any = PartitionSpec(sharding.DATA)
_COLUMNS: Any = PartitionSpec(None, sharding.DATA)
SPECS = State(
    seed=_ALL,
    iteration=_ALL,
    games=_GAMES_AXIS,
    replay=replay.Replay(*[_COLUMNS] * 6, cursor=_ALL, filled=_ALL),
    learner=_ALL,
)
"""How a state is spread: games and buffer by the game, the rest on every device."""


@dataclasses.dataclass(frozen=True, eq=False)
class AlphaZero:
    """A run's parts, put together; an `Experiment` for `train.run`. Made by `setup`."""

    config: Config
    game: Game
    network: Network
    search: Search
    optimizer: optax.GradientTransformation
    identity: checkpoint.Identity
    mesh: Mesh

    def __post_init__(self):
        devices = self.mesh.devices.size
        iteration = functools.partial(self._iteration, sharding.WHOLE)
        if devices > 1:
            iteration = jax.shard_map(
                functools.partial(self._iteration, sharding.Slice(sharding.DATA, devices)),
                mesh=self.mesh,
                in_specs=(SPECS,),
                out_specs=(SPECS, PartitionSpec()),
                check_vma=False,
            )
        object.__setattr__(self, "_iterate", jax.jit(iteration, donate_argnums=0))
        object.__setattr__(self, "_nonfinite", jax.jit(lambda state: nonfinite({"learner": state.learner})))

    def init(self, seed: int) -> State:
        """Fresh games, an empty buffer and a new network, each device's part on the device."""
        start = functools.partial(self.start, seed)
        return jax.jit(start, out_shardings=self._shardings(jax.eval_shape(start)))()

    def abstract(self, seed: int) -> State:
        """The shapes, types and places of `init(seed)`, for a checkpoint to be restored into."""
        shapes = jax.eval_shape(functools.partial(self.start, seed))
        return jax.tree.map(
            lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place),
            shapes,
            self._shardings(shapes),
        )

    def _shardings(self, state: State) -> State:
        return sharding.place(self.mesh, sharding.spread_over(SPECS, state))

    def start(self, seed: int | jax.Array) -> State:
        """`init` for a program of one's own; traceable."""
        config, key = self.config, jax.random.key(seed)
        games = selfplay.new_games(
            self.game,
            jax.random.fold_in(key, _GAMES),
            config.selfplay.games,
            opening_plies=config.selfplay.random_opening_plies,
            opening_share=config.selfplay.random_opening_share,
        )
        return State(
            seed=key,
            iteration=jnp.int32(0),
            games=games,
            replay=replay.new_replay(
                games.states,
                self.game.num_actions,
                capacity=config.replay.capacity,
                plies=config.selfplay.plies_per_iteration,
            ),
            learner=learner.new_learner(self.network, self.optimizer, jax.random.fold_in(key, _INIT)),
        )

    def iterate(self, state: State) -> tuple[State, dict[str, jax.Array]]:
        """One iteration; `state` is donated."""
        return self._iterate(state)  # pyright: ignore[reportAttributeAccessIssue]

    def lower(self, state: State) -> Any:
        """The program of an iteration, not compiled yet."""
        return self._iterate.lower(state)  # pyright: ignore[reportAttributeAccessIssue]

    def parameters(self, state: State) -> dict[str, Any]:
        """The weights that play."""
        return state.learner.average if self.config.learner.average else state.learner.variables

    def nonfinite(self, state: State) -> dict[str, jax.Array]:
        """Which tensors of network and optimiser are not finite."""
        return self._nonfinite(state)  # pyright: ignore[reportAttributeAccessIssue]

    def _iteration(self, slice_: sharding.Slice, state: State) -> tuple[State, dict[str, jax.Array]]:
        key = jax.random.fold_in(state.seed, state.iteration)
        games, trajectory = self.play(state, jax.random.fold_in(key, PLAY), slice_)
        buffer = self.insert(state.replay, trajectory)
        learnt, metrics = self.learn(state.learner, buffer, jax.random.fold_in(key, LEARN), slice_)
        metrics |= self.counts(trajectory, slice_)
        return State(state.seed, state.iteration + 1, games, buffer, learnt), metrics

    def play(
        self, state: State, key: jax.Array, slice_: sharding.Slice = sharding.WHOLE
    ) -> tuple[selfplay.Games, selfplay.Trajectory]:
        """The first part of an iteration: every game advances."""
        settings = self.config.selfplay
        first = slice_.start(settings.games)
        return selfplay.play(
            self.game, self.search, self.parameters(state), key, state.games, settings, first=first
        )

    def insert(self, buffer: replay.Replay, trajectory: selfplay.Trajectory) -> replay.Replay:
        """The second: what was played enters the buffer."""
        return replay.insert(buffer, trajectory, returns_of(trajectory))

    def learn(
        self,
        before: learner.Learner,
        buffer: replay.Replay,
        key: jax.Array,
        slice_: sharding.Slice = sharding.WHOLE,
    ) -> tuple[learner.Learner, dict[str, jax.Array]]:
        """The third: gradient steps."""
        settings = self.config.learner
        return learner.learn(self.game, self.network, settings, self.optimizer, before, buffer, key, slice_)

    def counts(
        self, trajectory: selfplay.Trajectory, slice_: sharding.Slice = sharding.WHOLE
    ) -> dict[str, jax.Array]:
        """What the iteration did, for rates; and what its games looked like."""
        selfplay_, learner_ = self.config.selfplay, self.config.learner
        ended = trajectory.over.astype(jnp.int32)
        games = slice_.total(jnp.sum(ended))
        first = trajectory.over & (trajectory.rewards[..., 0] > 0)
        drawn = trajectory.over & jnp.all(trajectory.rewards == 0, axis=-1)
        share = lambda x: slice_.total(jnp.sum(x.astype(jnp.float32))) / jnp.maximum(games, 1)  # noqa: E731
        results = {"won": share(first)}
        if self.game.num_players > 1:
            results = {"first_player_wins": share(first), "draws": share(drawn)}
        plies = selfplay_.games * selfplay_.plies_per_iteration
        return {
            "games": games,
            "plies": jnp.int32(plies),
            "simulations": jnp.int32(plies * selfplay_.simulations),
            "samples": jnp.int32(learner_.batch_size * learner_.steps_per_iteration),
            "game_length": share(ended * trajectory.lengths),
            **results,
        }


def setup(config: Config) -> AlphaZero:
    """Makes the game, network, search and optimiser that a config asks for.

    Raises:
        ConfigError: a game, network or option that does not exist, or values that do not go together.
    """
    game = game_of(config.game)
    network = make_network(config.network.name, game, **config.network.options)
    need = game.max_steps + config.selfplay.plies_per_iteration
    if config.replay.capacity < config.selfplay.games * need:
        raise ConfigError(
            f"replay.capacity = {config.replay.capacity} cannot hold a whole game of each slot; expected at "
            f"least selfplay.games * ({game.name}'s {game.max_steps} plies + selfplay.plies_per_iteration) = "
            f"{config.selfplay.games * need}.",
            "replay.capacity",
        )
    optimizer = learner.make_optimizer(
        config.learner, total_steps=config.run.iterations * config.learner.steps_per_iteration
    )
    search = selfplay.make_search(game, evaluator(network, game), config.selfplay, config.search)
    if config.mesh.population != 1:
        raise ConfigError(
            f"mesh.population = {config.mesh.population}: this run has no members; expected 1, or a sweep.",
            "mesh.population",
        )
    identity = checkpoint.Identity(game.name, game.version, network.name, network.options)
    mesh = sharding.make_mesh(config.mesh.data)
    sharding.check_divisible(config, mesh.devices.size)
    return AlphaZero(config, game, network, search, optimizer, identity, mesh)
