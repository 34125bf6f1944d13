"""How training scales with games, simulations, network width and devices: `jaxsearch bench scaling`.

Each row is a config of its own, planned and probed as by `jaxsearch train --plan`: a short run of the
compiled iteration. Strong scaling divides the same games among devices; weak scaling gives each as many.
"""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib

from train import alphazero, plan
from train.config import Config
from train.run_directory import write_bytes, write_text
from train.schema import from_dict, to_dict

matplotlib.use("Agg")
from matplotlib import pyplot

__all__ = ["BASE", "PEAKS", "Row", "efficiency", "model_flops", "rows", "table", "write"]

BASE: dict[str, Any] = {
    "game": {"name": "connect_four"},
    "network": {"name": "resnet", "channels": 32, "blocks": 2},
    "selfplay": {"games": 256, "plies_per_iteration": 4, "simulations": 32},
    "learner": {"batch_size": 256, "steps_per_iteration": 4},
    "replay": {"capacity": 65_536},
}
"""The middle of the table, from which each row differs in one thing."""

GAMES = (64, 256, 1024)
SIMULATIONS = (16, 32, 64)
WIDTHS = (16, 32, 64)

PEAKS = {
    "H100": 495e12,
    "H200": 495e12,
    "A100": 156e12,
    "TPU v4": 275e12,
    "TPU v5 lite": 197e12,
    "TPU v5p": 459e12,
}
"""Multiplications and additions a second of a device, by a part of its name: vendors' figures for bfloat16
(TPU) and TF32 without sparsity (GPU)."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One config's figures.

    Attributes:
        what: what varies: "games", "simulations", "width", "strong" or "weak".
        games, simulations, width, devices: the config.
        plies, simulated, learnt: plies, simulations and samples a second, all devices together.
        mebibytes: on each device.
        compile_seconds: of the program.
        flops: of the network, a second, all devices together.
        peak_share: of the devices' peak; None where it is not known.
    """

    what: str
    games: int
    simulations: int
    width: int
    devices: int
    plies: float
    simulated: float
    learnt: float
    mebibytes: float
    compile_seconds: float
    flops: float
    peak_share: float | None


def rows(
    base: dict[str, Any] = BASE,
    *,
    games: Sequence[int] = GAMES,
    simulations: Sequence[int] = SIMULATIONS,
    widths: Sequence[int] = WIDTHS,
) -> Iterator[Row]:
    """Every row of the table; devices in powers of two up to all there are."""
    middle = base["selfplay"]["games"]
    for count in games:
        yield measure("games", base, games=count)
    for count in simulations:
        if count != base["selfplay"]["simulations"]:
            yield measure("simulations", base, simulations=count)
    for width in widths:
        if width != base["network"]["channels"]:
            yield measure("width", base, width=width)
    devices = 2
    while devices <= len(jax.devices()):
        yield measure("strong", base, devices=devices)
        yield measure("weak", base, devices=devices, games=devices * middle)
        devices *= 2


def measure(
    what: str,
    base: dict[str, Any],
    *,
    games: int | None = None,
    simulations: int | None = None,
    width: int | None = None,
    devices: int = 1,
) -> Row:
    """Plans and probes one config."""
    tree = to_dict(from_dict(Config, base))
    own = tree["selfplay"]
    own["games"], own["simulations"] = games or own["games"], simulations or own["simulations"]
    tree["network"]["channels"] = width or tree["network"]["channels"]
    tree["replay"]["capacity"] = max(tree["replay"]["capacity"], 64 * own["games"])
    tree["mesh"]["data"] = devices
    if what == "weak":
        tree["learner"]["batch_size"] *= devices
    experiment = alphazero.setup(from_dict(Config, tree))
    found = plan.plan(experiment)
    each = model_flops(experiment)
    # A gradient costs about three evaluations.
    flops = each * (found.rates["simulations"] + 3 * found.rates["samples"])
    peak = next((peak for name, peak in PEAKS.items() if name in jax.devices()[0].device_kind), None)
    return Row(
        what,
        own["games"],
        own["simulations"],
        tree["network"]["channels"],
        devices,
        found.rates["plies"],
        found.rates["simulations"],
        found.rates["samples"],
        sum(found.bytes.values()) / 2**20,
        found.compile_seconds,
        flops,
        None if peak is None else flops / (devices * peak),
    )


