"""`jaxsearch train`: from a config to a trained agent."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from train.cli.common import start_jax

DESCRIPTION = """\
Train an agent from nothing by self-play.

CONFIG is a TOML file that names the game, the network and every setting; what it leaves out has a default.
The run directory gets the full config, metrics, checkpoints and report.html. Ctrl-C finishes the iteration,
saves, and prints the command that resumes; a second Ctrl-C leaves at once.
"""

EPILOG = """\
the run directory (run.directory/run.name of the config, or --dir):
  config.toml      every key with its meaning and value
  metrics.jsonl    one line per iteration and evaluation (tensorboard/ has the same)
  checkpoints/     the newest and the milestones
  report.html      plots and the last evaluation

examples:
  jaxsearch train configs/connect_four.toml
  jaxsearch train configs/connect_four.toml --set run.minutes=5 selfplay.simulations=64 --dir runs/short
  jaxsearch train configs/connect_four.toml --resume
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("config", metavar="CONFIG", help="a TOML file, e.g. configs/connect_four.toml")
    parser.add_argument(
        "--set",
        dest="overrides",
        action="extend",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="set config keys, e.g. --set run.minutes=5 learner.batch_size=512 (put CONFIG before it)",
    )
    parser.add_argument("--dir", metavar="DIR", help="the run directory (default: run.directory/run.name)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in the run directory")


def run(arguments: argparse.Namespace) -> int:
    """Reads the config and trains; the exit status is 130 after Ctrl-C."""
    from train import algorithms

    config = algorithms.load(
        arguments.config, arguments.overrides
    )  # before JAX, so that mistakes show at once
    directory = Path(arguments.dir) if arguments.dir else Path(config.run.directory) / config.run.name
    start_jax()
    from train.ladder import run_evaluation
    from train.run import run as run_experiment

    experiment = algorithms.setup(config)
    evaluate = run_evaluation(
        config,
        directory,
        game=experiment.game,
        network=experiment.network,
        parameters=experiment.parameters,
    )
    result = run_experiment(
        config,
        directory,
        experiment=experiment,
        evaluate=evaluate,
        resume=arguments.resume,
        resume_command=_resume_command(arguments),
    )
    return 130 if result.reason == "interrupted" else 0


def _resume_command(arguments: argparse.Namespace) -> str:
    """What to type to go on: the same command with `--resume`."""
    words = ["jaxsearch", "train", arguments.config]
    if arguments.overrides:
        words += ["--set", *arguments.overrides]
    if arguments.dir:
        words += ["--dir", arguments.dir]
    return shlex.join([*words, "--resume"])
