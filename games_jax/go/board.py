"""The Go board as bitboards: layout, neighbours, and the fills that find groups and regions.

Rows lie `size + 1` bits apart, the last of which stays empty, so that a stone moved past the end of its row
falls on no point. As many whole rows as fit share a uint32 word: 9 x 9 takes three words, 19 x 19 one word a
row. Point `row * size + column`, row 0 at the top, has bit `row * (size + 1) + column`.

A fill spreads a set of points along links: a link joins a point to its right or lower neighbour. Links
between stones of one colour make groups, links between empty points make regions. One round of a fill runs
through all rows from the top and back, and along each row up to three points either way.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board

# Words that a kernel of a fill handles at once: enough to keep kernels few, not so many that they compile
# slowly.
_WORDS_AT_ONCE = 24


@dataclasses.dataclass(frozen=True)
class Layout:
    """What depends on the board's size: plain numbers and numpy masks, so that nothing happens at import.

    Attributes:
        size: points on a side.
        stride: bits from one row to the next.
        words: words of a board.
        width: bits of a word in use: whole rows.
        points: the points of the board.
        positions: int `[size * size]`, the board bit of each point.
        inner_rows: all rows but the last of each word.
        codes: sets of points such that any two points which are not neighbours in one row differ in at
            least one set, and every point is in the same number of sets.
        weight: in how many of `codes` each point is.
    """

    size: int
    stride: int
    words: int
    width: int
    points: Board
    positions: np.ndarray
    inner_rows: Board
    codes: tuple[Board, ...]
    weight: int


@functools.cache
def layout(size: int) -> Layout:
    """The layout of a board with `size` points on a side."""
    stride = size + 1
    rows = min(32 // stride, size)  # rows a word
    words, width = -(-size // rows), rows * stride
    positions = np.arange(size)[:, None] * stride + np.arange(size)[None, :]
    constant = functools.partial(bits.constant, words=words, width=width)
    inner = positions[np.arange(size) % rows < rows - 1]
    memberships, weight = _codes(size)
    return Layout(
        size=size,
        stride=stride,
        words=words,
        width=width,
        points=constant(bits.mask_of(positions)),
        positions=positions.ravel(),
        inner_rows=constant(bits.mask_of(inner)),
        codes=tuple(constant(bits.mask_of(positions[member])) for member in memberships),
        weight=weight,
    )


def _codes(size: int) -> tuple[np.ndarray, int]:
    """Which points each code holds, bool `[codes, size, size]`, and in how many codes a point is.

    Points are taken in pairs along rows. Each pair has a combination of its own of `weight` codes out of all.
    Reference: Sperner's theorem; half of the codes gives the most combinations.
    """
    pairs = size * -(-size // 2)
    count = next(count for count in itertools.count(2) if math.comb(count, count // 2) >= pairs)
    weight = count // 2
    members = np.zeros((count, pairs), bool)
    for pair, chosen in enumerate(itertools.islice(itertools.combinations(range(count), weight), pairs)):
        members[list(chosen), pair] = True
    by_row = members.reshape(count, size, -1)
    return np.repeat(by_row, 2, axis=2)[:, :, :size], weight


# Neighbours


def row_below(board: Board, form: Layout) -> Board:
    """Each point's bit moved to the point below it; rubbish outside the board."""
    if form.width == form.stride:
        return (np.uint32(0), *board[:-1])  # type: ignore[return-value]
    return bits.shift_up(board, form.stride, width=form.width)


def row_above(board: Board, form: Layout) -> Board:
    """Each point's bit moved to the point above it; rubbish outside the board."""
    if form.width == form.stride:
        return (*board[1:], np.uint32(0))  # type: ignore[return-value]
    return bits.shift_down(board, form.stride, width=form.width)


def neighbours(board: Board, form: Layout) -> Board:
    """The points next to those of `board`; rubbish outside the board."""
    beside = tuple((word << 1) | (word >> 1) for word in board)
    return bits.either(beside, bits.either(row_below(board, form), row_above(board, form)))


