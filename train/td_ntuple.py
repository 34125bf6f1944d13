"""TD-FARL: an n-tuple network learns to judge positions by playing against itself.

It plays its best successor, or (`td.simulations`) what a search around it chooses, section IV-E of the paper.

One iteration is one jitted program with donated state: many games advance ply by ply, and every ply of each
game moves the value of one position, and of those before it, towards what the game shows next. A game that
ends spends its next plies on the final adaptation of every player's last position and then starts anew.

With `td.games = 1` it is the sequential algorithm of the paper.

Dimensions: R rows of the table.

Reference: Konen and Bagheri (2020), Final adaptation reinforcement learning for N-player games; Scheiermann
and Konen (2022), https://arxiv.org/abs/2204.13307.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import jaxsearch
from games_jax.game import Game
from jaxsearch.types import Search
from train import checkpoint, td_ply
from train.config import ConfigError
from train.game_of import game_of
from train.networks import Network
from train.networks.ntuple import (
    NAME,
    NTupleNetwork,
    as_player_network,
    make_ntuple_network,
    value_evaluator,
)
from train.player_specs import search_constants
from train.schema import to_dict
from train.td_config import TDConfig
from train.td_games import make_starts
from train.trees import nonfinite

__all__ = ["State", "TDNTuple", "setup"]

_FIRST, _PLAY = range(2)


class State(NamedTuple):
    """The whole state of a run: with the config, all that its future depends on."""

    seed: jax.Array  # the run's key, never consumed
    iteration: jax.Array  # int32 []
    games: td_ply.Games
    table: jax.Array  # float32 [R, 3]: weights and the two sums of temporal coherence
    average: jax.Array  # float32 [R], or [0] if none is kept


@dataclasses.dataclass(frozen=True, eq=False)
class TDNTuple:
    """A run's parts, put together; an `Experiment` for `train.run`. Made by `setup`.

    Attributes:
        config: all settings.
        game: what the agent is measured at.
        tuples: the network that learns, of the game as it is learnt.
        network: the same as a record for players, of `game`.
        identity: for checkpoints.
        search: what chooses the moves while it learns, if anything does.
    """

    config: TDConfig
    game: Game
    tuples: NTupleNetwork
    network: Network
    identity: checkpoint.Identity
    search: Search | None

    def __post_init__(self):
        for name, search in (("_iterate", self.search), ("_iterate_at_first", None)):
            program = functools.partial(self._iteration, search)
            object.__setattr__(self, name, jax.jit(program, donate_argnums=0))
        object.__setattr__(self, "_weights", jax.jit(lambda state: state.table[:, 0]))
        object.__setattr__(self, "_nonfinite", jax.jit(lambda state: nonfinite({"table": state.table})))

    def init(self, seed: int) -> State:
        """Fresh games and a table of zeros."""
        settings, key = self.config.td, jax.random.key(seed)
        starts = make_starts(
            self.tuples.game,
            jax.random.fold_in(key, _FIRST),
            settings.games,
            share=settings.opening_share,
            plies=settings.opening_plies,
        )
        rows = self.tuples.num_rows
        return State(
            seed=key,
            iteration=jnp.int32(0),
            games=td_ply.new_games(self.tuples, settings, starts),
            table=jnp.zeros((rows, 3)),
            average=jnp.zeros(rows if settings.average else 0),
        )

    def iterate(self, state: State) -> tuple[State, dict[str, jax.Array]]:
        """One iteration; `state` is donated."""
        first = self.config.td.simulations_from * self.config.run.iterations
        # Two programs: one with both branches would copy the table in every iteration.
        if self.search is not None and first > 0 and int(state.iteration) < first:
            return self._iterate_at_first(state)  # pyright: ignore[reportAttributeAccessIssue]
        return self._iterate(state)  # pyright: ignore[reportAttributeAccessIssue]

    def parameters(self, state: State) -> dict[str, Any]:
        """The weights that play."""
        if self.config.td.average:
            return {"weights": state.average}
        return {"weights": self._weights(state)}  # pyright: ignore[reportAttributeAccessIssue]

    def nonfinite(self, state: State) -> dict[str, jax.Array]:
        """Whether the table is not finite."""
        return self._nonfinite(state)  # pyright: ignore[reportAttributeAccessIssue]

    def _iteration(self, search: Search | None, state: State) -> tuple[State, dict[str, jax.Array]]:
        settings = self.config.td
        done = jnp.minimum(state.iteration.astype(jnp.float32) / self.config.run.iterations, 1.0)
        epsilon = settings.epsilon + done * (settings.epsilon_end - settings.epsilon)
        alpha = self._alpha(done)
        key = jax.random.fold_in(jax.random.fold_in(state.seed, _PLAY), state.iteration)
        share = self._opening_share(done)
        table, games, sums = td_ply.play(
            self.tuples, settings, state.table, state.games, key, epsilon, alpha, share, search
        )
        average = state.average
        if settings.average:
            # In the beginning a mean of all, so that the zeros of the start do not linger.
            keep = jnp.minimum(settings.average, state.iteration / (state.iteration + 1.0))
            average = keep * average + (1 - keep) * table[:, 0]
        ended = jnp.maximum(sums["ended"], 1.0)
        results = {"won": sums["first_wins"] / ended}
        if self.game.num_players > 1:
            results = {"first_player_wins": sums["first_wins"] / ended, "draws": sums["draws"] / ended}
        metrics = {
            "games": sums["games"],
            "plies": jnp.float32(settings.games * settings.plies_per_iteration),
            "samples": sums["lessons"],
            "value_loss": sums["squared_error"] / jnp.maximum(sums["lessons"], 1.0),
            "alpha": alpha,
            "epsilon": epsilon,
            "opening_share": jnp.float32(share),
            **results,
        }
        return State(state.seed, state.iteration + 1, games, table, average), metrics

    def _opening_share(self, done: jax.Array) -> jax.Array | float:
        share, end = self.config.td.opening_share, self.config.td.opening_share_end
        return share if end is None else share + done * (end - share)

    def _alpha(self, done: jax.Array) -> jax.Array:
        settings = self.config.td
        if settings.alpha_end is None:
            return jnp.float32(settings.alpha)
        wait = settings.alpha_constant_share
        progress = jnp.clip((done - wait) / max(1.0 - wait, 1e-6), 0.0, 1.0)
        return settings.alpha * (settings.alpha_end / settings.alpha) ** progress


def setup(config: TDConfig) -> TDNTuple:
    """Makes the game and network that a config asks for.

    Raises:
        ConfigError: a game or option that does not exist, or values that do not go together.
    """
    game = game_of(config.game)
    parameters = config.game.parameters | config.training.parameters
    learnt = game_of(dataclasses.replace(config.game, parameters=parameters))
    if game.num_players > 2 or game.has_chance:
        raise ConfigError(
            f"td_ntuple learns games for one or two players without chance, not {game.name}.", "game"
        )
    options = to_dict(config.network)
    network = as_player_network(game, options)
    identity = checkpoint.Identity(game.name, game.version, NAME, network.options)
    tuples = make_ntuple_network(learnt, config.network)
    return TDNTuple(config, game, tuples, network, identity, _search(config, tuples))


def _search(config: TDConfig, tuples: NTupleNetwork) -> Search | None:
    if not config.td.simulations:
        return None
    evaluate = value_evaluator(tuples, config.network.temperature)
    constants = dict(search_constants(to_dict(config.search), "puct"))
    return jaxsearch.puct(tuples.game, evaluate, simulations=config.td.simulations, **constants)
