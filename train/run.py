"""The host's side of a run: iterate, log, save, evaluate, stop, resume. Knows no algorithm.

An algorithm is an `Experiment`: an initial state and one jitted iteration. The loop here dispatches an
iteration before it fetches the metrics of the one before, so the device never waits for the host.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import shlex
import time
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import jax

from train import checkpoint, hosts, report, time_table
from train.config import MAY_CHANGE_ON_RESUME, CheckpointConfig, EvaluationConfig, RunConfig
from train.interrupt import StopRequest, stop_request
from train.metrics import JsonlSink, MetricsSink, Record, plain, read_jsonl, tensorboard_sink, truncate_jsonl
from train.progress import Display, device_text, how_it_ended, make_display
from train.run_directory import (
    CHECKPOINTS,
    METRICS,
    TENSORBOARD,
    RunError,
    check_directory,
    locked,
    record_start,
)
from train.schema import to_dict

__all__ = ["Evaluate", "Experiment", "Result", "RunError", "RunSettings", "run"]

State = Any
Reason = Literal["iterations", "minutes", "interrupted"]
"""What ended a run: one of its two limits, or a request to stop."""

Evaluate = Callable[[State, int], Mapping[str, Any]]
"""`evaluate(state, iterations_done)` returns the evaluation's record, see `train.metrics`."""

_REPORT_SECONDS = 30.0
"""Evaluations that follow each other faster than this do not each redraw the report."""

_COUNTS = ("games", "plies", "simulations", "samples")
"""Metrics that count what one iteration did, from which rates per second are made."""


class Experiment(Protocol):
    """An algorithm set up for a config. `train.alphazero.setup(config)` makes one."""

    @property
    def identity(self) -> checkpoint.Identity:
        """What its states belong to."""
        ...

    def init(self, seed: int) -> State:
        """The state before the first iteration: one pytree of arrays. Traceable, for `jax.eval_shape`."""
        ...

    def iterate(self, state: State) -> tuple[State, dict[str, jax.Array]]:
        """One iteration; `state` is donated. Metrics are finite scalars; see `_COUNTS` for counts."""
        ...

    def parameters(self, state: State) -> dict[str, Any]:
        """The part of the state that players need: nested dicts of arrays."""
        ...

    def nonfinite(self, state: State) -> dict[str, jax.Array]:
        """Bool `[]` by name for each tensor that ought to be finite: whether it is not."""
        ...


class RunSettings(Protocol):
    """The sections of a config that the loop reads."""

    @property
    def run(self) -> RunConfig:
        """Name, seed, limits."""
        ...

    @property
    def evaluation(self) -> EvaluationConfig:
        """When to evaluate."""
        ...

    @property
    def checkpoint(self) -> CheckpointConfig:
        """When to save and what to keep."""
        ...


@dataclasses.dataclass(frozen=True)
class Result:
    """How a run ended.

    Attributes:
        directory: where it is.
        iteration: iterations done.
        seconds: running time, earlier parts of a resumed run included.
        reason: what ended it: one of its two limits, or a request to stop.
        state: the last state.
        evaluation: the last evaluation's record, if there was one.
    """

    directory: Path
    iteration: int
    seconds: float
    reason: Reason
    state: State
    evaluation: Record | None


def run(
    config: RunSettings,
    directory: str | Path,
    *,
    experiment: Experiment,
    evaluate: Evaluate | None = None,
    resume: bool = False,
    display: Display | None = None,
    resume_command: str | None = None,
) -> Result:
    """Runs `experiment` until its limits or a request to stop, and leaves a run directory.

    Args:
        config: the settings, a `@settings` object, saved with the run.
        directory: the run's directory.
        experiment: the algorithm.
        evaluate: called every `evaluation.every` iterations and at the end.
        resume: go on with the run in `directory`, bit for bit as if it had not stopped. Where there is
            none, one starts.
        display: where progress is shown; None picks one that suits standard output.
        resume_command: what to tell the user to type after an interruption.

    Raises:
        RunError: if the directory cannot be used, or a NaN or an infinity appears; the last good
            checkpoint is kept.
        CheckpointError: if a checkpoint cannot be written or restored.
    """
    directory = Path(directory)
    check_directory(directory, config, resume=resume, may_change=MAY_CHANGE_ON_RESUME)
    command = resume_command or shlex.join(
        ["jaxsearch", "train", str(directory / "config.toml"), "--dir", str(directory), "--resume"]
    )
    hosts.barrier("directory checked")
    with contextlib.ExitStack() as stack:
        if hosts.is_first():
            stack.enter_context(locked(directory))
            record_start(directory, config)
        display = display or make_display(
            name=config.run.name,
            iterations=config.run.iterations,
            minutes=config.run.minutes,
            device=device_text(),
            silent=not hosts.is_first(),
        )
        stack.callback(_close, display)
        stop = stack.enter_context(stop_request(display.message, functools.partial(_close, display), command))
        loop = _Loop(config, directory, experiment, evaluate, display, stop)
        stack.callback(loop.close)
        result = loop.go()
    # The display is closed by now, so that what follows stays below it.
    told = time_table.lines(config.run, result, experiment)
    for message in [*how_it_ended(result, report.HTML, command), *told]:
        display.message(message)
    return result


