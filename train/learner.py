"""The learner: loss and gradient steps on batches from the replay buffer."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import optax

from games_jax.game import Game, symmetries_of
from train import sharding
from train.config import LearnerConfig
from train.networks import Network, Variables, show
from train.rematerialise import rematerialised
from train.replay import Batch, Replay, sample
from train.targets import mix

__all__ = ["Learner", "LossOptions", "LossSettings", "learn", "loss", "make_optimizer", "new_learner"]


class Learner(NamedTuple):
    """What gradient steps change.

    Attributes:
        variables: the network's, newest.
        average: their running average, which plays; `variables` themselves if none is kept.
        optimizer: optax's state.
    """

    variables: Any
    average: Any
    optimizer: optax.OptState


class LossSettings(Protocol):
    """What the loss needs to know; `LearnerConfig` says what each is."""

    @property
    def value_loss_weight(self) -> float: ...  # noqa: D102

    @property
    def value_target_mix(self) -> float: ...  # noqa: D102

    @property
    def augment(self) -> bool: ...  # noqa: D102

    @property
    def rematerialise(self) -> bool: ...  # noqa: D102


class LossOptions(NamedTuple):
    """`LossSettings` of trainers whose config has no `[learner]`."""

    value_loss_weight: float
    value_target_mix: float
    augment: bool
    rematerialise: bool = False


def new_learner(network: Network, optimizer: optax.GradientTransformation, key: jax.Array) -> Learner:
    """A fresh network."""
    variables = network.init(key)
    return Learner(variables, jax.tree.map(jnp.copy, variables), optimizer.init(variables))  # pyright: ignore


def make_optimizer(settings: LearnerConfig, *, total_steps: int) -> optax.GradientTransformation:
    """The optimiser that `[learner]` describes; the schedule ends after `total_steps` gradient steps."""
    peak, end = settings.learning_rate, 0.01 * settings.learning_rate
    decay_steps = max(total_steps - settings.warmup_steps, 1)
    if settings.schedule == "constant":
        schedule = optax.constant_schedule(peak)
    elif settings.schedule == "linear":
        schedule = optax.linear_schedule(peak, end, decay_steps)
    else:
        schedule = optax.cosine_decay_schedule(peak, decay_steps, alpha=0.01)
    if settings.warmup_steps:
        rise = optax.linear_schedule(0.0, peak, settings.warmup_steps)
        schedule = optax.join_schedules([rise, schedule], [settings.warmup_steps])
    if settings.optimizer == "sgd":
        steps = [optax.add_decayed_weights(settings.weight_decay), optax.sgd(schedule, momentum=0.9)]
    elif settings.optimizer == "adam":
        steps = [optax.add_decayed_weights(settings.weight_decay), optax.adam(schedule)]
    else:
        steps = [optax.adamw(schedule, weight_decay=settings.weight_decay)]
    if settings.gradient_clip is None:
        return optax.chain(*steps)
    return optax.chain(optax.clip_by_global_norm(settings.gradient_clip), *steps)


def loss(
    game: Game,
    network: Network,
    settings: LossSettings,
    variables: Variables,
    batch: Batch,
    key: jax.Array,
    slice_: sharding.Slice = sharding.WHOLE,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Cross-entropy to the search's policy plus the value's error, averaged over usable positions.

    `(z - v)^2` for a scalar value head; for a (win, draw, loss) head the cross-entropy to the target taken
    as `max(z, 0)`, `1 - |z|`, `max(-z, 0)`.

    Args:
        game: shows the positions.
        network: judges them.
        settings: the mix of value targets, their weight, augmentation, and whether memory is short.
        variables: the network's.
        batch: N positions, or one device's share of them.
        key: consumed by the choice of symmetries; the same on every device.
        slice_: which share; losses are then parts that add up to those of the whole batch.

    Returns:
        The loss, and `policy_loss`, `value_loss` and the policy target's `target_entropy`, in nats.

    Reference: Silver et al. (2018), equation 1.
    """
    states, weights = batch.states, batch.weights
    observation = jax.vmap(lambda state: show(network, game, state))(states)
    legal = jax.vmap(game.legal_actions)(states)
    symmetries = symmetries_of(game)
    if settings.augment and symmetries is not None:
        k = slice_.of(jax.random.randint(key, (slice_.whole(len(weights)),), 0, len(symmetries)))
        if network.observe is None:
            observation = jax.vmap(symmetries.observation)(observation, k)
        else:  # what another view shows is turned by turning the board
            turned = jax.vmap(game.transform)(states, k)  # pyright: ignore[reportAttributeAccessIssue]
            observation = jax.vmap(network.observe)(turned)
        legal, weights = jax.vmap(symmetries.policy)(legal, k), jax.vmap(symmetries.policy)(weights, k)
    target = mix(batch.returns, batch.root_values, settings.value_target_mix)
    apply = rematerialised(network.apply) if settings.rematerialise else network.apply
    out = apply(variables, observation)
    log_policy = jax.nn.log_softmax(jnp.where(legal, out.policy_logits, -1e9), axis=-1)
    policy = -jnp.sum(weights * jnp.where(legal, log_policy, 0.0), axis=-1)
    entropy = -jnp.sum(weights * jnp.log(jnp.maximum(weights, 1e-30)), axis=-1)
    if out.value_logits is None:
        value = jnp.square(target - out.value)
    else:
        shares = jnp.stack([jnp.maximum(target, 0), 1 - jnp.abs(target), jnp.maximum(-target, 0)], axis=-1)
        value = -jnp.sum(shares * jax.nn.log_softmax(out.value_logits, axis=-1), axis=-1)
    usable = batch.usable.astype(jnp.float32)
    count = jnp.maximum(slice_.total(jnp.sum(usable)), 1.0)
    mean = lambda x: jnp.sum(usable * x) / count  # noqa: E731
    policy, value = mean(policy), mean(value)
    metrics = {"policy_loss": policy, "value_loss": value, "target_entropy": mean(entropy)}
    return policy + settings.value_loss_weight * value, metrics


def learn(
    game: Game,
    network: Network,
    settings: LearnerConfig,
    optimizer: optax.GradientTransformation,
    learner: Learner,
    replay: Replay,
    key: jax.Array,
    slice_: sharding.Slice = sharding.WHOLE,
) -> tuple[Learner, dict[str, jax.Array]]:
    """`settings.steps_per_iteration` gradient steps; returns the mean of each step's metrics.

    Where `replay` is one device's part, each device works out its part of every gradient, and the parts are
    added up.
    """

    def step(learner: Learner, key: jax.Array) -> tuple[Learner, dict[str, jax.Array]]:
        sample_key, loss_key = jax.random.split(key)
        batch = sample(replay, sample_key, settings.batch_size, slice_)
        (_, metrics), gradient = jax.value_and_grad(
            lambda variables: loss(game, network, settings, variables, batch, loss_key, slice_), has_aux=True
        )(learner.variables)
        gradient, metrics = slice_.total((gradient, metrics))
        with jax.numpy_dtype_promotion("standard"):  # optax mixes integers and floats
            updates, state = optimizer.update(gradient, learner.optimizer, learner.variables)
        variables = optax.apply_updates(learner.variables, updates)
        keep = settings.average
        average = jax.tree.map(lambda a, v: keep * a + (1 - keep) * v, learner.average, variables)
        metrics["gradient_norm"] = optax.tree.norm(gradient)
        return Learner(variables, average, state), metrics

    keys = jax.random.split(key, settings.steps_per_iteration)
    learner, metrics = jax.lax.scan(step, learner, keys)
    return learner, jax.tree.map(jnp.mean, metrics)
