"""`jaxsearch bench`: how fast, against whom."""

from __future__ import annotations

import argparse
import os

from train.cli.common import positive_int, start_jax

DESCRIPTION = """\
Measure speed, where there is a peer library side by side with it.

search   simulations per second against mctx, same game code and evaluator on both sides; on a CPU one
         thread (NPROC=2 in the environment allows two). --rows chooses tables:
           games    PUCT and Gumbel on Connect Four and Othello (about 6 minutes, the default)
           actions  PUCT with 9, 82 and 4,672 actions, for 1, 64 and 1,024 trees
           analyze  one position of Connect Four, 5,000 simulations, seconds
           leaves   one position judged by a residual network, several leaves at once against one
           playouts UCT with random playouts, 256 trees, against OpenSpiel's in C++
games    steps per second against pgx under the same random policy
train    speed of a whole training iteration, network by network
scaling  training speed by games, simulations, network width and devices; CSV and plots in runs/scaling

Programs are warmed up and take turns in one process; figures are medians with their spread, and the ratio
of medians.
"""

EPILOG = """\
examples:
  jaxsearch bench games
  jaxsearch bench search --repeats 7
  jaxsearch bench search --rows actions leaves --device gpu
  jaxsearch bench train
  jaxsearch bench scaling --cpu-devices 2
"""

MODULES = {
    "search": "train.bench_search",
    "games": "train.bench_games",
    "train": "train.bench_train",
    "scaling": "train.bench_scaling",
}


SEARCH_ROWS = ("games", "actions", "analyze", "leaves", "playouts")
DEVICES = ("cpu", "gpu", "tpu")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        "what", choices=sorted(MODULES), metavar="WHAT", help="search, games, train or scaling"
    )
    parser.add_argument(
        "--repeats", type=positive_int, default=5, metavar="N", help="timed repeats of each side (default 5)"
    )
    parser.add_argument(
        "--rows",
        nargs="+",
        choices=(*SEARCH_ROWS, "all"),
        metavar="ROWS",
        help=f"tables of `bench search`: {', '.join(SEARCH_ROWS)} or all (default games)",
    )
    parser.add_argument(
        "--cpu-devices", type=positive_int, metavar="N", help="let JAX see N devices of this machine's CPU"
    )
    parser.add_argument("--device", choices=DEVICES, help="where to run (default: where JAX does)")


def run(arguments: argparse.Namespace) -> int:
    """Runs the benchmark module's `main`."""
    if arguments.rows and arguments.what != "search":
        raise ValueError(f"--rows is for `bench search`; `bench {arguments.what}` has one table.")
    if arguments.what == "search" and arguments.device in (None, "cpu"):
        # XLA reads this when it starts. At these sizes a second thread costs both sides more than it brings.
        os.environ.setdefault("NPROC", "1")
    start_jax()
    if arguments.cpu_devices:
        import jax

        jax.config.update("jax_num_cpu_devices", arguments.cpu_devices)
    if arguments.device:
        _run_on(arguments.device)
    import importlib

    module = importlib.import_module(MODULES[arguments.what])
    options = {}
    if arguments.rows:
        options["rows"] = SEARCH_ROWS if "all" in arguments.rows else arguments.rows
    module.main(repeats=arguments.repeats, **options)
    return 0


def _run_on(platform: str) -> None:
    """Makes JAX's devices of this kind the ones that are used.

    Raises:
        ValueError: there is none.
    """
    import jax

    try:
        device = jax.devices(platform)[0]
    except RuntimeError:
        found = ", ".join(sorted({device.platform for device in jax.devices()}))
        raise ValueError(
            f"JAX finds no {platform} here, only {found}; install JAX for it (`pip install jaxsearch[cuda]` "
            "or `jaxsearch[tpu]`) or leave --device out."
        ) from None
    jax.config.update("jax_default_device", device)
