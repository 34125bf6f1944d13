"""A small but real experiment for tests of the run loop, and a program that runs it.

It fits a noisy linear function from a replay buffer by AdamW: one pytree with typed keys, optax states,
booleans, integers, an array without elements; jitted, donated. As a program:

    python toy_run.py DIRECTORY [--resume] [--iterations N] [--every N] [--sleep SECONDS]
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from train.checkpoint import CheckpointError, Identity
from train.config import CheckpointConfig, Config, EvaluationConfig, GameConfig, RunConfig
from train.run import RunError, run
from train.trees import nonfinite

CAPACITY, FEATURES = 64, 8


class ToyState(NamedTuple):
    iteration: jax.Array
    key: jax.Array
    parameters: dict[str, Any]
    optimizer: optax.OptState
    seen: jax.Array
    inputs: jax.Array
    targets: jax.Array
    nothing: jax.Array


class ToyExperiment:
    """Implements `train.run.Experiment`."""

    def __init__(
        self, *, features: int = FEATURES, game: str = "toy", version: int = 1, poison_at: int = -1, delay=0.0
    ):
        self.features = features
        self.poison_at = poison_at
        self.delay = delay
        self.identity = Identity(game, version, "linear", {"features": features, "sizes": (1, 2)})
        self.optimizer = optax.chain(
            optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(1e-2, 1000))
        )
        self._compiled = jax.jit(self._iterate, donate_argnums=0)
        self.nonfinite = jax.jit(lambda state: nonfinite({"parameters": state.parameters}))

    def init(self, seed: int) -> ToyState:
        key, init_key = jax.random.split(jax.random.key(seed))
        kernel = jax.random.normal(init_key, (self.features,))
        parameters = {"dense": {"kernel": kernel, "bias": jnp.zeros(())}}
        return ToyState(
            iteration=jnp.int32(0),
            key=key,
            parameters=parameters,
            optimizer=self.optimizer.init(parameters),
            seen=jnp.zeros(CAPACITY, bool),
            inputs=jnp.zeros((CAPACITY, self.features), jnp.bfloat16),
            targets=jnp.zeros(CAPACITY),
            nothing=jnp.zeros((0, 3)),
        )

    def parameters(self, state: ToyState) -> dict[str, Any]:
        return state.parameters

    def iterate(self, state: ToyState) -> tuple[ToyState, dict[str, jax.Array]]:
        time.sleep(self.delay)
        return self._compiled(state)

    def _iterate(self, state: ToyState) -> tuple[ToyState, dict[str, jax.Array]]:
        data_key, noise_key, batch_key = jax.random.split(jax.random.fold_in(state.key, state.iteration), 3)
        new = jax.random.normal(data_key, (8, self.features), jnp.bfloat16)
        target = new.astype(jnp.float32).sum(axis=1) + 0.1 * jax.random.normal(noise_key, (8,))
        rows = (8 * state.iteration + jnp.arange(8)) % CAPACITY
        inputs, targets = state.inputs.at[rows].set(new), state.targets.at[rows].set(target)
        seen = state.seen.at[rows].set(True)
        batch = jax.random.choice(batch_key, CAPACITY, (16,), p=seen.astype(jnp.float32))

        def loss_of(parameters):
            dense = parameters["dense"]
            output = inputs[batch].astype(jnp.float32) @ dense["kernel"] + dense["bias"]
            return jnp.mean((output - targets[batch]) ** 2)

        loss, gradient = jax.value_and_grad(loss_of)(state.parameters)
        with jax.numpy_dtype_promotion("standard"):  # optax mixes integers and floats
            updates, optimizer = self.optimizer.update(gradient, state.optimizer, state.parameters)
        parameters: Any = optax.apply_updates(state.parameters, updates)
        poison = jnp.where(state.iteration + 1 == self.poison_at, jnp.nan, 0.0)
        parameters["dense"]["bias"] += poison
        metrics = {"value_loss": loss, "games": jnp.int32(8), "plies": jnp.int32(80)}
        new_state = ToyState(
            state.iteration + 1, state.key, parameters, optimizer, seen, inputs, targets, state.nothing
        )
        return new_state, metrics


class SilentDisplay:
    """Keeps what it is told."""

    def __init__(self):
        self.records: list[Any] = []
        self.messages: list[str] = []

    def write(self, record: Any) -> None:
        self.records.append(record)

    def message(self, text: str) -> None:
        self.messages.append(text)

    def close(self) -> None:
        pass


def evaluate(state: ToyState, iteration: int) -> dict[str, Any]:
    """A score that follows from the state alone."""
    error = float(jnp.abs(state.parameters["dense"]["kernel"] - 1).mean())
    score = 1 / (1 + error)
    match = {"score": score, "low": score / 2, "high": (1 + score) / 2, "games": 10}
    return {
        "elo": 100 * score,
        "elo_low": 90 * score,
        "elo_high": 110 * score,
        "opponents": {"random": match},
    }


def config(**changes: Any) -> Config:
    """A config of 20 iterations; `changes` are fields of its run, evaluation and checkpoint sections."""
    fields = {"iterations": 20, "every": 5, "keep": 3, "tensorboard": False, "milestone_every": 0} | changes
    every, evaluation_every = fields.pop("every"), fields.pop("evaluation_every", 5)
    keep = {"keep": fields.pop("keep"), "milestone_every": fields.pop("milestone_every")}
    return Config(
        game=GameConfig(name="toy", parameters={"size": 3}),
        run=RunConfig(name="toy", **fields),
        evaluation=EvaluationConfig(every=evaluation_every),
        checkpoint=CheckpointConfig(every=every, **keep),
    )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--sleep", type=float, default=0.0)
    options = parser.parse_args()
    experiment = ToyExperiment(delay=options.sleep)
    try:
        run(
            config(iterations=options.iterations, every=options.every),
            options.directory,
            experiment=experiment,
            evaluate=evaluate,
            resume=options.resume,
        )
    except (RunError, CheckpointError) as error:
        print(f"error: {error}")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
