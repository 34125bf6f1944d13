"""The figures of `reproduce_pommerman.py` from what it has measured, the paper's beside them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from games_jax.multi_agent import single_player_view
from games_jax.opponents import FixedModel
from games_jax.pommerman import Pommerman
from games_jax.pommerman.notation import ACTIONS
from train import pommerman_iterations as iterations
from train.metrics import read_jsonl

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "img"

PAPER = {
    ("random", "SP"): {0: 0.100, 50: 0.393, 100: 0.438, 250: 0.490, 500: 0.555, 1000: 0.575},
    ("demonstrations", "SP"): {0: 0.386, 50: 0.614, 100: 0.680, 250: 0.768, 500: 0.791, 1000: 0.788},
    ("random", "TP"): {0: 0.095, 50: 0.131, 100: 0.162, 250: 0.167, 500: 0.209, 1000: 0.246},
    ("demonstrations", "TP"): {0: 0.377, 50: 0.494, 100: 0.615, 250: 0.796, 500: 0.878, 1000: 0.901},
}
"""Wins against three SimpleCpp by network, search and simulations (figure 2)."""

ZERO = 20
"""Where a logarithmic axis shows 0 simulations."""


def draw(directory: Path) -> None:
    """Figure 2 from `search.jsonl`, dashed the paper's; 3 and 4 from the iterations, if there are any."""
    rows = read_jsonl(directory / "search.jsonl")
    rows = [row for row in rows if row["models"] == row["opponents"] == "simple_cpp" and not row.get("fair")]
    iterated = read_jsonl(directory / "iterations.jsonl")
    # The first iteration's games are by the network of the demonstrations, also if there are no others.
    newest = max((row["iteration"] for row in iterated), default=0)
    networks = {newest: "iterated", 0: "demonstrations"}
    rows += [
        {**row, "network": networks[row["iteration"]]}
        for row in iterated
        if row["iteration"] in networks and row["opponents"] == "simple_cpp"
    ]
    picture, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    colours = dict(zip(PAPER, ("C7", "C0", "C1", "C3"), strict=True))
    for (network, kind), colour in (colours | {("iterated", "SP"): "C4", ("iterated", "TP"): "C5"}).items():
        name = f"{kind}, {network}"
        if paper := PAPER.get((network, kind)):
            places = [max(n, ZERO) for n in paper]
            axes.plot(places, list(paper.values()), "--", color=colour, alpha=0.6, label=f"paper: {name}")
        ours = pooled([row for row in rows if (row["network"], row["search"]) == (network, kind)])
        if ours:
            counts, wins, errors = zip(*ours, strict=True)
            places = [max(n, ZERO) for n in counts]
            axes.errorbar(places, wins, errors, marker="o", capsize=3, color=colour, label=name)
    axes.set_xscale("log")
    axes.set_xticks([ZERO, 50, 100, 250, 500, 1000], ["0", "50", "100", "250", "500", "1000"])
    axes.minorticks_off()
    axes.set(xlabel="simulations a move", ylabel="wins against three SimpleCpp", ylim=(0, 1))
    finish(picture, axes, "search")
    if iterated:
        picture, axes = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
        numbers = sorted({row["iteration"] for row in iterated})
        for opponents in sorted({row["opponents"] for row in iterated}):
            these = [row for row in iterated if row["opponents"] == opponents]
            places, label = [row["iteration"] for row in these], f"v. {opponents}"
            wins, errors = [row["wins"] for row in these], [row["error"] for row in these]
            drawn = axes.errorbar(places, wins, errors, marker="o", capsize=3, label=f"wins {label}")
            ties, colour = [row["ties"] for row in these], drawn[0].get_color()
            axes.plot(places, ties, ":", marker="s", color=colour, label=f"ties {label}")
        axes.set(xlabel="iteration", ylabel="share of games", ylim=(0, 1), xticks=numbers)
        finish(picture, axes, "iterations")
        shares = [action_shares(directory / "iterations" / f"games_{number}.npz") for number in numbers]
        picture, axes = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
        for name, marker, share in zip(ACTIONS, "os^v<>", np.transpose(shares), strict=True):
            axes.plot(numbers, share, marker=marker, label=name)
        axes.set(xlabel="iteration", ylabel="share of moves", ylim=(0, None), xticks=numbers)
        finish(picture, axes, "actions")


def action_shares(file: Path) -> np.ndarray:
    """How often each action was played in an iteration's games, float `[A]`."""
    weights = iterations.load(file, single_player_view(Pommerman(random_corners=True), FixedModel())).weights
    return np.bincount(np.argmax(weights, axis=-1), minlength=len(ACTIONS)) / len(weights)


def pooled(rows: list[dict[str, Any]]) -> list[tuple[int, float, float]]:
    """Simulations, wins and their standard error, all games of as many simulations together."""
    found = []
    for simulations in sorted({row["simulations"] for row in rows}):
        these = [row for row in rows if row["simulations"] == simulations]
        games = sum(row["games"] for row in these)
        wins = sum(row["wins"] * row["games"] for row in these) / games
        found.append((simulations, wins, math.sqrt(wins * (1 - wins) / games)))
    return found


def finish(picture: Any, axes: Any, name: str) -> None:
    """Writes `docs/img/pommerman_NAME.png`."""
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=7)
    path = IMAGES / f"pommerman_{name}.png"
    picture.savefig(path, dpi=120)
    print(f"Figure: {path}")
