"""Square boards as bitboards, and the four directions on them.

Cell `size * row + column` is bit `cell` of a board (`games_jax.bits`), row 0 at the top. A direction is 0 up,
1 down, 2 left, 3 right, so that action `d + 1` moves in direction `d`; the opposite of `d` is `d ^ 1`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board

UP, DOWN, LEFT, RIGHT = DIRECTIONS = range(4)
ROWS = (-1, 1, 0, 0)
COLUMNS = (0, 0, -1, 1)
_WORD = 32


def opposite(direction: int) -> int:
    """The direction back."""
    return direction ^ 1


def union(boards: Iterable[Board]) -> Board:
    """All bits that are set in any of the boards."""
    return functools.reduce(bits.either, boards)


@dataclasses.dataclass(frozen=True)
class Grid:
    """The geometry of a `size` x `size` board."""

    size: int

    @property
    def num_cells(self) -> int:
        """Cells of the board."""
        return self.size**2

    @property
    def words(self) -> int:
        """Words of a board."""
        return -(-self.num_cells // _WORD)

    @functools.cached_property
    def positions(self) -> np.ndarray:
        """Int `[size, size]`: the bit of each cell."""
        return np.arange(self.num_cells).reshape(self.size, self.size)

    @functools.cached_property
    def full(self) -> Board:
        """All cells."""
        return self.mask(self.positions)

    def mask(self, cells: np.ndarray) -> Board:
        """A constant board with the given cells set."""
        return bits.constant(bits.mask_of(cells), words=self.words)

    def empty(self) -> Board:
        """No cell."""
        return bits.zeros(self.words)

    def bit(self, cell: jax.Array) -> Board:
        """The board with one cell (int32 `[]`) set; empty if the number is negative or too large."""
        return bits.bit(cell, words=self.words)

    def complement(self, board: Board) -> Board:
        """The cells that are not set."""
        return bits.without(self.full, board)

    def shift(self, board: Board, direction: int) -> Board:
        """Every bit moved one cell on; what would leave the board is gone."""
        if direction == UP:
            return bits.shift_down(board, self.size)
        if direction == DOWN:
            return bits.both(bits.shift_up(board, self.size), self.full)
        if direction == LEFT:
            return bits.shift_down(bits.both(board, self._not_left), 1)
        return bits.shift_up(bits.both(board, self._not_right), 1)

    def back(self, board: Board, direction: int) -> Board:
        """The cells whose neighbour in `direction` is set."""
        return self.shift(board, opposite(direction))

    def spread(self, board: Board) -> Board:
        """The neighbours of all set cells, in the four directions."""
        return union(self.shift(board, direction) for direction in DIRECTIONS)

    def below(self, cell: jax.Array) -> Board:
        """All cells with a smaller number than `cell` (int32 `[]`, on the board)."""
        words = []
        for i in range(self.words):
            offset = (cell - np.int32(_WORD * i)).astype(jnp.int32)
            part = (np.uint32(1) << (offset & np.int32(31)).astype(jnp.uint32)) - np.uint32(1)
            whole = jnp.where(offset < 0, np.uint32(0), np.uint32(0xFFFFFFFF))
            words.append(jnp.where((offset >= 0) & (offset < _WORD), part, whole))
        return tuple(words)

    def row_of(self, row: jax.Array) -> Board:
        """All cells of a row (int32 `[]`)."""
        return self._table(self._rows, row)

    def column_of(self, column: jax.Array) -> Board:
        """All cells of a column (int32 `[]`)."""
        return self._table(self._columns, column)

    def _table(self, table: np.ndarray, index: jax.Array) -> Board:
        rows = jnp.asarray(table)
        return tuple(rows[:, word][index] for word in range(self.words))

    @functools.cached_property
    def _rows(self) -> np.ndarray:
        return np.array([self.mask(row) for row in self.positions], np.uint32)

    @functools.cached_property
    def _columns(self) -> np.ndarray:
        return np.array([self.mask(column) for column in self.positions.T], np.uint32)

    @functools.cached_property
    def _not_left(self) -> Board:
        return self.mask(self.positions[:, 1:])

    @functools.cached_property
    def _not_right(self) -> Board:
        return self.mask(self.positions[:, :-1])


def is_on(board: Board, cell: Board) -> jax.Array:
    """Bool `[]`: whether the boards share a bit."""
    return bits.is_any(bits.both(board, cell))


# Numbers per cell, as boards of their binary digits, lowest first


def at_least(planes: tuple[Board, ...], number: int) -> Board:
    """The cells whose number, of four digits, is `number` (1 to 15) or more."""
    # From the lowest digit up: the digits so far are at least those of `number`.
    enough: Board | None = None  # None stands for all cells
    for digit, plane in enumerate(planes):
        if number >> digit & 1:
            enough = plane if enough is None else bits.both(plane, enough)
        elif enough is not None:
            enough = bits.either(plane, enough)
    if enough is None:
        raise ValueError(f"number is {number}; expected 1 or more.")
    return enough


def equals(planes: tuple[Board, ...], number: int, among: Board) -> Board:
    """The cells of `among` whose number is `number`."""
    for digit, plane in enumerate(planes):
        among = bits.both(among, plane) if number >> digit & 1 else bits.without(among, plane)
    return among


def decrease(planes: tuple[Board, ...], where: Board) -> tuple[Board, ...]:
    """One less at the cells `where`, whose numbers are not 0."""
    borrow, result = where, []
    for plane in planes:
        result.append(bits.differ(plane, borrow))
        borrow = bits.without(borrow, plane)
    return tuple(result)


def highest(board: Board) -> jax.Array:
    """The largest cell number that is set, int32 `[]`; -1 if none is."""
    found = jnp.full((), -1, jnp.int32)
    for i, word in enumerate(board):
        top = np.int32(_WORD * i + _WORD - 1) - jax.lax.clz(word).astype(jnp.int32)
        found = jnp.where(word != 0, top, found)
    return found
