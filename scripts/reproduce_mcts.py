"""Plain MCTS on a life-and-death position and on a chess trap: the published figures, over many seeds.

    python scripts/reproduce_mcts.py                # both, 100 seeds each; about two minutes on two cores
    python scripts/reproduce_mcts.py go --seeds 10

Go, 7x7: Black to move saves the corner at B1, and UCT with random playouts should give that point most of its
visits. Chess: Qxd7 wins a knight and is mated by Re1. Flat Monte Carlo ranks it first, since one reply of 20
mates and the rest lose; UCT finds the reply and turns away.

Prints mean and range over the seeds, and draws `docs/img/mcts_go.png` and `docs/img/mcts_chess.png`.
Source: "MCTS and AlphaZero - Four Steps in the Dark", part 1 (2026).
"""

from __future__ import annotations

import argparse
import pathlib
import time
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Circle

import games_jax
import jaxsearch
from games_jax.game import Game
from games_jax.views import ByRank, Restricted
from jaxsearch.inspect import visit_history

GO_POSITION = "......./......./XXXXXXX/OOOOOOO/OOOOO../XXXXO../...XO.. X"
GO_SIMULATIONS, GO_C = 5000, 1.0
CHESS_POSITION = "4r1k1/3n1ppp/8/8/8/8/5PPP/3Q2K1 w - - 0 1"
CHESS_SIMULATIONS, CHESS_C, CHESS_PLIES, GAMES_PER_MOVE = 5000, 0.7, 6, 400

PICTURES = pathlib.Path(__file__).resolve().parents[1] / "docs" / "img"


def batch_of(state: Any, seeds: int) -> Any:
    """The same state in every row."""
    return jax.tree.map(lambda leaf: jnp.tile(leaf[None], (seeds, *[1] * leaf.ndim)), state)


def timed(search: Any, key: jax.Array, states: Any) -> tuple[Any, float, float]:
    """The output, the seconds of a run, and those of compilation."""
    start = time.perf_counter()
    program = jax.jit(search).lower(key, states).compile()
    compiled = time.perf_counter()
    out = jax.block_until_ready(program(key, states))
    return out, time.perf_counter() - compiled, compiled - start


def spread(numbers: np.ndarray, digits: int = 0) -> str:
    """Mean and range."""
    return f"{numbers.mean():.{digits}f} ({numbers.min():.{digits}f} to {numbers.max():.{digits}f})"


def histories(tree: Any, action: int, seeds: int) -> np.ndarray:
    """The action's share of visits after each simulation, `[seeds, S]`."""
    counts = np.stack([visit_history(tree, row)[1:, action] for row in range(seeds)])
    return counts / np.arange(1, counts.shape[1] + 1)


# Go


def reproduce_go(seeds: int) -> None:
    """Visits and win rate of B1; the board and the share of visits as a picture."""
    go: Any = games_jax.make("go", size=7, komi=0.5)
    state = go.from_string(GO_POSITION)
    # Neither in the tree nor in playouts does a player fill an eye of his own.
    view = Restricted(go, allowed=go.playout_actions)
    search = jaxsearch.uct(
        view, simulations=GO_SIMULATIONS, c=GO_C, evaluator=jaxsearch.playouts(go), keep_tree=True
    )
    out, seconds, compile_seconds = timed(search, jax.random.key(0), batch_of(state, seeds))
    visits = np.asarray(out.visits)
    rates = (np.asarray(out.qvalues) + 1) / 2
    vital = go.action_from_string("B1")
    others = np.delete(np.where(visits > 0, visits, 0), vital, axis=1)
    print(f"Go 7x7, UCT, c = {GO_C}, {GO_SIMULATIONS:,} simulations, {seeds} seeds in one batch")
    print(f"  B1 most visited: {np.mean(visits.argmax(-1) == vital):.0%} of seeds")
    print(f"  B1 visits {spread(visits[:, vital])}, share {visits[:, vital].mean() / GO_SIMULATIONS:.1%}")
    print(f"  B1 win rate {spread(rates[:, vital], 3)}")
    print(f"  next move's visits {spread(others.max(-1))}")
    print(f"  {seconds:.1f} s for all seeds ({compile_seconds:.1f} s to compile): ", end="")
    print(f"{seeds * GO_SIMULATIONS / seconds:,.0f} simulations/s")
    share = histories(out.tree, vital, min(seeds, 20))
    draw_go(go, state, visits.mean(0) / GO_SIMULATIONS, share)


