"""`jaxsearch sweep`: a grid of settings and seeds, and what it shows."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from train.cli.common import add_overrides, natural, positive_int, start_jax

DESCRIPTION = """\
Train a grid of settings, several seeds of each, and compare them.

Settings that change no shapes (learning rate, exploration, simulations ...) are packed into one
program with their seeds; the others become jobs, each a process that is started again if it crashes. Finished
jobs are never run again: the same command goes on with a sweep that was interrupted.

sweep CONFIG --grid ...     runs the jobs
sweep report DIR            lets all members meet, and writes report.md, members.csv and report.png
sweep CONFIG --optuna N     lets Optuna look for the settings of --space whose last evaluation is best, in N
                            trials, each a run of its own
"""

EPILOG = """\
examples:
  jaxsearch sweep configs/tic_tac_toe.toml --grid learner.learning_rate=1e-3,3e-3 search.c_puct=0.6,2.5 \\
      --seeds 3 --dir runs/sweep --set run.iterations=100
  jaxsearch sweep configs/connect_four.toml --grid learner.learning_rate=1e-3,3e-4 \\
      --grid selfplay.simulations=16,32,64 --seeds 3
  jaxsearch sweep report runs/sweep --simulations 32
  jaxsearch sweep configs/connect_four.toml --optuna 30 --set run.minutes=3 \\
      --space learner.learning_rate=1e-4:1e-2:log selfplay.simulations=16:64 learner.schedule=constant,cosine
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("what", metavar="CONFIG", help="a TOML file, or: report DIR")
    parser.add_argument("rest", nargs="*", metavar="DIR", help=argparse.SUPPRESS)
    parser.add_argument(
        "--grid", action="extend", nargs="+", default=[], metavar="KEY=V1,V2", help="values to cross"
    )
    parser.add_argument(
        "--optuna", type=positive_int, metavar="N", help="trials of Optuna in the place of a grid"
    )
    parser.add_argument(
        "--space",
        action="extend",
        nargs="+",
        default=[],
        metavar="KEY=LOW:HIGH[:log]",
        help="for --optuna: ranges, or choices as in --grid",
    )
    parser.add_argument(
        "--seeds",
        type=positive_int,
        metavar="N",
        help="members of each choice (default 3), or runs of each of Optuna's trials (default 1)",
    )
    add_overrides(parser, "set config keys for all members")
    parser.add_argument(
        "--dir", metavar="DIR", help="the sweep's directory (default: run.directory/sweep_NAME)"
    )
    parser.add_argument(
        "--workers", type=positive_int, default=1, metavar="N", help="processes at once (default 1)"
    )
    parser.add_argument(
        "--retries", type=natural, default=2, metavar="N", help="restarts of a job that crashes (default 2)"
    )
    parser.add_argument(
        "--launcher",
        choices=("local", "slurm", "ray"),
        default="local",
        help="where jobs run (default local)",
    )
    parser.add_argument(
        "--resources",
        action="extend",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="what a job is given: submitit's parameters (timeout_min, gpus_per_node ...) for slurm, "
        "a task's options (num_cpus, num_gpus ...) for ray",
    )
    parser.add_argument(
        "--cpu-devices",
        type=positive_int,
        metavar="N",
        help="let each job see N devices of its machine's CPU, for --set mesh.population=N",
    )
    parser.add_argument(
        "--simulations",
        type=natural,
        default=0,
        metavar="S",
        help="for `report`: simulations of each move; 0 plays by the networks alone (default)",
    )
    parser.add_argument(
        "--plies",
        type=positive_int,
        default=2,
        metavar="N",
        help="for `report`: every line of N moves opens two games of each pair (default 2)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs a sweep, one of its jobs, or its report."""
    from train import sweep

    if arguments.cpu_devices:  # for the processes that this one starts
        os.environ["JAX_NUM_CPU_DEVICES"] = str(arguments.cpu_devices)
    if arguments.what == "job":
        start_jax()
        directory, number = arguments.rest
        return sweep.run_job(Path(directory), int(number))
    if arguments.what == "report":
        if len(arguments.rest) != 1:
            raise ValueError("sweep report takes one directory.")
        start_jax()
        from train import sweep_report

        print(
            sweep_report.write(
                Path(arguments.rest[0]), simulations=arguments.simulations, plies=arguments.plies, say=print
            )
        )
        return 0
    if arguments.rest:
        raise ValueError(f"sweep takes one config, and {arguments.rest[0]!r} follows it.")
    from train import algorithms
    from train.config import Config

    config = algorithms.load(arguments.what, arguments.overrides)
    if arguments.optuna or arguments.space:
        return _optimise(arguments, config)
    if not isinstance(config, Config):
        raise ValueError(f"sweep packs runs of alphazero; {arguments.what} is one of {config.run.algorithm}.")
    plan = sweep.make_plan(config, arguments.grid, arguments.seeds or 3)
    directory = Path(arguments.dir or Path(config.run.directory) / f"sweep_{config.run.name}")
    sweep.write_plan(directory, plan)
    members = sum(len(job.members) for job in plan.jobs)
    print(f"{directory}: {members} members in {len(plan.jobs)} jobs", flush=True)
    say = lambda text: print(text, flush=True)  # noqa: E731
    if arguments.launcher == "slurm":
        sweep.launch_slurm(directory, say=say, **_resources(arguments.resources))
        return 0
    if arguments.launcher == "ray":
        resources = _resources(arguments.resources)
        given_up = sweep.launch_ray(directory, retries=arguments.retries, say=say, **resources)
    else:
        if arguments.resources:
            raise ValueError("--resources is for --launcher slurm and --launcher ray.")
        given_up = sweep.launch_local(
            directory, workers=arguments.workers, retries=arguments.retries, say=say
        )
    if given_up:
        return 1
    print(f"All done. Compare them: jaxsearch sweep report {directory}")
    return 0


def _resources(texts: list[str]) -> dict[str, Any]:
    """Texts `KEY=VALUE` by key, numbers as numbers."""
    from train.schema_toml import parse_value

    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise ValueError(f"--resources {text!r}: expected KEY=VALUE.")
        found[key] = parse_value(value)
    return found


def _optimise(arguments: argparse.Namespace, config: Any) -> int:
    """`--optuna`."""
    from train import sweep_optuna

    if not arguments.optuna or not arguments.space:
        raise ValueError("--optuna N and --space KEY=LOW:HIGH go together.")
    if arguments.grid or arguments.workers > 1 or arguments.launcher != "local":
        raise ValueError("--optuna runs one trial after the other: no --grid, --workers or --launcher.")
    return sweep_optuna.optimise(
        Path(arguments.dir or Path(config.run.directory) / f"optuna_{config.run.name}"),
        config,
        sweep_optuna.parse_space(arguments.space, config),
        trials=arguments.optuna,
        seeds=arguments.seeds or 1,
        retries=arguments.retries,
        say=lambda text: print(text, flush=True),
    )
