"""Evaluations/s and training samples/s of the networks on one game, as a Markdown table.

    python scripts/bench_networks.py --game connect_four --repeats 9

The networks take turns, so that a passing load on the machine hits all of them alike; each figure is the
median over the repeats with the slowest and the fastest in brackets, in thousands a second. It includes the
dispatch of each call from Python, which a search that evaluates inside its loop does not pay.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro

import games_jax
from train.networks import Network, make_network, num_parameters

NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "mlp 3 x 256": ("mlp", {}),
    "resnet 3 x 32": ("resnet", {"channels": 32, "blocks": 3}),
    "patterns E=32": ("patterns", {"embed": 32}),
    "patterns E=64": ("patterns", {"embed": 64}),
    "patterns E=64, shared": ("patterns", {"embed": 64, "share": "symmetry"}),
    "patterns E=128": ("patterns", {"embed": 128}),
}


@dataclasses.dataclass(frozen=True)
class Args:
    """What to measure."""

    game: str = "connect_four"
    """A name that `games_jax.make` knows."""
    batches: tuple[int, ...] = (256, 512, 1024)
    """Positions per evaluation."""
    train_batches: tuple[int, ...] = (1024, 4096)
    """Positions per gradient step."""
    repeats: int = 9
    """Measurements of each figure."""
    seconds: float = 0.2
    """Length of one measurement."""
    networks: tuple[str, ...] = tuple(NETWORKS)
    """Which of the networks."""


def random_observations(game: games_jax.Game, count: int, seed: int = 0) -> jax.Array:
    """`[count]` observations from random games, stopped at random before their end."""
    rng = np.random.default_rng(seed)
    draws = jnp.asarray(rng.random((count, game.max_steps, game.num_actions), np.float32))
    stops = jnp.asarray(rng.random(count, np.float32))

    def positions(key: jax.Array, draws: jax.Array, stop: jax.Array) -> jax.Array:
        def step(state: Any, draw: jax.Array) -> tuple[Any, tuple[jax.Array, jax.Array]]:
            action = jnp.argmax(jnp.where(game.legal_actions(state), draw, -1.0)).astype(jnp.int32)
            seen = game.observe(state, game.current_player(state))
            return game.step(state, action), (seen, ~game.is_over(state))

        _, (seen, alive) = jax.lax.scan(step, game.init(key), draws)
        return seen[(stop * jnp.sum(alive, dtype=jnp.float32)).astype(jnp.int32)]

    keys = jax.random.split(jax.random.key(seed), count)
    return jax.jit(jax.vmap(positions))(keys, draws, stops)


def evaluation(network: Network, observation: jax.Array) -> Callable[[], Any]:
    """One evaluation of a batch, compiled and warm."""
    variables = jax.jit(network.init)(jax.random.key(0))
    apply = jax.jit(network.apply)
    jax.block_until_ready(apply(variables, observation))
    return lambda: apply(variables, observation)


def training_step(network: Network, observation: jax.Array) -> Callable[[], Any]:
    """One donated AdamW step on a batch with made-up targets, compiled and warm."""
    optimizer = optax.adamw(1e-3)
    variables = jax.jit(network.init)(jax.random.key(0))
    moves = jax.random.randint(jax.random.key(1), observation.shape[:1], 0, network.num_actions)
    values = jax.random.uniform(jax.random.key(2), observation.shape[:1], minval=-1)

    def loss(variables: Any, observation: jax.Array) -> jax.Array:
        output = network.apply(variables, observation)
        policy = optax.softmax_cross_entropy_with_integer_labels(output.policy_logits, moves)
        return jnp.mean(policy + (output.value - values) ** 2)

    @jax.jit(donate_argnums=0)
    def step(carry: Any, observation: jax.Array) -> Any:
        variables, state = carry
        updates, state = optimizer.update(jax.grad(loss)(variables, observation), state, variables)
        return optax.apply_updates(variables, updates), state

    carry = [step((variables, jax.jit(optimizer.init)(variables)), observation)]

    def run() -> Any:
        carry[0] = step(carry[0], observation)
        return carry[0]

    jax.block_until_ready(run())
    return run


def rate(run: Callable[[], Any], batch: int, seconds: float) -> float:
    """Thousands of positions a second over about `seconds`."""
    calls, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        jax.block_until_ready(run())
        calls += 1
    return calls * batch / passed / 1e3


def table(rows: dict[str, list[str]], columns: Sequence[str]) -> str:
    """A Markdown table."""
    head = f"| network | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}"
    return "\n".join([head, *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items())])


def main(args: Args) -> None:
    """Measures and prints."""
    game = games_jax.make(args.game)
    observation = random_observations(game, max(*args.batches, *args.train_batches))
    jobs: dict[tuple[str, str], tuple[Callable[[], Any], int]] = {}
    rows: dict[str, list[str]] = {}
    for label in args.networks:
        name, options = NETWORKS[label]
        network = make_network(name, game, **options)
        shapes = jax.eval_shape(network.init, jax.random.key(0))
        rows[label] = [f"{num_parameters(shapes):,}"]
        for batch in args.batches:
            jobs[label, f"eval {batch}"] = (evaluation(network, observation[:batch]), batch)
        for batch in args.train_batches:
            jobs[label, f"train {batch}"] = (training_step(network, observation[:batch]), batch)
    rates = {job: [] for job in jobs}
    for _ in range(args.repeats):
        for job, (run, batch) in jobs.items():
            rates[job].append(rate(run, batch, args.seconds))
    for (label, _), values in rates.items():
        rows[label].append(f"{np.median(values):.4g} ({min(values):.4g}-{max(values):.4g})")
    columns = [
        "parameters",
        *(f"eval {b}" for b in args.batches),
        *(f"train {b}" for b in args.train_batches),
    ]
    device = jax.devices()[0]
    print(f"{game.name}, thousands of positions/s, {device.device_kind} x {os.cpu_count()} CPU cores\n")
    print(table(rows, columns))


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