def draw_go(go: Game, state: Any, shares: np.ndarray, history: np.ndarray) -> None:
    """The mean share of visits on each point, beside B1's share against simulations."""
    figure, (board, curve) = plt.subplots(1, 2, figsize=(10, 4.4), constrained_layout=True)
    size = 7
    first = np.asarray(go.observe(state, jnp.int32(0)))
    board.set_facecolor("#e3c58d")
    for i in range(size):
        board.plot([0, size - 1], [i, i], color="#7a6236", lw=0.8, zorder=1)
        board.plot([i, i], [0, size - 1], color="#7a6236", lw=0.8, zorder=1)
    for row in range(size):
        for column in range(size):
            y = size - 1 - row
            if first[row, column, 0] or first[row, column, 1]:
                colour = "#1f2937" if first[row, column, 0] else "#f9fafb"
                board.add_patch(Circle((column, y), 0.43, facecolor=colour, edgecolor="#111827", zorder=2))
            share = shares[row * size + column]
            if share > 0:
                board.add_patch(
                    Circle((column, y), 0.3, color="#2563eb", alpha=min(1, 0.15 + share), zorder=3)
                )
                board.text(column, y, f"{share:.1%}", ha="center", va="center", fontsize=7, zorder=4)
    board.set(xlim=(-0.6, size - 0.4), ylim=(-0.6, size - 0.4), aspect="equal")
    board.set_xticks(range(size), "ABCDEFG")
    board.set_yticks(range(size), range(1, size + 1))
    board.set_title("Black to move: share of visits")
    plot_shares(curve, history, "B1")
    figure.savefig(PICTURES / "mcts_go.png", dpi=130)


def plot_shares(axes: Any, history: np.ndarray, name: str) -> None:
    """Median and range of a share against simulations."""
    simulations = np.arange(1, history.shape[1] + 1)
    axes.fill_between(simulations, history.min(0), history.max(0), alpha=0.25, label=f"{name}, range")
    axes.plot(simulations, np.median(history, axis=0), label=f"{name}, median")
    axes.set(xscale="log", xlabel="simulations", ylabel="share of visits", ylim=(0, 1))
    axes.set_title(f"{name} over {len(history)} seeds")
    axes.legend()
    axes.grid(alpha=0.3)


# Chess