class _Loop:
    """The state of a run on the host while it runs."""

    def __init__(
        self,
        config: RunSettings,
        directory: Path,
        experiment: Experiment,
        evaluate: Evaluate | None,
        display: Display,
        stop: StopRequest,
    ):
        self.config, self.directory, self.experiment = config, directory, experiment
        self.evaluate, self.display, self.stop = evaluate, display, stop
        self.checkpoints = directory / CHECKPOINTS
        self.iteration, self.seconds_before, self.saved_at = 0, 0.0, -1
        self.evaluations: list[Record] = []
        self.waiting: dict[str, jax.Array] | None = None  # metrics of the last iteration, not yet fetched
        self.sinks: list[MetricsSink] = [display]
        self._begin()
        self.started = self.mark = self.reported = time.monotonic()

    def _begin(self) -> None:
        """Makes the first state or restores the last, and opens the sinks at that iteration."""
        seed = self.config.run.seed
        path = checkpoint.latest(self.checkpoints)
        if path is None:
            self.state = self.experiment.init(seed)
        else:
            metadata = checkpoint.read_metadata(path)
            abstract = self._abstract(seed)
            self.state = checkpoint.restore(path, abstract, identity=self.experiment.identity)
            self.iteration = self.saved_at = metadata.iteration
            self.seconds_before = metadata.seconds
        try:
            history = self._open_sinks(purge_after=self.iteration if path else None)
        except OSError as error:
            raise self._cannot_log(error) from error
        hosts.barrier("metrics opened")
        for record in history:
            self.seconds_before = max(self.seconds_before, record["seconds"])
        self.evaluations = [record for record in history if record["kind"] == "evaluation"]
        if path:
            self.display.message(f"Resuming {self.directory} after iteration {self.iteration}.")

    def _open_sinks(self, *, purge_after: int | None) -> Sequence[Record]:
        """What was written up to the iteration that the run goes on from; later records are removed."""
        path = self.directory / METRICS
        if not hosts.is_first():
            return [r for r in read_jsonl(path) if r["iteration"] <= self.iteration] if path.exists() else []
        history = truncate_jsonl(path, self.iteration)
        self.sinks.append(JsonlSink(path))
        if self.config.run.tensorboard:
            board = tensorboard_sink(self.directory / TENSORBOARD, purge_after=purge_after)
            self.sinks += [board] if board else []
        return history

    def _abstract(self, seed: int) -> State:
        """What a checkpoint is restored into: shapes and, where the experiment says, places."""
        told = getattr(self.experiment, "abstract", None)
        return told(seed) if told else jax.eval_shape(functools.partial(self.experiment.init, seed))

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.started

    @property
    def evaluated_at(self) -> int:
        return self.evaluations[-1]["iteration"] if self.evaluations else 0

    def go(self) -> Result:
        # A run killed between a checkpoint and its evaluation evaluates now.
        if self.iteration > self.evaluated_at and self._due(self.config.evaluation.every):
            self._evaluate()
        while (reason := self._agreed(self._reason_to_stop())) is None:
            with self._in_touch():
                self.state, metrics = self.experiment.iterate(self.state)
                self._fetch()
            self.iteration, self.waiting = self.iteration + 1, metrics
            if self._due(self.config.checkpoint.every):
                self._save()
            if self._due(self.config.evaluation.every):
                self._evaluate()
        if self.saved_at != self.iteration:
            self._save()
        if reason != "interrupted" and self.evaluate and self.evaluated_at != self.iteration:
            self._evaluate()
        self._report()
        evaluation = self.evaluations[-1] if self.evaluations else None
        return Result(self.directory, self.iteration, self.seconds, reason, self.state, evaluation)

    def close(self) -> None:
        for sink in self.sinks[1:]:  # the display is closed by its owner
            _close(sink)

    def _due(self, every: int) -> bool:
        return every > 0 and self.iteration % every == 0

    def _reason_to_stop(self) -> Reason | None:
        limits = self.config.run
        if self.iteration >= limits.iterations:
            return "iterations"
        if limits.minutes is not None and self.seconds >= 60 * limits.minutes:
            return "minutes"
        return "interrupted" if self.stop.requested else None

    def _agreed(self, reason: Reason | None) -> Reason | None:
        """The first process's reason: clocks and signals differ."""
        if hosts.count() == 1:
            return reason
        reasons = (None, *typing.get_args(Reason))
        with self._in_touch():
            return reasons[hosts.agree(reasons.index(reason))]

    @contextlib.contextmanager
    def _in_touch(self) -> Iterator[None]:
        """Says what to do when another process is lost."""
        try:
            yield
        except (jax.errors.JaxRuntimeError, checkpoint.CheckpointError) as error:
            if not hosts.is_lost(error):
                raise
            raise RunError(
                f"Iteration {self.iteration}: another process of this run is lost "
                f"({str(error).strip().splitlines()[0][:200]}). {self._last_good()}; start all processes "
                "again with --resume."
            ) from error

    def _fetch(self) -> None:
        """Fetches and logs the metrics of iteration `self.iteration`, if they are still to be fetched."""
        if self.waiting is None:
            return
        began = time.monotonic()
        host = {name: float(value) for name, value in jax.device_get(self.waiting).items()}
        self.waiting = None
        now = time.monotonic()
        spent, self.mark = now - self.mark, now
        rates = {f"{name}_per_second": host[name] / spent for name in _COUNTS if name in host}
        # While the host waits, the device works; in the rest of the time it may have had nothing to do.
        idle = {"idle_share": 1 - (now - began) / spent} if spent else {}
        self._write({"kind": "iteration", "iteration_seconds": spent, **idle, **host, **rates})
        self._stop_at_nonfinite([name for name, value in host.items() if not math.isfinite(value)])

    def _stop_at_nonfinite(self, metrics: list[str], check_state: bool = False) -> None:
        """Raises RunError if `metrics` names any, or, if asked to look, the state has a bad tensor."""
        if not metrics and not check_state:
            return
        flags = jax.device_get(self.experiment.nonfinite(self.state))
        tensors = [name for name, flag in flags.items() if flag]
        if metrics or tensors:
            found = [f"metric {name}" for name in metrics] + [f"tensor {name}" for name in _few(tensors)]
            raise RunError(
                f"Iteration {self.iteration}: NaN or infinity in {', '.join(found)}; training stopped. "
                f"{self._last_good()}. A lower learning rate or a smaller gradient clip may help."
            )

    def _save(self) -> None:
        self._fetch()
        self._stop_at_nonfinite([], check_state=True)
        with self._in_touch():
            checkpoint.save(
                self.checkpoints,
                self.state,
                self.experiment.parameters(self.state),
                identity=self.experiment.identity,
                config=to_dict(self.config),
                iteration=self.iteration,
                seconds=self.seconds,
            )
        self.saved_at = self.iteration
        keep = self.config.checkpoint
        checkpoint.prune(self.checkpoints, keep=keep.keep, milestone_every=keep.milestone_every)
        self.mark = time.monotonic()

    def _evaluate(self) -> None:
        if self.evaluate is None:
            return
        self._fetch()
        seconds, began = self.seconds, time.monotonic()
        result = self.evaluate(self.state, self.iteration)
        spent = {"seconds": seconds, "evaluation_seconds": time.monotonic() - began}
        self.evaluations.append(self._write({"kind": "evaluation", **spent, **result}))
        if time.monotonic() - self.reported >= _REPORT_SECONDS:
            self._report()
        self.mark = time.monotonic()

    def _write(self, record: Mapping[str, Any]) -> Record:
        ordered = {"kind": record["kind"], "iteration": self.iteration, "seconds": self.seconds}
        written = plain({**ordered, **record})
        try:
            for sink in self.sinks:
                sink.write(written)
        except OSError as error:
            raise self._cannot_log(error) from error
        return written

    def _report(self) -> None:
        """Redraws the report; a picture that fails must not end a long run."""
        if not hosts.is_first():
            return
        self.reported = time.monotonic()
        try:
            report.write_report(self.directory)
        except Exception as error:
            self.display.message(f"The report could not be written ({type(error).__name__}: {error}).")

    def _cannot_log(self, error: OSError) -> RunError:
        return RunError(
            f"{self.directory}: metrics could not be written ({error.strerror or error}); training stopped. "
            f"{self._last_good()}. Free some space or fix the permissions, then resume."
        )

    def _last_good(self) -> str:
        path = checkpoint.latest(self.checkpoints)
        return f"The last good checkpoint is {path}" if path else "There is no checkpoint yet"


def _close(sink: MetricsSink) -> None:
    with contextlib.suppress(OSError):  # what cannot be written was reported when it happened
        sink.close()


def _few(names: list[str], limit: int = 5) -> list[str]:
    return names if len(names) <= limit else [*names[:limit], f"and {len(names) - limit} more"]
