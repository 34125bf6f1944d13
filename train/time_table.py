"""Where a run's time went: the lines that end it, made of what `metrics.jsonl` says.

Iterations are split into their parts where that costs little beside the run: the parts are timed as programs
of their own (`profile.py`), which must be compiled, in about the time that the first iteration took for it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import jax

from train import hosts
from train.config import RunConfig
from train.metrics import Record, read_jsonl
from train.run_directory import METRICS

__all__ = ["lines", "rows"]

MOST_COMPILING = 10.0
"""The parts are not timed where it took more seconds to compile them together,"""

MOST_SHARE = 0.1
"""nor where compiling and timing them would take more of the run's time."""

REPEATS = 2


class Ended(Protocol):
    """What is read of a run's result."""

    @property
    def directory(self) -> Path: ...

    @property
    def seconds(self) -> float: ...

    @property
    def reason(self) -> str: ...

    @property
    def state(self) -> Any: ...


def lines(settings: RunConfig, result: Ended, experiment: Any) -> list[str]:
    """The table of a run that came to its end; no lines where it was interrupted or `time_table` is off."""
    if not settings.time_table or result.reason == "interrupted" or not hosts.is_first():
        return []
    records = read_jsonl(result.directory / METRICS)
    times = [record["iteration_seconds"] for record in records if record["kind"] == "iteration"]
    if not times:
        return []
    typical = statistics.median(times)
    compiling = max(times[0] - typical, 0.0)
    costs = compiling + (1 + REPEATS) * typical
    parts = None
    if compiling <= MOST_COMPILING and costs <= MOST_SHARE * result.seconds:
        parts = _parts(experiment, result.state)
    table = rows(records, result.seconds, parts)
    # More than the run's seconds where it was resumed: those leave out what followed the last checkpoint.
    whole = sum(seconds for name, seconds in table if not name.startswith(" "))
    return [f"Where {whole:.0f} seconds went:"] + [
        f"  {name:<22}{seconds:>9.1f} s{seconds / whole:>6.0%}" for name, seconds in table
    ]


def rows(
    records: Sequence[Record], seconds: float, parts: Mapping[str, float] | None
) -> list[tuple[str, float]]:
    """What took how long, in seconds that sum to the run's but for the indented parts of the iterations.

    Args:
        records: of the whole run, see `train.metrics`.
        seconds: of the whole run.
        parts: how long the parts of one iteration take, in any unit.
    """
    times = [record["iteration_seconds"] for record in records if record["kind"] == "iteration"]
    # The first waits for the compiler; so does the first after each resumption, which is not told apart.
    compiling = max(times[0] - statistics.median(times), 0.0) if len(times) > 1 else 0.0
    iterating = sum(times) - compiling
    evaluating = sum(r.get("evaluation_seconds", 0.0) for r in records if r["kind"] == "evaluation")
    table = [("iterations", iterating)]
    for name, part in (parts or {}).items():
        table.append((f"  {name}", iterating * part / sum((parts or {}).values())))
    rest = max(seconds - iterating - compiling - evaluating, 0.0)
    return [*table, ("compiling them", compiling), ("evaluations", evaluating), ("saving and the rest", rest)]


def _parts(experiment: Any, state: Any) -> dict[str, float] | None:
    """Of an experiment whose parts stand alone; None for others, or where there is no room for them."""
    from train.alphazero import AlphaZero
    from train.profile import parts

    if not isinstance(experiment, AlphaZero) or experiment.mesh.devices.size > 1:
        return None
    try:
        return parts(experiment, state, repeats=REPEATS)
    except (jax.errors.JaxRuntimeError, MemoryError):  # a table is no reason to lose a finished run
        return None
