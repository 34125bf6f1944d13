"""Counting sequences of legal moves: the test of a move generator, a whole batch at a time."""

from __future__ import annotations

import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.chess import actions, rules

CHUNK = 4096


def perft(state: rules.State, depth: int) -> int:
    """The number of sequences of exactly `depth` legal moves; draws by rule are played on, as is usual.

    Positions are expanded on the device, `CHUNK` at a time. The last move of each sequence is counted and not
    made.

    Args:
        state: one state of any `Chess` game.
        depth: moves, at least 1.

    Raises:
        ValueError: a smaller depth.
    """
    if depth < 1:
        raise ValueError(f"depth is {depth}; give the number of moves to count, at least 1.")
    root = jax.tree.map(lambda leaf: np.asarray(leaf)[None], rules.position_of(state))
    (count,) = _in_chunks(_count, root)
    return _sequences(root, count, depth)


def _sequences(positions: rules.Position, counts: np.ndarray, depth: int) -> int:
    if depth == 1:
        return int(counts.sum())
    parents = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    numbers = (np.arange(len(parents)) - starts[parents]).astype(np.uint32)
    total = 0
    for at in range(0, len(parents), CHUNK):
        here = slice(at, at + CHUNK)
        chosen = jax.tree.map(operator.itemgetter(parents[here]), positions)
        children, child_counts = _in_chunks(_child, chosen, numbers[here])
        total += _sequences(children, child_counts, depth - 1)
    return total


@jax.jit
@jax.vmap
def _count(position: rules.Position) -> tuple[jax.Array]:
    return (_num_moves(position),)


@jax.jit
@jax.vmap
def _child(position: rules.Position, number: jax.Array) -> tuple[rules.Position, jax.Array]:
    """The position after legal move `number`, and how many legal moves it has."""
    action = actions.nth(position.moves().planes, number)
    child, _ = position.after(action)
    *pieces, (rights, passed) = bits.compute_once(*child.pieces, (child.rights, child.passed))
    child = rules.Position(child.pieces._make(pieces), rights, passed)
    return child, _num_moves(child)


def _num_moves(position: rules.Position) -> jax.Array:
    ((total,),) = bits.compute_once((actions.count(position.moves().planes),))
    return total.astype(jnp.int32)


def _in_chunks(function: Any, *trees: Any) -> Any:
    """One call of a batched function, padded to `CHUNK` so that it compiles once."""
    size = len(jax.tree.leaves(trees)[0])
    padded = jax.tree.map(lambda leaf: np.pad(leaf, (0, CHUNK - size)), trees)
    return jax.tree.map(lambda leaf: leaf[:size], jax.device_get(function(*padded)))
