"""`jaxsearch bench`: how fast, against whom."""

from __future__ import annotations

import argparse
import os

from train.cli.common import positive_int, start_jax

DESCRIPTION = """\
Measure speed, where there is a peer library side by side with it.

search   simulations per second against mctx, same game code and evaluator on both sides, one thread
         (NPROC=2 in the environment allows two)
games    steps per second against pgx under the same random policy
train    speed of a whole training iteration, network by network

Programs are warmed up and take turns in one process; figures are medians with their spread, and the ratio
of medians.
"""

EPILOG = """\
examples:
  jaxsearch bench games
  jaxsearch bench search --repeats 7
  jaxsearch bench train
"""

MODULES = {"search": "train.bench_search", "games": "train.bench_games", "train": "train.bench_train"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("what", choices=sorted(MODULES), metavar="WHAT", help="search, games or train")
    parser.add_argument(
        "--repeats", type=positive_int, default=5, metavar="N", help="timed repeats of each side (default 5)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the benchmark module's `main(repeats=...)`."""
    if arguments.what == "search":
        # XLA reads this when it starts. At these sizes a second thread costs both sides more than it brings.
        os.environ.setdefault("NPROC", "1")
    start_jax()
    import importlib

    module = importlib.import_module(MODULES[arguments.what])
    module.main(repeats=arguments.repeats)
    return 0
