"""A run on the screen: a live display in a terminal, one line now and then elsewhere."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TextIO

import jax
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from train.metrics import MetricsSink, Record, scores_of

__all__ = [
    "Display",
    "LiveDisplay",
    "PlainDisplay",
    "clock",
    "compact",
    "device_text",
    "how_it_ended",
    "make_display",
    "rating_text",
]

_SMOOTHING = 10  # iterations over which speeds are averaged
_HORIZON = 100  # iterations by which the time left is judged; enough to hold evaluations and saves too
_SILENCE = 30.0  # seconds after which the plain display prints a line even between its steps


class Display(MetricsSink, Protocol):
    """A metrics sink that can also say something."""

    def message(self, text: str) -> None:
        """Prints one line that stays. May be called from any thread."""
        ...


def make_display(
    *,
    name: str,
    iterations: int,
    minutes: float | None,
    device: str,
    stream: TextIO | None = None,
    silent: bool = False,
) -> Display:
    """The display that suits `stream` (standard output): live in a terminal, plain lines elsewhere.

    Args:
        name: what runs, for the title.
        iterations, minutes: when the run ends.
        device: what it runs on.
        stream: where to print.
        silent: print nothing.
    """
    if silent:
        stream = open(os.devnull, "w")
    out: TextIO = sys.stdout if stream is None else stream
    progress = Progress(iterations, minutes)
    if Console(file=out).is_terminal:
        return LiveDisplay(name=name, device=device, progress=progress, stream=out)
    return PlainDisplay(name=name, device=device, progress=progress, stream=out)


class Progress:
    """Where a run stands: the last records, speeds averaged over a few iterations, and the time left."""

    def __init__(self, iterations: int, minutes: float | None):
        self.iterations = iterations
        self.minutes = minutes
        self.latest: Record = {}
        self.evaluation: Record = {}
        self._recent: deque[Record] = deque(maxlen=_HORIZON)

    def update(self, record: Record) -> None:
        """Takes a record."""
        if record["kind"] == "evaluation":
            self.evaluation = record
        else:
            self.latest = record
            self._recent.append(record)

    @property
    def iteration(self) -> int:
        """Iterations done."""
        return int(self.latest.get("iteration", 0))

    @property
    def seconds(self) -> float:
        """Running time of the run."""
        return float(self.latest.get("seconds", 0.0))

    @property
    def fraction(self) -> float:
        """How much of the run is done, in [0, 1], by the limit that will be met first."""
        done = self.iteration / self.iterations
        return min(1.0, max(done, self.seconds / (60 * self.minutes) if self.minutes else 0.0))

    def seconds_left(self) -> float | None:
        """The time the run still takes, or None before there is a speed to judge by."""
        left = None
        if self._recent:
            first, last = self._recent[0], self._recent[-1]
            done = last["iteration"] - first["iteration"]
            # One iteration alone has its compilation in it; take it only until there is a second.
            spent = (last["seconds"] - first["seconds"]) / done if done else last["iteration_seconds"]
            left = (self.iterations - self.iteration) * spent
        if self.minutes:
            budget = max(0.0, 60 * self.minutes - self.seconds)
            left = budget if left is None else min(left, budget)
        return left

    def rates(self) -> dict[str, float]:
        """Units per second ("games", "plies", ...), averaged over the last iterations."""
        names = [key for key in self.latest if f"{key}_per_second" in self.latest]
        recent = list(self._recent)[-_SMOOTHING:]
        spent = sum(record["iteration_seconds"] for record in recent)
        return {name: sum(record.get(name) or 0 for record in recent) / spent for name in names if spent > 0}

    def losses(self) -> dict[str, float | None]:
        """The last iteration's metrics whose names end in "loss"."""
        return {key: value for key, value in self.latest.items() if key.endswith("loss")}


