"""Timing programs side by side: warm-up, turns, medians and spreads."""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax

__all__ = ["Side", "ratio", "ratio_range", "spread", "take_turns"]

MIN_SECONDS = 0.2
"""Shorter runs say more about the clock and the scheduler than about the program."""


@dataclasses.dataclass(frozen=True)
class Side:
    """One program's figures.

    Attributes:
        rates: work per second, one figure a repeat.
        compile_seconds: of the first call, less a later one's time.
    """

    rates: tuple[float, ...]
    compile_seconds: float

    @property
    def median(self) -> float:
        """The middle rate."""
        return statistics.median(self.rates)


def take_turns(programs: Sequence[Callable[[], Any]], *, work: float, repeats: int) -> list[Side]:
    """Runs programs in turn, so that a busy machine slows all of them alike.

    Args:
        programs: jitted functions without arguments; the first call of each compiles it.
        work: what one call does, in the unit of the rates.
        repeats: timed runs of each; a run is as many calls as fill `MIN_SECONDS`.
    """
    first = [_seconds(program) for program in programs]
    calls = [math.ceil(MIN_SECONDS / _seconds(program)) for program in programs]
    times: list[list[float]] = [[] for _ in programs]
    for _ in range(repeats):
        for program, count, taken in zip(programs, calls, times, strict=True):
            taken.append(_seconds(program, count))
    return [
        Side(tuple(work / t for t in taken), max(start - min(taken), 0.0))
        for start, taken in zip(first, times, strict=True)
    ]


def spread(side: Side, unit: float) -> str:
    """Median, least and greatest rate in units of `unit`."""
    low, high = min(side.rates) / unit, max(side.rates) / unit
    digits = 0 if high >= 100 else 2
    return f"{side.median / unit:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def ratio_range(ours: Side, theirs: Side) -> tuple[float, float]:
    """Least and greatest ratio of runs that followed each other."""
    ratios = [a / b for a, b in zip(ours.rates, theirs.rates, strict=True)]
    return min(ratios), max(ratios)


def ratio(ours: Side, theirs: Side) -> str:
    """The ratio of medians with its range."""
    low, high = ratio_range(ours, theirs)
    return f"{ours.median / theirs.median:.1f} ({low:.1f}-{high:.1f})"


def _seconds(program: Callable[[], Any], calls: int = 1) -> float:
    """Seconds of one call, as the mean of several in a row."""
    start = time.perf_counter()
    for _ in range(calls):
        jax.block_until_ready(program())
    return (time.perf_counter() - start) / calls
