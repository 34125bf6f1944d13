"""N-tuple networks learnt by TD, wrapped by search when they play: the published figures beside ours.

    python scripts/reproduce_ntuple.py connect_four
    python scripts/reproduce_ntuple.py cube2 --set run.minutes=5

Trains `configs/td_GAME.toml` in `runs/td_GAME`, or goes on with the run that is there, measures the agent and
draws `docs/img/ntuple_GAME.png`. What has been measured is kept in the run's `measured.json`, so that the
same command after an interruption does only what is missing; `--again` measures anew.

Source of the published figures: Scheiermann and Konen (2022), AlphaZero-inspired game learning: faster
training by using MCTS only at test time, https://arxiv.org/abs/2204.13307.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import matplotlib
import numpy as np

matplotlib.use("agg")
import matplotlib.pyplot as plt

import games_jax
from games_jax.cube.rules import Cube
from games_jax.game import Game
from train import algorithms, solved_cube
from train.arena import play_match
from train.checkpoint import CheckpointError
from train.cli.common import start_jax
from train.ladder import run_evaluation
from train.player_specs import make_player
from train.players import AnyPlayer, Player
from train.run import RunError, run
from train.run_directory import write_text
from train.solved import accuracy, load_solved, play_first

ROOT = Path(__file__).resolve().parents[1]
POSITIONS = ROOT / "tests" / "data" / "connect_four_solved.json.gz"
CUBES, LIMIT = 200, 20
"""Cubes for each length of scramble, and the turns allowed, as in the paper's figure 7."""

CUBE_SEARCHES: Mapping[int, tuple[int, tuple[int, ...]]] = {2: (13, (0, 100)), 3: (9, (0, 100, 1000))}
"""By the cube's size: the longest scramble, and the simulations."""

UCT = 10_000
"""Simulations of the paper's opponent that moves first."""

SEARCHES = (
    ("0", 0, False),
    ("100", 100, False),
    ("1000", 1000, False),
    ("100 solver", 100, True),
    ("1000 solver", 1000, True),
)
"""Of Connect Four: a label, simulations, and whether the search proves endings, as the paper's does not."""

PAPER: Mapping[str, Mapping[Any, Any]] = {
    # Wins in per cent, moving first against perfect play; at 0 and 50 the mean of the range in figure 6.
    "connect_four": {"wins": {0: 94, 100: 95, 1000: 99.75}},
    # Per cent of cubes solved after 1, 2, ... scrambling turns, by simulations.
    "cube2": {
        0: [100] * 6 + [96, 87, 84, 80, 75, 71, 74],
        100: [100] * 6 + [99.6, 98, 95, 96, 95, 91, 92],
        1000: [100] * 8 + [100, 100, 99.8, 100, 99.6],
    },
    "cube3": {
        0: [100] * 4 + [97.6, 78, 48.5, 25, 11.5],
        100: [100] * 4 + [99.8, 97.5, 88, 58, 25],
        1000: [100] * 4 + [99, 96, 88, 65, 34],
    },
    # Points in per cent against Edax at levels 1 to 9, with 10,000 simulations.
    "othello": {"edax": [100, 100, 91.2, 87.5, 62.5, 80.0, 87.5, 33.8, 26.3]},
}

Measurement = tuple[str, Callable[[], Any]]
"""A name, under which the result is kept, and what finds it out."""


def percent(hits: float, total: int) -> str:
    """A share of `total` and its standard error."""
    share = hits / total
    return f"{100 * share:.1f} ± {100 * math.sqrt(share * (1 - share) / total):.1f} %"


def train(name: str, overrides: list[str], directory: Path) -> Any:
    """Trains or goes on training; returns the config."""
    config = algorithms.load(ROOT / "configs" / f"td_{name}.toml", overrides)
    experiment = algorithms.setup(config)
    evaluate = run_evaluation(
        config,
        directory,
        game=experiment.game,
        network=experiment.network,
        parameters=experiment.parameters,
    )
    result = run(config, directory, experiment=experiment, evaluate=evaluate, resume=True)
    print(f"Training: {result.iteration} iterations in {result.seconds / 60:.1f} minutes.")
    if result.reason == "interrupted":
        raise KeyboardInterrupt
    return config


def agent(game: Game, directory: Path, simulations: int, solver: bool = False) -> Player:
    """The trained agent, under a search that proves endings or does not."""
    player = make_player(f"run:{directory}@sims={simulations},solver={'true' if solver else 'false'}", game)
    assert isinstance(player, Player)
    return player


# Connect Four


