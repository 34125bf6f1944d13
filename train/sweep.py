"""Sweeps: a grid of settings and several seeds of each, as few programs as will do.

Settings that change no shapes are packed into populations (`population.py`), one job for each choice of the
others; a job is a run like any other, in a process of its own, and goes on where it stopped.
`sweep_report.py` compares what came out.

A sweep's directory has `sweep.json` (config, grid and members), `jobs/NUMBER/` (a run directory, its log, and
`done.json` once finished) and, after `sweep report`, `report.md`, `members.csv` and `report.png`.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from train import packable
from train.config import Config, ConfigError
from train.run_directory import RunError, write_text
from train.schema import fields_of, from_dict, to_dict
from train.schema_toml import parse_value

__all__ = [
    "Job",
    "Plan",
    "job_state",
    "launch_local",
    "launch_ray",
    "launch_slurm",
    "make_plan",
    "read_plan",
    "run_job",
    "write_plan",
]

PLAN, JOBS, LOG, DONE = "sweep.json", "jobs", "log.txt", "done.json"

SEED = "run.seed"


@dataclasses.dataclass(frozen=True)
class Job:
    """One program: a config and the members of its population.

    Attributes:
        number: of the job.
        settings: the grid's keys that all its members share.
        members: settings by member's name, their seeds among them.
    """

    number: int
    settings: Mapping[str, Any]
    members: Mapping[str, Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Plan:
    """A sweep.

    Attributes:
        config: the resolved config as nested plain values, which the grid's settings change.
        grid: values by key.
        seeds: of every choice of settings.
        jobs: what is run.
    """

    config: Mapping[str, Any]
    grid: Mapping[str, Sequence[Any]]
    seeds: Sequence[int]
    jobs: Sequence[Job]


def make_plan(config: Config, grid: Sequence[str], seeds: int) -> Plan:
    """The jobs of a grid.

    Args:
        config: what all members have in common.
        grid: texts `"KEY=VALUE,VALUE,..."`.
        seeds: members of each choice of settings; they count up from the config's seed.

    Raises:
        ConfigError: a key or a value that does not exist, twice the same key, no value, a key that the search
            does not read, or members that cannot be divided among `mesh.population` devices.
    """
    values: dict[str, list[Any]] = {}
    for text in grid:
        key, equals, listed = text.partition("=")
        if not equals or not listed:
            raise ConfigError(f"--grid {text!r}: expected KEY=VALUE,VALUE,...")
        if key in values:
            raise ConfigError(f"--grid names {key} twice.", key)
        if key == SEED:
            raise ConfigError(f"--grid {text!r}: the number of seeds is --seeds.", key)
        if key.startswith("game."):
            raise ConfigError(f"--grid {text!r}: members meet in one game; sweep each game by itself.", key)
        values[key] = [parse_value(value) for value in listed.split(",")]
        for value in values[key]:  # mistakes show at once, and not in the last job
            check_setting(config, key, value)
    grouped: dict[tuple, dict[str, dict[str, Any]]] = {}
    all_seeds = [config.run.seed + number for number in range(seeds)]
    for choice in itertools.product(*values.values()):
        settings = dict(zip(values, choice))
        ours = changed(to_dict(config), settings)
        packable.check(ours, settings)
        together = packable.packable(ours.selfplay.search)
        shared = tuple((key, value) for key, value in settings.items() if key not in together)
        own = {key: value for key, value in settings.items() if key in together}
        for seed in all_seeds:
            grouped.setdefault(shared, {})[_name(settings, seed)] = {**own, SEED: seed}
    jobs = [Job(number, dict(shared), members) for number, (shared, members) in enumerate(grouped.items())]
    for job in jobs:
        devices = changed(to_dict(config), job.settings).mesh.population
        if len(job.members) % devices:
            raise ConfigError(
                f"mesh.population = {devices} devices cannot share the {len(job.members)} members of a job "
                "evenly; expected a divisor of these.",
                "mesh.population",
            )
    return Plan(to_dict(config), values, all_seeds, jobs)


def check_setting(config: Any, key: str, value: Any) -> None:
    """Raises ConfigError where a config has no such key or value, and says where else the name is."""
    try:
        changed(to_dict(config), {key: value}, type(config))
    except ConfigError as error:
        name = key.rpartition(".")[2]
        there = [
            f"{section.name}.{name}"
            for section in fields_of(type(config))
            if section.is_section and any(field.name == name for field in fields_of(section.kind))
        ]
        if not there or key in there:
            raise
        raise ConfigError(f"{key} is not a known key; expected {' or '.join(there)}.", key) from error


def value_at(config: Any, key: str) -> Any:
    """The setting with a dotted key; None where a free-form section says nothing."""
    for name in key.split("."):
        rest = next((field.name for field in fields_of(type(config)) if field.is_extras), None)
        config = (
            getattr(config, name)
            if hasattr(config, name) or rest is None
            else getattr(config, rest).get(name)
        )
    return config


def changed(config: Mapping[str, Any], settings: Mapping[str, Any], kind: type = Config) -> Any:
    """The config, of the class `kind`, with other values of some dotted keys.

    Raises:
        ConfigError: as where a file has such a key or value.
    """
    tree = copy.deepcopy(dict(config))
    for key, value in settings.items():
        section, _, name = key.partition(".")
        if not isinstance(tree.setdefault(section, {}), dict) or not name:
            raise ConfigError(f"{key}: expected section.key, as in learner.learning_rate.", key)
        tree[section][name] = value
    return from_dict(kind, tree)


def write_plan(directory: Path, plan: Plan) -> None:
    """Begins a sweep, or goes on with the same one.

    Raises:
        RunError: another sweep is there.
    """
    text = json.dumps(dataclasses.asdict(plan), indent=1)
    path = directory / PLAN
    if path.exists():
        if json.loads(path.read_text()) != json.loads(text):
            raise RunError(f"{directory} holds another sweep; choose another directory with --dir.")
        return
    if directory.exists() and any(directory.iterdir()):
        raise RunError(f"{directory} is not empty and holds no sweep; choose another directory with --dir.")
    write_text(path, text)


def read_plan(directory: Path) -> Plan:
    """The sweep of a directory.

    Raises:
        RunError: there is none.
    """
    try:
        content = json.loads((directory / PLAN).read_text())
    except FileNotFoundError:
        raise RunError(f"{directory} holds no sweep (no {PLAN}).") from None
    return Plan(**{**content, "jobs": [Job(**job) for job in content["jobs"]]})


def job_directory(directory: Path, number: int) -> Path:
    """Where a job runs."""
    return directory / JOBS / f"{number:03d}"


def job_state(directory: Path, number: int) -> str:
    """`"done"`, `"begun"` or `"waiting"`."""
    here = job_directory(directory, number)
    return "done" if (here / DONE).exists() else "begun" if here.exists() else "waiting"


# Running


def run_job(directory: Path, number: int) -> int:
    """Trains one job's population in this process, from where it stopped; the exit status."""
    from train.population import Member, population
    from train.run import run

    plan = read_plan(directory)
    job = plan.jobs[number]
    here = job_directory(directory, number)
    config = changed(plan.config, job.settings)
    members = [Member(name, settings) for name, settings in job.members.items()]
    result = run(config, here / "run", experiment=population(config, members), resume=True)
    if result.reason == "interrupted":
        return 130
    write_text(here / DONE, json.dumps({"iteration": result.iteration, "seconds": result.seconds}))
    return 0


