"""Shallow traps in chess: how often searches walk into them, by level and by simulations.

    python scripts/bench_traps.py                                   # all methods, 100 to 10,000 simulations
    python scripts/bench_traps.py --simulations 100 1000 --seeds 1  # a look

A level-k trap is a move after which the opponent mates by force in k plies. Each position has such moves and
at least three that are safe. UCT judges leaves by the material after six random plies, PUCT by the material
there and then; both also with the solver. Alpha-beta searches as many nodes, each counted when it is entered,
and judges by material as well. All positions and seeds are searched in one batch.

Prints, for each level, the share of searches that avoid the traps, the visits of trap moves against an even
share, and how many traps the solver has proven; draws `docs/img/traps.png`.

Reference: Ramanujan, Sabharwal and Selman (2010), On adversarial search spaces and sampling-based planning.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import chess as rules  # python-chess, in the extra "test"
import jax
import jax.numpy as jnp
import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

import games_jax
import jaxsearch
from games_jax.views import ByRank

ROOT = pathlib.Path(__file__).resolve().parents[1]
POSITIONS = ROOT / "tests" / "data" / "chess_traps.json"
PICTURE = ROOT / "docs" / "img" / "traps.png"

LEVELS = (1, 3, 5, 7)
SIMULATIONS = (100, 300, 1000, 3000, 10000)
WIDTH = 64  # legal moves that a node has room for
UCT_C, UCT_PLIES = 0.2, 6  # 0.4 for utilities in [-1, 1], the paper's best
VALUES = {rules.PAWN: 1, rules.KNIGHT: 3, rules.BISHOP: 3, rules.ROOK: 5, rules.QUEEN: 9}


@dataclasses.dataclass(frozen=True)
class Suite:
    """P positions.

    Attributes:
        fens: P texts.
        levels: int `[P]`.
        states: their states, `[P, ...]`.
        legal: bool `[P, A]`, A being `WIDTH`.
        traps: bool `[P, A]`, the moves that lose by force, by rank.
        trap_names: the same in SAN, for each position.
    """

    fens: list[str]
    levels: np.ndarray
    states: Any
    legal: np.ndarray
    traps: np.ndarray
    trap_names: list[set[str]]


@dataclasses.dataclass
class Result:
    """What a method did: float `[simulations, P]` each, means over seeds; NaN where it has no such thing."""

    caught: np.ndarray
    visits: np.ndarray
    proven: np.ndarray


def load_suite(view: ByRank) -> Suite:
    """The positions with their traps as ranks among the legal moves."""
    chess: Any = view.game
    entries = json.loads(POSITIONS.read_text())
    states = [chess.from_string(entry["fen"]) for entry in entries]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    legal = np.asarray(jax.jit(jax.vmap(view.legal_actions))(stacked))
    ranks = jnp.arange(WIDTH, dtype=jnp.int32)
    actions_of = jax.vmap(lambda state: jax.vmap(lambda rank: view.action_of(state, rank))(ranks))
    actions = np.asarray(jax.jit(actions_of)(stacked))
    names = [set(entry["traps"]) for entry in entries]
    traps = np.zeros_like(legal)
    for row, (state, losing) in enumerate(zip(states, names, strict=True)):
        wanted = [chess.move_from_string(state, name) for name in losing]
        traps[row] = np.isin(actions[row], wanted) & legal[row]
        assert traps[row].sum() == len(losing), f"a trap of {entries[row]['fen']} is no legal move"
    levels = np.array([entry["level"] for entry in entries])
    return Suite([entry["fen"] for entry in entries], levels, stacked, legal, traps, names)


# Searches


def searches(view: ByRank, most: int) -> dict[str, jaxsearch.Search]:
    """The searches by name, each of up to `most` simulations."""
    chess: Any = view.game

    def material(state: Any) -> jax.Array:
        return jnp.tanh(chess.material(state) / 5)

    random = jaxsearch.cut_playouts(view, plies=UCT_PLIES, heuristic=material)
    static = jaxsearch.cut_playouts(view, plies=0, heuristic=material)
    common: dict[str, Any] = {"simulations": most, "keep_tree": True}
    return {
        "UCT": jaxsearch.uct(view, c=UCT_C, evaluator=random, **common),
        "UCT + solver": jaxsearch.uct(view, c=UCT_C, evaluator=random, solver=True, **common),
        "PUCT": jaxsearch.puct(view, static, **common),
        "PUCT + solver": jaxsearch.puct(view, static, solver=True, **common),
    }


def measure(search: Callable[..., Any], suite: Suite, budgets: Sequence[int], seeds: int) -> Result:
    """Searches every position for every seed at once, once for each budget."""

    @jax.jit
    def run(key: jax.Array, states: Any, budget: jax.Array) -> tuple[jax.Array, ...]:
        out = search(key, states, budgets=jnp.full((len(suite.fens) * seeds,), budget))
        has_proofs = out.tree.proofs is not None
        lost = jaxsearch.root_proof(out.tree).lost if has_proofs else jnp.zeros(out.visits.shape, bool)
        return out.action, out.visits, lost

    states = jax.tree.map(lambda leaf: jnp.concatenate([leaf] * seeds), suite.states)
    traps, legal = (np.tile(part, (seeds, 1)) for part in (suite.traps, suite.legal))
    rows = np.arange(len(traps))
    results = []
    for number, budget in enumerate(budgets):
        out = run(jax.random.key(number), states, jnp.int32(budget))
        action, visits, lost = (np.asarray(part) for part in out)
        share = (visits * traps).sum(-1) / traps.sum(-1) * legal.sum(-1) / np.maximum(visits.sum(-1), 1)
        proven = (lost & traps).sum(-1) / traps.sum(-1)
        parts = (~traps[rows, action], share, proven)
        results.append([part.reshape(seeds, -1).mean(0) for part in parts])
    return Result(*(np.stack([row[part] for row in results]) for part in range(3)))


# Alpha-beta


class _OutOfNodes(Exception):
    pass


class AlphaBeta:
    """Full-width search by iterative deepening, stopped after a number of nodes.

    Args:
        nodes: positions entered, the root's successors included.
        rng: orders the root's moves, and so decides between equal ones.
    """

    def __init__(self, nodes: int, rng: np.random.Generator):
        self.left = nodes
        self.rng = rng

    def choose(self, board: rules.Board) -> rules.Move:
        """The best move of the deepest search finished; the first, if not even one ply could be."""
        moves = list(board.legal_moves)
        moves = [moves[i] for i in self.rng.permutation(len(moves))]
        depth = 1
        try:
            while depth < 64:
                best, scored = -math.inf, []
                for move in moves:
                    score = -self._after(board, move, depth - 1, -math.inf, -best)
                    scored.append(score)
                    best = max(best, score)
                # The best first: a later one counts as no better than it.
                first = scored.index(best)
                moves = [moves[first], *moves[:first], *moves[first + 1 :]]
                depth += 1
        except _OutOfNodes:
            pass
        return moves[0]

    def _after(self, board: rules.Board, move: rules.Move, depth: int, low: float, high: float) -> float:
        if self.left == 0:
            raise _OutOfNodes
        self.left -= 1
        board.push(move)
        try:
            return self._value(board, depth, low, high)
        finally:
            board.pop()

    def _value(self, board: rules.Board, depth: int, low: float, high: float) -> float:
        """The value for the mover, exact between `low` and `high`; an earlier mate counts more."""
        moves = list(board.legal_moves)
        if not moves:
            return -1000.0 - depth if board.is_check() else 0.0
        if depth == 0:
            return material_of(board)
        best = -math.inf
        for move in sorted(moves, key=board.is_capture, reverse=True):
            best = max(best, -self._after(board, move, depth - 1, -high, -low))
            low = max(low, best)
            if low >= high:
                break
        return best


def material_of(board: rules.Board) -> float:
    """Pawns 1, knights and bishops 3, rooks 5, queens 9; the mover's less the other's."""
    total = 0
    for kind, value in VALUES.items():
        total += value * (len(board.pieces(kind, board.turn)) - len(board.pieces(kind, not board.turn)))
    return float(total)


def measure_alpha_beta(suite: Suite, budgets: Sequence[int], orders: int) -> Result:
    """The same for alpha-beta, which has no visits and proves nothing, over orders of the root's moves."""
    caught = np.zeros((len(budgets), len(suite.fens)))
    for row, (fen, losing) in enumerate(zip(suite.fens, suite.trap_names, strict=True)):
        for number, budget in enumerate(budgets):
            for order in range(orders):
                board = rules.Board(fen)
                move = AlphaBeta(budget, np.random.default_rng(order)).choose(board)
                caught[number, row] += (board.san(move).rstrip("+#") not in losing) / orders
    nothing = np.full_like(caught, math.nan)
    return Result(caught, nothing, nothing)


