"""REINFORCE against a pool of earlier selves, as AlphaGo's policy was trained.

Each update plays a batch of whole games against one self drawn from the pool, half of them in each seat, and
makes the moves of the games won more likely and those of the games lost less.

Dimensions: H = half of the games, T turns, A actions.

Reference: Williams (1992); Silver et al. (2016), "Mastering the game of Go with deep neural networks and tree
search", methods.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from games_jax.game import Game
from train import checkpoint
from train.config import ConfigError
from train.episodes import by_network, starts
from train.game_of import game_of
from train.networks import Network, Variables, evaluator, make_network, show
from train.openings import step_batch
from train.policy_gradient_config import ReinforceConfig
from train.selfplay import select
from train.targets import of_player
from train.trees import nonfinite

__all__ = ["Reinforce", "State", "policy_gradient_loss", "setup"]

_INIT, _GAMES, _PLAY, _OPPONENT = range(4)


class State(NamedTuple):
    """The whole state of a run."""

    seed: jax.Array  # the run's key, never consumed
    updates: jax.Array  # int32 [], updates done
    variables: Any
    optimizer: optax.OptState
    pool: Any  # like variables, with an axis of selves in front
    pool_size: jax.Array  # int32 [], selves that ever joined
    evaluations: jax.Array  # float32 [], moves chosen by the networks


class Moves(NamedTuple):
    """The learner's moves, `[T, H]` or `[N]`: positions, actions, and whether the game was still on."""

    states: Any
    actions: jax.Array
    on: jax.Array


class Side(NamedTuple):
    """Half of the games: states `[H]`, the learner's seat `[H]`, and its rewards so far `[H]`."""

    states: Any
    seats: jax.Array
    returns: jax.Array