def enclosed(board: Board, form: Layout) -> Board:
    """The points all of whose neighbours on the board are in `board`."""
    return bits.without(form.points, neighbours(bits.without(form.points, board), form))


# Fills


class Links(NamedTuple):
    """Which neighbours a fill may pass between.

    Attributes:
        right: the points linked to the point on their right.
        down: the points linked to the point below them.
    """

    right: Board
    down: Board


def boards_at_once(form: Layout) -> int:
    """How many boards one fill should take together."""
    return max(1, _WORDS_AT_ONCE // form.words)


def links(form: Layout, *kinds: Board) -> Links:
    """The links between neighbours that are both in one of `kinds`, which have no point in common."""
    right = down = bits.zeros(form.words)
    for kind in kinds:
        right = bits.either(right, tuple(word & (word >> 1) for word in kind))
        down = bits.either(down, bits.both(kind, row_above(kind, form)))
    return Links(right, down)


def spread(filled: Board, linked: Links, form: Layout) -> Board:
    """The points one link away from `filled`, and some of `filled`."""
    right = tuple((f & r) << 1 for f, r in zip(filled, linked.right, strict=True))
    left = tuple((f >> 1) & r for f, r in zip(filled, linked.right, strict=True))
    down = bits.both(row_below(bits.both(filled, linked.down), form), form.points)
    up = bits.both(row_above(filled, form), linked.down)
    return bits.either(bits.either(right, left), bits.either(down, up))


def _along_row(word: jax.Array, steps: Sequence[jax.Array]) -> jax.Array:
    """Spreads one word along its rows; `steps` are the links of 1, 2, 4, ... points in a line."""
    for power, step in enumerate(steps):
        word = word | ((word & step) << (1 << power))
    for power, step in enumerate(steps):
        word = word | ((word >> (1 << power)) & step)
    return word


def sweep(filled: Board, linked: Links, form: Layout) -> Board:
    """One round of a fill: down the board and up again, along each row on the way."""
    rows, stride = form.width // form.stride, np.uint32(form.stride)
    reach = min(2, (form.size - 1).bit_length())  # more steps compile slowly and save few rounds
    steps = []
    for step in linked.right:
        chain = [step]
        for power in range(reach - 1):
            chain.append(chain[-1] & (chain[-1] >> (1 << power)))
        steps.append(chain)
    inner = bits.both(linked.down, form.inner_rows)
    top = np.uint32((rows - 1) * form.stride)  # from a word's first row to its last
    words = list(filled)
    for w in range(form.words):
        if w:
            words[w] |= (words[w - 1] & linked.down[w - 1]) >> top
        for _ in range(rows - 1):
            words[w] |= (words[w] & inner[w]) << stride
        words[w] = _along_row(words[w], steps[w])
    for w in reversed(range(form.words)):
        if w + 1 < form.words:
            words[w] |= (words[w + 1] << top) & linked.down[w]
        for _ in range(rows - 1):
            words[w] |= (words[w] >> stride) & inner[w]
        words[w] = _along_row(words[w], steps[w])
    return tuple(words)


def fill(seeds: Sequence[Board], linked: Links, form: Layout) -> tuple[Board, ...]:
    """Each of `seeds` with everything that its points are linked to.

    Args:
        seeds: sets of points, all filled along the same links.
    """

    def unfinished(carry: tuple[tuple[Board, ...], jax.Array]) -> jax.Array:
        return carry[1]

    def round_(carry: tuple[tuple[Board, ...], jax.Array]) -> tuple[tuple[Board, ...], jax.Array]:
        before = carry[0]
        after = bits.compute_once(*(sweep(board, linked, form) for board in before))
        moved = [bits.is_any(bits.differ(a, b)) for a, b in zip(after, before, strict=True)]
        return after, functools.reduce(jnp.logical_or, moved)

    start = bits.compute_once(*seeds)
    some = functools.reduce(jnp.logical_or, [bits.is_any(board) for board in start])
    return jax.lax.while_loop(unfinished, round_, (start, some))[0]
