"""`jaxsearch sweep`: a grid of settings and seeds, and what it shows."""

from __future__ import annotations

import argparse
from pathlib import Path

from train.cli.common import add_overrides, natural, positive_int, start_jax

DESCRIPTION = """\
Train a grid of settings, several seeds of each, and compare them.

Settings that change no shapes (learning rate, exploration, temperature, target mix ...) are packed into one
program with their seeds; the others become jobs, each a process that is started again if it crashes. Finished
jobs are never run again: the same command goes on with a sweep that was interrupted.

sweep CONFIG --grid ...   runs the jobs
sweep report DIR          lets all members meet, and writes report.md, members.csv and report.png
"""

EPILOG = """\
examples:
  jaxsearch sweep configs/tic_tac_toe.toml --grid learner.learning_rate=1e-3,3e-3 search.c_puct=0.6,2.5 \\
      --seeds 3 --dir runs/sweep --set run.iterations=100
  jaxsearch sweep report runs/sweep --simulations 32
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("what", metavar="CONFIG", help="a TOML file, or: report DIR")
    parser.add_argument("rest", nargs="*", metavar="DIR", help=argparse.SUPPRESS)
    parser.add_argument(
        "--grid", action="extend", nargs="+", default=[], metavar="KEY=V1,V2", help="values to cross"
    )
    parser.add_argument(
        "--seeds", type=positive_int, default=3, metavar="N", help="members of each choice (default 3)"
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
        "--launcher", choices=("local", "slurm"), default="local", help="where jobs run (default local)"
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
    from train.packable import PACKABLE

    config = algorithms.load(arguments.what, arguments.overrides)
    if not isinstance(config, Config):
        raise ValueError(f"sweep packs runs of alphazero; {arguments.what} is one of {config.run.algorithm}.")
    plan = sweep.make_plan(config, arguments.grid, arguments.seeds, PACKABLE)
    directory = Path(arguments.dir or Path(config.run.directory) / f"sweep_{config.run.name}")
    sweep.write_plan(directory, plan)
    members = sum(len(job.members) for job in plan.jobs)
    print(f"{directory}: {members} members in {len(plan.jobs)} jobs", flush=True)
    say = lambda text: print(text, flush=True)  # noqa: E731
    if arguments.launcher == "slurm":
        sweep.launch_slurm(directory, say=say)
        return 0
    given_up = sweep.launch_local(directory, workers=arguments.workers, retries=arguments.retries, say=say)
    if given_up:
        return 1
    print(f"All done. Compare them: jaxsearch sweep report {directory}")
    return 0