class PlainDisplay:
    """One line for every so many iterations, for logs and pipes."""

    def __init__(
        self, *, name: str, device: str, progress: Progress, stream: TextIO, every: int | None = None
    ):
        """Prints the title.

        Args:
            name: what runs.
            device: what it runs on.
            progress: gathers the records.
            stream: where to print.
            every: iterations per line; None prints about a hundred lines in all.
        """
        self._progress = progress
        self._stream = stream
        self._every = every or max(1, progress.iterations // 100)
        self._printed_at = float("-inf")
        self.message(f"{name} on {device}")

    def write(self, record: Record) -> None:
        """Prints a line if it is time for one."""
        self._progress.update(record)
        if record["kind"] == "evaluation":
            self.message(f"  evaluation at iteration {record['iteration']}: {evaluation_text(record)}")
            return
        done = record["iteration"]
        silent = record["seconds"] - self._printed_at
        if done % self._every == 0 or done == self._progress.iterations or silent >= _SILENCE:
            self._printed_at = record["seconds"]
            self.message(self._line())

    def _line(self) -> str:
        progress = self._progress
        parts = [f"iteration {progress.iteration}/{progress.iterations}", clock(progress.seconds)]
        if (left := progress.seconds_left()) is not None:
            parts.append(f"{clock(left)} left")
        parts += [f"{name.replace('_', ' ')} {number(value)}" for name, value in progress.losses().items()]
        parts += [f"{compact(value)} {name}/s" for name, value in progress.rates().items()]
        if rating := rating_text(progress.evaluation):
            parts.append(rating)
        return "  ".join(parts)

    def message(self, text: str) -> None:
        """Prints one line."""
        print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing is left to do."""


class LiveDisplay:
    """A panel that is redrawn in place."""

    def __init__(self, *, name: str, device: str, progress: Progress, stream: TextIO):
        self._name = name
        self._device = device
        self._progress = progress
        self._console = Console(file=stream, highlight=False)
        self._live = Live(self._panel(), console=self._console, refresh_per_second=4)
        self._live.start()

    def write(self, record: Record) -> None:
        """Redraws the panel."""
        self._progress.update(record)
        self._live.update(self._panel())

    def message(self, text: str) -> None:
        """Prints one line above the panel."""
        self._console.print(text, markup=False, soft_wrap=True)

    def close(self) -> None:
        """Leaves the last panel on the screen and gives the cursor back."""
        self._live.stop()

    def _panel(self) -> Panel:
        progress = self._progress
        left = progress.seconds_left()
        bar = Table.grid(padding=(0, 2), expand=True)
        bar.add_column(ratio=1)
        bar.add_column(justify="right", no_wrap=True)
        bar.add_row(
            ProgressBar(total=1.0, completed=progress.fraction),
            f"{clock(progress.seconds)} elapsed, {clock(left) if left is not None else '-:--'} left",
        )
        rows = Table.grid(padding=(0, 2))
        rows.add_column(style="dim", no_wrap=True)
        rows.add_column()
        rows.add_row("iteration", f"{progress.iteration:,} of {progress.iterations:,}")
        rows.add_row("speed", _row({f"{key}/s": compact(value) for key, value in progress.rates().items()}))
        losses = {key.replace("_", " "): number(value) for key, value in progress.losses().items()}
        rows.add_row("loss", _row(losses))
        at = f"  (iteration {progress.evaluation['iteration']})" if progress.evaluation else ""
        rows.add_row("rating", (evaluation_text(progress.evaluation) or "none yet") + at)
        rows.add_row("device", self._device)
        return Panel(Group(bar, rows), title=Text(self._name), title_align="left", border_style="dim")


# Text


def evaluation_text(record: Record) -> str:
    """An evaluation in one line: the rating and the scores."""
    scores = [
        f"{name} {match['score']:.0%}"
        for name, match in scores_of(record).items()
        if match.get("score") is not None
    ]
    return "  ".join([text for text in [rating_text(record), *scores] if text])


def rating_text(record: Record) -> str:
    """`Elo 812 (760 to 870)`, or nothing where the record has no rating."""
    if record.get("elo") is None:
        return ""
    low, high = record.get("elo_low"), record.get("elo_high")
    interval = f" ({low:.0f} to {high:.0f})" if low is not None and high is not None else ""
    return f"Elo {record['elo']:.0f}{interval}"


def clock(seconds: float) -> str:
    """`4:05`, `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def compact(value: float) -> str:
    """Three digits and a unit: `38.5k`, `1.20M`."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            value, suffix = value / limit, unit
            break
    else:
        suffix = ""
    return f"{value:.{max(0, 3 - len(str(int(abs(value)))))}f}{suffix}"


def number(value: Any) -> str:
    """A metric with four significant digits; `nan` for one that was not finite."""
    return "nan" if value is None else f"{value:.4g}"


def _row(items: Mapping[str, str]) -> str:
    return "   ".join(f"{name} {value}" for name, value in items.items()) or "-"


class Ended(Protocol):
    """What `how_it_ended` reads of a run's result."""

    @property
    def directory(self) -> Path: ...

    @property
    def iteration(self) -> int: ...

    @property
    def seconds(self) -> float: ...

    @property
    def reason(self) -> str: ...

    @property
    def evaluation(self) -> Record | None: ...


def how_it_ended(result: Ended, html: str, command: str) -> list[str]:
    """The last lines of a run: what was done, and what to look at or to type next."""
    done = f"{result.iteration} iterations in {clock(result.seconds)}"
    if result.reason == "interrupted":
        return [f"Stopped and saved after {done}. Resume with: {command}"]
    lines = [f"Done: {done}. Report: {result.directory / html}"]
    if result.evaluation and (text := evaluation_text(result.evaluation)):
        lines.append(f"Last evaluation: {text}")
    return lines


def device_text() -> str:
    """What a run is on, for its title."""
    devices = jax.devices()
    return f"{len(devices)} x {devices[0].device_kind}" if len(devices) > 1 else devices[0].device_kind
