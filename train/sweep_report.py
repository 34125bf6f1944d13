"""What a sweep shows: all members meet; a table, a plot, and which effects are larger than seed noise."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import matplotlib
import numpy as np
from scipy import stats

from games_jax.game import Game
from train import checkpoint, sweep
from train.game_of import game_of
from train.metrics import read_jsonl
from train.networks import make_network
from train.players import Player, network_player
from train.population import member_of
from train.ratings import Encounter, rate
from train.run_directory import METRICS, RunError, write_bytes, write_text
from train.tournament import every_opening, round_robin

matplotlib.use("Agg")
from matplotlib import pyplot

__all__ = ["Effect", "Result", "effects", "write"]

MATCHES, REPORT, TABLE, PLOT = "matches.json", "report.md", "members.csv", "report.png"

CONFIDENCE = 0.95


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of a member.

    Attributes:
        name: the member's.
        settings: its values of the grid's keys.
        seed: its seed.
        elo, low, high: its rating with a 95 % interval; the mean of all members is 0.
        losses: the policy loss of each iteration.
    """

    name: str
    settings: Mapping[str, Any]
    seed: int
    elo: float
    low: float
    high: float
    losses: np.ndarray


@dataclasses.dataclass(frozen=True)
class Effect:
    """What one key of the grid does, the others averaged over.

    Attributes:
        key: of the config.
        best, worst: the values with the highest and the lowest mean rating.
        difference: of these means, in Elo.
        error: half of its 95 % interval, from the spread of seeds within equal settings.
    """

    key: str
    best: Any
    worst: Any
    difference: float
    error: float

    @property
    def exceeds_noise(self) -> bool:
        """Whether seeds alone would seldom make such a difference."""
        return self.difference > self.error


def write(directory: Path, *, simulations: int, plies: int, say: Callable[[str], None]) -> str:
    """Plays what has not been played yet, writes the report, and returns its text.

    Raises:
        RunError: no job is done, or the members' game has not two players.
    """
    plan = sweep.read_plan(directory)
    done = [job for job in plan.jobs if sweep.job_state(directory, job.number) == "done"]
    if not done:
        raise RunError(f"{directory}: no job is done yet; run the sweep first.")
    players: list[Player] = []
    told: list[tuple[str, dict[str, Any], np.ndarray]] = []
    game: Game | None = None
    for job in done:
        here = sweep.job_directory(directory, job.number) / "run"
        config = sweep.changed(plan.config, job.settings)
        game = game_of(config.game) if game is None else game
        network = make_network(config.network.name, game, **config.network.options)
        params, _ = checkpoint.load_parameters(here)
        records = [r for r in read_jsonl(here / METRICS) if r["kind"] == "iteration"]
        for number, (name, settings) in enumerate(job.members.items()):
            players.append(
                network_player(name, game, network, member_of(params, number), simulations=simulations)
            )
            losses = np.array([record[f"policy_loss.{name}"] for record in records], np.float64)
            told.append((name, {**job.settings, **settings}, losses))
    assert game is not None
    if game.num_players != 2:
        raise RunError(f"{game.name} has {game.num_players} players; members meet in games of two.")
    encounters = _meet(directory, game, players, f"{simulations} simulations, {plies} plies", plies, say)
    ratings = {rating.name: rating for rating in rate(encounters)}
    mean = float(np.mean([rating.elo for rating in ratings.values()]))
    results = [
        Result(
            name,
            {key: settings[key] for key in plan.grid},
            settings[sweep.SEED],
            ratings[name].elo - mean,
            ratings[name].low - mean,
            ratings[name].high - mean,
            losses,
        )
        for name, settings, losses in told
    ]
    missing = len(plan.jobs) - len(done)
    text = _text(plan, results, effects(results), simulations, plies, missing)
    write_text(directory / REPORT, text)
    write_text(directory / TABLE, _csv(results))
    write_bytes(directory / PLOT, _plot(results))
    return text


def effects(results: Sequence[Result]) -> list[Effect]:
    """What each key does, by the means of the members with each of its values.

    The noise is the pooled spread of members with equal settings, which differ in their seeds alone; of more
    than two values the interval allows for the choice of the best and the worst (Bonferroni).
    """
    choices = _by_choice(results)
    freedom = sum(len(members) - 1 for members in choices.values())
    squares = sum(
        float(np.sum((elos := _elos(m)) ** 2) - len(m) * elos.mean() ** 2) for m in choices.values()
    )
    spread = math.sqrt(squares / freedom) if freedom else math.inf
    found = []
    for key in results[0].settings:
        values = list(dict.fromkeys(result.settings[key] for result in results))
        if len(values) < 2:
            continue
        groups = {value: _elos([r for r in results if r.settings[key] == value]) for value in values}
        best, worst = (pick(groups, key=lambda value: groups[value].mean()) for pick in (max, min))
        pairs = len(values) * (len(values) - 1) // 2  # best and worst were picked among so many
        quantile = float(stats.t.ppf(1 - (1 - CONFIDENCE) / 2 / pairs, freedom)) if freedom else math.inf
        error = spread * math.sqrt(1 / len(groups[best]) + 1 / len(groups[worst]))
        difference = float(groups[best].mean() - groups[worst].mean())
        found.append(Effect(key, best, worst, difference, quantile * error))
    return found