def model_flops(experiment: alphazero.AlphaZero) -> float:
    """Multiplications and additions of one evaluation, as XLA counts them."""
    network, game, batch = experiment.network, experiment.game, 64
    variables = jax.eval_shape(network.init, jax.random.key(0))
    shape = jax.ShapeDtypeStruct((batch, *game.observation_shape), jnp.float32)
    cost = jax.jit(network.apply).lower(variables, shape).compile().cost_analysis() or {}
    return float(cost.get("flops", 0.0)) / batch


def efficiency(found: Sequence[Row]) -> dict[tuple[str, int], float]:
    """Simulations a second against `devices` times those of one, by ("strong" or "weak", devices)."""
    one = next(row for row in found if row.what == "games" and row.games == _middle(found))
    return {
        (row.what, row.devices): row.simulated / (row.devices * one.simulated)
        for row in found
        if row.what in ("strong", "weak")
    }


def _middle(found: Sequence[Row]) -> int:
    """Games of the rows that vary something else."""
    return next(
        (row.games for row in found if row.what in ("simulations", "width", "strong")), found[0].games
    )


HEAD = (
    f"{'varied':<12}{'games':>7}{'sims':>6}{'width':>7}{'devices':>9}{'plies/s':>10}{'k sims/s':>10}"
    f"{'samples/s':>13}{'MiB':>9}{'compile, s':>12}{'GFLOP/s':>9}{'of peak':>9}{'efficiency':>12}"
)


def table(found: Sequence[Row]) -> str:
    """The rows as text."""
    efficiencies = efficiency(found)
    lines = [HEAD]
    for row in found:
        share = "" if row.peak_share is None else f"{row.peak_share:.1%}"
        scaled = efficiencies.get((row.what, row.devices))
        lines.append(
            f"{row.what:<12}{row.games:>7}{row.simulations:>6}{row.width:>7}{row.devices:>9}{row.plies:>10,.0f}"
            f"{row.simulated / 1e3:>10.1f}{row.learnt:>13,.0f}{row.mebibytes:>9.0f}"
            f"{row.compile_seconds:>12.1f}{row.flops / 1e9:>9.1f}{share:>9}"
            f"{'' if scaled is None else f'{scaled:.0%}':>12}"
        )
    return "\n".join(lines)


def write(found: Sequence[Row], directory: Path) -> None:
    """Writes scaling.csv and scaling.png."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [field.name for field in dataclasses.fields(Row)])
    writer.writeheader()
    writer.writerows(dataclasses.asdict(row) for row in found)
    write_text(directory / "scaling.csv", out.getvalue())
    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.5), layout="constrained")
    for axis, (what, name) in zip(
        axes, (("games", "games"), ("simulations", "simulations"), ("width", "width")), strict=True
    ):
        middle = [row for row in found if row.what == "games" and row.games == _middle(found)]
        chosen = [row for row in found if row.what == what] + (middle if what != "games" else [])
        chosen.sort(key=lambda row: getattr(row, name))
        axis.plot([getattr(row, name) for row in chosen], [row.simulated / 1e3 for row in chosen], "o-")
        axis.set_xlabel(what)
        axis.set_ylabel("thousand simulations/s")
        axis.set_xscale("log", base=2)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=120)
    pyplot.close(figure)
    write_bytes(directory / "scaling.png", image.getvalue())


def main(*, repeats: int = 5, out: str = "runs/scaling") -> None:
    """Prints the table row by row, and writes it with a plot."""
    del repeats  # the probe has its own
    found = []
    for row in rows():
        found.append(row)
        print(f"  {row.what}: {row.games} games, {row.simulated / 1e3:.1f} k simulations/s", flush=True)
    print(table(found))
    write(found, Path(out))
    print(f"{out}/scaling.csv, {out}/scaling.png")
