"""Expert Iteration on Hex: the published figures beside ours, scaled down to a CPU.

    python scripts/reproduce_exit.py imitation --size 5     # CAT v. TPT, DAgger, network against teacher
    python scripts/reproduce_exit.py exit --size 5          # solved openings held, sign of the value
    python scripts/reproduce_exit.py compare --size 5       # ExIt, AlphaZero, REINFORCE and PPO side by side
    python scripts/reproduce_exit.py throughput             # RAVE's simulations per second, time of labelling

The first three train by `configs/*.toml` in `runs/exit/NAME`, or go on with the run that is there. What has
been measured is kept in `runs/exit/NAME.json`, so that the same command after an interruption does only what
is missing. Figures go to `docs/img/exit_*.png`.

Source of the published figures: Anthony, Tian and Barber (2017), Thinking fast and slow with deep learning
and tree search, https://arxiv.org/abs/1705.08439. Its board is 9x9, its searches have 10,000 simulations.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np

matplotlib.use("agg")
import matplotlib.pyplot as plt

import games_jax
import jaxsearch
from train import algorithms, checkpoint, imitation
from train.arena import play_match
from train.cli.common import start_jax
from train.experiments import Notes, meet_all, percent, trained
from train.hex_openings import hold_openings, load_winning, play_openings, value_signs
from train.metrics import read_jsonl
from train.player_specs import load_network, make_player
from train.players import AnyPlayer, network_player, rave_player
from train.ratings import Encounter, Rating, rate, table
from train.run import RunError
from train.run_directory import CHECKPOINTS, METRICS
from train.selfplay import new_games
from train.tournament import every_opening

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = ROOT / "configs"
OPENINGS = ROOT / "tests" / "data" / "hex_openings.json"
VALUES = ",playout_weight=0.5714,policy_temperature=0.3"
"""Of N-MCTS with values: 4 / 7 are the paper's weights of 1 for a playout and 0.75 for the network."""

BUDGET = {5: 4e6, 6: 6e6, 7: 6e6, 9: 6e6}
"""Network evaluations of each run of a comparison, by size of the board."""


def figure(name: str, draw: Callable[[Any], None], size: tuple[float, float] = (5.5, 3.4)) -> None:
    """Draws `docs/img/exit_NAME.png`."""
    picture, axes = plt.subplots(figsize=size, layout="constrained")
    draw(axes)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    path = ROOT / "docs" / "img" / f"exit_{name}.png"
    picture.savefig(path, dpi=120)
    print(f"Figure: {path}")


# Imitation


def refit(experiment: Any, data: imitation.Dataset, target: str, seed: int) -> Any:
    """A network fitted to the same positions by tree-policy ("TPT") or chosen-action ("CAT") targets."""
    if target == "CAT":
        best = jnp.argmax(data.weights, axis=-1)
        data = data._replace(weights=jax.nn.one_hot(best, data.weights.shape[-1], dtype=jnp.float32))
    fit = jax.jit(
        lambda variables, data, key: imitation.fit(
            experiment.game, experiment.network, experiment.config.fit, variables, data, key, with_value=False
        )
    )
    key = jax.random.key(1000 + seed)
    return fit(experiment.network.init(key), data, key)


def imitate(arguments: argparse.Namespace) -> None:
    """Section 4: targets, DAgger, and the apprentice against its teacher, without and with search."""
    name = f"imitation_hex{arguments.size}"
    directory = arguments.dir / name
    experiment = trained(CONFIGS / f"{name}.toml", arguments.overrides, directory)
    game, expert = experiment.game, experiment.config.expert
    notes = Notes(arguments.dir / f"{name}.json")
    paths = checkpoint.saved(directory / CHECKPOINTS)

    def dataset(iteration: int) -> imitation.Dataset:
        abstract = jax.eval_shape(lambda: experiment.init(experiment.config.run.seed))
        return checkpoint.restore(paths[iteration], abstract, identity=experiment.identity).data

    two_plies = every_opening(game, 2)

    def compare_targets(iteration: int, seed: int) -> Any:
        made = {target: refit(experiment, dataset(iteration), target, seed) for target in ("TPT", "CAT")}
        players = [
            network_player(target, game, experiment.network, fitted, simulations=0)
            for target, (fitted, _) in made.items()
        ]
        games = 2 * len(two_plies.moves)
        result = play_match(game, *players, games=games, key=jax.random.key(0), openings=two_plies)
        errors = [float(metrics["policy_error"]) for _, metrics in made.values()]
        return {"pairs": list(result.encounter.pairs), "errors": errors}

    last = max(paths)
    targets = {
        (iteration, seed): notes.once(
            f"targets round {iteration} seed {seed}", lambda i=iteration, s=seed: compare_targets(i, s)
        )
        for iteration in (1, last)
        for seed in range(arguments.seeds)
    }
    rounds = [make_player(f"run:{path}@sims=0", game) for _, path in sorted(paths.items())]
    rounds = [_named(player, f"round {number}") for number, player in zip(sorted(paths), rounds)]
    networks = meet_all(game, rounds, notes, "2 plies: ", plies=2)
    teacher = rave_player(game, simulations=expert.simulations, c=expert.c, c_rave=expert.c_rave)
    teacher = _named(teacher, "teacher")
    twice = _named(
        rave_player(game, simulations=2 * expert.simulations, c=expert.c, c_rave=expert.c_rave), "twice"
    )
    guided = f"run:{paths[last]}@sims={expert.simulations},search=policy_bonus"
    options = {"N-MCTS": "", "N-MCTS, solver": ",solver=true"}
    if experiment.config.data.value_target != "none":
        options |= {"N-MCTS, value": VALUES, "N-MCTS, value and solver": f"{VALUES},solver=true"}
    searching = [_named(make_player(guided + more, game), name) for name, more in options.items()]
    others = meet_all(game, [rounds[0], rounds[-1], teacher, twice, *searching], notes, "1 ply: ")
    show_imitation(targets, networks + others, last, arguments.size)


