"""Tic-tac-toe solved by exhaustive search in plain Python; boards are bit sets of cells."""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np

from games_jax.tic_tac_toe import State

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
WINS = [sum(1 << cell for cell in line) for line in LINES]


@functools.cache
def solve(own: int, other: int) -> int:
    """The value for the mover."""
    if any(other & line == line for line in WINS):
        return -1
    moves = legal_moves(own, other)
    return max((-solve(other, own | 1 << move) for move in moves), default=0)


def legal_moves(own: int, other: int) -> list[int]:
    if any(other & line == line for line in WINS):
        return []
    return [move for move in range(9) if not (own | other) >> move & 1]


def best_moves(own: int, other: int) -> set[int]:
    value = solve(own, other)
    return {move for move in legal_moves(own, other) if -solve(other, own | 1 << move) == value}


@functools.cache
def reachable() -> list[tuple[int, int]]:
    """All 5,478 positions of the game."""
    seen, waiting = {(0, 0)}, [(0, 0)]
    while waiting:
        own, other = waiting.pop()
        for move in legal_moves(own, other):
            after = (other, own | 1 << move)
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return sorted(seen)


def states(positions) -> State:
    own, other = np.array(positions, np.uint32).T
    return State(jnp.asarray(own), jnp.asarray(other))


@functools.cache
def plies_to_end(own: int, other: int) -> int:
    """Plies until a decided game ends if the winner hurries and the loser delays; 0 for a draw."""
    moves = legal_moves(own, other)
    if not moves or solve(own, other) == 0:
        return 0
    lengths = [1 + plies_to_end(other, own | 1 << move) for move in best_moves(own, other)]
    return min(lengths) if solve(own, other) > 0 else max(lengths)
