"""Settings searched by Optuna: each trial is a run of its own, judged by its last evaluation.

    jaxsearch sweep CONFIG --optuna 30 --space learner.learning_rate=1e-4:1e-2:log selfplay.simulations=16:64

The sweep's directory has `study.journal`, which Optuna and its tools read, `trials/NUMBER/SEED/` (the config,
the log and the run directory) and `trials.csv`. The same command goes on with a study that was interrupted,
within the trial and the iteration where it stopped.
"""

from __future__ import annotations

import csv
import io
import math
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from train.config import ConfigError
from train.metrics import read_jsonl, scores_of
from train.run_directory import METRICS, RunError, write_text
from train.schema import to_dict
from train.schema_toml import parse_value, to_toml
from train.sweep import changed, check_setting, value_at

__all__ = ["Range", "objective", "optimise", "parse_space"]

STUDY, TRIALS, TABLE = "study.journal", "trials", "trials.csv"

INTERRUPTED = 130


class Range(NamedTuple):
    """What a key may be: numbers between two, or, where there are `choices`, one of these."""

    low: float = 0
    high: float = 0
    log: bool = False
    choices: tuple[Any, ...] = ()


def parse_space(texts: Sequence[str], config: Any) -> dict[str, Range]:
    """Reads texts `"KEY=LOW:HIGH"`, `"KEY=LOW:HIGH:log"` or `"KEY=VALUE,VALUE,..."` for a resolved config.

    A range has whole numbers where its ends and the config's value are whole.

    Raises:
        ConfigError: a text that is none of these, an empty range, or a key or value that the config cannot
            have.
    """
    space: dict[str, Range] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not value or key in space:
            raise ConfigError(
                f"--space {text!r}: expected KEY=LOW:HIGH, KEY=LOW:HIGH:log or KEY=VALUE,VALUE,..., each "
                "key once."
            )
        low, colon, rest = value.partition(":")
        if not colon:
            space[key] = Range(choices=tuple(parse_value(part) for part in value.split(",")))
            ends: Sequence[Any] = space[key].choices
        else:
            high, _, scale = rest.partition(":")
            ends = [parse_value(end) for end in (low, high)]
            numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends)
            if scale not in ("", "log") or not numbers or ends[0] >= ends[1]:
                raise ConfigError(
                    f"--space {text!r}: expected LOW:HIGH or LOW:HIGH:log, two numbers of which the second "
                    "is greater.",
                    key,
                )
            if scale and ends[0] <= 0:
                raise ConfigError(f"--space {text!r}: a range by logarithms begins above 0.", key)
            space[key] = Range(*ends, log=bool(scale))
        for end in ends:
            check_setting(config, key, end)
        if colon and isinstance(value_at(config, key), float):
            space[key] = space[key]._replace(low=float(ends[0]), high=float(ends[1]))
    return space


def optimise(
    directory: Path,
    config: Any,
    space: Mapping[str, Range],
    *,
    trials: int,
    seeds: int,
    retries: int,
    say: Callable[[str], None],
) -> int:
    """Runs trials until there are `trials` of them, writes `trials.csv`, and tells the best.

    Args:
        directory: the sweep's; a study that is there goes on.
        config: what all trials have in common.
        space: what they differ in.
        trials: in all, earlier ones of the study included.
        seeds: runs of each trial, whose objectives are averaged; they count up from the config's seed.
        retries: how often a run that crashes is started again, from its last checkpoint.
        say: told what happens.

    Returns:
        The exit status: 130 where a trial was interrupted, 1 where no trial has a value.

    Raises:
        RunError: Optuna is not installed, or the directory holds something else.
    """
    optuna = _optuna()
    study = _study(optuna, directory, config, space, seeds)
    distributions = {key: _distribution(optuna, range_) for key, range_ in space.items()}
    running = optuna.trial.TrialState.RUNNING
    while True:
        begun = study.get_trials(deepcopy=False, states=(running,))
        if begun:  # where an earlier command stopped
            trial = begun[0]
        elif len(study.get_trials(deepcopy=False)) < trials:
            trial = study.ask(distributions)
        else:
            break
        told = ", ".join(f"{key} = {_short(value)}" for key, value in trial.params.items())
        say(f"trial {trial.number + 1} of {trials}: {told}")
        values = []
        for seed in range(config.run.seed, config.run.seed + seeds):
            here = directory / TRIALS / f"{trial.number:03d}" / str(seed)
            settings = {**trial.params, "run.seed": seed}
            status = _run(here, changed(to_dict(config), settings, type(config)), retries, say)
            if status == INTERRUPTED:
                return INTERRUPTED
            if status:
                break
            values.append(objective(here / "run"))
        if len(values) == seeds:
            study.tell(trial.number, sum(values) / seeds)
            say(f"  {sum(values) / seeds:.4g}")
        else:
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        write_text(directory / TABLE, _csv(study, space))
    done = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
    if not done:
        say("No trial has come to its end.")
        return 1
    best = " ".join(f"{key}={_short(value)}" for key, value in study.best_params.items())
    say(f"Best of {len(done)}: {study.best_value:.4g} with --set {best}. All: {directory / TABLE}")
    return 0