def _named(player: AnyPlayer, name: str) -> Any:
    return dataclasses.replace(player, name=name)


def show_imitation(targets: Any, encounters: list[Encounter], last: int, size: int) -> None:
    """The figures beside the paper's, ratings, and a picture of them."""
    print("\nTPT over CAT, Elo (paper, 9x9: +50 ± 13), and top-1 errors (paper: 47.7 and 47.0 %)")
    for iteration in sorted({iteration for iteration, _ in targets}):
        found = [record for (i, _), record in targets.items() if i == iteration]
        elos = [Encounter("TPT", "CAT", tuple(record["pairs"])).elo[0] for record in found]
        spread = np.std(elos, ddof=1) / math.sqrt(len(elos)) if len(elos) > 1 else math.nan
        errors = 100 * np.mean([record["errors"] for record in found], axis=0)
        print(
            f"  data of {iteration} rounds: {np.mean(elos):+.0f} ± {spread:.0f} over {len(elos)} fits; "
            f"errors {errors[0]:.1f} and {errors[1]:.1f} %"
        )

    def score(first: str, second: str) -> str:
        """Of the longest match between two players."""
        pair = {first, second}
        e = max((e for e in encounters if {e.first, e.second} == pair), key=lambda e: e.games)
        return percent(e.points if e.first == first else e.games - e.points, e.games)

    final = f"round {last}"
    rows = [
        ("three rounds of DAgger (last v. first network)", score(final, "round 1"), "66.6 % (+120 Elo)"),
        ("last network, no search, v. its teacher", score(final, "teacher"), "53.7 ± 3.9 %"),
        *(
            (f"{name} v. the teacher", score(name, "teacher"), "97 %" if name == "N-MCTS" else "")
            for name in sorted({name for e in encounters for name in (e.first, e.second)})
            if name.startswith("N-MCTS")
        ),
        ("teacher at twice the simulations v. once", score("twice", "teacher"), "56 %"),
    ]
    print(f"\n{'':<50}{'ours':>18}  paper")
    for label, ours, paper in rows:
        print(f"{label:<50}{ours:>18}  {paper}")
    ratings = rate(encounters, anchor="teacher")
    print("\n" + table(ratings))

    def draw(axes: Any) -> None:
        shown = ratings[::-1]
        elo = np.array([r.elo for r in shown])
        errors = [elo - [r.low for r in shown], [r.high for r in shown] - elo]
        axes.errorbar(elo, [r.name for r in shown], xerr=errors, fmt="o", label="jaxsearch, 95 % intervals")
        first = next(r.elo for r in shown if r.name == "round 1")
        axes.plot(first + 120, final, "x", color="grey", label="the paper's gain by DAgger, +120")
        axes.set(xlabel=f"Elo on {size}x{size}; the teacher is 0")

    figure(f"imitation_hex{size}", draw)


# Expert Iteration


