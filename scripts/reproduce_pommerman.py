"""The published Pommerman experiments, scaled to a CPU: demonstrations, and search with opponent models.

    python scripts/reproduce_pommerman.py learn --dir runs/pommerman
    python scripts/reproduce_pommerman.py search --dir runs/pommerman --simulations 0 50 250 --games 100

`learn` records games of four SimpleCpp agents and fits a network to what they did and how it ended. `search`
plays the network, alone and under SP-MCTS and TP-MCTS, against three agents, and prints wins, ties and losses
beside figure 2 of the paper. `--full` has the paper's network and a million positions, for an accelerator.

Reference: Weil, Czech, Meuser and Kersting (2023), Know your Enemy, https://arxiv.org/abs/2305.13206.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxsearch
from games_jax.multi_agent import SinglePlayerView, TwoPlayerView, single_player_view, two_player_view
from games_jax.opponents import FixedModel, Model
from games_jax.pommerman import Pommerman
from games_jax.pommerman.agents import SimpleAgent, UnbiasedAgent
from jaxsearch.types import Search, SearchOutput
from train import against_models, checkpoint, demonstrations, imitation
from train.cli.common import start_jax
from train.exit_config import FitConfig
from train.networks import Network, evaluator, make_network

GAME = Pommerman(random_corners=True)

SMALL = {"channels": 24, "expansion": 3, "blocks": 2, "late_blocks": 1, "value_width": 64}
"""A network of 5 million operations a position, an eighth of the paper's."""

AGENTS: dict[str, type] = {"simple": SimpleAgent, "simple_cpp": UnbiasedAgent}

PAPER = {
    ("SP", 0): 0.386, ("SP", 50): 0.614, ("SP", 100): 0.680, ("SP", 250): 0.768, ("SP", 500): 0.791,
    ("SP", 1000): 0.788,
    ("TP", 0): 0.377, ("TP", 50): 0.494, ("TP", 100): 0.615, ("TP", 250): 0.796, ("TP", 500): 0.878,
    ("TP", 1000): 0.901,
}  # fmt: skip
"""Wins against three SimpleCpp with the network from demonstrations (figure 2)."""


