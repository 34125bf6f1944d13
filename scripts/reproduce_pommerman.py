"""The published Pommerman experiments scaled to a CPU: demonstrations, search against models, iterations.

    python scripts/reproduce_pommerman.py learn
    python scripts/reproduce_pommerman.py search --simulations 0 50 100 250 --games 200
    python scripts/reproduce_pommerman.py iterate --simulations 50 --games 100 --iterations 4
    python scripts/reproduce_pommerman.py draw

`learn` records games of four SimpleCpp agents and fits a network to what they did and how it ended. `search`
plays the network, alone and under SP-MCTS and TP-MCTS, against three agents, and prints wins, ties and losses
beside figure 2 of the paper. `iterate` goes on learning from searches. `draw` draws the figures and a game.
`--full` has the paper's network, for an accelerator. `learn` and `iterate` go on where they were stopped.

Reference: Weil, Czech, Meuser and Kersting (2023), Know your Enemy, https://arxiv.org/abs/2305.13206.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from draw_pommerman import IMAGES, PAPER, draw

import jaxsearch
from games_jax.multi_agent import SinglePlayerView, TwoPlayerView, single_player_view, two_player_view
from games_jax.opponents import FixedModel, NetworkModel
from games_jax.pommerman import Pommerman
from games_jax.pommerman.agents import SimpleAgent, UnbiasedAgent
from jaxsearch.types import Evaluator, Search, SearchOutput
from train import against_models, checkpoint, demonstrations
from train import pommerman_iterations as iterations
from train.cli.common import start_jax
from train.imitation import Dataset
from train.networks import evaluator, make_network

View = SinglePlayerView | TwoPlayerView

GAME = Pommerman(random_corners=True)

AGENTS: dict[str, type] = {"simple": SimpleAgent, "simple_cpp": UnbiasedAgent}

MOST = 1000
"""Simulations that there is room for: programs are compiled once for all that make fewer."""

KEPT_ITERATIONS, EPOCHS = 4, 2
"""Iterations whose positions are learnt from, and how often each is, as published."""

RECORDED_GAMES = 64
"""Played at once for demonstrations."""

STEPS_A_REPORT = 500
"""Gradient steps between two reports and checkpoints."""


def demonstrated(view: SinglePlayerView, samples: int, seed: int) -> Dataset:
    """Positions of games of four SimpleCpp, on the host."""
    record = jax.jit(demonstrations.record, static_argnums=(0, 1), static_argnames=("games", "steps"))
    steps = -(-samples // (RECORDED_GAMES * GAME.num_players))
    recorded = record(GAME, UnbiasedAgent(GAME), jax.random.key(seed), games=RECORDED_GAMES, steps=steps)
    return jax.tree.map(np.asarray, demonstrations.dataset(view, recorded))


def learn(directory: Path, *, samples: int, steps: int, options: dict[str, Any]) -> None:
    """Records demonstrations and fits a network; goes on where it was stopped."""
    view = single_player_view(GAME, FixedModel())
    began = time.perf_counter()
    data, unseen = demonstrated(view, samples, 0), demonstrated(view, 64_000, 1)
    usable, seconds = int(np.sum(data.usable)), time.perf_counter() - began
    print(f"{len(data.usable):,} positions, {usable:,} of games that ended, in {seconds:.0f} s", flush=True)
    network = make_network("rise", view, **options)
    optimizer = iterations.make_optimizer(2e-3, steps=steps)
    trainee = iterations.new_trainee(network.init(jax.random.key(1)), optimizer)
    identity = checkpoint.Identity(GAME.name, GAME.version, network.name, network.options)
    done = 0
    if newest := checkpoint.latest(directory / "checkpoints"):
        done = checkpoint.read_metadata(newest).iteration
        trainee = checkpoint.restore(newest, jax.eval_shape(lambda: trainee), identity=identity)
    while done < steps:
        trainee = iterations.train(view, network, optimizer, trainee, data, done, steps=STEPS_A_REPORT)
        done += STEPS_A_REPORT
        told = iterations.examine(view, network, trainee.variables, unseen)
        seconds = time.perf_counter() - began
        shown = json.dumps({name: round(value, 4) for name, value in told.items()})
        print(f"step {done}: {seconds:.0f} s, on other games {shown}", flush=True)
        checkpoint.save(
            directory / "checkpoints",
            trainee,
            trainee.variables,
            identity=identity,
            config={},
            iteration=done,
            seconds=seconds,
        )
        checkpoint.prune(directory / "checkpoints", keep=2)


def searcher(view: View, judge: Evaluator, most: int) -> Search:
    """The paper's search of a view, or the network's best action where `most` is 0.

    Its `params` are the network's variables, how many simulations to make, `most` at most, the root noise's
    share of the priors and the priors' temperature: one compiled program for all of them.
    """
    if most:

        def run(key: jax.Array, states: Any, params: Any = None, **unused: Any) -> SearchOutput:
            variables, simulations, noise, temperature = params
            lanes = jax.tree.leaves(states)[0].shape[0]

            def tempered(params: Any, key: jax.Array, states: Any) -> tuple[jax.Array, jax.Array]:
                logits, value = judge(params, key, states)
                return logits / temperature, value

            search: Any = jaxsearch.puct(
                view,
                tempered,
                simulations=most,
                c_init=2.5,
                first_play="loss",
                dirichlet_alpha=0.2,
                dirichlet_fraction=jnp.full(lanes, noise),
            )
            return search(key, states, variables, budgets=jnp.full(lanes, simulations))

        return run

    def alone(key: jax.Array, states: Any, params: Any = None, **unused: Any) -> SearchOutput:
        logits, value = judge(params[0], key, states)
        legal = jax.vmap(view.legal_actions)(states)
        logits = jnp.where(legal, logits, -jnp.inf)
        action = jnp.argmax(logits, axis=-1).astype(jnp.int32)
        shares = jax.nn.softmax(logits)
        return SearchOutput(
            action, jnp.zeros_like(legal, jnp.int32), value, shares, jnp.zeros_like(shares), None
        )

    return alone


def player(
    kind: str,
    models: str,
    variables: Any,
    options: dict[str, Any],
    most: int,
    trust: float | None = None,
) -> tuple[View, Search]:
    """SP-MCTS or TP-MCTS with the paper's action filter, and opponent models of a kind.

    With a `trust`, TP-MCTS expects the model's answer where the published one asks the network; see
    `against_models.trusting`.
    """
    allowed = GAME.filtered_actions
    network = make_network("rise", single_player_view(GAME, FixedModel()), **options)

    def judge(seen: jax.Array) -> tuple[jax.Array, jax.Array]:
        out = network.apply(variables, seen)
        return out.policy_logits, out.value

    answering = NetworkModel(GAME, judge, allowed) if models == "network" else AGENTS[models](GAME)
    make = single_player_view if kind == "SP" else two_player_view
    view = make(GAME, answering, allowed=allowed)

    def judging(view: View) -> Evaluator:
        return against_models.judged(view) if models == "network" else evaluator(network, view)

    if trust is None or isinstance(view, SinglePlayerView):
        return view, searcher(view, judging(view), most)
    return view, searcher(view, against_models.trusting(view, judging(view.single), trust), most)


def watcher(every: float = 60.0) -> Callable[[np.ndarray], None]:
    """Says once a minute how the games stand: long matches can be stopped without losing what they showed."""
    last = time.perf_counter()

    def watch(outcomes: np.ndarray) -> None:
        nonlocal last
        if time.perf_counter() - last < every:
            return
        last = time.perf_counter()
        won, lost, on = ((outcomes == 1).sum(), (outcomes == -1).sum(), np.isnan(outcomes).sum())
        print(
            f"{len(outcomes) - on} of {len(outcomes)} games: {won} won, {lost} lost",
            file=sys.stderr,
            flush=True,
        )

    return watch


def search(directory: Path, options: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Plays, prints a table and adds its lines to `search.jsonl`."""
    network = make_network("rise", single_player_view(GAME, FixedModel()), **options)
    if arguments.network == "random":
        variables = network.init(jax.random.key(arguments.seed))
    else:
        iterated = arguments.network == "iterated"
        variables, _ = checkpoint.load_parameters(newest_iteration(directory) if iterated else directory)
    print(
        "| search | simulations | wins | ties | of them time-outs | losses | steps | ms a position | paper |"
    )
    print("|---" * 9 + "|")
    noise, temperature = jnp.float32(arguments.noise), jnp.float32(arguments.temperature)
    for agent, kind in itertools.product(arguments.agents, arguments.kinds):
        opponent, models = AGENTS[agent](GAME), arguments.models or agent
        searching = [budget for budget in arguments.simulations if budget]
        for budgets in ([0] if 0 in arguments.simulations else [], searching):
            if not budgets:
                continue
            most = max(MOST, *budgets) if budgets[0] else 0
            view, run = player(kind, models, variables, options, most, arguments.trust)
            for budget in budgets:
                began = time.perf_counter()
                results = against_models.play(
                    view,
                    run,
                    (variables, jnp.int32(budget), noise, temperature),
                    opponent,
                    jax.random.key(arguments.seed),
                    games=arguments.games,
                    lanes=arguments.lanes,
                    told=GAME.without_hidden_items if arguments.fair else None,
                    watch=watcher(),
                )
                row = {
                    "search": kind,
                    "network": arguments.network,
                    "models": models,
                    "opponents": agent,
                    "noise": arguments.noise,
                    "temperature": arguments.temperature,
                    "trust": arguments.trust if kind == "TP" else None,
                    "fair": arguments.fair,
                    "simulations": budget,
                    **against_models.shares(results),
                    "seconds_a_position": (time.perf_counter() - began) / int(results.steps.sum()),
                }
                report(directory / "search.jsonl", row)


