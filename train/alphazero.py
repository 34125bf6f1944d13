"""AlphaZero: search plays against itself, the network learns what the search found out.

One iteration is one jitted program with donated state: every game advances some plies, the plies enter the
replay buffer, the learner takes its steps, and the next iteration plays with the new weights.

Reference: Silver et al. (2018), "A general reinforcement learning algorithm that masters chess, shogi, and
Go through self-play"; Danihelka et al. (2022) for the Gumbel search.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from games_jax.game import Game
from jaxsearch.types import Search
from train import checkpoint, learner, replay, selfplay
from train.config import Config, ConfigError
from train.game_of import game_of
from train.networks import Network, evaluator, make_network
from train.targets import returns_of
from train.trees import nonfinite

__all__ = ["AlphaZero", "State", "setup"]

# What random numbers are for: a stream of keys per purpose, so that none depends on how many another drew.
_INIT, _GAMES, _PLAY, _LEARN = range(4)


class State(NamedTuple):
    """The whole state of a run: with the config, all that its future depends on."""

    seed: jax.Array  # the run's key, never consumed
    iteration: jax.Array  # int32 []
    games: selfplay.Games
    replay: replay.Replay
    learner: learner.Learner


@dataclasses.dataclass(frozen=True, eq=False)
class AlphaZero:
    """A run's parts, put together; an `Experiment` for `train.run`. Made by `setup`."""

    config: Config
    game: Game
    network: Network
    search: Search
    optimizer: optax.GradientTransformation
    identity: checkpoint.Identity

    def __post_init__(self):
        object.__setattr__(self, "_iterate", jax.jit(self._iteration, donate_argnums=0))
        object.__setattr__(self, "_nonfinite", jax.jit(lambda state: nonfinite({"learner": state.learner})))

    def init(self, seed: int) -> State:
        """Fresh games, an empty buffer and a new network."""
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

    def parameters(self, state: State) -> dict[str, Any]:
        """The weights that play."""
        return state.learner.average if self.config.learner.average else state.learner.variables

    def nonfinite(self, state: State) -> dict[str, jax.Array]:
        """Which tensors of network and optimiser are not finite."""
        return self._nonfinite(state)  # pyright: ignore[reportAttributeAccessIssue]

    def _iteration(self, state: State) -> tuple[State, dict[str, jax.Array]]:
        config = self.config
        key = jax.random.fold_in(state.seed, state.iteration)
        games, trajectory = selfplay.play(
            self.game,
            self.search,
            self.parameters(state),
            jax.random.fold_in(key, _PLAY),
            state.games,
            config.selfplay,
        )
        buffer = replay.insert(state.replay, trajectory, returns_of(trajectory))
        learnt, metrics = learner.learn(
            self.game,
            self.network,
            config.learner,
            self.optimizer,
            state.learner,
            buffer,
            jax.random.fold_in(key, _LEARN),
        )
        metrics |= self._counts(trajectory)
        return State(state.seed, state.iteration + 1, games, buffer, learnt), metrics

    def _counts(self, trajectory: selfplay.Trajectory) -> dict[str, jax.Array]:
        """What the iteration did, for rates; and what its games looked like."""
        selfplay_, learner_ = self.config.selfplay, self.config.learner
        ended = trajectory.over.astype(jnp.int32)
        games = jnp.sum(ended)
        first = trajectory.over & (trajectory.rewards[..., 0] > 0)
        drawn = trajectory.over & jnp.all(trajectory.rewards == 0, axis=-1)
        share = lambda x: jnp.sum(x.astype(jnp.float32)) / jnp.maximum(games, 1)  # noqa: E731
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
    identity = checkpoint.Identity(game.name, game.version, network.name, network.options)
    return AlphaZero(config, game, network, search, optimizer, identity)
