"""Metrics as records, and where they go: a JSON-lines file, TensorBoard, the screen.

A record is a flat or nested JSON object with at least
    kind        "iteration" or "evaluation"
    iteration   iterations done
    seconds     running time of the run so far, interruptions not counted
An iteration's record has the algorithm's metrics and the iteration's time:
    iteration_seconds   saving and evaluating not counted
    idle_share          the share of it in which the host did not wait for the device, so that the device may
                        have had nothing to do: at most so much of it was wasted
Where it counts `games`, `plies` and `simulations`, their rates are added as `games_per_second` and so on. An
evaluation's record has what the evaluation returned:
    elo, elo_low, elo_high     a rating with its 95 % interval, if there is one
    opponents                  {name: {score, low, high, games, ...}}, scores in [0, 1]
    alone                      the same of a game for one player: each player's share of games won
and any other numbers.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

__all__ = [
    "JsonlSink",
    "MetricsSink",
    "Record",
    "TensorBoardSink",
    "plain",
    "read_jsonl",
    "scores_of",
    "tensorboard_sink",
    "truncate_jsonl",
]

Record = Mapping[str, Any]


def scores_of(record: Record) -> dict[str, Mapping[str, Any]]:
    """The scores in an evaluation's record by name: against opponents, or of each player alone."""
    scores = (record.get("opponents") or {}) | (record.get("alone") or {})
    return {name: score for name, score in scores.items() if isinstance(score, Mapping)}


class MetricsSink(Protocol):
    """Takes records as they come."""

    def write(self, record: Record) -> None:
        """Takes one JSON-ready record (see `plain`)."""
        ...

    def close(self) -> None:
        """Finishes what is being written; no `write` follows."""
        ...


def plain(value: Any) -> Any:
    """A JSON-ready copy: NumPy numbers and arrays as Python's, NaN and infinities as None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" and np.can_cast(array.dtype, np.float32):  # bfloat16 and the like
        array = array.astype(np.float32)
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"A metric must be a number, a text or a container of these, got {type(value).__name__}."
        )
    return plain(array.tolist())


class JsonlSink:
    """Appends each record as one line, handed to the system at once: a kill tears at most the last line."""

    def __init__(self, path: str | Path):
        self._file = open(path, "a", encoding="utf-8")

    def write(self, record: Record) -> None:
        """Appends one line."""
        self._file.write(json.dumps(record, allow_nan=False) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def read_jsonl(path: str | Path) -> list[dict[str, Any]]:
    """All records of a file; a last line torn by a kill is left out, a missing file has none.

    Raises:
        ValueError: if a line before the last is no JSON object.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    records = []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise ValueError("not a JSON object")
        except ValueError as error:
            if number == len(lines):
                break
            raise ValueError(f"{path}, line {number}: expected a JSON object ({error}).") from None
        records.append(record)
    return records


def truncate_jsonl(path: str | Path, iteration: int) -> list[dict[str, Any]]:
    """Drops the records after `iteration` (they will be made again) and a torn last line.

    The file is replaced in one step, so that a kill leaves either the old or the new one.

    Returns:
        The records kept.
    """
    path = Path(path)
    kept = [record for record in read_jsonl(path) if record.get("iteration", 0) <= iteration]
    temporary = path.with_name(f".{path.name}.new")
    with open(temporary, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in kept)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    return kept


class TensorBoardSink:
    """Writes a record's numbers as scalars named `kind/key`, such as `iteration/value_loss`."""

    def __init__(self, directory: str | Path, *, purge_after: int | None = None):
        """Opens the event files; what earlier ones hold after iteration `purge_after` is superseded.

        Raises:
            ImportError: if tensorboardX is not installed.
        """
        from tensorboardX import SummaryWriter

        purge_step = None if purge_after is None else purge_after + 1
        self._writer = SummaryWriter(str(directory), purge_step=purge_step, flush_secs=10)

    def write(self, record: Record) -> None:
        """Writes one record's numbers at its iteration."""
        for name, value in _scalars(record):
            self._writer.add_scalar(name, value, record["iteration"])

    def close(self) -> None:
        """Flushes and closes the event file."""
        self._writer.close()


def tensorboard_sink(directory: str | Path, *, purge_after: int | None = None) -> TensorBoardSink | None:
    """A TensorBoardSink, or None where tensorboardX is not installed."""
    try:
        return TensorBoardSink(directory, purge_after=purge_after)
    except ImportError:
        return None


def _scalars(record: Record) -> Iterator[tuple[str, float]]:
    """A record's own numbers and the score against each opponent, by a name that TensorBoard accepts."""
    for key, value in record.items():
        if key not in ("kind", "iteration") and isinstance(value, int | float):
            yield f"{record['kind']}/{key}", value
    for opponent, match in scores_of(record).items():
        if match.get("score") is not None:
            yield f"{record['kind']}/score_{re.sub(r'[^-/A-Za-z0-9_.]', '_', opponent)}", match["score"]