def _meet(
    directory: Path, game: Game, players: Sequence[Player], how: str, plies: int, say: Callable[[str], None]
) -> list[Encounter]:
    """All members' encounters; what was played before is read from a file."""
    path = directory / MATCHES
    kept: dict[str, list] = json.loads(path.read_text()) if path.exists() else {}
    names = {player.name for player in players}
    known = [Encounter(a, b, tuple(pairs)) for a, b, pairs in kept.get(how, [])]
    known = [encounter for encounter in known if {encounter.first, encounter.second} <= names]
    pairs = len(players) * (len(players) - 1) // 2
    for result in round_robin(
        game, players, key=jax.random.key(0), openings=every_opening(game, plies), known=known
    ):
        known.append(result.encounter)
        if len(known) % max(1, pairs // 10) == 0:
            say(f"{len(known)} of {pairs} pairs of members have met")
            kept[how] = [[e.first, e.second, list(e.pairs)] for e in known]
            write_text(path, json.dumps(kept))
    kept[how] = [[e.first, e.second, list(e.pairs)] for e in known]
    write_text(path, json.dumps(kept))
    return known


def _by_choice(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Members of equal settings."""
    label = lambda result: " ".join(f"{k}={v}" for k, v in result.settings.items()) or "all"  # noqa: E731
    ordered = sorted(results, key=label)
    return {name: list(members) for name, members in itertools.groupby(ordered, label)}


def _elos(members: Sequence[Result]) -> np.ndarray:
    return np.array([member.elo for member in members])


def _text(
    plan: sweep.Plan,
    results: Sequence[Result],
    found: Sequence[Effect],
    simulations: int,
    plies: int,
    missing: int,
) -> str:
    lines = [f"# {len(results)} members", ""]
    if missing:
        lines += [f"{missing} of {len(plan.jobs)} jobs are not done: their members are left out.", ""]
    lines += [
        f"All pairs met from every line of {plies} plies, both colours, {simulations} simulations.",
        "Elo against the mean of all members; ± is a 95 % interval, of the seeds' mean or of a member's",
        "games. The first member's rating is the scale's fixed point: its error is in those of the others.",
        "",
        "| settings | seeds | Elo | each seed |",
        "|---|---|---|---|",
    ]
    choices = _by_choice(results)
    for label, members in sorted(choices.items(), key=lambda item: -_elos(item[1]).mean()):
        each = ", ".join(f"{m.elo:.0f} ± {(m.high - m.low) / 2:.0f}" for m in members)
        lines.append(f"| {label} | {len(members)} | {_mean_text(_elos(members))} | {each} |")
    lines += [
        "",
        "| key | best | worst | difference, Elo | larger than seed noise |",
        "|---|---|---|---|---|",
    ]
    for effect in sorted(found, key=lambda effect: -effect.difference):
        verdict = "yes" if effect.exceeds_noise else "no"
        difference = f"{effect.difference:.0f} ± {effect.error:.0f}"
        lines.append(f"| {effect.key} | {effect.best} | {effect.worst} | {difference} | {verdict} |")
    return "\n".join(lines) + "\n"


def _mean_text(elos: np.ndarray) -> str:
    if len(elos) < 2:
        return f"{elos.mean():.0f}"
    error = stats.t.ppf(0.5 + CONFIDENCE / 2, len(elos) - 1) * elos.std(ddof=1) / math.sqrt(len(elos))
    return f"{elos.mean():.0f} ± {error:.0f}"


def _csv(results: Sequence[Result]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["member", *results[0].settings, "seed", "elo", "elo_low", "elo_high", "policy_loss"])
    for r in results:
        loss = f"{r.losses[-1]:.5g}" if len(r.losses) else ""
        numbers = [f"{number:.1f}" for number in (r.elo, r.low, r.high)]
        writer.writerow([r.name, *r.settings.values(), r.seed, *numbers, loss])
    return out.getvalue()


def _plot(results: Sequence[Result]) -> bytes:
    """Ratings by choice of settings, and the mean loss of each with the range of its seeds, in its colour."""
    choices = dict(sorted(_by_choice(results).items(), key=lambda item: _elos(item[1]).mean()))
    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(12, 1.5 + 0.4 * max(6, len(choices))), layout="constrained", width_ratios=(3, 2)
    )
    for row, members in enumerate(choices.values()):
        color = f"C{row % 10}"
        elos = _elos(members)
        errors = [[m.elo - m.low for m in members], [m.high - m.elo for m in members]]
        left.errorbar(elos, [row] * len(members), xerr=errors, fmt="o", color=color, alpha=0.5, ms=4)
        left.plot(elos.mean(), row, "D", color=color, ms=8)
        curves = np.stack([m.losses for m in members])
        iterations = np.arange(1, curves.shape[1] + 1)
        right.plot(iterations, curves.mean(0), color=color)
        right.fill_between(iterations, curves.min(0), curves.max(0), color=color, alpha=0.15, lw=0)
    # Keys without their sections, for room; there is no other legend.
    names = [
        ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in members[0].settings.items()) or "all"
        for members in choices.values()
    ]
    left.set_yticks(range(len(choices)), names)
    for row, text in enumerate(left.get_yticklabels()):
        text.set_color(f"C{row % 10}")
    left.set_xlabel("Elo (diamond: mean of seeds)")
    left.grid(axis="x", alpha=0.3)
    right.set_xlabel("iteration")
    right.set_ylabel("policy loss (range of seeds)")
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=120)
    pyplot.close(figure)
    return out.getvalue()
