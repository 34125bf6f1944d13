"""`jaxsearch doctor`: does this machine do what it should."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from train.cli.common import cache_directory, make_game, start_jax, table

DESCRIPTION = """\
Check the installation.

Prints versions and devices, where compiled programs are kept, whether a run directory can be written, and
the speed of a five-second search with its compile time. Include this in a bug report.
"""

EPILOG = """\
examples:
  jaxsearch doctor
  jaxsearch doctor --json --seconds 1
"""

GAME, BATCH, SIMULATIONS = "connect_four", 256, 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        "--seconds", type=float, default=5.0, metavar="S", help="how long to search (default 5)"
    )
    parser.add_argument(
        "--dir", default="runs", metavar="DIR", help="where run directories would be made (default runs)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def run(arguments: argparse.Namespace) -> int:
    """Checks and prints; the exit status is 1 if a run directory could not be written."""
    start_jax()
    from train.run_directory import versions

    if not 0 < arguments.seconds <= 3600:
        raise ValueError(f"--seconds must be above 0 and at most 3600, got {arguments.seconds:g}.")
    facts: dict[str, Any] = versions()
    cache = cache_directory()
    facts["compilation_cache"] = str(cache) if cache else None
    problem = _write_problem(Path(arguments.dir))
    facts["run_directory"] = arguments.dir
    facts["run_directory_problem"] = problem
    facts.update(_timed_search(arguments.seconds))
    if arguments.json:
        print(json.dumps(facts))
    else:
        rows = [[key.replace("_", " "), _show(value)] for key, value in facts.items()]
        print(table(["check", ""], rows, left=(0, 1)))
    return 1 if problem else 0


def _show(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
    return str(value)


def _write_problem(directory: Path) -> str | None:
    """Why no run directory could be made in `directory`; None if it could. Leaves nothing behind."""
    while not directory.exists():
        directory = directory.absolute().parent
    try:
        with tempfile.TemporaryDirectory(dir=directory) as folder:
            (Path(folder) / "probe").write_text("probe")
    except OSError as error:
        return f"{directory}: {error.strerror}"
    return None


def _timed_search(seconds: float) -> dict[str, Any]:
    """Searches the opening position of Connect Four in batches until the time is over."""
    import jax

    import jaxsearch

    game = make_game(GAME)
    search = jax.jit(jaxsearch.uct(game, simulations=SIMULATIONS))
    key = jax.random.key(0)
    states = jax.vmap(game.init)(jax.random.split(key, BATCH))
    began = time.perf_counter()
    program = search.lower(key, states).compile()
    compiled = time.perf_counter()
    jax.block_until_ready(program(key, states))
    rounds, start = 0, time.perf_counter()
    while (now := time.perf_counter()) - start < seconds:
        output = jax.block_until_ready(program(jax.random.fold_in(key, rounds), states))
        rounds += 1
        if not bool((output.visits.sum(axis=1) > 0).all()):
            raise RuntimeError("The search returned no visits.")
    return {
        "search": f"UCT with random playouts, {GAME}, {BATCH} trees, {SIMULATIONS} simulations",
        "compile_seconds": compiled - began,
        "simulations_per_second": rounds * BATCH * SIMULATIONS / (now - start),
    }
