"""How many Pommerman steps a second: `python scripts/bench_pommerman.py --batch 1024`.

Three loops, each one compiled program that restarts finished games on new boards: uniformly random actions;
the same with the observations of all agents built in each step and kept until the next; and games of
heuristic agents. Figures are steps of one game per second of processor time, which on an idle machine with
one core is the wall clock, and per second of wall clock; the least of several runs. `--search --batch 64`
times a simulation of a search by what the opponents are taken for.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import jaxsearch
from games_jax.multi_agent import single_player_view
from games_jax.opponents import JointModel, Model, NetworkModel, RandomModel
from games_jax.pommerman import Pommerman
from games_jax.pommerman.agents import SimpleAgent, UnbiasedAgent
from train.against_models import judged
from train.networks import evaluator, make_network
from train.pommerman_iterations import SMALL_NETWORK


class Games(NamedTuple):
    """A batch under way: states `[B]`, memories `[P, B]`, what agents see `[P, B, ...]`, finished games."""

    states: Any
    memories: Any
    seen: jax.Array
    finished: jax.Array


def start(game: Pommerman, model: Model, key: jax.Array, batch: int, observe: bool) -> Games:
    """New games."""
    board_key, model_key = jax.random.split(key)
    keys = jax.random.split(model_key, (game.num_players, batch))
    return Games(
        states=jax.vmap(game.init)(jax.random.split(board_key, batch)),
        memories=jax.vmap(jax.vmap(model.start))(keys),
        seen=jnp.zeros((game.num_players, batch, *game.observation_shape) if observe else (0, batch)),
        finished=jnp.zeros((), jnp.int32),
    )


def play(game: Pommerman, model: Model, steps: int, observe: bool, games: Games, key: jax.Array) -> Games:
    """Plays on for some steps; a game that is over goes on from one of `2 B` new boards."""
    batch = games.seen.shape[1]
    fresh = start(game, model, key, batch, False)
    boards = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), fresh.states)
    players = jnp.arange(game.num_players, dtype=jnp.int32)

    def decide(player: jax.Array, memory: Any, states: Any) -> tuple[jax.Array, Any]:
        return jax.vmap(model.act, in_axes=(0, None, 0))(states, player, memory)

    def step(games: Games, number: jax.Array) -> tuple[Games, None]:
        # Players are mapped over outside of the batch, whose elements then lie side by side.
        actions, memories = jax.vmap(decide, in_axes=(0, 0, None))(players, games.memories, games.states)
        states = jax.vmap(game.step, in_axes=(0, 1))(games.states, actions)
        over = jax.vmap(game.is_over)(states)
        # Each step deals from another place, so that a game does not get its own board again.
        dealt = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, number, batch), boards)
        states = jax.tree.map(lambda new, old: jnp.where(over, new, old), dealt, states)
        restart = functools.partial(_restart, over)
        memories = jax.tree.map(restart, fresh.memories, memories)
        seen = games.seen
        if observe:
            see = jax.vmap(game.observe, in_axes=(0, None))
            seen = jnp.stack([see(states, jnp.int32(player)) for player in range(game.num_players)])
        return Games(states, memories, seen, games.finished + jnp.sum(over, dtype=jnp.int32)), None

    return jax.lax.scan(step, games, jnp.arange(steps) % batch)[0]


def _restart(over: jax.Array, new: jax.Array, old: jax.Array) -> jax.Array:
    return jnp.where(over, new, old)


def measure(
    name: str, game: Pommerman, model: Model, *, batch: int, steps: int, repeats: int, observe: bool
) -> None:
    """Prints one line."""
    games = jax.jit(start, static_argnums=(0, 1, 3, 4))(game, model, jax.random.key(0), batch, observe)
    begin = time.process_time()
    run: Callable[..., Games] = (
        jax.jit(play, static_argnums=(0, 1, 2, 3))
        .lower(game, model, steps, observe, games, jax.random.key(1))
        .compile()
    )
    compiled = time.process_time() - begin
    best_cpu = best_wall = float("inf")
    for repeat in range(repeats):
        cpu, wall = time.process_time(), time.perf_counter()
        games = jax.block_until_ready(run(games, jax.random.key(2 + repeat)))
        best_cpu = min(best_cpu, time.process_time() - cpu)
        best_wall = min(best_wall, time.perf_counter() - wall)
    cpu_rate, wall_rate = (steps * batch / best for best in (best_cpu, best_wall))
    length = steps * batch * repeats / max(int(games.finished), 1)
    print(
        f"{name:<28} {cpu_rate:>12,.0f} /s processor {wall_rate:>12,.0f} /s wall   "
        f"compile {compiled:5.1f} s   {length:6.1f} steps a finished game",
        flush=True,
    )


def compile_time(game: Pommerman, batch: int) -> None:
    """Prints the processor time of tracing and compiling one batched step."""
    states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), batch))
    actions = jnp.zeros((batch, game.num_players), jnp.int32)
    begin = time.process_time()
    jax.jit(jax.vmap(game.step)).lower(states, actions).compile()
    print(f"compiling vmap(step): {time.process_time() - begin:.1f} s of processor time", flush=True)


def search_cost(game: Pommerman, *, batch: int, simulations: int, repeats: int) -> None:
    """Prints the processor time of a simulation of SP-MCTS by what the opponents are taken for."""
    models: dict[str, Model | JointModel] = {
        "SimpleCpp": UnbiasedAgent(game),
        "SimpleAgent": SimpleAgent(game),
    }
    cpp = UnbiasedAgent(game)
    games = jax.jit(start, static_argnums=(0, 1, 3, 4))(game, cpp, jax.random.key(0), batch, False)
    middle = jax.jit(play, static_argnums=(0, 1, 2, 3))(game, cpp, 40, False, games, jax.random.key(1))
    network = make_network("rise", single_player_view(game, RandomModel(game)), **SMALL_NETWORK)
    variables = network.init(jax.random.key(2))

    def judge(seen: jax.Array) -> tuple[jax.Array, jax.Array]:
        out = network.apply(variables, seen)
        return out.policy_logits, out.value

    models["the network"] = NetworkModel(game, judge, game.filtered_actions)
    for name, model in models.items():
        view = single_player_view(game, model, allowed=game.filtered_actions)
        judging = judged(view) if isinstance(model, NetworkModel) else evaluator(network, view)
        search = jax.jit(jaxsearch.puct(view, judging, simulations=simulations))
        keys = jax.random.split(jax.random.key(3), batch)
        roots = jax.jit(jax.vmap(view.begin, (0, None, 0)))(middle.states, 0, keys)
        jax.block_until_ready(search(jax.random.key(4), roots, variables))
        best = float("inf")
        for _ in range(repeats):
            cpu = time.process_time()
            jax.block_until_ready(search(jax.random.key(4), roots, variables))
            best = min(best, time.process_time() - cpu)
        microseconds = 1e6 * best / (batch * simulations)
        print(f"search, opponents taken for {name:<12} {microseconds:>8.1f} us a simulation", flush=True)


def main() -> None:
    """Reads the command line and measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="part of the name of a line")
    parser.add_argument("--search", action="store_true", help="time simulations of a search instead")
    options = parser.parse_args()
    game = Pommerman(random_corners=True)
    lines: dict[str, tuple[Model, bool]] = {
        "random": (RandomModel(game), False),
        "random with observations": (RandomModel(game), True),
        "four SimpleAgents": (SimpleAgent(game), False),
        "four SimpleCpp": (UnbiasedAgent(game), False),
    }
    if options.search:
        search_cost(game, batch=options.batch, simulations=options.steps, repeats=options.repeats)
        return
    if not options.only:
        compile_time(game, options.batch)
    for name, (model, observe) in lines.items():
        if options.only in name:
            measure(
                name,
                game,
                model,
                batch=options.batch,
                steps=options.steps,
                repeats=options.repeats,
                observe=observe,
            )


if __name__ == "__main__":
    main()
