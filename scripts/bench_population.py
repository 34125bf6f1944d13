"""What a population saves: M agents in one program against M runs one after another.

    python scripts/bench_population.py configs/tic_tac_toe.toml --members 16 --set run.iterations=50

Both sides train for as many iterations and pay for their compilation, in one process without a compilation
cache; the runs alone are timed for some members and taken for all. With the cache that the command line
keeps, a run alone after the first compiles nothing, which the last line allows for.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax

from train import alphazero
from train.config import load
from train.population import Member, population
from train.schema import to_dict
from train.sweep import changed


def seconds(experiment: Any, seed: int, iterations: int) -> tuple[float, float]:
    """Until the first iteration is done (compilation with it), and for the rest."""
    start = time.perf_counter()
    state, metrics = experiment.iterate(experiment.init(seed))
    jax.block_until_ready(metrics)
    first = time.perf_counter()
    for _ in range(iterations - 1):
        state, metrics = experiment.iterate(state)
    jax.block_until_ready(metrics)
    return first - start, time.perf_counter() - first


def main() -> None:
    """Prints both sides' times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config")
    parser.add_argument("--members", type=int, default=16)
    parser.add_argument("--alone", type=int, default=3, help="runs timed alone (default 3)")
    parser.add_argument("--set", dest="overrides", nargs="+", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    config = load(arguments.config, arguments.overrides)
    iterations, count = config.run.iterations, arguments.members
    members = [Member(f"seed {seed}", {"run.seed": seed}) for seed in range(count)]
    together = seconds(population(config, members), 0, iterations)
    print(f"{count} members at once: first iteration {together[0]:.1f} s, the rest {together[1]:.1f} s")
    alone = []
    for seed in range(arguments.alone):
        experiment = alphazero.setup(changed(to_dict(config), {"run.seed": seed}))
        alone.append(seconds(experiment, seed, iterations))
        print(f"alone, seed {seed}: {alone[-1][0]:.1f} s and {alone[-1][1]:.1f} s", flush=True)
    start, rest = (sum(side) / len(alone) for side in zip(*alone, strict=True))
    whole, separate, cached = sum(together), count * (start + rest), start + count * rest
    print(f"{count} runs: {separate:.1f} s, of which the population takes {whole / separate:.2f}")
    print(f"{count} runs with a warm cache: {cached:.1f} s, of which it takes {whole / cached:.2f}")


if __name__ == "__main__":
    main()