def connect_four(game: Game, directory: Path, games: int) -> Iterator[Measurement]:
    """Solved positions kept, and games that the agent begins."""
    positions = load_solved(POSITIONS)

    def kept(simulations: int, solver: bool) -> dict[str, float]:
        found = accuracy(agent(game, directory, simulations, solver), positions, key=jax.random.key(0))
        return {"all": found.all.share, "decisive": found.decisive.share, "optimal": found.optimal.share}

    def points(simulations: int, solver: bool, opponent: AnyPlayer) -> list[int]:
        player = agent(game, directory, simulations, solver)
        won = play_first(player, opponent, games=games, key=jax.random.key(1))
        return [int((won == point).sum()) for point in (1, 0.5, 0)]

    for label, simulations, solver in SEARCHES:
        yield f"solved {label}", lambda s=simulations, x=solver: kept(s, x)
    try:
        perfect = make_player("bitbully:full", game)
    except ValueError as error:
        print(f"No games against perfect play: {error}")
        perfect = None
    if perfect is not None:
        for label, simulations, solver in SEARCHES:
            yield f"first {label}", lambda s=simulations, x=solver: points(s, x, perfect)

    def second(simulations: int) -> list[int]:
        """Points of the agent moving second against UCT, fewer games since UCT takes most of the time."""
        opponent = make_player(f"uct:{UCT}", game)
        won = 1 - play_first(
            opponent, agent(game, directory, simulations), games=games // 2, key=jax.random.key(3)
        )
        return [int((won == point).sum()) for point in (1, 0.5, 0)]

    yield "second v. UCT 1000", lambda: second(1000)


def show_connect_four(found: Mapping[str, Any]) -> None:
    """The table, and figure 6: wins moving first against perfect play by simulations."""
    print(f"\n{'simulations':<14}{'keeps the result':>20}{'decisive':>12}{'wins first':>24}{'paper':>10}")
    wins, paper = {}, PAPER["connect_four"]["wins"]
    for label, simulations, solver in SEARCHES:
        kept, first = found.get(f"solved {label}"), found.get(f"first {label}")
        line = f"{label:<14}"
        line += (
            f"{percent(kept['all'] * 1000, 1000):>20}{100 * kept['decisive']:>11.1f}%" if kept else " " * 32
        )
        if first:
            wins[solver] = wins.get(solver, {}) | {simulations: 100 * first[0] / sum(first)}
            line += f"{percent(first[0], sum(first)):>18} {first[1]}D {first[2]}L"
        print(line + ("" if solver else f"{paper[simulations]:>8} %"))
    second = found.get("second v. UCT 1000")
    if second:
        won = percent(second[0], sum(second))
        print(f"Moving second against UCT {UCT} with 1,000 simulations: {won} won, {second[1]}D {second[2]}L")
    figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
    axes.plot([str(s) for s in paper], list(paper.values()), "o--", color="grey", label="the paper")
    for solver, points in wins.items():
        label = "jaxsearch, endings proven" if solver else "jaxsearch"
        axes.plot([str(s) for s in points], list(points.values()), "o-", label=label)
    axes.set(xlabel="simulations", ylabel="wins moving first v. perfect play (%)", ylim=(0, 102))
    _save(figure, axes, "connect_four")


# Cubes


def cube(game: Game, directory: Path, games: int) -> Iterator[Measurement]:
    """Cubes solved by length of scramble; of the 2x2x2 also uniformly random ones and the hardest."""
    assert isinstance(game, Cube)
    deepest, searches = CUBE_SEARCHES[game.size]

    def solved(simulations: int, states: Any, best: np.ndarray | None = None) -> dict[str, float]:
        player = agent(game, directory, simulations)
        result = solved_cube.solve(game, player, states, limit=LIMIT, key=jax.random.key(0))
        shares = {"solved": float(result.solved.mean()), "cubes": len(result.solved)}
        if best is not None:
            shares["optimal"] = float((result.solved & (result.turns == best)).mean())
        return shares

    def scrambled(turns: int) -> Any:
        scrambler = dataclasses.replace(game, scramble=turns)
        states = jax.jit(jax.vmap(scrambler.init))(jax.random.split(jax.random.key(turns), CUBES))
        return states

    for simulations in searches:
        for turns in range(1, deepest + 1):
            yield f"{simulations} after {turns}", lambda s=simulations, t=turns: solved(s, scrambled(t))
    if game.size == 2:
        distance = solved_cube.distances(game.metric)
        numbers = np.random.default_rng(0).integers(0, len(distance), games)
        numbers = numbers[distance[numbers] > 0]
        hardest = np.flatnonzero(distance == distance.max())
        for simulations in searches:
            for name, chosen in (("uniform", numbers), ("hardest", hardest)):
                states = solved_cube.positions(game, chosen)
                best = distance[chosen]
                yield f"{simulations} {name}", lambda s=simulations, x=states, b=best: solved(s, x, b)


