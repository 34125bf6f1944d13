"""Learning Pommerman from positions on the host: demonstrations first, then what a search found.

Dimensions: C positions, N positions in a gradient step, A actions.

Reference: Weil, Czech, Meuser and Kersting (2023), Know your Enemy, sections on supervised and reinforcement
learning: AdamW, random symmetries, 0.9 of the policy's loss and 0.1 of the value's.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax

from games_jax.multi_agent import SinglePlayerView, SingleState
from games_jax.wrapper import Wrapper
from train import learner
from train.against_models import Results
from train.imitation import Dataset, new_dataset
from train.networks import Network
from train.replay import Batch

__all__ = [
    "SMALL_NETWORK",
    "Trainee",
    "dataset",
    "examine",
    "join",
    "load",
    "make_optimizer",
    "new_trainee",
    "save",
    "sharpened",
    "train",
]

SMALL_NETWORK: dict[str, Any] = {
    "channels": 24,
    "expansion": 2,
    "blocks": 0,
    "late_blocks": 1,
    "value_width": 64,
    "halve": "stem",
    "norm": "none",
    "own_plane": 10,
}
"""Options of "rise" for CPUs: 2.6 million operations a position where the paper's network has 45 million."""

VALUE_WEIGHT = 0.1 / 0.9
"""Of the value's loss beside the policy's; Adam does not mind the common factor of 0.9."""

_LOSS = learner.LossOptions(value_loss_weight=VALUE_WEIGHT, value_target_mix=0.0, augment=False)
_WARM_UP = 100


class Trainee(NamedTuple):
    """A network on its way.

    Attributes:
        variables: the network's.
        optimizer: AdamW's state, which goes on from one iteration to the next.
    """

    variables: Any
    optimizer: Any


@dataclasses.dataclass(frozen=True)
class _Turned(Wrapper):
    """A view seen through symmetry `k` (int32 `[]`) of its game.

    The same one for the whole of a step's positions: one table moves their cells, and no gather for each.
    """

    k: jax.Array = dataclasses.field(kw_only=True)

    def observe(self, state: Any, player: jax.Array) -> jax.Array:
        """What the player would see."""
        return self._symmetries.observation(self.game.observe(state, player), self.k)

    def legal_actions(self, state: Any) -> jax.Array:
        """In the turned game."""
        return self.turn(self.game.legal_actions(state))

    def turn(self, policy: jax.Array) -> jax.Array:
        """`[A]`, by actions of the turned game."""
        return self._symmetries.policy(policy, self.k)

    @property
    def _symmetries(self) -> Any:
        return cast(Any, self.game).game.symmetries


def make_optimizer(rate: float, *, steps: int | None = None) -> optax.GradientTransformation:
    """AdamW with the paper's decay.

    Args:
        rate: the learning rate after 100 steps of warming up.
        steps: gradient steps over which it falls to a hundredth along a cosine; None: it stays, as published.
    """
    if steps is None:
        return optax.adamw(rate, weight_decay=1e-4)
    schedule = optax.warmup_cosine_decay_schedule(0.0, rate, _WARM_UP, max(steps, _WARM_UP + 1), rate / 100)
    return optax.adamw(schedule, weight_decay=1e-4)


def new_trainee(variables: Any, optimizer: optax.GradientTransformation) -> Trainee:
    """Before the first step."""
    return Trainee(variables, optimizer.init(variables))


def train(
    view: SinglePlayerView,
    network: Network,
    optimizer: optax.GradientTransformation,
    trainee: Trainee,
    data: Dataset,
    seed: int,
    *,
    steps: int,
    batch_size: int = 256,
) -> Trainee:
    """Gradient steps on random usable positions.

    Args:
        view: shows the positions; its actions are not filtered.
        network: learns.
        optimizer: as the trainee's.
        trainee: goes on.
        data: C positions, best as NumPy arrays: a step's worth goes to the device at a time.
        seed: of the choice of positions and symmetries.
        steps: how many.
        batch_size: N.

    Raises:
        ValueError: no position is usable.
    """
    data = jax.tree.map(np.asarray, data)
    rows = np.flatnonzero(data.usable)
    if not len(rows):
        raise ValueError("no position of the data is usable; expected games that ended.")
    random, key = np.random.default_rng(seed), jax.random.key(seed)
    for number in range(steps):
        batch = _batch(data, rows[random.integers(0, len(rows), batch_size)])
        trainee = _step(view, network, optimizer, trainee, batch, jax.random.fold_in(key, number))
    return trainee


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _step(
    view: SinglePlayerView,
    network: Network,
    optimizer: optax.GradientTransformation,
    trainee: Trainee,
    batch: Batch,
    key: jax.Array,
) -> Trainee:
    turned = _Turned(view, k=jax.random.randint(key, (), 0, len(cast(Any, view.game).symmetries)))
    batch = batch._replace(weights=jax.vmap(turned.turn)(batch.weights))
    gradient, _ = jax.grad(
        lambda variables: learner.loss(turned, network, _LOSS, variables, batch, key), has_aux=True
    )(trainee.variables)
    with jax.numpy_dtype_promotion("standard"):  # optax mixes integers and floats
        updates, state = optimizer.update(gradient, trainee.optimizer, trainee.variables)
    return Trainee(optax.apply_updates(trainee.variables, updates), state)