def learn(directory: Path, *, samples: int, games: int, epochs: int, options: dict[str, Any]) -> None:
    """Records demonstrations and fits a network."""
    steps = -(-samples // (games * GAME.num_players))
    began = time.perf_counter()
    record = jax.jit(
        functools.partial(demonstrations.record, games=games, steps=steps), static_argnums=(0, 1)
    )
    recorded = jax.block_until_ready(record(GAME, UnbiasedAgent(GAME), jax.random.key(0)))
    view = single_player_view(GAME, FixedModel())
    data = demonstrations.dataset(view, recorded)
    usable = int(jnp.sum(data.usable))
    seconds = time.perf_counter() - began
    print(f"{len(data.usable):,} positions, {usable:,} of games that ended, in {seconds:.0f} s", flush=True)
    network = make_network("rise", view, **options)
    settings = FitConfig(
        learning_rate=1e-3,
        weight_decay=1e-4,
        batch_size=256,
        value_loss_weight=0.1 / 0.9,
        max_epochs=1,
        patience=10,
    )
    fit = jax.jit(functools.partial(imitation.fit, view, network, settings, with_value=True))
    variables = network.init(jax.random.key(1))
    for epoch in range(epochs):
        began = time.perf_counter()
        variables, metrics = fit(variables, data, jax.random.key(2 + epoch))
        told = {name: round(float(value), 4) for name, value in metrics.items()}
        print(f"epoch {epoch + 1}: {time.perf_counter() - began:.0f} s, {json.dumps(told)}", flush=True)
        checkpoint.save(
            directory / "checkpoints",
            variables,
            variables,
            identity=checkpoint.Identity(GAME.name, GAME.version, network.name, network.options),
            config={},
            iteration=epoch + 1,
            seconds=time.perf_counter() - began,
        )


def search_of(view: SinglePlayerView | TwoPlayerView, network: Network, simulations: int) -> Search:
    """The paper's search of a view, or the network's best action for 0 simulations."""
    judge = evaluator(network, view)
    if simulations:
        return jaxsearch.puct(
            view,
            judge,
            simulations=simulations,
            c_init=2.5,
            first_play="loss",
            dirichlet_alpha=0.2,
            dirichlet_fraction=0.25,
        )

    def alone(key: jax.Array, states: Any, params: Any = None, **unused: Any) -> SearchOutput:
        logits, value = judge(params, key, states)
        legal = jax.vmap(view.legal_actions)(states)
        logits = jnp.where(legal, logits, -jnp.inf)
        action = jnp.argmax(logits, axis=-1).astype(jnp.int32)
        shares = jax.nn.softmax(logits)
        return SearchOutput(
            action, jnp.zeros_like(legal, jnp.int32), value, shares, jnp.zeros_like(shares), None
        )

    return alone


def views(model: Model) -> dict[str, SinglePlayerView | TwoPlayerView]:
    """SP-MCTS and TP-MCTS, with the paper's action filter."""
    allowed = GAME.filtered_actions
    return {
        "SP": single_player_view(GAME, model, allowed=allowed),
        "TP": two_player_view(GAME, model, allowed=allowed),
    }


def search(
    directory: Path, *, budgets: list[int], games: int, kinds: list[str], agent: str, options: dict[str, Any]
) -> None:
    """Plays and prints."""
    params, _ = checkpoint.load_parameters(directory)
    opponent = AGENTS[agent](GAME)
    print(f"{games} games against three agents {agent!r}; wins of the paper are against simple_cpp")
    print(
        "| search | simulations | wins | ties | of them time-outs | losses | steps | s a game | paper, wins |"
    )
    print("|---" * 9 + "|")
    for kind in kinds:
        view = views(UnbiasedAgent(GAME))[kind]
        network = make_network("rise", view, **options)
        for budget in budgets:
            run = functools.partial(
                against_models.play, view, search_of(view, network, budget), opponent=opponent, games=games
            )
            began = time.perf_counter()
            results = jax.device_get(jax.jit(run)(params=params, key=jax.random.key(7)))
            seconds = (time.perf_counter() - began) / games
            wins, losses = (float(np.mean(results.outcome == sign)) for sign in (1, -1))
            error = math.sqrt(wins * (1 - wins) / games)
            paper = PAPER.get((kind, budget))
            print(
                f"| {kind} | {budget} | {wins:.3f} ± {error:.3f} | {1 - wins - losses:.3f} | "
                f"{float(np.mean(results.timed_out)):.3f} | {losses:.3f} | {results.steps.mean():.0f} | "
                f"{seconds:.1f} | {'' if paper is None else paper} |",
                flush=True,
            )


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("learn", "search"))
    parser.add_argument("--dir", type=Path, default=Path("runs/pommerman"))
    parser.add_argument(
        "--samples", type=int, default=250_000, help="positions to learn from (default 250,000)"
    )
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--simulations", type=int, nargs="+", default=[0, 50, 250])
    parser.add_argument("--games", type=int, default=100)
    parser.add_argument("--kinds", nargs="+", choices=("SP", "TP"), default=["SP", "TP"])
    parser.add_argument("--agent", choices=AGENTS, default="simple_cpp", help="the opponents")
    parser.add_argument("--full", action="store_true", help="the paper's network, a million positions")
    arguments = parser.parse_args()
    start_jax()
    options: dict[str, Any] = {} if arguments.full else SMALL
    if arguments.what == "learn":
        samples = max(arguments.samples, 1_000_000) if arguments.full else arguments.samples
        learn(arguments.dir, samples=samples, games=64, epochs=arguments.epochs, options=options)
    else:
        search(
            arguments.dir,
            budgets=arguments.simulations,
            games=arguments.games,
            kinds=arguments.kinds,
            agent=arguments.agent,
            options=options,
        )


if __name__ == "__main__":
    main()