def newest_iteration(directory: Path) -> Path:
    """The checkpoint of the last network that `iterate` has made."""
    newest = checkpoint.latest(directory / "iterations")
    if newest is None:
        raise SystemExit(f"no checkpoint in {directory / 'iterations'}; expected those of `iterate`.")
    return newest


def iterate(directory: Path, options: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Search against the heuristics, learning from it, and again; goes on where it was stopped.

    The games of an iteration measure the network that it starts with; the last one is only played.
    """
    plain = single_player_view(GAME, FixedModel())
    network = make_network("rise", plain, **options)
    optimizer = iterations.make_optimizer(arguments.rate)
    identity = checkpoint.Identity(GAME.name, GAME.version, network.name, network.options)
    variables, _ = checkpoint.load_parameters(directory)
    trainee, first = iterations.new_trainee(variables, optimizer), 0
    checkpoints, began = directory / "iterations", time.perf_counter()
    if newest := checkpoint.latest(checkpoints):
        first = checkpoint.read_metadata(newest).iteration
        trainee = checkpoint.restore(newest, jax.eval_shape(lambda: trainee), identity=identity)
    kind, simulations = arguments.kinds[0], arguments.simulations[0]
    players = {
        agent: player(kind, arguments.models or agent, variables, options, MOST, arguments.trust)
        for agent in arguments.agents
    }
    noise, temperature = jnp.float32(arguments.noise), jnp.float32(arguments.temperature)
    for number in range(first, arguments.iterations + 1):
        file = checkpoints / f"games_{number}.npz"
        if not file.exists():
            found, rows = [], []
            for place, (agent, (view, run)) in enumerate(players.items()):
                key = jax.random.fold_in(jax.random.key(arguments.seed), number)
                results = against_models.play(
                    view,
                    run,
                    (trainee.variables, jnp.int32(simulations), noise, temperature),
                    AGENTS[agent](GAME),
                    jax.random.fold_in(key, place),  # other boards for each
                    games=arguments.games // len(players),
                    lanes=arguments.lanes,
                    record=True,
                    watch=watcher(),
                )
                found.append(iterations.dataset(results, time_out=arguments.time_out))
                told = {"iteration": number, "search": kind, "opponents": agent, "simulations": simulations}
                rows.append({**told, **against_models.shares(results)})
                print(json.dumps({**rows[-1], "seconds": time.perf_counter() - began}), flush=True)
            note(directory / "iterations.jsonl", number, rows)
            file.parent.mkdir(parents=True, exist_ok=True)
            iterations.save(file, iterations.join(found))
        if number == arguments.iterations:
            return
        recent = range(max(0, number - KEPT_ITERATIONS + 1), number + 1)
        files = [checkpoints / f"games_{n}.npz" for n in recent]
        data = iterations.join([iterations.load(file, plain) for file in files])
        steps = EPOCHS * len(data.usable) // 256
        trainee = iterations.train(plain, network, optimizer, trainee, data, number, steps=steps)
        checkpoint.save(
            checkpoints,
            trainee,
            trainee.variables,
            identity=identity,
            config={},
            iteration=number + 1,
            seconds=time.perf_counter() - began,
        )


def note(path: Path, number: int, rows: list[dict[str, Any]]) -> None:
    """Writes the results of an iteration in place of what a run that was killed has left of it."""
    lines = path.read_text().splitlines() if path.exists() else []
    lines = [line for line in lines if json.loads(line)["iteration"] != number]
    partial = path.with_suffix(".partial")
    partial.write_text("".join(f"{line}\n" for line in [*lines, *map(json.dumps, rows)]))
    partial.rename(path)


def report(path: Path, row: dict[str, Any]) -> None:
    """Prints a line of the table and adds it to a file."""
    published = PAPER.get((row["network"], row["search"]), {}) if row["opponents"] == "simple_cpp" else {}
    paper = published.get(row["simulations"], "")
    print(
        f"| {row['search']} | {row['simulations']} | {row['wins']:.3f} ± {row['error']:.3f} | "
        f"{row['ties']:.3f} | {row['timed_out']:.3f} | {row['losses']:.3f} | {row['steps']:.0f} | "
        f"{1000 * row['seconds_a_position']:.1f} | {paper} |",
        flush=True,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lines:
        lines.write(json.dumps(row) + "\n")


def sample(directory: Path, options: dict[str, Any], seed: int) -> None:
    """A game that SP-MCTS won, as an animated picture: the shortest one of eight."""
    variables, _ = checkpoint.load_parameters(directory)
    view, run = player("SP", "simple_cpp", variables, options, MOST)
    params = (variables, jnp.int32(100), jnp.float32(0), jnp.float32(1))
    opponent, key = UnbiasedAgent(GAME), jax.random.key(seed)
    results = against_models.play(view, run, params, opponent, key, games=8, lanes=8, record=True)
    searched = results.searched
    assert searched is not None
    chosen = int(np.argmin(np.where(results.outcome == 1, results.steps, GAME.max_steps)))
    rows = np.flatnonzero(searched.game == chosen)
    states = [jax.tree.map(lambda leaf, row=row: leaf[row], searched.states) for row in rows]
    path = IMAGES / "pommerman_game.svg"
    path.write_text(GAME.animate(states))
    print(f"Game of {len(states)} steps, outcome {results.outcome[chosen]:+.0f}: {path}")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("learn", "search", "iterate", "draw"))
    parser.add_argument("--dir", type=Path, default=Path("runs/pommerman"))
    parser.add_argument("--samples", type=int, default=1_000_000, help="positions to learn from")
    parser.add_argument("--steps", type=int, default=8000, help="gradient steps of 256 positions")
    parser.add_argument(
        "--simulations", type=int, nargs="+", help="default: 0 50 100 250; of iterations one number, 50"
    )
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--lanes", type=int, default=32, help="games searched at a time")
    parser.add_argument(
        "--kinds", nargs="+", choices=("SP", "TP"), help="default: both; of iterations one, SP"
    )
    parser.add_argument(
        "--agents",
        nargs="+",
        choices=AGENTS,
        default=["simple_cpp"],
        help="the opponents; in an iteration as many games against each",
    )
    parser.add_argument(
        "--models",
        choices=(*AGENTS, "network"),
        help="what the search takes them for (default: what they are)",
    )
    parser.add_argument(
        "--network", choices=("demonstrations", "iterated", "random"), default="demonstrations"
    )
    parser.add_argument("--noise", type=float, default=0.25, help="the root noise's share of the priors")
    parser.add_argument("--temperature", type=float, default=1.0, help="of the network's priors")
    parser.add_argument(
        "--trust",
        type=float,
        help="TP-MCTS: the prior of the model's answer at the opponent's plies (default: as published, the "
        "network's prior there, and its value)",
    )
    parser.add_argument("--fair", action="store_true", help="searches know of no hidden items")
    parser.add_argument("--seed", type=int, default=7, help="of the games")
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument(
        "--time-out", type=float, default=-1.0, help="what iterations learn that undecided games are worth"
    )
    parser.add_argument("--rate", type=float, default=3e-4, help="learning rate of the iterations")
    parser.add_argument("--full", action="store_true", help="the paper's network, for an accelerator")
    arguments = parser.parse_args()
    if arguments.games < len(arguments.agents):
        parser.error(f"--games {arguments.games} is fewer than the {len(arguments.agents)} --agents")
    if arguments.trust is not None and not 0 <= arguments.trust < 1:
        parser.error(f"--trust {arguments.trust} is no share from 0 to below 1")
    learns = arguments.what == "iterate"
    arguments.simulations = arguments.simulations or ([50] if learns else [0, 50, 100, 250])
    arguments.kinds = arguments.kinds or (["SP"] if learns else ["SP", "TP"])
    if learns and (len(arguments.simulations), len(arguments.kinds)) != (1, 1):
        parser.error("iterate learns from one kind of search; give one of --kinds and one of --simulations")
    start_jax()
    options: dict[str, Any] = {} if arguments.full else iterations.SMALL_NETWORK
    if arguments.what == "learn":
        learn(arguments.dir, samples=arguments.samples, steps=arguments.steps, options=options)
    elif arguments.what == "search":
        search(arguments.dir, options, arguments)
    elif arguments.what == "iterate":
        iterate(arguments.dir, options, arguments)
    else:
        draw(arguments.dir)
        sample(arguments.dir, options, arguments.seed)


if __name__ == "__main__":
    main()