def launch_local(
    directory: Path, *, workers: int, retries: int, say: Callable[[str], None], poll_seconds: float = 0.5
) -> list[int]:
    """Runs the jobs that are not done, some at a time, in processes of this machine.

    Args:
        directory: the sweep's.
        workers: processes at once.
        retries: how often a job that crashes is started again, from its last checkpoint.
        say: told what happens.
        poll_seconds: between looks at the processes.

    Returns:
        The numbers of the jobs that were given up.
    """
    plan = read_plan(directory)
    waiting = [job.number for job in plan.jobs if job_state(directory, job.number) != "done"]
    if len(waiting) < len(plan.jobs):
        say(f"{len(plan.jobs) - len(waiting)} of {len(plan.jobs)} jobs are done already.")
    running: dict[int, subprocess.Popen] = {}
    crashes: dict[int, int] = {}
    given_up: list[int] = []
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                number = waiting.pop(0)
                running[number] = _start_process(directory, number)
                say(f"job {number}: {len(plan.jobs[number].members)} members{_settings(plan.jobs[number])}")
            time.sleep(poll_seconds)
            for number, process in list(running.items()):
                status = process.poll()
                if status is None:
                    continue
                del running[number]
                if status == 0:
                    say(f"job {number}: done")
                    continue
                crashes[number] = crashes.get(number, 0) + 1
                log = job_directory(directory, number) / LOG
                if crashes[number] <= retries:
                    say(f"job {number}: ended with status {status}, started again (see {log})")
                    waiting.insert(0, number)
                else:
                    say(f"job {number}: given up after {crashes[number]} crashes (see {log})")
                    given_up.append(number)
    finally:
        for process in running.values():  # they save and end
            process.terminate()
        for process in running.values():
            process.wait()
    return given_up


