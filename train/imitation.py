"""Learning from search: a set of labelled positions, and a network fitted to it until it stops improving.

Dimensions: C positions kept, K inserted at a time, A actions.

Reference: Anthony, Tian and Barber (2017), sections 3 and 4: chosen-action targets (CAT), tree-policy targets
(TPT) and early stopping; Ross, Gordon and Bagnell (2011) for DAgger, which is Expert Iteration with an expert
that stays the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from games_jax.game import Game
from jaxsearch import selection
from jaxsearch.types import SearchOutput
from train import learner
from train.exit_config import FitConfig
from train.networks import Network, Variables, show
from train.replay import Batch

__all__ = ["Dataset", "fit", "insert", "learning_rate", "new_dataset", "policy_target", "training_row"]

HELD_OUT_POSITIONS = 2048
"""Held-out positions looked at after each epoch, at most."""

_WARM_UP = 0.05
"""Share of a fit in which the rate rises, with `schedule = "cosine"`."""


class Dataset(NamedTuple):
    """Labelled positions, the oldest overwritten first.

    Attributes:
        states: `[C, ...]`.
        movers: int32 `[C]`.
        weights: float32 `[C, A]`, policy targets.
        values: float32 `[C]`, value targets from the mover's point of view.
        usable: bool `[C]`; others hold no position.
        cursor: int32 `[]`, the row to be written next.
        filled: int32 `[]`, rows written.
    """

    states: Any
    movers: jax.Array
    weights: jax.Array
    values: jax.Array
    usable: jax.Array
    cursor: jax.Array
    filled: jax.Array


def new_dataset(game: Game, capacity: int) -> Dataset:
    """An empty one."""
    state = jax.eval_shape(game.init, jax.random.key(0))
    return Dataset(
        states=jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), state),
        movers=jnp.zeros(capacity, jnp.int32),
        weights=jnp.zeros((capacity, game.num_actions), jnp.float32),
        values=jnp.zeros(capacity, jnp.float32),
        usable=jnp.zeros(capacity, bool),
        cursor=jnp.int32(0),
        filled=jnp.int32(0),
    )


def insert(
    game: Game, data: Dataset, states: Any, weights: jax.Array, values: jax.Array, usable: jax.Array
) -> Dataset:
    """Writes K labelled positions over the oldest; K must divide the capacity."""
    count, capacity = len(usable), len(data.usable)
    if capacity % count:
        raise ValueError(
            f"{count} positions at a time do not divide the {capacity} kept; choose another number."
        )

    def write(table: jax.Array, new: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_slice_in_dim(table, new.astype(table.dtype), data.cursor, axis=0)

    return Dataset(
        states=jax.tree.map(write, data.states, states),
        movers=write(data.movers, jax.vmap(game.current_player)(states)),
        weights=write(data.weights, weights),
        values=write(data.values, values),
        usable=write(data.usable, usable),
        cursor=(data.cursor + count) % capacity,
        filled=jnp.minimum(data.filled + count, capacity),
    )


def policy_target(kind: Literal["tree", "action", "regularised"], out: SearchOutput) -> jax.Array:
    """What a search teaches, float32 `[K, A]`, rows that sum to 1.

    Args:
        kind: "tree", the shares of the root's visits; "action", the most visited action; "regularised", the
            policy that the visits stand for (Grill et al. 2020), for which `out` must hold its tree.
        out: of K searches.
    """
    if kind == "action":
        return jax.nn.one_hot(jnp.argmax(out.visits, axis=-1), out.visits.shape[-1], dtype=jnp.float32)
    if kind == "regularised":
        assert out.tree is not None
        return selection.regularised_policy(out.tree.root_rows(unrolled=False))
    return out.weights


def training_row(number: jax.Array, held_out: int) -> jax.Array:
    """The row of the `number`-th position learnt from; rows 0, k, 2k ... are held out, k being `held_out`."""
    return number + number // (held_out - 1) + 1


def learning_rate(settings: FitConfig, steps: jax.Array) -> Callable[[Any], jax.Array]:
    """The rate at each of a fit's `steps` gradient steps (int32 `[]`), a function of their number from 0."""

    def rate(number: Any) -> jax.Array:
        if settings.schedule == "constant":
            return jnp.float32(settings.learning_rate)
        done = number.astype(jnp.float32) / steps.astype(jnp.float32)
        rising = jnp.minimum((done + 1 / steps.astype(jnp.float32)) / _WARM_UP, 1.0)
        falling = 0.5 * (1 + jnp.cos(jnp.pi * jnp.maximum(done - _WARM_UP, 0) / (1 - _WARM_UP)))
        return settings.learning_rate * rising * falling

    return rate


class _Progress(NamedTuple):
    """How far `fit` has come; `best` and `metrics` are those of the best epoch, `since` epochs ago."""

    variables: Any
    optimizer: Any
    best: Any
    metrics: dict[str, jax.Array]
    epochs: jax.Array
    since: jax.Array


