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
    nothing = tuple(jnp.zeros_like(row) for row in stones)
    return _flood(stones, seeds, nothing)


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


@jax.custom_batching.custom_vmap
def _flood(stones: Rows, seeds: Rows, target: Rows) -> Rows:
    """Sweeps until nothing more can be reached or `target` is: on each of many boards, until all are done.

    The rows are of any one shape. A board that is done earlier is swept on, which changes nothing or reaches
    beyond its target. The `vmap` of a while loop would instead keep what it had, and that selection makes XLA
    on CPU copy the kernels of all the rows before into that of each row: twelve times the time.
    """

    def go_on(carry: tuple[Rows, jax.Array]) -> jax.Array:
        return carry[1]

    def sweep(carry: tuple[Rows, jax.Array]) -> tuple[Rows, jax.Array]:
        after = _sweep_up(stones, _sweep_down(stones, carry[0]))
        return after, jnp.any(_is_open_below(stones, after) & ~_meet(after, target))

    return jax.lax.while_loop(go_on, sweep, (seeds, jnp.any(_union(seeds) != 0)))[0]


@_flood.def_vmap
def _flood_many(axis_size: int, batched: tuple[Rows, ...], *boards: Rows) -> tuple[Rows, Rows]:
    def with_axis(row: jax.Array, has_axis: bool) -> jax.Array:
        return row if has_axis else jnp.broadcast_to(row, (axis_size, *row.shape))

    many = jax.tree.map(with_axis, boards, tuple(batched))
    return _flood(*many), tuple(True for _ in boards[0])  # type: ignore[return-value]


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


def _is_open_below(stones: Rows, reached: Rows) -> jax.Array:
    """Bool of the rows' shape: whether a reached cell touches an unreached stone of the row below.

    After a sweep up there is no other way on, so that the last sweep need not be one that finds nothing.
    """
    below = zip(reached, stones[1:], reached[1:], strict=False)
    return _union(tuple((above | (above >> 1)) & row & ~found for above, row, found in below)) != 0


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
