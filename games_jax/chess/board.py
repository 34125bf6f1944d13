"""The chess board as words: squares, shifts, rays and the packed pieces of a position.

Everything is seen by the player to move: bit `8 * row + column` with row 0 at the far side, so that the
mover's pawns go up the page and one set of shifts serves both colours. Word 0 holds rows 0-3, word 1 rows
4-7, and a row never leaves its word. White sees a8 as bit 0 and h1 as bit 63; Black sees a1 and h8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board

WORDS = 2
SQUARES = 64
POSITIONS = np.arange(SQUARES)

# Directions in the order of the action planes; `d + 4` is the way back, and odd ones are diagonals.
DIRECTIONS = ("N", "NE", "E", "SE", "S", "SW", "W", "NW")
STEPS = ((-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1))
KNIGHT_DIRECTIONS = ("NNE", "ENE", "ESE", "SSE", "SSW", "WSW", "WNW", "NNW")
KNIGHT_STEPS = ((-2, 1), (-1, 2), (1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1))

FULL = bits.constant((1 << SQUARES) - 1, words=WORDS)


def row_mask(row: int) -> Board:
    """The eight squares of a row."""
    return bits.constant(0xFF << (8 * row), words=WORDS)


def square_mask(*squares: int) -> Board:
    """The given squares."""
    return bits.constant(bits.mask_of(squares), words=WORDS)


def _columns(wanted: range) -> Board:
    return bits.constant(
        bits.mask_of([8 * row + column for row in range(8) for column in wanted]), words=WORDS
    )


# Where a move that goes so many columns to the right (left) can arrive; the others have left the board.
_ARRIVALS = {columns: _columns(range(max(columns, 0), min(8 + columns, 8))) for columns in (-2, -1, 1, 2)}


def shift(board: Board, squares: int) -> Board:
    """Moves every bit by `squares`, -63..63, with no thought of rows."""
    if abs(squares) >= 32:
        low, high = board
        zero = jnp.zeros_like(low)
        board = (zero, low) if squares > 0 else (high, zero)
        squares -= 32 if squares > 0 else -32
    if squares == 0:
        return board
    return bits.shift_up(board, squares) if squares > 0 else bits.shift_down(board, -squares)


def _shift(board: Board, rows: int, columns: int) -> Board:
    if rows == 0:  # a row never leaves its word
        return tuple(word << columns if columns > 0 else word >> -columns for word in board)
    return shift(board, 8 * rows + columns)


def move(board: Board, step: tuple[int, int]) -> Board:
    """Every piece moved by so many rows and columns; those that would leave the board are dropped."""
    rows, columns = step
    moved = _shift(board, rows, columns)
    return bits.both(moved, _ARRIVALS[columns]) if columns else moved


def attacks(sliders: Board, empty: Board, direction: int) -> Board:
    """The squares that `sliders` see in one direction: empty ones and the first that is not.

    A parallel-prefix fill: three doublings cover the seven steps.
    """
    rows, columns = STEPS[direction]
    through = bits.both(empty, _ARRIVALS[columns]) if columns else empty
    filled = sliders
    for reach in (1, 2, 4):
        filled = bits.either(filled, bits.both(through, _shift(filled, reach * rows, reach * columns)))
        if reach < 4:
            through = bits.both(through, _shift(through, reach * rows, reach * columns))
    return move(filled, (rows, columns))


def union(*boards: Board) -> Board:
    """All bits of all boards."""
    result = boards[0]
    for board in boards[1:]:
        result = bits.either(result, board)
    return result


def unpack(boards: Sequence[Board]) -> jax.Array:
    """Bool `[64, planes]`: the squares of each board, row by row from the far side."""
    halves = [jnp.stack([board[word] for board in boards]) for word in range(WORDS)]
    columns = np.uint8(1) << np.arange(8, dtype=np.uint8)
    # Byte by byte and joined at the end: fifteen times as fast on CPU as one expression that is reshaped.
    rows = [(half >> np.uint32(8 * row)).astype(jnp.uint8) for half in halves for row in range(4)]
    cells = [(row[None, :] & columns[:, None]) != 0 for row in rows]
    return jnp.concatenate(cells)


def flip(board: Board) -> Board:
    """The board from the other side: rows in reverse."""
    low, high = board
    return (_reverse_bytes(high), _reverse_bytes(low))


def _reverse_bytes(word: jax.Array) -> jax.Array:
    swapped = ((word >> 8) & np.uint32(0x00FF00FF)) | ((word & np.uint32(0x00FF00FF)) << 8)
    return (swapped >> 16) | (swapped << 16)


class Pieces(NamedTuple):
    """Who stands where, 32 bytes: three code boards name the piece on each square and `own` its side.

    | piece | pawn | knight | bishop | rook | queen | king |
    |---|---|---|---|---|---|---|
    | `a` | 0 | 1 | 1 | 0 | 1 | 0 |
    | `b` | 0 | 0 | 0 | 1 | 1 | 1 |
    | `c` | 1 | 1 | 0 | 0 | 0 | 1 |
    """

    own: Board
    a: Board
    b: Board
    c: Board

    @property
    def occupied(self) -> Board:
        """Every piece."""
        return union(self.a, self.b, self.c)

    @property
    def diagonal(self) -> Board:
        """Bishops and queens of both sides."""
        return bits.without(self.a, self.c)

    @property
    def straight(self) -> Board:
        """Rooks and queens."""
        return bits.without(self.b, self.c)

    @property
    def pawns(self) -> Board:
        """Pawns of both sides."""
        return bits.without(bits.without(self.c, self.a), self.b)

    @property
    def knights(self) -> Board:
        """Knights of both sides."""
        return bits.both(self.a, self.c)

    @property
    def kings(self) -> Board:
        """Both kings."""
        return bits.both(self.b, self.c)

    def kinds(self) -> tuple[Board, ...]:
        """Pawns, knights, bishops, rooks, queens and kings of both sides."""
        diagonal, straight = self.diagonal, self.straight
        queens = bits.both(diagonal, straight)
        bishops, rooks = bits.without(diagonal, queens), bits.without(straight, queens)
        return self.pawns, self.knights, bishops, rooks, queens, self.kings

    def turned(self) -> Pieces:
        """The same pieces as the other player sees them."""
        own = bits.without(self.occupied, self.own)
        return Pieces(*(flip(board) for board in (own, self.a, self.b, self.c)))


# The code of each kind of piece, in the order of `Pieces.kinds`: bit 0 is `a`, bit 1 `b`, bit 2 `c`.
CODES = (4, 5, 1, 2, 3, 6)
