"""Boards as bitboards: a tuple of uint32 words, each word a scalar of its own.

Under `vmap` every word is a `[B]` array and every function here is elementwise, so XLA fuses a whole
game step into one SIMD loop: no small trailing axes, no gathers, no 64-bit integers (JAX switches those off
by default and TPUs lack them).

A board may use fewer than 32 bits of each word: `width` says how many. Bit `i` of the board is bit
`i % width` of word `i // width`. A width of whole rows or columns keeps shifts along them inside one word.
Bits at and above `width` must be zero unless a function says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

Board = tuple[jax.Array, ...]
"""Uint32 words, lowest bits first, each of shape `[]`."""

_BITS = 32


def from_int(value: int, *, words: int, width: int = _BITS) -> Board:
    """The board whose bits are those of a Python integer.

    Raises:
        ValueError: `value` is negative or has bits beyond `words * width`.
    """
    if not 0 <= value < 1 << (words * width):
        raise ValueError(f"value {value:#x} does not fit {words} words of {width} bits; give fewer bits.")
    parts = [(value >> (width * i)) & ((1 << width) - 1) for i in range(words)]
    return tuple(jnp.asarray(np.uint32(part)) for part in parts)


def to_int(board: Board, *, width: int = _BITS) -> int:
    """The inverse of `from_int`, for one concrete board."""
    return sum(int(word) << (width * i) for i, word in enumerate(board))


def constant(value: int, *, words: int, width: int = _BITS) -> Board:
    """A board of numpy scalars for use as a mask; it touches no device, so a module may hold it."""
    parts = [np.uint32((value >> (width * i)) & ((1 << width) - 1)) for i in range(words)]
    return cast(Board, tuple(parts))


def zeros(words: int) -> Board:
    """The empty board."""
    return tuple(jnp.zeros((), jnp.uint32) for _ in range(words))


def both(a: Board, b: Board) -> Board:
    """`a & b`."""
    return tuple(x & y for x, y in zip(a, b, strict=True))


def either(a: Board, b: Board) -> Board:
    """`a | b`."""
    return tuple(x | y for x, y in zip(a, b, strict=True))


def differ(a: Board, b: Board) -> Board:
    """`a ^ b`."""
    return tuple(x ^ y for x, y in zip(a, b, strict=True))


def without(a: Board, b: Board) -> Board:
    """`a & ~b`."""
    return tuple(x & ~y for x, y in zip(a, b, strict=True))


def where(condition: jax.Array, a: Board, b: Board) -> Board:
    """Board `a` where `condition` (bool `[]`) holds, else `b`."""
    return tuple(jnp.where(condition, x, y) for x, y in zip(a, b, strict=True))


def shift_up(board: Board, count: int, *, width: int = _BITS) -> Board:
    """Moves every bit `i` to `i + count`, with `0 < count < width`.

    With `width < 32` bits pushed out of a word stay as rubbish above `width`: combine the result with a clean
    board by `both`.
    """
    carries = (np.uint32(0), *(word >> (width - count) for word in board[:-1]))
    return tuple((word << count) | carry for word, carry in zip(board, carries, strict=True))


def shift_down(board: Board, count: int, *, width: int = _BITS) -> Board:
    """Moves every bit `i` to `i - count`, with `0 < count < width`; rubbish as in `shift_up`."""
    carries = (*(word << (width - count) for word in board[1:]), np.uint32(0))
    return tuple((word >> count) | carry for word, carry in zip(board, carries, strict=True))


def bit(index: jax.Array, *, words: int, width: int = _BITS) -> Board:
    """The board with the one bit `index` (int32 `[]`) set; empty where `index` is not on the board."""
    # Offsets below zero wrap to huge unsigned numbers, so one comparison does both ends.
    offsets = [(index - i * width).astype(jnp.uint32) for i in range(words)]
    one = np.uint32(1)
    return tuple(jnp.where(offset < width, one << (offset & 31), np.uint32(0)) for offset in offsets)


def is_any(board: Board) -> jax.Array:
    """Bool `[]`: whether any bit is set."""
    union = board[0]
    for word in board[1:]:
        union = union | word
    return union != 0


def equal(a: Board, b: Board) -> jax.Array:
    """Bool `[]`: whether both boards have the same bits."""
    return ~is_any(differ(a, b))


def popcount(board: Board) -> jax.Array:
    """Int32 `[]`: how many bits are set."""
    total = jax.lax.population_count(board[0])
    for word in board[1:]:
        total = total + jax.lax.population_count(word)
    return total.astype(jnp.int32)


# One bit pattern that keeps a word and one that drops it: see `compute_once`.
_KEEP_AND_DROP = np.array([0xFFFFFFFF, 0], np.uint32)


def compute_once(*boards: Board) -> tuple[Board, ...]:
    """The same boards, computed together in one kernel and kept.

    On CPU XLA (jax 0.10) makes one kernel per result and copies into it everything that the result depends
    on, also what several results share and what their consumers need again. A reduction with several results
    is the one kernel with several outputs that XLA forms there, and it is not copied. So each word is spread
    over two elements, of which one is masked away, and reduced by `or`. A random ply of 1,024 games on one
    core: Othello 2,710 us without and 36 us with, Connect Four 12 us and 6 us. No value changes, on any
    platform.
    """
    words = tuple(word & _KEEP_AND_DROP for board in boards for word in board)
    zero = np.uint32(0)
    kept = iter(jax.lax.reduce(words, (zero,) * len(words), either, (0,)))
    return tuple(tuple(next(kept) for _ in board) for board in boards)


def compute_tree_once(tree: Any) -> Any:
    """`compute_once` for a pytree of bools and 32-bit numbers, such as a state that many kernels read."""
    leaves, shape = jax.tree.flatten(tree)
    words = [
        leaf.astype(jnp.uint32) if leaf.dtype == bool else jax.lax.bitcast_convert_type(leaf, jnp.uint32)
        for leaf in leaves
    ]
    kept = [
        word != 0 if leaf.dtype == bool else jax.lax.bitcast_convert_type(word, leaf.dtype)
        for (word,), leaf in zip(compute_once(*((word,) for word in words)), leaves, strict=True)
    ]
    return jax.tree.unflatten(shape, kept)


def unpack(board: Board, positions: np.ndarray, *, width: int = _BITS) -> jax.Array:
    """The bits at the given positions.

    Args:
        positions: int array of any shape, the board bit of each cell.

    Returns:
        Bool array of the shape of `positions`.
    """
    word_of = positions // width
    words = jnp.broadcast_to(board[0], positions.shape)
    for i in range(1, len(board)):
        words = jnp.where(word_of == i, board[i], words)
    return ((words >> (positions % width).astype(np.uint32)) & np.uint32(1)) != 0


def planes(boards: Sequence[Board], positions: np.ndarray, *, width: int = _BITS) -> jax.Array:
    """An observation, bool `[H, W, C]`: plane `c` is `boards[c]`; `positions` int `[H, W]` as in `unpack`."""
    # Unpacked flat and shaped at the end: on CPU half the time of unpacking `[H, W]`, whose indices divide.
    flat = [unpack(board, positions.ravel(), width=width) for board in boards]
    return jnp.stack(flat, axis=-1).reshape(*positions.shape, len(boards))


def pack(cells: jax.Array, positions: np.ndarray, *, words: int, width: int = _BITS) -> Board:
    """The board with bit `positions[cell]` set where `cells` (bool, same shape) holds."""

    def word(i: int) -> jax.Array:
        weights = np.where(positions // width == i, 1 << (positions % width), 0).astype(np.uint32)
        return jnp.sum(jnp.where(cells, weights, np.uint32(0)), dtype=jnp.uint32)

    return tuple(word(i) for i in range(words))


def permute(board: Board, source: jax.Array, positions: np.ndarray, *, width: int = _BITS) -> Board:
    """The board whose cell `i` is cell `source[i]` of the old one: a symmetry's transform.

    Args:
        source: int32 `[cells]`, one row of `Symmetries.cells`.
        positions: int `[cells]`, the board bit of each cell.
    """
    cells = unpack(board, positions.ravel(), width=width)[source]
    return pack(cells, positions.ravel(), words=len(board), width=width)


def mask_of(positions: Sequence[int] | np.ndarray) -> int:
    """The Python integer with the given bits set."""
    mask = 0
    for position in np.asarray(positions).ravel().tolist():
        mask |= 1 << position
    return mask
