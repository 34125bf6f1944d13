"""PPO in self-play: one network plays all seats and learns from clipped policy gradients.

Dimensions: G games, T plies, A actions.

Reference: Schulman et al. (2017), "Proximal policy optimization algorithms"; Schulman et al. (2016) for the
generalised advantage estimate.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from games_jax.game import Game
from train import checkpoint, selfplay
from train.config import ConfigError
from train.episodes import starts
from train.game_of import game_of
from train.networks import Network, Variables, make_network, show
from train.openings import step_batch
from train.policy_gradient_config import PPOConfig, PPOSettings
from train.targets import of_player
from train.trees import nonfinite

__all__ = ["PPO", "Plies", "State", "advantages", "ppo_loss", "setup"]

_INIT, _GAMES, _PLAY, _LEARN = range(4)


class State(NamedTuple):
    """The whole state of a run."""

    seed: jax.Array  # the run's key, never consumed
    iteration: jax.Array  # int32 []
    states: Any  # [G], games under way
    variables: Any
    optimizer: optax.OptState
    evaluations: jax.Array  # float32 [], moves chosen by the network


class Plies(NamedTuple):
    """What was played, `[T, G]` or `[N]`.

    Attributes:
        observations: what the network saw.
        legal: bool `[..., A]`.
        actions: int32.
        log_probabilities: of the actions, when they were drawn.
        values: the network's, for the mover.
        movers: int32.
        rewards: float32, of the ply, for its mover.
        over: bool, whether the ply ended its game.
    """

    observations: jax.Array
    legal: jax.Array
    actions: jax.Array
    log_probabilities: jax.Array
    values: jax.Array
    movers: jax.Array
    rewards: jax.Array
    over: jax.Array


def advantages(
    plies: Plies, last_values: jax.Array, last_movers: jax.Array, *, gamma: float, gae_lambda: float
) -> jax.Array:
    """Generalised advantage estimates for the movers, float32 `[T, G]`.

    `delta = r + gamma s V' - V` and `A = delta + gamma lambda s A'`, where s is -1 if the next position
    belongs to the other player, 1 if the same player moves again, and 0 after the end. For games of one
    player, or of two whose rewards are opposite.

    Args:
        plies: `[T, G]`, in the order played.
        last_values, last_movers: `[G]`, of the positions after the last ply.
        gamma: discount per ply.
        gae_lambda: decay.
    """

    def back(carry: tuple[jax.Array, ...], ply: tuple[jax.Array, ...]):
        next_advantage, next_value, next_mover = carry
        reward, value, mover, over = ply
        sign = gamma * jnp.where(over, 0.0, jnp.where(next_mover == mover, 1.0, -1.0))
        advantage = reward + sign * next_value - value + gae_lambda * sign * next_advantage
        return (advantage, value, mover), advantage

    start = (jnp.zeros_like(last_values), last_values, last_movers)
    return jax.lax.scan(back, start, (plies.rewards, plies.values, plies.movers, plies.over), reverse=True)[1]


def ppo_loss(
    network: Network,
    settings: PPOSettings,
    variables: Variables,
    plies: Plies,
    advantage: jax.Array,
    target: jax.Array,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The clipped surrogate, the value's squared error and the entropy bonus, over `[N]` plies.

    Args:
        network: judges them.
        settings: clip and weights.
        variables: the network's.
        plies: `[N]`.
        advantage: float32 `[N]`.
        target: float32 `[N]`, value targets.
    """
    out = network.apply(variables, plies.observations)
    log_policy = jax.nn.log_softmax(jnp.where(plies.legal, out.policy_logits, -1e9), axis=-1)
    log_probability = jnp.take_along_axis(log_policy, plies.actions[:, None], axis=-1)[:, 0]
    if settings.normalise_advantages:
        advantage = (advantage - jnp.mean(advantage)) / (jnp.std(advantage) + 1e-8)
    ratio = jnp.exp(log_probability - plies.log_probabilities)
    clipped = jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip)
    policy = -jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))
    value = jnp.mean(jnp.square(out.value - target))
    entropy = -jnp.mean(jnp.sum(jnp.exp(log_policy) * jnp.where(plies.legal, log_policy, 0.0), axis=-1))
    total = policy + settings.value_loss_weight * value - settings.entropy_bonus * entropy
    outside = jnp.mean((jnp.abs(ratio - 1) > settings.clip).astype(jnp.float32))
    return total, {"policy_loss": policy, "value_loss": value, "entropy": entropy, "clipped": outside}


