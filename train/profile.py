"""Where an iteration's time goes: a trace for Perfetto or TensorBoard, and a table of the parts.

The parts are timed as programs of their own: search and moves, the buffer, gradient steps. In one program
they take less than their sum, since nothing is handed on; their proportions are what to look at.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from train.alphazero import AlphaZero
from train.config import ConfigError

__all__ = ["parts", "write"]

TRACED_ITERATIONS = 3
REPEATS = 5


def write(experiment: AlphaZero, directory: Path) -> str:
    """Traces some iterations and says where their time goes.

    Raises:
        ConfigError: the run is spread over several devices, whose parts do not stand alone.
    """
    if experiment.mesh.devices.size > 1:
        raise ConfigError("--profile times the parts on one device; expected mesh.data = 1.", "mesh.data")
    state = experiment.init(experiment.config.run.seed)
    state, _ = jax.block_until_ready(experiment.iterate(state))
    with jax.profiler.trace(str(directory), create_perfetto_trace=True):
        for _ in range(TRACED_ITERATIONS):
            state, metrics = experiment.iterate(state)
        jax.block_until_ready(metrics)
    seconds, state = _least(lambda state: experiment.iterate(state)[0], state)
    found = parts(experiment, state)
    lines = [f"{'part':<28}{'ms':>10}{'share':>8}"]
    for name, part in found.items():
        lines.append(f"{name:<28}{1e3 * part:>10.2f}{part / sum(found.values()):>8.0%}")
    lines.append(f"{'whole iteration':<28}{1e3 * seconds:>10.2f}")
    lines.append(f"{TRACED_ITERATIONS} iterations traced: open {directory}/**/perfetto_trace.json.gz")
    return "\n".join(lines)


def parts(experiment: AlphaZero, state: Any, *, repeats: int = REPEATS) -> dict[str, float]:
    """Seconds of the parts of an iteration, each a program of its own, the least of some runs."""
    key = jax.random.key(0)
    trajectory = jax.jit(experiment.play)(state, key)[1]
    programs: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "search and moves": (experiment.play, (state, key)),
        "into the buffer": (experiment.insert, (state.replay, trajectory)),
        "gradient steps": (experiment.learn, (state.learner, state.replay, key)),
    }
    found = {}
    for name, (function, arguments) in programs.items():
        program = jax.jit(function)
        jax.block_until_ready(program(*arguments))
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            jax.block_until_ready(program(*arguments))
            times.append(time.perf_counter() - start)
        found[name] = min(times)
    return found


def _least(step: Callable[[Any], Any], state: Any) -> tuple[float, Any]:
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        state = jax.block_until_ready(step(state))
        times.append(time.perf_counter() - start)
    return min(times), state