def objective(run: Path) -> float:
    """What a run directory's last evaluation says: its Elo or, where it has none, the mean score.

    Raises:
        RunError: there is no evaluation, or nothing in it.
    """
    records = [record for record in read_jsonl(run / METRICS) if record["kind"] == "evaluation"]
    if records and records[-1].get("elo") is not None:
        return float(records[-1]["elo"])
    scores = [float(match["score"]) for match in scores_of(records[-1]).values()] if records else []
    if not scores:
        raise RunError(f"{run} has no evaluation to judge it by; expected [evaluation] with opponents.")
    return sum(scores) / len(scores)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise RunError("--optuna needs Optuna: pip install jaxsearch[optuna]") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _study(optuna: Any, directory: Path, config: Any, space: Mapping[str, Range], seeds: int) -> Any:
    """The directory's study, begun or gone on with."""
    path = directory / STUDY
    if not path.exists() and directory.exists() and any(directory.iterdir()):
        raise RunError(f"{directory} is not empty and holds no study; choose another directory with --dir.")
    directory.mkdir(parents=True, exist_ok=True)
    backend = optuna.storages.journal.JournalFileBackend(str(path))
    study = optuna.create_study(
        study_name="sweep",
        direction="maximize",
        storage=optuna.storages.JournalStorage(backend),
        load_if_exists=True,
    )
    # A list of what JSON gives back, so that it equals what was read.
    of = {key: [r.low, r.high, r.log, list(r.choices)] for key, r in space.items()}
    plan = {"config": to_dict(config), "space": of, "seeds": seeds}
    if study.user_attrs.get("plan", plan) != plan:
        raise RunError(f"{directory} holds another study; choose another directory with --dir.")
    study.set_user_attr("plan", plan)
    # Going on draws other numbers than were drawn.
    study.sampler = optuna.samplers.TPESampler(seed=config.run.seed + len(study.get_trials(deepcopy=False)))
    return study


def _distribution(optuna: Any, range_: Range) -> Any:
    kinds = optuna.distributions
    if range_.choices:
        return kinds.CategoricalDistribution(range_.choices)
    whole = isinstance(range_.low, int) and isinstance(range_.high, int)
    kind = kinds.IntDistribution if whole else kinds.FloatDistribution
    return kind(range_.low, range_.high, log=range_.log)


def _run(here: Path, config: Any, retries: int, say: Callable[[str], None]) -> int:
    """Trains in a process of its own, from where it stopped; the exit status."""
    write_text(here / "config.toml", to_toml(config))
    code = "import sys; from train.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "train", str(here / "config.toml"), "--dir", str(here / "run")]
    status = 0
    for crash in range(1 + retries):
        with open(here / "log.txt", "a") as log:
            process = subprocess.Popen([*command, "--resume"], stdout=log, stderr=subprocess.STDOUT)
            try:
                status = process.wait()
            except KeyboardInterrupt:  # the run saves and ends
                process.terminate()
                process.wait()
                return INTERRUPTED
        if status in (0, INTERRUPTED):
            break
        again = "started again" if crash < retries else "given up"
        say(f"  ended with status {status}, {again} (see {here / 'log.txt'})")
    return status


def _csv(study: Any, space: Mapping[str, Range]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["trial", *space, "objective"])
    for trial in study.get_trials(deepcopy=False):
        value = math.nan if trial.value is None else trial.value
        writer.writerow([trial.number, *(trial.params.get(key) for key in space), f"{value:.6g}"])
    return out.getvalue()


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value).lower() if value is True else str(value)