def reproduce_chess(seeds: int) -> None:
    """Flat Monte Carlo and UCT on the trap; both rankings as a picture."""
    chess: Any = games_jax.make("chess", repetition=0)
    state = chess.from_string(CHESS_POSITION)
    view = ByRank(chess, width=64)
    moves = [chess.san(state, action) for action in legal_actions_by_rank(view, state)]
    trap = moves.index("Qxd7")
    evaluator = jaxsearch.cut_playouts(
        view, plies=CHESS_PLIES, heuristic=lambda s: jnp.tanh(chess.material(s) / 5)
    )
    states = batch_of(state, seeds)

    flat = jaxsearch.flat_monte_carlo(view, simulations=GAMES_PER_MOVE * len(moves), evaluator=evaluator)
    out, seconds, _ = timed(flat, jax.random.key(0), states)
    flat_rates = (np.asarray(out.qvalues)[:, : len(moves)] + 1) / 2
    best_other = np.delete(flat_rates, trap, axis=1).max(-1)
    print(f"Chess trap, flat Monte Carlo, {GAMES_PER_MOVE} games per move, {seeds} seeds in one batch")
    print(f"  Qxd7 ranked first: {np.mean(flat_rates.argmax(-1) == trap):.0%} of seeds")
    print(f"  Qxd7 {spread(flat_rates[:, trap], 3)}, best other {spread(best_other, 3)}   [{seconds:.1f} s]")

    uct = jaxsearch.uct(view, simulations=CHESS_SIMULATIONS, c=CHESS_C, evaluator=evaluator, keep_tree=True)
    out, seconds, compile_seconds = timed(uct, jax.random.key(1), states)
    visits = np.asarray(out.visits)[:, : len(moves)]
    rates = (np.asarray(out.qvalues)[:, : len(moves)] + 1) / 2
    rank = 1 + (visits > visits[:, [trap]]).sum(-1)
    print(f"Chess trap, UCT, c = {CHESS_C}, {CHESS_SIMULATIONS:,} simulations, {seeds} seeds in one batch")
    print(f"  Qxd7 visits {spread(visits[:, trap])}, rank {spread(rank)}, value {spread(rates[:, trap], 3)}")
    names = sorted({moves[move] for move in visits.argmax(-1)})
    print(f"  most visited: {', '.join(names)}")
    print(f"  Re1# below Qxd7: visits {spread(reply_visits(view, state, out.tree, trap, 'Re1#'))}")
    print(f"  {seconds:.1f} s for all seeds ({compile_seconds:.1f} s to compile): ", end="")
    print(f"{seeds * CHESS_SIMULATIONS / seconds:,.0f} simulations/s")
    history = histories(out.tree, trap, min(seeds, 20))
    draw_chess(moves, flat_rates.mean(0), visits.mean(0) / CHESS_SIMULATIONS, history)


def legal_actions_by_rank(view: ByRank, state: Any) -> list[int]:
    """The game's action of each rank."""
    count = int(view.legal_actions(state).sum())
    return [int(view.action_of(state, jnp.int32(rank))) for rank in range(count)]


def reply_visits(view: ByRank, state: Any, tree: Any, move: int, reply: str) -> np.ndarray:
    """Visits of a reply to the root's action `move`, for each tree."""
    chess: Any = view.game
    after = view.step(state, jnp.int32(move))
    names = [chess.san(after, action) for action in legal_actions_by_rank(view, after)]
    child = np.asarray(tree.children_index)[:, 0, move]
    return np.asarray(tree.children_visits)[np.arange(len(child)), child, names.index(reply)]


def draw_chess(moves: list[str], flat: np.ndarray, shares: np.ndarray, history: np.ndarray) -> None:
    """Both methods' judgements of each move, and the trap's share against simulations."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 5), constrained_layout=True)
    bars = (("flat Monte Carlo: mean result", flat), ("UCT: share of visits", shares))
    for panel, (title, numbers) in zip(axes, bars, strict=False):
        order = np.argsort(numbers)
        colours = ["#dc2626" if moves[i] == "Qxd7" else "#64748b" for i in order]
        panel.barh([moves[i] for i in order], numbers[order], color=colours)
        panel.set_title(title)
        panel.tick_params(axis="y", labelsize=7)
        panel.grid(axis="x", alpha=0.3)
    axes[0].set_xlim(0.4, None)
    plot_shares(axes[2], history, "Qxd7")
    axes[2].set_ylim(0, 0.2)
    figure.savefig(PICTURES / "mcts_chess.png", dpi=130)


def main() -> None:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", nargs="?", choices=["go", "chess", "both"], default="both")
    parser.add_argument("--seeds", type=int, default=100)
    arguments = parser.parse_args()
    PICTURES.mkdir(parents=True, exist_ok=True)
    if arguments.what in ("go", "both"):
        reproduce_go(arguments.seeds)
    if arguments.what in ("chess", "both"):
        reproduce_chess(arguments.seeds)


if __name__ == "__main__":
    main()