def expert_iteration(arguments: argparse.Namespace) -> None:
    """Argmax play and the value's sign on solved openings."""
    name = f"exit_hex{arguments.size}"
    directory = arguments.dir / name
    experiment = trained(CONFIGS / f"{name}.toml", arguments.overrides, directory)
    game = experiment.game
    winning = load_winning(OPENINGS, game)
    notes = Notes(arguments.dir / f"{name}.json")
    path = checkpoint.latest(directory / CHECKPOINTS)
    network, params, metadata = load_network(str(path), game)
    agent, at = make_player(f"run:{path}@sims=0", game), f"iteration {metadata.iteration}: "
    signs = notes.once(f"{at}value signs", lambda: value_signs(game, network, params, winning).tolist())
    print(f"\nvalue's sign right after {sum(signs)} of {len(signs)} openings")
    rivals = ["rave:1000", "rave:5000", f"run:{path}@sims=400,search=policy_bonus"]
    for spec in rivals:

        def held(spec: str = spec) -> list[list[bool]]:
            rival = make_player(spec, game)
            result = play_openings(game, agent, rival, repeats=arguments.repeats, key=jax.random.key(0))
            return hold_openings(result, winning).tolist()

        found = np.array(notes.once(f"{at}held against {spec.replace(str(path), 'itself')}", held))
        label = spec.replace(str(path), "itself")
        print(f"argmax play, winning side, v. {label:<44}{percent(found.sum(), found.size):>16} won")


# Comparison

EXIT = ["network.patterns=auto", "expert.simulations=200", "expert.evaluations=31", "expert.solver=false"]
EXIT += ["fit.epoch_steps=600"]
BATCH = ["data.variant=batch", "data.positions=40_000", "fit.reset=true", "fit.max_epochs=20"]
BATCH += ["fit.epoch_steps=none"]
FAMILIES = {
    "ExIt": ("exit_hex5", EXIT),
    "ExIt, policy only": ("exit_hex5", [*EXIT, "data.value_target=none", "expert.playout_weight=1"]),
    "ExIt, batch": ("exit_hex5", [*EXIT, *BATCH]),
    "AlphaZero": ("hex5", ["learner.schedule=constant"]),
    "PPO": ("ppo_hex5", []),
    "REINFORCE": ("reinforce_hex5", []),
}
"""Name to config, for any size of the board, and overrides; all have the same network, and none a solver."""


def evaluations(directory: Path) -> dict[int, float]:
    """Network evaluations of a run up to each iteration; AlphaZero's are its simulations and roots."""
    total, known = 0.0, {}
    for record in read_jsonl(directory / METRICS):
        if record["kind"] == "iteration":
            total += record.get("simulations", 0) + record["plies"]
            known[record["iteration"]] = record.get("network_evaluations", total)
    return known


def within_budget(family: str, size: int, seed: int, budget: float, arguments: argparse.Namespace) -> Path:
    """A run of a family that stops once it has had `budget` evaluations; its directory.

    How many iterations that takes is guessed, and some are added where the guess was too low.
    """
    config, overrides = FAMILIES[family]
    slug = family.lower().replace(", ", "_").replace(" ", "_")
    directory = arguments.dir / f"compare_hex{size}" / f"{slug}_{seed}"
    overrides = [
        *overrides,
        f"game.size={size}",
        f"run.seed={seed}",
        "run.minutes=600",
        "evaluation.every=0",
        *arguments.overrides,
    ]
    path = CONFIGS / f"{config}.toml"
    guess = max(round(budget / per_iteration(algorithms.load(path, overrides), size)), 4)
    every = guess // 3
    overrides += [f"checkpoint.every={every}", f"checkpoint.milestone_every={every}"]
    spent = evaluations(directory) if (directory / METRICS).exists() else {0: 0.0}
    while spent[max(spent)] < 0.9 * budget:
        done = max(spent)
        pace = spent[done] / done if done else budget / guess
        iterations = done + max(math.ceil((budget - spent[done]) / pace), 1)
        trained(path, [*overrides, f"run.iterations={iterations}"], directory)
        spent = evaluations(directory)
    return directory