# Results


def report(results: dict[str, Result], suite: Suite, budgets: Sequence[int]) -> None:
    """Prints a Markdown table for each kind of figure."""
    titles = {
        "caught": "share of searches that play no trap",
        "visits": "visits of a trap move, relative to an even share",
        "proven": "share of trap moves proven lost",
    }
    levels = [f"{level} ({np.sum(suite.levels == level)})" for level in LEVELS]
    for part, title in titles.items():
        print(f"\n{title}\n")
        print("| method | simulations | " + " | ".join(f"level {name}" for name in levels) + " |")
        print("|---" * (2 + len(LEVELS)) + "|")
        for name, result in results.items():
            numbers = getattr(result, part)
            if np.isnan(numbers).all() or (part == "proven" and not numbers.any()):
                continue
            for row, budget in zip(numbers, budgets, strict=True):
                means = " | ".join(f"{row[suite.levels == level].mean():.2f}" for level in LEVELS)
                print(f"| {name} | {budget:,} | {means} |")
    safe = 1 - suite.traps.sum(-1) / suite.legal.sum(-1)
    print("\na random legal move is no trap in ", end="")
    print(", ".join(f"{safe[suite.levels == level].mean():.2f}" for level in LEVELS))


def draw(results: dict[str, Result], suite: Suite, budgets: Sequence[int]) -> None:
    """Caught traps, and visits of traps, against simulations, a panel for each level."""
    figure, axes = plt.subplots(2, len(LEVELS), figsize=(14, 6.6), sharex=True, constrained_layout=True)
    safe = 1 - suite.traps.sum(-1) / suite.legal.sum(-1)
    styles = dict(zip(results, ("C0-o", "C0--s", "C1-o", "C1--s", "C3-^"), strict=False))
    for column, level in enumerate(LEVELS):
        here = suite.levels == level
        top, bottom = axes[:, column]
        for name, result in results.items():
            top.plot(budgets, result.caught[:, here].mean(-1), styles[name], label=name, ms=4)
            if not np.isnan(result.visits).all():
                bottom.plot(budgets, result.visits[:, here].mean(-1), styles[name], ms=4)
        top.axhline(safe[here].mean(), color="#94a3b8", ls=":", label="random move")
        bottom.axhline(1, color="#94a3b8", ls=":")
        top.set(title=f"level {level}, {here.sum()} positions", ylim=(0.4, 1.03))
        bottom.set(xscale="log", xlabel="simulations, or nodes", ylim=(0, None))
        top.grid(alpha=0.3)
        bottom.grid(alpha=0.3)
    axes[0, 0].set_ylabel("share that plays no trap")
    axes[1, 0].set_ylabel("visits of a trap / even share")
    axes[0, 0].legend(fontsize=8, loc="lower right")
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=110)


def timed(name: str, function: Callable[..., Result], *arguments: Any) -> Result:
    """The result; says how long it took."""
    start = time.perf_counter()
    result = function(*arguments)
    print(f"{name}: {time.perf_counter() - start:.0f} s with compilation", flush=True)
    return result


def main() -> None:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--simulations", type=int, nargs="+", default=SIMULATIONS, metavar="N")
    parser.add_argument("--seeds", type=int, default=3, help="of each search (default 3)")
    parser.add_argument("--orders", type=int, default=1, help="of alpha-beta's root moves (default 1)")
    arguments = parser.parse_args()
    budgets = sorted(arguments.simulations)
    view = ByRank(games_jax.make("chess", repetition=0), width=WIDTH)
    suite = load_suite(view)
    results = {}
    for name, search in searches(view, budgets[-1]).items():
        results[name] = timed(name, measure, search, suite, budgets, arguments.seeds)
    results["alpha-beta"] = timed("alpha-beta", measure_alpha_beta, suite, budgets, arguments.orders)
    report(results, suite, budgets)
    draw(results, suite, budgets)


if __name__ == "__main__":
    main()