def policy_gradient_loss(
    game: Game,
    network: Network,
    variables: Variables,
    moves: Moves,
    returns: jax.Array,
    *,
    entropy_bonus: float,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """`-mean(z log pi(a|s)) - bonus * entropy` over the moves of games that were on.

    Args:
        game: shows the positions.
        network: judges them.
        variables: the network's.
        moves: `[N]`.
        returns: float32 `[N]`, what the mover's game brought it.
        entropy_bonus: weight of the entropy.
    """
    observations = jax.vmap(lambda state: show(network, game, state))(moves.states)
    legal = jax.vmap(game.legal_actions)(moves.states)
    logits = network.apply(variables, observations).policy_logits
    log_policy = jax.nn.log_softmax(jnp.where(legal, logits, -1e9), axis=-1)
    chosen = jnp.take_along_axis(log_policy, moves.actions[:, None], axis=-1)[:, 0]
    on = moves.on.astype(jnp.float32)
    mean = lambda x: jnp.sum(on * x) / jnp.maximum(jnp.sum(on), 1.0)  # noqa: E731
    policy = -mean(returns * chosen)
    entropy = -mean(jnp.sum(jnp.exp(log_policy) * jnp.where(legal, log_policy, 0.0), axis=-1))
    return policy - entropy_bonus * entropy, {"policy_loss": policy, "entropy": entropy}


@dataclasses.dataclass(frozen=True, eq=False)
class Reinforce:
    """A run's parts, put together; an `Experiment` for `train.run`. Made by `setup`."""

    config: ReinforceConfig
    game: Game
    network: Network
    optimizer: optax.GradientTransformation
    identity: checkpoint.Identity

    def __post_init__(self):
        object.__setattr__(self, "_iterate", jax.jit(self._iteration, donate_argnums=0))
        object.__setattr__(self, "_nonfinite", jax.jit(lambda state: nonfinite({"network": state.variables})))

    def init(self, seed: int) -> State:
        """A new network, which is also the first of the pool."""
        key = jax.random.key(seed)
        variables = self.network.init(jax.random.fold_in(key, _INIT))
        size = self.config.reinforce.pool
        return State(
            seed=key,
            updates=jnp.int32(0),
            variables=variables,
            optimizer=self.optimizer.init(variables),  # pyright: ignore[reportArgumentType]
            pool=jax.tree.map(
                lambda leaf: jnp.zeros((size, *leaf.shape), leaf.dtype).at[0].set(leaf), variables
            ),
            pool_size=jnp.int32(1),
            evaluations=jnp.float32(0),
        )

    def iterate(self, state: State) -> tuple[State, dict[str, jax.Array]]:
        """One iteration; `state` is donated."""
        return self._iterate(state)  # pyright: ignore[reportAttributeAccessIssue]

    def parameters(self, state: State) -> dict[str, Any]:
        """The weights that play."""
        return state.variables

    def nonfinite(self, state: State) -> dict[str, jax.Array]:
        """Which tensors of the network are not finite."""
        return self._nonfinite(state)  # pyright: ignore[reportAttributeAccessIssue]

    def _iteration(self, state: State) -> tuple[State, dict[str, jax.Array]]:
        count = self.config.reinforce.updates_per_iteration
        state, metrics = jax.lax.scan(lambda state, _: self._update(state), state, length=count)
        plies, learnt = metrics.pop("plies"), metrics.pop("learnt")
        metrics = jax.tree.map(jnp.mean, metrics) | {
            "games": jnp.int32(count * self.config.reinforce.games),
            "plies": jnp.sum(plies),
            "samples": jnp.sum(learnt),
            "network_evaluations": state.evaluations,
        }
        return state, metrics

    def _update(self, state: State) -> tuple[State, dict[str, jax.Array]]:
        """One batch of games and one gradient step."""
        settings, key = self.config.reinforce, jax.random.fold_in(state.seed, state.updates)
        held = jnp.minimum(state.pool_size, settings.pool)
        number = jax.random.randint(jax.random.fold_in(key, _OPPONENT), (), 0, held)
        opponent = jax.tree.map(lambda leaf: leaf[number], state.pool)
        moves, returns, plies = self._games(state.variables, opponent, key)
        gradient, metrics = jax.grad(
            lambda variables: policy_gradient_loss(
                self.game, self.network, variables, moves, returns, entropy_bonus=settings.entropy_bonus
            ),
            has_aux=True,
        )(state.variables)
        with jax.numpy_dtype_promotion("standard"):  # optax mixes integers and floats
            updates, optimizer = self.optimizer.update(gradient, state.optimizer, state.variables)
        variables = optax.apply_updates(state.variables, updates)
        joins = (state.updates + 1) % settings.pool_every == 0
        slot = state.pool_size % settings.pool
        pool = jax.tree.map(
            lambda selves, new: selves.at[slot].set(jnp.where(joins, new, selves[slot])),
            state.pool,
            variables,
        )
        on = moves.on.astype(jnp.float32)
        metrics["won"] = jnp.sum(on * (returns > 0)) / jnp.maximum(jnp.sum(on), 1.0)
        metrics["plies"], metrics["learnt"] = plies, jnp.sum(moves.on.astype(jnp.int32))
        return State(
            state.seed,
            state.updates + 1,
            variables,
            optimizer,
            pool,
            state.pool_size + joins,
            state.evaluations + plies.astype(jnp.float32),
        ), metrics

    def _games(self, variables: Variables, opponent: Variables, key: jax.Array):
        """A batch of games: the learner's moves `[N]`, their returns `[N]`, and the plies played by both.

        Two halves: in one the learner is to move, in the other its opponent; after each turn they change
        places, so that each network judges one half at a time.
        """
        game, half = self.game, self.config.reinforce.games // 2
        judge = evaluator(self.network, game)
        mine, theirs = (by_network(judge, game, params, 1.0) for params in (variables, opponent))
        init_key, play_key = jax.random.split(jax.random.fold_in(key, _GAMES))
        states = starts(
            game,
            init_key,
            2 * half,
            opening_plies=self.config.reinforce.random_opening_plies,
            opening_share=self.config.reinforce.random_opening_share,
        )
        first, second = (jax.tree.map(lambda leaf, part=part: leaf[part::2], states) for part in (0, 1))
        movers = [jax.vmap(game.current_player)(part) for part in (first, second)]
        sides = (
            Side(first, movers[0], jnp.zeros(half, jnp.float32)),
            Side(second, 1 - movers[1], jnp.zeros(half, jnp.float32)),
        )

        def turn(side: Side, player: jax.Array, choose: Any, key: jax.Array) -> tuple[Side, Moves]:
            """One move of `choose` where `player` (`[H]` seats) is to move; finished games wait."""
            move_key, chance_key = jax.random.split(key)
            on = ~jax.vmap(game.is_over)(side.states) & (jax.vmap(game.current_player)(side.states) == player)
            actions = choose(move_key, side.states)
            moved = step_batch(game, chance_key, side.states, actions)
            gained = jnp.where(on, of_player(jax.vmap(game.rewards)(moved), side.seats), 0.0)
            after = Side(select(on, moved, side.states), side.seats, side.returns + gained)
            return after, Moves(side.states, actions, on)

        def both(carry: tuple[Side, Side], key: jax.Array):
            here, there = carry
            here_key, there_key = jax.random.split(key)
            here, moves = turn(here, here.seats, mine, here_key)
            there, answers = turn(there, 1 - there.seats, theirs, there_key)
            return (there, here), (moves, jnp.sum(moves.on.astype(jnp.int32) + answers.on.astype(jnp.int32)))

        # An even number of turns, so that the halves end where they began.
        turns = game.max_steps + game.max_steps % 2
        (first_side, second_side), (moves, plies) = jax.lax.scan(
            both, sides, jax.random.split(play_key, turns)
        )
        even = (jnp.arange(turns) % 2 == 0)[:, None]
        returns = jnp.where(even, first_side.returns, second_side.returns)
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (moves, returns))
        return *flat, jnp.sum(plies)


def setup(config: ReinforceConfig) -> Reinforce:
    """Makes the game, network and optimiser that a config asks for.

    Raises:
        ConfigError: a game, network or option that does not exist, or a game that is not for two.
    """
    game = game_of(config.game)
    if game.num_players != 2:
        raise ConfigError(
            f"REINFORCE against earlier selves is for two players; {game.name} has {game.num_players}.",
            "game",
        )
    network = make_network(config.network.name, game, **config.network.options)
    clip = optax.clip_by_global_norm(config.reinforce.gradient_clip)
    optimizer = optax.chain(clip, optax.adam(config.reinforce.learning_rate))
    identity = checkpoint.Identity(game.name, game.version, network.name, network.options)
    return Reinforce(config, game, network, optimizer, identity)