@dataclasses.dataclass(frozen=True, eq=False)
class PPO:
    """A run's parts, put together; an `Experiment` for `train.run`. Made by `setup`."""

    config: PPOConfig
    game: Game
    network: Network
    optimizer: optax.GradientTransformation
    identity: checkpoint.Identity

    def __post_init__(self):
        object.__setattr__(self, "_iterate", jax.jit(self._iteration, donate_argnums=0))
        object.__setattr__(self, "_nonfinite", jax.jit(lambda state: nonfinite({"network": state.variables})))

    def init(self, seed: int) -> State:
        """Fresh games and a new network."""
        key = jax.random.key(seed)
        variables = self.network.init(jax.random.fold_in(key, _INIT))
        return State(
            seed=key,
            iteration=jnp.int32(0),
            states=self._starts(jax.random.fold_in(key, _GAMES)),
            variables=variables,
            optimizer=self.optimizer.init(variables),  # pyright: ignore[reportArgumentType]
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
        settings, key = self.config.ppo, jax.random.fold_in(state.seed, state.iteration)
        states, plies = self._play(state.variables, state.states, jax.random.fold_in(key, _PLAY))
        _, _, last_values = self._judge(state.variables, states)
        advantage = advantages(
            plies,
            last_values,
            jax.vmap(self.game.current_player)(states),
            gamma=settings.gamma,
            gae_lambda=settings.gae_lambda,
        )
        flat = jax.tree.map(
            lambda x: x.reshape(-1, *x.shape[2:]), (plies, advantage, advantage + plies.values)
        )
        variables, optimizer, metrics = self._learn(
            state.variables, state.optimizer, flat, jax.random.fold_in(key, _LEARN)
        )
        played = settings.games * settings.plies_per_iteration
        ended = jnp.sum(plies.over.astype(jnp.int32))
        evaluations = state.evaluations + played
        metrics |= {
            "games": ended,
            "plies": jnp.int32(played),
            "samples": jnp.int32(played * settings.epochs),
            "game_length": played / jnp.maximum(ended, 1).astype(jnp.float32),
            "network_evaluations": evaluations,
        }
        return State(state.seed, state.iteration + 1, states, variables, optimizer, evaluations), metrics

    def _judge(self, variables: Variables, states: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
        """What the network sees of `[G]` states, its policy logits and its values."""
        observations = jax.vmap(lambda state: show(self.network, self.game, state))(states)
        out = self.network.apply(variables, observations)
        return observations, out.policy_logits, out.value

    def _starts(self, key: jax.Array) -> Any:
        """`[G]` states from which games begin."""
        settings = self.config.ppo
        return starts(
            self.game,
            key,
            settings.games,
            opening_plies=settings.random_opening_plies,
            opening_share=settings.random_opening_share,
        )

    def _play(self, variables: Variables, states: Any, key: jax.Array) -> tuple[Any, Plies]:
        """`plies_per_iteration` plies of every game; one that ends is replaced at once."""
        game = self.game

        def ply(states: Any, key: jax.Array) -> tuple[Any, Plies]:
            move_key, chance_key, new_key = jax.random.split(key, 3)
            observations, logits, values = self._judge(variables, states)
            legal = jax.vmap(game.legal_actions)(states)
            log_policy = jax.nn.log_softmax(jnp.where(legal, logits, -1e9), axis=-1)
            actions = jax.random.categorical(move_key, log_policy).astype(jnp.int32)
            movers = jax.vmap(game.current_player)(states)
            moved = step_batch(game, chance_key, states, actions)
            over = jax.vmap(game.is_over)(moved)
            fresh = self._starts(new_key)
            return selfplay.select(over, fresh, moved), Plies(
                observations=observations,
                legal=legal,
                actions=actions,
                log_probabilities=jnp.take_along_axis(log_policy, actions[:, None], axis=-1)[:, 0],
                values=values,
                movers=movers,
                rewards=of_player(jax.vmap(game.rewards)(moved), movers),
                over=over,
            )

        return jax.lax.scan(ply, states, jax.random.split(key, self.config.ppo.plies_per_iteration))

    def _learn(self, variables: Any, optimizer: Any, flat: Any, key: jax.Array):
        """`epochs` passes over `[N]` plies with their advantages and targets, in random minibatches."""
        settings = self.config.ppo

        def step(carry: tuple[Any, Any], rows: jax.Array):
            variables, optimizer = carry
            plies, advantage, target = jax.tree.map(lambda x: x[rows], flat)
            gradient, metrics = jax.grad(
                lambda variables: ppo_loss(self.network, settings, variables, plies, advantage, target),
                has_aux=True,
            )(variables)
            with jax.numpy_dtype_promotion("standard"):  # optax mixes integers and floats
                updates, optimizer = self.optimizer.update(gradient, optimizer, variables)
            return (optax.apply_updates(variables, updates), optimizer), metrics

        def epoch(carry: tuple[Any, Any], key: jax.Array):
            rows = jax.random.permutation(key, len(flat[1])).reshape(settings.minibatches, -1)
            return jax.lax.scan(step, carry, rows)

        keys = jax.random.split(key, settings.epochs)
        (variables, optimizer), metrics = jax.lax.scan(epoch, (variables, optimizer), keys)
        return variables, optimizer, jax.tree.map(jnp.mean, metrics)


def setup(config: PPOConfig) -> PPO:
    """Makes the game, network and optimiser that a config asks for.

    Raises:
        ConfigError: a game, network or option that does not exist, or a game for more than two.
    """
    game = game_of(config.game)
    if game.num_players > 2:
        raise ConfigError(
            f"PPO's self-play is for one or two players; {game.name} has {game.num_players}.", "game"
        )
    network = make_network(config.network.name, game, **config.network.options)
    clip = optax.clip_by_global_norm(config.ppo.gradient_clip)
    optimizer = optax.chain(clip, optax.adam(config.ppo.learning_rate))
    identity = checkpoint.Identity(game.name, game.version, network.name, network.options)
    return PPO(config, game, network, optimizer, identity)