def examine(
    view: SinglePlayerView, network: Network, variables: Any, data: Dataset, *, most: int = 8192
) -> dict[str, float]:
    """How well positions are predicted, best those of games that were not learnt from.

    Args:
        view: shows the positions.
        network: judges them.
        variables: the network's.
        data: C positions.
        most: looked at, from the first usable one on; the rows of `demonstrations.dataset` are shuffled.

    Returns:
        `policy_loss` in nats, `policy_accuracy` (how often the target's best action is the network's),
        `value_error` (mean square) and `value_variance` (the error of who always says the mean).
    """
    data = jax.tree.map(np.asarray, data)
    batch = _batch(data, np.flatnonzero(data.usable)[:most])
    return {name: float(value) for name, value in _examine(view, network, variables, batch).items()}


@functools.partial(jax.jit, static_argnums=(0, 1))
def _examine(view: SinglePlayerView, network: Network, variables: Any, batch: Batch) -> dict[str, jax.Array]:
    out = network.apply(variables, jax.vmap(lambda state: view.observe(state, jnp.int32(0)))(batch.states))
    policy = jax.nn.log_softmax(out.policy_logits)
    hit = jnp.argmax(out.policy_logits, -1) == jnp.argmax(batch.weights, -1)
    return {
        "policy_loss": -jnp.mean(jnp.sum(batch.weights * policy, axis=-1)),
        "policy_accuracy": jnp.mean(hit.astype(jnp.float32)),
        "value_error": jnp.mean(jnp.square(out.value - batch.returns)),
        "value_variance": jnp.var(batch.returns),
    }


def sharpened(weights: np.ndarray) -> np.ndarray:
    """The policy target of the iterations, float32 `[C, A]`: half the visits' shares, half the best action.

    With the shares alone the paper's policies grew flatter from one iteration to the next.
    """
    best = np.eye(weights.shape[-1], dtype=np.float32)[np.argmax(weights, axis=-1)]
    return 0.5 * weights + 0.5 * best


def dataset(results: Results, *, time_out: float = 0.0) -> Dataset:
    """The positions that an agent searched, with `sharpened` targets and what its games came to.

    Args:
        results: of recorded games.
        time_out: what a game is worth that was not decided in time: 0 in the paper, -1 by the reward of the
            official environment.

    Raises:
        ValueError: the games were not recorded.
    """
    searched = results.searched
    if searched is None:
        raise ValueError("the games were played without their positions; expected play(..., record=True).")
    count, others = len(searched.game), searched.states.agents
    states = SingleState(
        inner=searched.states,
        player=np.zeros(count, np.int32),  # pyright: ignore[reportArgumentType]
        memories=(),
        answers=np.zeros((count, len(others) - 1), np.int32),  # pyright: ignore[reportArgumentType]
    )
    worth = np.where(results.timed_out, np.float32(time_out), results.outcome)
    return _table(states, sharpened(searched.weights), worth[searched.game])


def join(parts: Sequence[Dataset]) -> Dataset:
    """One set of positions of several."""
    states, _, weights, values, _ = jax.tree.map(
        lambda *leaves: np.concatenate(leaves), *(part[:5] for part in parts)
    )
    return _table(states, weights, values)


def save(path: Path, data: Dataset) -> None:
    """Writes positions to a `.npz` file, under another name until all of it is there."""
    partial = path.with_suffix(".partial.npz")
    np.savez_compressed(partial, *jax.tree.leaves(data))
    partial.rename(path)


def load(path: Path, view: SinglePlayerView) -> Dataset:
    """Reads what `save` wrote of states of `view`."""
    shape = jax.tree.structure(jax.eval_shape(lambda: new_dataset(view, 1)))
    with np.load(path) as file:
        return jax.tree.unflatten(shape, [file[name] for name in file.files])


def _table(states: Any, weights: np.ndarray, values: np.ndarray) -> Dataset:
    """All of them usable."""
    count = len(weights)
    table: Any = (states, np.zeros(count, np.int32), weights, values, np.ones(count, bool))
    return Dataset(*table, cursor=jnp.int32(0), filled=jnp.int32(count))


def _batch(data: Dataset, rows: np.ndarray) -> Batch:
    states, movers, weights, values, usable = jax.tree.map(lambda table: table[rows], data[:5])
    return Batch(states, movers, weights, root_values=values, returns=values, usable=usable)
