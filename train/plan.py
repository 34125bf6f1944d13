"""A dry run: what a config will take and how fast it goes, before hours are spent on it.

`jaxsearch train CONFIG --plan` prints this. It compiles the program of an iteration and runs it a few times
from the first state; nothing is written.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import jax

import jaxsearch
from jaxsearch import footprint
from train.alphazero import AlphaZero
from train.config import ConfigError

__all__ = ["Plan", "check", "plan", "refuse_too_much", "text"]

PROBE_ITERATIONS = 3


class Plan(NamedTuple):
    """What a run takes.

    Attributes:
        shapes: by part of the state, the shape and dtype of its arrays.
        bytes: by part, on each device; "trees" and "temporary" exist during an iteration.
        available: bytes of one device, None where nobody says.
        devices: how many.
        compile_seconds: of the iteration's program.
        iteration_seconds: the fastest of the probe's later iterations.
        rates: per second.
    """

    shapes: dict[str, list[str]]
    bytes: dict[str, int]
    available: int | None
    devices: int
    compile_seconds: float
    iteration_seconds: float
    rates: dict[str, float]


def check(experiment: AlphaZero) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Shapes and bytes of a run's parts, from shapes alone.

    Raises:
        ConfigError: they do not fit the memory; names the largest part and the key that makes it smaller.
    """
    state = experiment.abstract(0)
    devices = experiment.mesh.devices.size
    parts = {
        "games": state.games,
        "replay": state.replay,
        "parameters": (state.learner.variables, state.learner.average),
        "optimizer": state.learner.optimizer,
    }
    shapes = {name: [_shape(leaf) for leaf in jax.tree.leaves(part)] for name, part in parts.items()}
    taken = {
        name: sum(_bytes(leaf, devices) for leaf in jax.tree.leaves(part)) for name, part in parts.items()
    }
    here = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((leaf.shape[0] // devices, *leaf.shape[1:]), leaf.dtype),
        state.games.states,
    )
    simulations = experiment.config.selfplay.simulations
    taken["trees"] = jaxsearch.memory(experiment.game, here, simulations=simulations).total
    refuse_too_much(taken, experiment)
    return shapes, taken


def plan(experiment: AlphaZero) -> Plan:
    """Compiles and probes.

    Raises:
        ConfigError: as `check`, which is done first, and again once the compiler has said what an iteration
            takes for itself.
    """
    shapes, taken = check(experiment)
    state = experiment.init(experiment.config.run.seed)
    start = time.perf_counter()
    program = experiment.lower(state).compile()
    compile_seconds = time.perf_counter() - start
    analysis = program.memory_analysis()
    # The trees are among what the program needs for itself.
    taken["temporary"] = max(int(getattr(analysis, "temp_size_in_bytes", 0)) - taken["trees"], 0)
    refuse_too_much(taken, experiment)
    times, metrics = [], {}
    for _ in range(1 + PROBE_ITERATIONS):
        start = time.perf_counter()
        state, metrics = jax.block_until_ready(program(state))
        times.append(time.perf_counter() - start)
    seconds = min(times[1:])
    counts = jax.device_get(metrics)
    rates = {name: float(counts[name]) / seconds for name in ("plies", "simulations", "samples")}
    devices = experiment.mesh.devices.size
    return Plan(shapes, taken, available(), devices, compile_seconds, seconds, rates)


def refuse_too_much(taken: dict[str, int], experiment: AlphaZero) -> None:
    """Raises ConfigError where the parts do not fit; it names the largest and what makes it smaller."""
    limit = available()
    if limit is None or sum(taken.values()) <= limit:
        return
    largest = max(taken, key=lambda name: taken[name])
    again = "" if experiment.config.learner.rematerialise else "learner.rematerialise = true or "
    key, helps = {
        "games": ("selfplay.games", "a smaller selfplay.games"),
        "replay": ("replay.capacity", "a smaller replay.capacity"),
        "parameters": ("network", "a smaller network"),
        "optimizer": ("network", "a smaller network"),
        "trees": ("selfplay.games", "a smaller selfplay.games or selfplay.simulations"),
        "temporary": ("learner.rematerialise", f"{again}a smaller learner.batch_size or selfplay.games"),
    }[largest]
    raise ConfigError(
        f"The run needs {_mib(sum(taken.values()))} on each device, which has {_mib(limit)}; the largest "
        f"part is {largest} with {_mib(taken[largest])}: {helps} helps, or more devices (mesh.data).",
        key,
    )


def text(found: Plan, iterations: int) -> str:
    """The plan in words."""
    lines = [f"on {found.devices} x {jax.devices()[0].platform}", ""]
    for name, shapes in found.shapes.items():
        more = f" and {len(shapes) - 4} more" if len(shapes) > 4 else ""
        lines.append(f"{name:<12}{_mib(found.bytes[name]):>14}  {', '.join(shapes[:4])}{more}")
    for name in ("trees", "temporary"):
        lines.append(f"{name:<12}{_mib(found.bytes[name]):>14}  during an iteration")
    limit = "unknown" if found.available is None else _mib(found.available)
    lines.append(f"{'in all':<12}{_mib(sum(found.bytes.values())):>14}  of {limit} on each device")
    lines.append("")
    lines.append(
        f"compiled in {found.compile_seconds:.1f} s; an iteration takes {found.iteration_seconds:.3f} s"
    )
    lines.append(", ".join(f"{rate:,.0f} {name}/s" for name, rate in found.rates.items()))
    minutes = (found.compile_seconds + iterations * found.iteration_seconds) / 60
    lines.append(f"{iterations} iterations: about {minutes:.1f} minutes, evaluations not counted")
    return "\n".join(lines)


def available() -> int | None:
    """Bytes of one device; of a CPU its memory shared by its devices."""
    whole = footprint.available()
    return None if whole is None else whole // max(len(jax.local_devices()), 1)


def _bytes(leaf: Any, devices: int) -> int:
    """An array's bytes on each device."""
    sharding = leaf.sharding
    shape = leaf.shape if sharding is None or devices == 1 else sharding.shard_shape(leaf.shape)
    size = 1
    for length in shape:
        size *= length
    return size * leaf.dtype.itemsize


def _shape(leaf: Any) -> str:
    return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"
