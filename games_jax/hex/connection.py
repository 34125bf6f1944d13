"""Who is connected to what: flood fill on the rows of a Hex board.

A cell touches its two neighbours in the row, the cells above it and above to the right, and the cells below
it and below to the left. Each row is a uint32 word of its own, bit `c` for column `c`, so that one sweep down
the board and one up again carry a connection along any path that does not turn back more than once.
"""

from __future__ import annotations

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board

_WORD = 32

Rows = tuple[jax.Array, ...]
"""One uint32 word a row, top row first, each of shape `[]`."""


def words(size: int) -> int:
    """Words of a board whose bit `size * row + column` is a cell."""
    return -(-size * size // _WORD)


def to_rows(board: Board, size: int) -> Rows:
    """The rows of a packed board."""
    rows = []
    for row in range(size):
        word, offset = divmod(row * size, _WORD)
        cells = board[word] >> offset
        if offset + size > _WORD:
            cells = cells | (board[word + 1] << (_WORD - offset))
        rows.append(cells & np.uint32((1 << size) - 1))
    return tuple(rows)


def from_rows(rows: Rows, size: int) -> Board:
    """The inverse of `to_rows`."""
    board = [jnp.zeros((), jnp.uint32)] * words(size)
    for row, cells in enumerate(rows):
        word, offset = divmod(row * size, _WORD)
        board[word] = board[word] | (cells << offset)
        if offset + size > _WORD:
            board[word + 1] = board[word + 1] | (cells >> (_WORD - offset))
    return tuple(board)


def top(rows: Rows) -> Rows:
    """The cells of the first row alone."""
    return rows[:1] + (jnp.zeros((), jnp.uint32),) * (len(rows) - 1)


def left(rows: Rows) -> Rows:
    """The cells of the first column alone."""
    return tuple(row & np.uint32(1) for row in rows)


def bottom(rows: Rows) -> Rows:
    """The cells of the last row alone."""
    return (jnp.zeros((), jnp.uint32),) * (len(rows) - 1) + rows[-1:]


def right(rows: Rows) -> Rows:
    """The cells of the last column alone."""
    return tuple(row & np.uint32(1 << (len(rows) - 1)) for row in rows)


def connected_to(stones: Rows, seeds: Rows) -> Rows:
    """The stones that a chain of stones joins to `seeds`, which are stones themselves."""
    return _flood(stones, seeds, target=None)


def is_joined(stones: Rows, sideways: jax.Array) -> jax.Array:
    """Bool `[]`: whether a chain of stones joins top and bottom or, where `sideways`, left and right."""
    seeds = _select(sideways, left(stones), top(stones))
    target = _select(sideways, right(stones), bottom(stones))
    return _meet(_flood(stones, seeds, target), target)


def _select(condition: jax.Array, a: Rows, b: Rows) -> Rows:
    return tuple(jnp.where(condition, x, y) for x, y in zip(a, b, strict=True))


def _meet(a: Rows, b: Rows) -> jax.Array:
    return _union(tuple(x & y for x, y in zip(a, b, strict=True))) != 0


def _union(rows: Rows) -> jax.Array:
    return functools.reduce(operator.or_, rows)


def _flood(stones: Rows, seeds: Rows, target: Rows | None) -> Rows:
    """Sweeps until nothing new is reached or `target` is."""

    def go_on(carry: tuple[Rows, jax.Array]) -> jax.Array:
        return carry[1]

    def sweep(carry: tuple[Rows, jax.Array]) -> tuple[Rows, jax.Array]:
        before = carry[0]
        after = _sweep_up(stones, _sweep_down(stones, before))
        grown = _union(tuple(a ^ b for a, b in zip(after, before, strict=True)))
        after, (grown,) = bits.compute_once(after, (grown,))
        more = grown != 0
        return after, more if target is None else more & ~_meet(after, target)

    return jax.lax.while_loop(go_on, sweep, (seeds, _union(seeds) != 0))[0]


def _sweep_down(stones: Rows, reached: Rows) -> Rows:
    rows = [_fill(stones[0], reached[0], len(stones))]
    for row in range(1, len(stones)):
        above = rows[-1] | (rows[-1] >> 1)
        rows.append(_fill(stones[row], reached[row] | (above & stones[row]), len(stones)))
    return tuple(rows)


def _sweep_up(stones: Rows, reached: Rows) -> Rows:
    rows = [reached[-1]]  # the sweep down has just filled the last row
    for row in reversed(range(len(stones) - 1)):
        below = rows[-1] | (rows[-1] << 1)
        rows.append(_fill(stones[row], reached[row] | (below & stones[row]), len(stones)))
    return tuple(reversed(rows))


def _fill(stones: jax.Array, reached: jax.Array, size: int) -> jax.Array:
    """The whole of each run of stones in one row that holds a reached one."""
    # In the sum a carry runs from a reached stone to the right end of its run and clears what it passes.
    reached = reached | (stones & ~(stones + reached))
    # No carry runs the other way: steps of 1, 2, 4 ... cells, where so many stones lie side by side.
    run, step = stones, 1
    while step < size:
        reached = reached | (run & (reached >> step))
        run = run & (run >> step)
        step *= 2
    return reached