def show_cube(size: int, found: Mapping[str, Any]) -> None:
    """Figure 7: the share solved by length of scramble."""
    deepest, searches = CUBE_SEARCHES[size]
    figure, axes = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
    paper = PAPER[f"cube{size}"]
    lengths = range(1, deepest + 1)
    print(f"\n{'turns':<8}" + "".join(f"{f'{s} sims':>12}{'paper':>8}" for s in searches))
    for turns in lengths:
        line = f"{turns:<8}"
        for simulations in searches:
            ours = found.get(f"{simulations} after {turns}")
            line += f"{100 * ours['solved']:>11.1f}%" if ours else " " * 12
            line += f"{paper[simulations][turns - 1]:>7}%"
        print(line)
    for number, simulations in enumerate(searches):
        ours = {t: found.get(f"{simulations} after {t}") for t in lengths}
        ours = {t: 100 * share["solved"] for t, share in ours.items() if share}
        style: dict[str, Any] = {"color": f"C{number}"}
        axes.plot(lengths, paper[simulations], "o--", alpha=0.5, label=f"paper, {simulations}", **style)
        axes.plot(list(ours), list(ours.values()), "o-", label=f"jaxsearch, {simulations}", **style)
    for key in sorted(key for key in found if key.endswith(("uniform", "hardest"))):
        share = found[key]
        print(
            f"{key:<14} {percent(share['solved'] * share['cubes'], int(share['cubes']))} of "
            f"{int(share['cubes'])} solved, {100 * share['optimal']:.1f} % in the least number of turns"
        )
    axes.set(xlabel="scrambling turns", ylabel="solved within 20 turns (%)", ylim=(0, 102))
    _save(figure, axes, f"cube{size}")


# Othello


def othello(game: Game, directory: Path, games: int) -> Iterator[Measurement]:
    """Pairs of games from random openings of eight plies against the search of rust-reversi."""

    def match(simulations: int, depth: int) -> dict[str, Any]:
        opponent = make_player(f"rust-reversi:{depth}", game)
        player = agent(game, directory, simulations)
        result = play_match(game, player, opponent, games=games, key=jax.random.key(2), opening_plies=8)
        return {key: result.to_dict()[key] for key in ("score", "low", "high", "games")}

    for simulations in (0, 100, 1000):
        for depth in (1, 3, 5, 8):
            yield f"{simulations} v. depth {depth}", lambda s=simulations, d=depth: match(s, d)


def show_othello(found: Mapping[str, Any]) -> None:
    """The table; the paper's opponents were other ones, so its figures are beside ours, not compared."""
    for name, match in found.items():
        print(
            f"{name:<24}{100 * match['score']:.1f} % ({100 * match['low']:.1f} to {100 * match['high']:.1f})"
        )
    print(f"The paper, 10,000 simulations against Edax at levels 1 to 9: {PAPER['othello']['edax']} %")
    figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
    for simulations in (0, 100, 1000):
        points = {d: found.get(f"{simulations} v. depth {d}") for d in (1, 3, 5, 8)}
        points = {d: 100 * match["score"] for d, match in points.items() if match}
        axes.plot(list(points), list(points.values()), "o-", label=f"{simulations} simulations")
    axes.set(xlabel="depth of rust-reversi", ylabel="points (%)", ylim=(0, 102))
    _save(figure, axes, "othello")


def _save(figure: Any, axes: Any, name: str) -> None:
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower left")
    path = ROOT / "docs" / "img" / f"ntuple_{name}.png"
    figure.savefig(path, dpi=120)
    print(f"Figure: {path}")


def measure(steps: list[Measurement], path: Path, again: bool) -> dict[str, Any]:
    """Finds out what is not known yet, and keeps each result at once."""
    found = json.loads(path.read_text()) if path.exists() and not again else {}
    missing = [step for step in steps if step[0] not in found]
    began = time.monotonic()
    for number, (name, find) in enumerate(missing):
        left = (time.monotonic() - began) / number * (len(missing) - number) if number else None
        until = f", about {left / 60:.0f} min left" if left is not None else ""
        print(f"measuring {number + 1}/{len(missing)}: {name}{until}", flush=True)
        found[name] = find()
        write_text(path, json.dumps(found, indent=1) + "\n")
    return found


def main() -> int:
    """Trains, measures and shows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("game", choices=("connect_four", "cube2", "othello", "cube3"))
    parser.add_argument("--set", dest="overrides", nargs="+", default=[], metavar="KEY=VALUE")
    parser.add_argument("--dir", type=Path, help="the run directory (default: runs/td_GAME)")
    parser.add_argument("--games", type=int, default=200, help="games per opponent, or random cubes")
    parser.add_argument("--only", default="", metavar="TEXT", help="measure only what has TEXT in its name")
    parser.add_argument("--no-training", action="store_true", help="measure the run as it is")
    parser.add_argument("--again", action="store_true", help="measure what was measured before, too")
    arguments = parser.parse_args()
    start_jax()
    directory = arguments.dir or Path("runs") / f"td_{arguments.game}"
    try:
        if arguments.no_training:
            config = algorithms.load(directory / "config.toml")
        else:
            config = train(arguments.game, arguments.overrides, directory)
        game = games_jax.make(config.game.name, **config.game.parameters)
        measurements = {"connect_four": connect_four, "othello": othello}.get(arguments.game, cube)
        steps = [step for step in measurements(game, directory, arguments.games) if arguments.only in step[0]]
        found = measure(steps, directory / "measured.json", arguments.again)
    except (RunError, CheckpointError, ValueError) as error:
        print(f"reproduce_ntuple: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped; the same command goes on.")
        return 130
    if arguments.game == "connect_four":
        show_connect_four(found)
    elif arguments.game == "othello":
        show_othello(found)
    else:
        show_cube(2 if arguments.game == "cube2" else 3, found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
