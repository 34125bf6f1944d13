"""Expert Iteration: a tree search labels positions, a network learns to answer as it does, and guides it.

One iteration is one jitted program with donated state: positions are drawn from games of the apprentice (the
network alone), the expert (the search) labels them in big batches, and the network is fitted to all the data
kept. With an expert that does not improve it is imitation learning, DAgger from the second iteration on.

Reference: Anthony, Tian and Barber (2017), "Thinking fast and slow with deep learning and tree search",
https://arxiv.org/abs/1705.08439, algorithm 1 and appendix A.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import jaxsearch
from games_jax.game import Game
from jaxsearch.types import Evaluator, Search
from train import checkpoint, imitation
from train.config import ConfigError
from train.episodes import Choose, by_network, by_search, play_out, starts
from train.exit_config import ExItConfig, ExpertConfig
from train.game_of import game_of
from train.networks import Network, evaluator, make_network
from train.openings import step_batch
from train.selfplay import Trajectory, select
from train.targets import of_player, returns_of
from train.trees import nonfinite

__all__ = ["ExpertIteration", "State", "guided_expert", "setup", "vanilla_expert"]

# What random numbers are for.
_INIT, _GAMES, _LABELS, _VALUES, _FIT = range(5)


class State(NamedTuple):
    """The whole state of a run."""

    seed: jax.Array  # the run's key, never consumed
    iteration: jax.Array  # int32 []
    data: imitation.Dataset
    variables: Any
    evaluations: (
        jax.Array
    )  # float32 [], positions shown to the network in all of the run's games and searches


class Labelled(NamedTuple):
    """K positions with their labels, as `imitation.insert` takes them, and what they cost."""

    states: Any
    weights: jax.Array
    values: jax.Array
    games: jax.Array
    plies: jax.Array
    evaluations: jax.Array


def vanilla_expert(game: Game, settings: ExpertConfig, simulations: int) -> Search:
    """The search without a network: UCT with playouts, and with RAVE unless `c_rave` is 0."""
    if settings.c_rave == 0:
        return jaxsearch.uct(game, simulations=simulations, c=settings.c, solver=settings.solver)
    return jaxsearch.rave(
        game, simulations=simulations, c=settings.c, c_rave=settings.c_rave, solver=settings.solver
    )


def guided_expert(game: Game, judge: Evaluator, settings: ExpertConfig, *, keep_tree: bool = False) -> Search:
    """The search with the apprentice's policy, and its value if `playout_weight` is below 1."""
    return jaxsearch.policy_bonus(
        game,
        judge,
        simulations=settings.simulations,
        evaluations=settings.evaluations,
        weight=settings.policy_weight,
        policy_temperature=settings.policy_temperature,
        playout_weight=settings.playout_weight,
        c=settings.c_guided,
        c_rave=settings.c_rave,
        solver=settings.solver,
        keep_tree=keep_tree,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class ExpertIteration:
    """A run's parts, put together; an `Experiment` for `train.run`. Made by `setup`."""

    config: ExItConfig
    game: Game
    network: Network
    identity: checkpoint.Identity

    def __post_init__(self):
        object.__setattr__(self, "_iterate", jax.jit(self._iteration, donate_argnums=0))
        object.__setattr__(self, "_nonfinite", jax.jit(lambda state: nonfinite({"network": state.variables})))

    @property
    def chunk(self) -> int:
        """Rows of the data that one batch of searches brings."""
        every = self.config.data.states == "every"
        return self.config.expert.batch * (self.game.max_steps if every else 1)

    @property
    def capacity(self) -> int:
        """Rows kept: whole chunks; of "batch", those of one iteration."""
        data = self.config.data
        return self._chunks(data.positions if data.variant == "batch" else data.capacity) * self.chunk

    def init(self, seed: int) -> State:
        """No data, and a network that knows nothing."""
        key = jax.random.key(seed)
        return State(
            seed=key,
            iteration=jnp.int32(0),
            data=imitation.new_dataset(self.game, self.capacity),
            variables=self.network.init(jax.random.fold_in(key, _INIT)),
            evaluations=jnp.float32(0),
        )

    def iterate(self, state: State) -> tuple[State, dict[str, jax.Array]]:
        """One iteration; `state` is donated."""
        return self._iterate(state)  # pyright: ignore[reportAttributeAccessIssue]

    def parameters(self, state: State) -> dict[str, Any]:
        """The apprentice's weights."""
        return state.variables

    def nonfinite(self, state: State) -> dict[str, jax.Array]:
        """Which tensors of the network are not finite."""
        return self._nonfinite(state)  # pyright: ignore[reportAttributeAccessIssue]

    def _chunks(self, positions: int) -> int:
        return max(positions // self.chunk, 1)

    def _iteration(self, state: State) -> tuple[State, dict[str, jax.Array]]:
        config, key = self.config, jax.random.fold_in(state.seed, state.iteration)
        data = state.data
        if config.data.variant == "batch":
            data = data._replace(cursor=jnp.int32(0), filled=jnp.int32(0))
        chunks = jnp.int32(self._chunks(config.data.positions))
        if config.data.variant == "exponential":
            grown = jnp.ceil(data.filled.astype(jnp.float32) * (config.data.growth / self.chunk))
            chunks = jnp.where(state.iteration > 0, jnp.maximum(grown.astype(jnp.int32), 1), chunks)

        def gather(number: jax.Array, carry: tuple[imitation.Dataset, jax.Array]):
            data, counts = carry
            new = self._label(jax.random.fold_in(key, number), state.variables, state.iteration > 0)
            every = jnp.ones(self.chunk, bool)
            data = imitation.insert(self.game, data, new.states, new.weights, new.values, every)
            costs = [new.games, new.plies, new.evaluations]
            return data, counts + jnp.stack([cost.astype(jnp.float32) for cost in costs])

        data, (games, plies, evaluations) = jax.lax.fori_loop(
            0, chunks, gather, (data, jnp.zeros(3, jnp.float32))
        )
        fit_key = jax.random.fold_in(key, _FIT)
        variables = self.network.init(fit_key) if config.fit.reset else state.variables
        variables, metrics = imitation.fit(
            self.game,
            self.network,
            config.fit,
            variables,
            data,
            fit_key,
            with_value=config.data.value_target != "none",
        )
        evaluations = state.evaluations + evaluations
        metrics |= {
            "games": games.astype(jnp.int32),
            "plies": plies.astype(jnp.int32),
            "simulations": chunks * self.chunk * config.expert.simulations,
            "samples": metrics.pop("steps") * config.fit.batch_size,
            "positions": jnp.sum(data.usable & (jnp.arange(len(data.usable)) < data.filled)).astype(
                jnp.int32
            ),
            "network_evaluations": evaluations,
        }
        return State(state.seed, state.iteration + 1, data, variables, evaluations), metrics

    def _label(self, key: jax.Array, variables: Any, trained: jax.Array) -> Labelled:
        """One chunk of labelled positions; `trained` (bool `[]`) says whether there is an apprentice yet."""
        settings, expert = self.config.data, self.config.expert
        judge = evaluator(self.network, self.game)
        regularised = settings.policy_target == "regularised"
        apprentice = by_network(judge, self.game, variables, settings.temperature)
        first = by_search(vanilla_expert(self.game, expert, settings.first_simulations), settings.temperature)
        guided = guided_expert(self.game, judge, expert, keep_tree=regularised)
        vanilla = vanilla_expert(self.game, expert, expert.simulations)

        def ask(key: jax.Array, states: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
            """The expert's policy target, root value and shares of visits, without moves proven to lose."""

            def by(search: Search, params: Any):
                out = search(key, states, params)
                kind = settings.policy_target if search is guided else _without_priors(settings.policy_target)
                return imitation.policy_target(kind, out), out.value, out.weights

            if not expert.improves:
                return by(vanilla, None)
            return jax.lax.cond(trained, lambda: by(guided, variables), lambda: by(vanilla, None))

        if settings.states == "every":
            return self._expert_games(key, ask, apprentice, trained)
        keys = [jax.random.fold_in(key, purpose) for purpose in (_GAMES, _LABELS, _VALUES)]
        start = self._starts(keys[0])
        play = lambda choose: play_out(self.game, choose, keys[0], start)  # noqa: E731
        episodes = jax.lax.cond(trained, lambda: play(apprentice), lambda: play(first))
        states = episodes.picked
        weights, root_values, _ = ask(keys[1], states)
        plies = jnp.sum(episodes.plies)
        results, cost = episodes.returns, jnp.where(trained, plies, 0)
        if settings.value_target == "playout":
            continued = play_out(self.game, apprentice, keys[2], states)
            results, cost = continued.totals, cost + jnp.sum(continued.plies)
        values = of_player(results, jax.vmap(self.game.current_player)(states))
        if settings.value_target == "root":
            values = root_values
        searches = jnp.where(trained & expert.improves, expert.batch * expert.asked, 0)
        return Labelled(
            states,
            weights,
            values,
            jnp.int32(expert.batch),
            plies,
            cost + searches,
        )

    def _starts(self, key: jax.Array) -> Any:
        """`expert.batch` states from which games begin."""
        return starts(
            self.game,
            key,
            self.config.expert.batch,
            opening_plies=self.config.data.random_opening_plies,
            opening_share=self.config.data.random_opening_share,
        )

    def _expert_games(self, key: jax.Array, ask: Any, apprentice: Choose, trained: jax.Array) -> Labelled:
        """`game.max_steps` positions of each of `expert.batch` games that the expert plays against itself.

        A game that ends is replaced at once. Of games still on at the end the result is not known; their
        positions get what the expert's search thinks of them in its place.
        """
        settings, expert, game = self.config.data, self.config.expert, self.game

        def ply(states: Any, number: jax.Array) -> tuple[Any, Trajectory]:
            ask_key, move_key, chance_key, start_key = jax.random.split(
                jax.random.fold_in(key, 8 + number), 4
            )
            weights, value, visits = ask(ask_key, states)
            action = jaxsearch.sample_visits(move_key, visits, settings.temperature)
            moved = step_batch(game, chance_key, states, action)
            rewards, over = jax.vmap(game.rewards)(moved), jax.vmap(game.is_over)(moved)
            movers = jax.vmap(game.current_player)(states)
            lengths = jnp.zeros_like(movers)  # which nothing here asks for
            step = Trajectory(states, movers, weights, value, rewards, over, lengths)
            return select(over, self._starts(start_key), moved), step

        start = self._starts(jax.random.fold_in(key, _GAMES))
        _, played = jax.lax.scan(ply, start, jnp.arange(game.max_steps))
        returns = returns_of(played)
        values = jnp.where(returns.known, returns.mine, played.root_values)
        flat = lambda tree: jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)  # noqa: E731
        states, movers, weights, values, roots = flat(
            (played.states, played.movers, played.weights, values, played.root_values)
        )
        plies = len(movers)
        cost = jnp.where(trained & expert.improves, plies * expert.asked, 0)
        if settings.value_target == "playout":
            continued = play_out(game, apprentice, jax.random.fold_in(key, _VALUES), states)
            values, cost = of_player(continued.totals, movers), cost + jnp.sum(continued.plies)
        if settings.value_target == "root":
            values = roots
        ended = jnp.sum(played.over.astype(jnp.int32))
        return Labelled(states, weights, values, ended, jnp.int32(plies), cost)


def _without_priors(kind: Any) -> Any:
    """A search without a network has no priors to regularise by: its visits stand for themselves."""
    return "tree" if kind == "regularised" else kind


def setup(config: ExItConfig) -> ExpertIteration:
    """Makes the game and the network that a config asks for.

    Raises:
        ConfigError: a game, network or option that does not exist, or values that do not go together.
    """
    game = game_of(config.game)
    network = make_network(config.network.name, game, **config.network.options)
    identity = checkpoint.Identity(game.name, game.version, network.name, network.options)
    made = ExpertIteration(config, game, network, identity)
    if made.chunk > config.data.capacity:
        raise ConfigError(
            f"data.capacity = {config.data.capacity} cannot hold the games of one batch; expected at least "
            f"expert.batch * {game.name}'s {game.max_steps} plies = {made.chunk}.",
            "data.capacity",
        )
    return made