def fit(
    game: Game,
    network: Network,
    settings: FitConfig,
    variables: Variables,
    data: Dataset,
    key: jax.Array,
    *,
    with_value: bool,
) -> tuple[Variables, dict[str, jax.Array]]:
    """Gradient steps on all but the held-out positions until these are no longer predicted better.

    Args:
        game: shows the positions.
        network: learns.
        settings: see `FitConfig`.
        variables: to begin with.
        data: at least `settings.held_out` positions.
        key: consumed.
        with_value: learn the values too.

    Returns:
        The variables of the epoch that predicted the held-out positions best, and metrics of that epoch on
        them: the loss and its parts, `policy_error` (how often the target's best action is not the
        network's), and how many `epochs` and gradient `steps` it took.
    """
    draw_key, fit_key = jax.random.split(key)
    held = (data.filled + settings.held_out - 1) // settings.held_out
    learnt = data.filled - held
    steps = jnp.maximum(learnt // settings.batch_size, 1)
    if settings.epoch_steps is not None:
        steps = jnp.int32(settings.epoch_steps)
    decay = optax.add_decayed_weights(settings.weight_decay)
    optimizer = optax.chain(decay, optax.adam(learning_rate(settings, settings.max_epochs * steps)))
    options = learner.LossOptions(
        value_loss_weight=settings.value_loss_weight if with_value else 0.0,
        value_target_mix=0.0,
        augment=settings.augment,
    )
    count = min(HELD_OUT_POSITIONS, -(-len(data.usable) // settings.held_out))
    unseen = _take(data, jax.random.randint(draw_key, (count,), 0, held) * settings.held_out)

    def examine(variables: Variables) -> dict[str, jax.Array]:
        plain = options._replace(augment=False)
        loss, metrics = learner.loss(game, network, plain, variables, unseen, draw_key)
        error = _policy_error(game, network, variables, unseen)
        return {"held_out_loss": loss, **metrics, "policy_error": error}

    def step(number: jax.Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        variables, state = carry
        row_key, loss_key = jax.random.split(jax.random.fold_in(fit_key, number))
        numbers = jax.random.randint(row_key, (settings.batch_size,), 0, learnt)
        batch = _take(data, training_row(numbers, settings.held_out))
        gradient, _ = jax.grad(
            lambda variables: learner.loss(game, network, options, variables, batch, loss_key), has_aux=True
        )(variables)
        with jax.numpy_dtype_promotion("standard"):  # optax mixes integers and floats
            updates, state = optimizer.update(gradient, state, variables)
        return optax.apply_updates(variables, updates), state

    def improving(progress: _Progress) -> jax.Array:
        return (progress.since < settings.patience) & (progress.epochs < settings.max_epochs)

    def epoch(progress: _Progress) -> _Progress:
        first = progress.epochs * steps
        carry = (progress.variables, progress.optimizer)
        variables, state = jax.lax.fori_loop(first, first + steps, step, carry)
        metrics = examine(variables)
        better = metrics["held_out_loss"] < progress.metrics["held_out_loss"]
        best, metrics = jax.tree.map(
            lambda new, old: jnp.where(better, new, old),
            (variables, metrics),
            (progress.best, progress.metrics),
        )
        since = jnp.where(better, 0, progress.since + 1)
        return _Progress(variables, state, best, metrics, progress.epochs + 1, since)

    none = jax.tree.map(lambda x: jnp.full(x.shape, jnp.inf, x.dtype), jax.eval_shape(examine, variables))
    optimizer_state = optimizer.init(variables)  # pyright: ignore[reportArgumentType]
    start = _Progress(variables, optimizer_state, variables, none, jnp.int32(0), jnp.int32(0))
    end = jax.lax.while_loop(improving, epoch, start)
    return end.best, {**end.metrics, "epochs": end.epochs, "steps": end.epochs * steps}


def _take(data: Dataset, rows: jax.Array) -> Batch:
    """The positions in `rows`, as the loss takes them."""
    states, movers, weights, values, usable = jax.tree.map(lambda table: table[rows], data[:5])
    return Batch(states, movers, weights, root_values=values, returns=values, usable=usable)


def _policy_error(game: Game, network: Network, variables: Variables, batch: Batch) -> jax.Array:
    """Share of the batch's usable positions whose target's best action is not the network's."""
    observation = jax.vmap(lambda state: show(network, game, state))(batch.states)
    legal = jax.vmap(game.legal_actions)(batch.states)
    guess = jnp.argmax(jnp.where(legal, network.apply(variables, observation).policy_logits, -jnp.inf), -1)
    wrong = (guess != jnp.argmax(batch.weights, axis=-1)) & batch.usable
    return jnp.sum(wrong.astype(jnp.float32)) / jnp.maximum(jnp.sum(batch.usable.astype(jnp.float32)), 1.0)
