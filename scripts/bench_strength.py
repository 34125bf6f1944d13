"""What our searches choose, beside mctx's, and what the solver and tree reuse are worth in equal time.

    jaxsearch train configs/connect_four.toml --set run.minutes=2 --dir runs/short
    python scripts/bench_strength.py runs/short

On 1,000 solved positions of Connect Four: the share of moves that keep the perfect result, with its standard
error, over all positions and over the decisive ones, where some legal move does not. The same network judges
for all. Then games from these positions between a player that keeps its tree from move to move and one that
spends the same time on new trees. Times are of the processor, the least of three runs.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import mctx
import numpy as np

import games_jax
import jaxsearch
from games_jax.game import Game
from train.networks import evaluator
from train.player_specs import load_network
from train.solved import SolvedPositions, load_solved

DATA = Path(__file__).resolve().parent.parent / "tests" / "data" / "connect_four_solved.json.gz"

Policy = Callable[..., Any]


def processor_seconds(program: Callable[[], Any], repeats: int = 3) -> tuple[Any, float]:
    """The result of a compiled and warm program, and its processor time."""
    result, least = jax.block_until_ready(program()), np.inf
    for _ in range(repeats):
        start = time.process_time()
        jax.block_until_ready(program())
        least = min(least, time.process_time() - start)
    return result, least


def share(right: np.ndarray) -> str:
    """A share with its standard error, in per cent."""
    mean = right.mean()
    return f"{100 * mean:.1f} ± {100 * np.sqrt(mean * (1 - mean) / len(right)):.1f}"


def kept(actions: Any, positions: SolvedPositions) -> np.ndarray:
    """Bool `[N]`: whether the moves keep the perfect result."""
    return positions.keeps[np.arange(len(positions.keeps)), np.asarray(actions)]


# Against mctx, in equal simulations


def against_mctx(
    game: Game, judge: Any, params: Any, positions: SolvedPositions, budgets: Sequence[int]
) -> None:
    """Prints both libraries' accuracy, and where they differ."""
    recurrent_fn = jaxsearch.make_recurrent_fn(game, judge)
    root_fn = jaxsearch.make_root_fn(game, judge)
    states = positions.states
    quiet: dict[str, Any] = {"dirichlet_fraction": 0.0, "temperature": 0.0}
    policies: dict[str, tuple[Policy, Policy]] = {
        "PUCT": (
            functools.partial(jaxsearch.muzero_policy, **quiet),
            functools.partial(mctx.muzero_policy, **quiet),
        ),
        "Gumbel": (
            functools.partial(jaxsearch.gumbel_muzero_policy, gumbel_scale=0.0),
            functools.partial(mctx.gumbel_muzero_policy, gumbel_scale=0.0),
        ),
    }
    print("| policy | simulations | ours | mctx | ours, decisive | mctx, decisive | same move |")
    print("|---" * 7 + "|")
    for name, sides in policies.items():
        for budget in budgets:

            @functools.partial(jax.jit, static_argnames=("policy", "budget"))
            def choose(key: jax.Array, params: Any, states: Any, *, policy: Policy, budget: int) -> jax.Array:
                root = root_fn(params, key, states)
                invalid = ~jax.vmap(game.legal_actions)(states)
                return policy(params, key, root, recurrent_fn, budget, invalid).action

            moves = [choose(jax.random.key(0), params, states, policy=side, budget=budget) for side in sides]
            right = [kept(move, positions) for move in moves]
            cells = [share(r) for r in right] + [share(r[positions.decisive]) for r in right]
            same = np.mean(np.asarray(moves[0]) == np.asarray(moves[1]))
            print(f"| {name} | {budget} | {' | '.join(cells)} | {same:.1%} |", flush=True)


# The solver, in equal time


def solver_in_equal_time(
    makers: dict[str, Callable[..., Callable[..., Any]]],
    params: Any,
    positions: SolvedPositions,
    budgets: Sequence[int],
) -> None:
    """Prints accuracy with the solver, and without it at as many simulations as take the same time."""
    print("| search | simulations | seconds | all | decisive |")
    print("|---" * 5 + "|")

    def run(make: Callable[..., Callable[..., Any]], budget: int, solver: bool) -> tuple[np.ndarray, float]:
        search = make(simulations=budget, solver=solver)
        program = jax.jit(lambda key, states, params: search(key, states, params).action)
        moves, seconds = processor_seconds(
            functools.partial(program, jax.random.key(1), positions.states, params)
        )
        return kept(moves, positions), seconds

    for name, make in makers.items():
        for budget in budgets:
            proven, seconds = run(make, budget, True)
            plain, plain_seconds = run(make, budget, False)
            equal = max(1, round(budget * seconds / plain_seconds))
            longer, longer_seconds = run(make, equal, False)
            for label, count, right, taken in (
                (f"{name} + solver", budget, proven, seconds),
                (f"{name}, as many simulations", budget, plain, plain_seconds),
                (f"{name}, the same time", equal, longer, longer_seconds),
            ):
                cells = f"{share(right)} | {share(right[positions.decisive])}"
                print(f"| {label} | {count} | {taken:.2f} | {cells} |", flush=True)


# Tree reuse, in equal time


