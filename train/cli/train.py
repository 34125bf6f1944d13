"""`jaxsearch train`: from a config to a trained agent."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from train.cli.common import add_overrides, natural, positive_int, start_jax

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
    add_overrides(
        parser, "set config keys, e.g. --set run.minutes=5 learner.batch_size=512 (put CONFIG before it)"
    )
    parser.add_argument("--dir", metavar="DIR", help="the run directory (default: run.directory/run.name)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in the run directory")
    parser.add_argument(
        "--plan",
        action="store_true",
        help="train nothing: print shapes, bytes on each device, compile time and speed, from a short probe",
    )
    parser.add_argument(
        "--profile",
        metavar="DIR",
        help="write a trace of some iterations for Perfetto or TensorBoard (docs/scaling.md)",
    )
    devices = parser.add_argument_group("devices (docs/scaling.md)")
    devices.add_argument(
        "--cpu-devices",
        type=positive_int,
        metavar="N",
        help="let JAX see N devices of this machine's CPU, for --set mesh.data=N",
    )
    devices.add_argument(
        "--distributed",
        action="store_true",
        help="this is one of several processes of the run, one for each host; where SLURM, MPI or a TPU "
        "started them, JAX finds the others",
    )
    devices.add_argument("--coordinator", metavar="HOST:PORT", help="else: where process 0 listens,")
    devices.add_argument("--processes", type=positive_int, metavar="N", help="how many processes there are,")
    devices.add_argument("--process", type=natural, metavar="I", help="and which this one is, from 0")


def run(arguments: argparse.Namespace) -> int:
    """Reads the config and trains; the exit status is 130 after Ctrl-C."""
    from train import algorithms

    config = algorithms.load(
        arguments.config, arguments.overrides
    )  # before JAX, so that mistakes show at once
    directory = Path(arguments.dir) if arguments.dir else Path(config.run.directory) / config.run.name
    start_jax()
    _start_devices(arguments)
    from train import hosts
    from train.ladder import run_evaluation
    from train.run import run as run_experiment

    experiment = algorithms.setup(config)
    if arguments.plan or arguments.profile:
        return _look(arguments, config, experiment)
    evaluate = run_evaluation(
        config,
        directory,
        game=experiment.game,
        network=experiment.network,
        parameters=lambda state: hosts.local(experiment.parameters(state)),
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


def _start_devices(arguments: argparse.Namespace) -> None:
    """What must be said to JAX before it looks for devices."""
    told = [arguments.coordinator, arguments.processes, arguments.process]
    if not arguments.distributed and any(value is not None for value in told):
        raise ValueError("--coordinator, --processes and --process go with --distributed.")
    if arguments.cpu_devices:
        import jax

        jax.config.update("jax_num_cpu_devices", arguments.cpu_devices)
    if arguments.distributed:
        from train import hosts

        hosts.start(*told)


def _look(arguments: argparse.Namespace, config: Any, experiment: Any) -> int:
    """`--plan` and `--profile`, which train nothing."""
    from train import plan, profile
    from train.alphazero import AlphaZero

    if not isinstance(experiment, AlphaZero):
        raise ValueError(
            f"--plan and --profile know alphazero; this config's run.algorithm is {config.run.algorithm}."
        )
    if arguments.plan:
        print(plan.text(plan.plan(experiment), config.run.iterations))
    if arguments.profile:
        print(profile.write(experiment, Path(arguments.profile)))
    return 0


def _resume_command(arguments: argparse.Namespace) -> str:
    """What to type to go on: the same command with `--resume`."""
    words = ["jaxsearch", "train", arguments.config]
    if arguments.overrides:
        words += ["--set", *arguments.overrides]
    if arguments.dir:
        words += ["--dir", arguments.dir]
    if arguments.cpu_devices:
        words += ["--cpu-devices", str(arguments.cpu_devices)]
    return shlex.join([*words, "--resume"])