def launch_slurm(directory: Path, *, say: Callable[[str], None], **parameters: Any) -> None:
    """Submits the jobs that are not done to SLURM, by submitit.

    Args:
        directory: the sweep's, on a disk that the nodes share.
        say: told what happens.
        parameters: of `submitit.AutoExecutor.update_parameters`, such as `timeout_min`.

    Raises:
        RunError: submitit is not installed.
    """
    try:
        import submitit
    except ImportError:
        raise RunError("--launcher slurm needs submitit: pip install jaxsearch[slurm]") from None
    executor = submitit.AutoExecutor(folder=str(directory / "slurm"))
    executor.update_parameters(**parameters)
    for job in read_plan(directory).jobs:
        if job_state(directory, job.number) != "done":
            submitted = executor.submit(run_job, directory, job.number)
            say(f"job {job.number}: SLURM {submitted.job_id}")


def launch_ray(directory: Path, *, retries: int, say: Callable[[str], None], **options: Any) -> list[int]:
    """Runs the jobs that are not done as tasks of Ray: of the cluster of `RAY_ADDRESS`, or of this machine.

    Args:
        directory: the sweep's, on a disk that the nodes share.
        retries: how often a job that crashes, or whose node is lost, is started again, from its last
            checkpoint.
        say: told what happens.
        options: what each task needs, of `ray.remote`, such as `num_gpus`.

    Returns:
        The numbers of the jobs that were given up.

    Raises:
        RunError: Ray is not installed.
    """
    try:
        import ray  # pyright: ignore[reportMissingImports]  # an extra
        from ray.exceptions import RayError  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise RunError("--launcher ray needs Ray: pip install jaxsearch[ray]") from None
    here, started = directory.absolute(), not ray.is_initialized()
    if started:
        ray.init(log_to_driver=False, configure_logging=False)
    try:
        task = ray.remote(max_retries=retries, retry_exceptions=True, **options)(_ray_task)
        waiting = {
            task.options(name=f"job {job.number}").remote(str(here), job.number): job.number
            for job in read_plan(here).jobs
            if job_state(here, job.number) != "done"
        }
        say(f"{len(waiting)} jobs handed to Ray")
        given_up = []
        while waiting:
            (ended,), _ = ray.wait(list(waiting), num_returns=1)
            number = waiting.pop(ended)
            try:
                ray.get(ended)
                say(f"job {number}: done")
            except RayError as error:
                reason = str(error).strip().splitlines()[-1]
                say(f"job {number}: given up ({reason}; see {job_directory(directory, number) / LOG})")
                given_up.append(number)
        return given_up
    finally:
        if started:
            ray.shutdown()


def _ray_task(directory: str, number: int) -> None:
    """A job in a process of its own, as on this machine: what it prints goes to its log."""
    status = _start_process(Path(directory), number).wait()
    if status:
        raise RuntimeError(f"it ended with status {status}")


def _start_process(directory: Path, number: int) -> subprocess.Popen:
    here = job_directory(directory, number)
    here.mkdir(parents=True, exist_ok=True)
    code = "import sys; from train.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "sweep", "job", str(directory), str(number)]
    with open(here / LOG, "a") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def _settings(job: Job) -> str:
    return "".join(f", {key} = {value}" for key, value in job.settings.items())


def _name(settings: Mapping[str, Any], seed: int) -> str:
    return " ".join(
        [*(f"{key.split('.')[-1]}={_text(value)}" for key, value in settings.items()), f"seed={seed}"]
    )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