def per_iteration(config: Any, size: int) -> float:
    """About how many network evaluations one iteration of a config takes; games last 0.6 of the board."""
    length = 0.6 * size**2
    match config.run.algorithm:
        case "alphazero":
            plies = config.selfplay.games * config.selfplay.plies_per_iteration
            return plies * (config.selfplay.simulations + 1)
        case "ppo":
            return config.ppo.games * config.ppo.plies_per_iteration
        case "reinforce":
            return config.reinforce.games * config.reinforce.updates_per_iteration * length
    if config.data.states == "every":
        rows = config.expert.batch * size**2  # of which an iteration makes a whole number
        return max(config.data.positions // rows, 1) * rows * config.expert.asked
    return config.data.positions * (config.expert.asked + 2 * length)


def compare(arguments: argparse.Namespace) -> None:
    """Section 6.1: strength of the networks alone by network evaluations."""
    size, budget = arguments.size, arguments.budget or BUDGET[arguments.size]
    game = games_jax.make("hex", size=size)
    notes = Notes(arguments.dir / f"compare_hex{size}.json")
    players, spent = [rave_player(game, simulations=1000)], {}
    runs = [(seed, str(family)) for seed in range(arguments.seeds) for family in arguments.families]
    for seed, family in runs:
        directory = within_budget(family, size, seed, budget, arguments)
        counts = evaluations(directory)
        for iteration, path in sorted(checkpoint.saved(directory / CHECKPOINTS).items()):
            name = f"{family} #{seed} at {iteration}"
            players.append(_named(make_player(f"run:{path}@sims=0", game), name))
            spent[name] = (family, seed, counts[iteration])
    encounters = meet_all(game, players, notes, "1 ply: ")
    show_comparison(rate(encounters, anchor="rave:1000"), spent, size)


def show_comparison(ratings: list[Rating], spent: dict[str, Any], size: int) -> None:
    """Each family's Elo at the end over its seeds, and curves by network evaluations."""
    elo = {rating.name: rating.elo for rating in ratings}
    print(f"\n{'':<20}{'Elo':>6}{'st. error':>12}{'seeds':>7}   (RAVE with 1,000 simulations is 0)")
    curves: dict[str, list[Any]] = {family: [] for family, _, _ in spent.values()}
    for family in curves:
        ends = []
        for seed in sorted({s for f, s, _ in spent.values() if f == family}):
            points = sorted((n, elo[name]) for name, (f, s, n) in spent.items() if (f, s) == (family, seed))
            curves[family].append(points)
            ends.append(points[-1][1])
        error = np.std(ends, ddof=1) / math.sqrt(len(ends)) if len(ends) > 1 else math.nan
        print(f"{family:<20}{np.mean(ends):>+6.0f}{error:>12.0f}{len(ends):>7}")

    def draw(axes: Any) -> None:
        for number, (family, runs) in enumerate(curves.items()):
            for seed, points in enumerate(runs):
                label = family if seed == 0 else None
                axes.plot(*zip(*points), "o-", color=f"C{number}", label=label, alpha=0.8, markersize=3)
        axes.set(xlabel="network evaluations", ylabel="Elo, network without search", xscale="log")

    figure(f"compare_hex{size}", draw)


# Throughput


def throughput(arguments: argparse.Namespace) -> None:
    """Simulations per second of RAVE on 9x9, and the time that labelling takes on 7x7."""
    del arguments
    for size, searches, simulations in ((9, 256, 1000), (7, 256, 1000)):
        game = games_jax.make("hex", size=size)
        states = new_games(game, jax.random.key(0), searches, opening_plies=8).states
        search = jax.jit(jaxsearch.rave(game, simulations=simulations))
        jax.block_until_ready(search(jax.random.key(1), states))
        wall, cpu = time.perf_counter(), time.process_time()
        repeats = 2
        for number in range(repeats):
            jax.block_until_ready(search(jax.random.key(number), states))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        done = repeats * searches * simulations
        print(
            f"RAVE, {size}x{size}, {searches} searches of {simulations}: {done / wall:,.0f} simulations/s by "
            f"the clock, {done / cpu:,.0f} per second of processor time"
        )
    minutes = 1e8 / (done / cpu) / 60
    print(f"labelling 100,000 positions of 7x7 so: {minutes:.0f} minutes of processor time")


def main() -> int:
    """Trains, measures and shows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("imitation", "exit", "compare", "throughput"))
    parser.add_argument("--size", type=int, default=5, choices=(5, 6, 7, 9), help="of the board (default 5)")
    parser.add_argument("--seeds", type=int, default=3, help="fits or runs of each kind (default 3)")
    parser.add_argument("--repeats", type=int, default=4, help="games from each solved opening (default 4)")
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES), metavar="NAME")
    parser.add_argument("--budget", type=float, help="network evaluations of each run of a comparison")
    parser.add_argument("--set", dest="overrides", nargs="+", default=[], metavar="KEY=VALUE")
    parser.add_argument("--dir", type=Path, default=Path("runs") / "exit", help="where runs and results are")
    arguments = parser.parse_args()
    if arguments.what == "exit" and arguments.size == 9:
        parser.error("exit measures by solved openings, which 9x9 has none of; expected --size 5, 6 or 7.")
    start_jax()
    commands = {"imitation": imitate, "exit": expert_iteration, "compare": compare, "throughput": throughput}
    try:
        commands[arguments.what](arguments)
    except (RunError, checkpoint.CheckpointError, ValueError) as error:
        print(f"reproduce_exit: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped; the same command goes on.")
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
