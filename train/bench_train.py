"""Speed of a whole training iteration, network by network: `jaxsearch bench train`.

An iteration is one jitted program: self-play, targets, replay and the learner's steps. The networks take
turns. There is no peer to compare with here; the figures say where a run's minutes go.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from train import alphazero, timing
from train.config import Config, GameConfig, NetworkConfig

HEAD = f"{'network':<12}{'iterations/s':>20}{'plies/s':>12}{'sims/s':>12}{'samples/s':>12}{'compile, s':>12}"


@dataclasses.dataclass(frozen=True)
class Row:
    """One network's figures.

    Attributes:
        network: its name.
        side: iterations per second.
        plies, simulations, samples: of one iteration.
    """

    network: str
    side: timing.Side
    plies: int
    simulations: int
    samples: int


def bench_train(
    networks: Sequence[str],
    *,
    game: str = "connect_four",
    repeats: int = 5,
    changes: dict[str, Any] | None = None,
) -> list[Row]:
    """Times iterations of the default config.

    Args:
        networks: names of networks.
        game: name of the game.
        repeats: timed iterations of each network, after the one that compiles.
        changes: sections of the config to replace, by name.
    """
    configs = [
        Config(game=GameConfig(name=game), network=NetworkConfig(name=name), **(changes or {}))
        for name in networks
    ]
    sides = timing.take_turns([_iterations(config) for config in configs], work=1, repeats=repeats)
    rows = []
    for config, side in zip(configs, sides):
        plies = config.selfplay.games * config.selfplay.plies_per_iteration
        samples = config.learner.batch_size * config.learner.steps_per_iteration
        rows.append(Row(config.network.name, side, plies, plies * config.selfplay.simulations, samples))
    return rows


def _iterations(config: Config) -> Callable[[], Any]:
    """A function that goes on by one iteration at each call."""
    experiment = alphazero.setup(config)
    state = experiment.init(seed=0)

    def go_on() -> Any:
        nonlocal state
        state, metrics = experiment.iterate(state)
        return metrics

    return go_on


def line(row: Row) -> str:
    """A row of the table; rates per second follow from the median."""
    rates = (row.side.median * n for n in (row.plies, row.simulations, row.samples))
    cells = "".join(f"{rate:>12,.0f}" for rate in rates)
    return f"{row.network:<12}{timing.spread(row.side, 1):>20}{cells}{row.side.compile_seconds:>12.1f}"


def main(*, repeats: int = 5) -> None:
    """Prints the table for Connect Four, with the default settings of each network."""
    import jax

    # XLA's convolutions take minutes per iteration on a CPU.
    networks = ("patterns", "mlp") if jax.default_backend() == "cpu" else ("patterns", "mlp", "resnet")
    print(HEAD)
    for row in bench_train(networks, repeats=repeats):
        print(line(row), flush=True)
    print("medians (least-greatest); Connect Four, default settings, one device")