class Reuse:
    """Goes on with the tree of its last move; room for twice the simulations of a move."""

    def __init__(self, search: Callable[..., Any], simulations: int):
        capacity = 2 * simulations

        def first(key: jax.Array, states: Any, params: Any) -> tuple[jax.Array, Any]:
            out = search(key, states, params)
            return out.action, out.tree

        def later(
            key: jax.Array, states: Any, params: Any, tree: Any, played: Sequence[jax.Array]
        ) -> tuple[jax.Array, Any]:
            for action in played:
                tree = jaxsearch.reroot(tree, action, capacity=capacity)
            out = search(key, states, params, tree=tree)
            return out.action, out.tree

        self.first, self.later = jax.jit(first), jax.jit(later)
        self.tree: Any = None

    def choose(self, key: jax.Array, states: Any, params: Any, played: Sequence[jax.Array]) -> jax.Array:
        """The moves; `played` has those since this player's last search, its own first."""
        if self.tree is None or len(played) < 2:
            action, self.tree = self.first(key, states, params)
        else:
            action, self.tree = self.later(key, states, params, self.tree, tuple(played[-2:]))
        return action


class Afresh:
    """A new tree for each move."""

    def __init__(self, search: Callable[..., Any]):
        self.search = jax.jit(lambda key, states, params: search(key, states, params).action)

    def choose(self, key: jax.Array, states: Any, params: Any, played: Sequence[jax.Array]) -> jax.Array:
        """The moves."""
        del played
        return self.search(key, states, params)


def points(game: Game, players: Sequence[Any], states: Any, params: Any, key: jax.Array) -> np.ndarray:
    """Plays from states `[B]`, the first player to move; its points, 1, 1/2 or 0, `[B]`."""
    step, over, rewards = (jax.jit(jax.vmap(f)) for f in (game.step, game.is_over, game.rewards))
    mover = np.asarray(jax.vmap(game.current_player)(states))
    played: list[jax.Array] = []
    while not np.asarray(over(states)).all():
        ply = len(played)
        action = players[ply % 2].choose(jax.random.fold_in(key, ply), states, params, played)
        states, played = step(states, action), [*played, action]
    return 0.5 * (1 + np.asarray(rewards(states))[np.arange(len(mover)), mover])


def reuse_in_equal_time(
    game: Game,
    makers: dict[str, Callable[..., Callable[..., Any]]],
    params: Any,
    positions: SolvedPositions,
    budgets: Sequence[int],
) -> None:
    """Prints points of the player that keeps its tree, moving first and second from each position."""
    print("| search | simulations, tree kept | simulations, new trees | games | points of tree kept, % |")
    print("|---" * 5 + "|")
    # One mover, so that both players' turns agree over the batch.
    rows = np.flatnonzero((positions.ply % 2 == 0) & (positions.ply <= 20))
    states = jax.tree.map(lambda leaf: leaf[rows], positions.states)
    for name, make in makers.items():
        for budget in budgets:
            keeper = Reuse(make(simulations=budget, keep_tree=True), budget)
            fresh = jax.jit(make(simulations=budget))
            key = jax.random.key(2)
            _, plain_seconds = processor_seconds(functools.partial(fresh, key, states, params))
            move, tree = keeper.first(key, states, params)
            # Any two moves will do for the time: what is kept does not change the work of keeping it.
            again = functools.partial(keeper.later, key, states, params, tree, (move, move))
            _, seconds = processor_seconds(again)
            equal = max(1, round(budget * seconds / plain_seconds))
            other = Afresh(make(simulations=equal))
            scores = []
            for number, order in enumerate(((keeper, other), (other, keeper))):
                keeper.tree = None
                won = points(game, order, states, params, jax.random.key(3 + number))
                scores.append(won if number == 0 else 1 - won)
            both = np.concatenate(scores)
            error = both.std() / np.sqrt(len(both))
            cell = f"{100 * both.mean():.1f} ± {100 * error:.1f}"
            print(f"| {name} | {budget} | {equal} | {len(both)} | {cell} |", flush=True)


def main() -> None:
    """Prints the tables of docs/strength.md."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkpoint", help="a run directory or a checkpoint")
    parser.add_argument("--data", default=DATA, help="connect_four_solved.json.gz")
    parser.add_argument("--positions", type=int, default=1000, help="how many of them")
    parser.add_argument(
        "--simulations", type=int, nargs="+", default=[64, 400, 1600], metavar="S", help="of solver and reuse"
    )
    parser.add_argument(
        "--mctx-simulations",
        type=int,
        nargs="*",
        default=[16, 64],
        metavar="S",
        help="beside mctx, which is slow",
    )
    arguments = parser.parse_args()
    game = games_jax.make("connect_four")
    network, params, _ = load_network(arguments.checkpoint, game)
    judge = evaluator(network, game)
    positions = load_solved(arguments.data)
    chosen = np.random.default_rng(0).permutation(len(positions.ply))[: arguments.positions]
    states = jax.tree.map(lambda leaf: jnp.asarray(leaf)[chosen], positions.states)
    positions = SolvedPositions(states, *(part[chosen] for part in positions[1:]))
    makers: dict[str, Callable[..., Callable[..., Any]]] = {
        "PUCT": functools.partial(jaxsearch.puct, game, judge),
        "UCT": functools.partial(jaxsearch.uct, game),
    }
    against_mctx(game, judge, params, positions, arguments.mctx_simulations)
    print()
    solver_in_equal_time(makers, params, positions, arguments.simulations)
    print()
    reuse_in_equal_time(game, makers, params, positions, arguments.simulations)


if __name__ == "__main__":
    main()
