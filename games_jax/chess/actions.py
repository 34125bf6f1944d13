"""The 4,672 actions of AlphaZero's chess: 64 squares to move from, 73 ways to move.

Squares and directions are the mover's: row 0 is the far side, `N` is ahead. Action `73 * square + plane`, so
that a policy head of shape `[8, 8, 73]` only needs to be flattened. Planes:

- `7 * direction + distance - 1`, directions N, NE, E, SE, S, SW, W, NW, distances 1 to 7: the queen's ways,
  and those of every piece that moves like her. The king castles by two squares E or W. A pawn that reaches
  the last row so becomes a queen.
- `56 + i`: the knight's ways NNE, ENE, ESE, SSE, SSW, WSW, WNW, NNW.
- `64 + 3 * piece + way`: a pawn becomes a knight, bishop or rook, going NW, N or NE.

Reference: Silver et al. (2018), "A general reinforcement learning algorithm that masters chess, shogi, and Go
through self-play", supplementary table S2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board
from games_jax.chess.board import DIRECTIONS, KNIGHT_DIRECTIONS, KNIGHT_STEPS, SQUARES, STEPS, WORDS

PLANES = 73
NUM_ACTIONS = SQUARES * PLANES
_JUMPS, _PROMOTIONS = 56, 64
_PROMOTION_WAYS = (7, 0, 1)
_PROMOTION_LETTERS = "NBR"


class Decoded(NamedTuple):
    """An action taken apart.

    Attributes:
        origin: one bit, the square moved from.
        target: one bit, the square moved to; empty if it is off the board.
        column: int32 `[]`, the column moved from.
        rows: int32 `[]`, rows gone towards the mover's own side.
        columns: int32 `[]`, columns gone to the right.
        promotion: int32 `[]`, 1, 2 or 3 for a knight, bishop or rook, 0 for anything else.
    """

    origin: Board
    target: Board
    column: jax.Array
    rows: jax.Array
    columns: jax.Array
    promotion: jax.Array


def _table(index: jax.Array, values: Sequence[int]) -> jax.Array:
    """`values[index]` of up to 16 numbers in -2..1, without a gather: two bits each in one word."""
    word = np.uint32(sum((value + 2) << (2 * i) for i, value in enumerate(values)))
    return ((word >> (2 * index.astype(jnp.uint32))) & np.uint32(3)).astype(jnp.int32) - 2


def decode(action: jax.Array) -> Decoded:
    """Takes action (int32 `[]`) apart."""
    square, plane = jax.lax.div(action, np.int32(PLANES)), jax.lax.rem(action, np.int32(PLANES))
    is_jump, is_promotion = (plane >= _JUMPS) & (plane < _PROMOTIONS), plane >= _PROMOTIONS
    special = jnp.maximum(plane - _PROMOTIONS, 0)
    way = jax.lax.rem(special, np.int32(3))
    direction = jnp.where(is_promotion, jnp.where(way == 0, 7, way - 1), jax.lax.div(plane, np.int32(7)))
    distance = jnp.where(is_promotion, 1, jax.lax.rem(plane, np.int32(7)) + 1)
    jump = plane & 7  # the eight planes of jumps start at a multiple of eight
    steps = []
    for axis in range(2):
        slide = _table(direction & 7, [step[axis] for step in STEPS]) * distance
        # Steps of two do not fit the table's two bits with both signs: size and sign apart.
        size = _table(jump, [abs(step[axis]) - 1 for step in KNIGHT_STEPS]) + 1
        sign = _table(jump, [1 if step[axis] > 0 else -1 for step in KNIGHT_STEPS])
        steps.append(jnp.where(is_jump, size * sign, slide))
    rows, columns = steps
    column = square & 7
    on_board = (column + columns >= 0) & (column + columns < 8)
    target = jnp.where(on_board, square + 8 * rows + columns, -1)
    return Decoded(
        origin=bits.bit(square, words=WORDS),
        target=bits.bit(target, words=WORDS),
        column=column,
        rows=rows,
        columns=columns,
        promotion=jnp.where(is_promotion, jax.lax.div(special, np.int32(3)) + 1, 0).astype(jnp.int32),
    )


def count(planes: Sequence[Board]) -> jax.Array:
    """Uint32 `[]`: how many actions are set."""
    total = jnp.zeros((), jnp.uint32)
    for board in planes:
        total = total + bits.popcount(board).astype(jnp.uint32)
    return total


def nth(planes: Sequence[Board], n: jax.Array) -> jax.Array:
    """The action number `n` (uint32 `[]`) of those set, plane by plane and square by square.

    Counting costs a few instructions a plane, and the row of 4,672 is never written. Without a single action
    set, or with fewer than `n + 1`, the answer is an action that is not set.
    """
    zero = np.uint32(0)
    before, low, high, left, plane = (jnp.zeros((), jnp.uint32) for _ in range(5))
    for number, board in enumerate(planes):
        through = before + bits.popcount(board).astype(jnp.uint32)
        here = (n >= before) & (n < through)
        low, high = (
            word | jnp.where(here, part, zero) for word, part in zip((low, high), board, strict=True)
        )
        left = left | jnp.where(here, n - before, zero)
        plane = plane | jnp.where(here, np.uint32(number), zero)
        before = through
    # The bit of that rank, by halves.
    square, word = jnp.zeros((), jnp.uint32), low
    for half in (32, 16, 8, 4, 2, 1):
        part = low if half == 32 else word & np.uint32((1 << half) - 1)
        count = jax.lax.population_count(part)
        above = left >= count
        word = jnp.where(above, high if half == 32 else word >> half, word)
        left = left - jnp.where(above, count, zero)
        square = square + jnp.where(above, np.uint32(half), zero)
    ((action,),) = bits.compute_once((PLANES * square + plane,))
    return action.astype(jnp.int32)


def draw(planes: Sequence[Board], total: jax.Array, random: jax.Array) -> jax.Array:
    """One of the `total` (uint32 `[]`) actions set, int32 `[]`, by random bits (uint32 `[]`)."""
    # The upper half of the 64-bit product of two words.
    low, high = random & np.uint32(0xFFFF), random >> 16
    return nth(planes, (high * total + ((low * total) >> 16)) >> 16)


def encode(origin: int, target: int, promotion: str = "") -> int:
    """The action of a move between two squares as the mover sees them, on the host.

    Args:
        origin: square 0..63.
        target: square 0..63.
        promotion: `N`, `B`, `R`; a queen and no promotion are the same action.

    Raises:
        ValueError: no piece moves so.
    """
    step = (target // 8 - origin // 8, target % 8 - origin % 8)
    distance = max(abs(step[0]), abs(step[1]))
    unit = tuple(part // distance if part % distance == 0 else 9 for part in step) if distance else (9, 9)
    if promotion in tuple(_PROMOTION_LETTERS):
        if distance == 1 and unit in [STEPS[way] for way in _PROMOTION_WAYS] and target < 8:
            way = [STEPS[way] for way in _PROMOTION_WAYS].index((unit[0], unit[1]))
            return PLANES * origin + _PROMOTIONS + 3 * _PROMOTION_LETTERS.index(promotion) + way
    elif step in KNIGHT_STEPS:
        return PLANES * origin + _JUMPS + KNIGHT_STEPS.index(step)
    elif unit in STEPS:
        return PLANES * origin + 7 * STEPS.index((unit[0], unit[1])) + distance - 1
    raise ValueError(f"no piece moves from square {origin} to square {target} {promotion}".rstrip() + ".")


def take_apart(action: int) -> tuple[int, int, str]:
    """The inverse of `encode`: origin, target (which may lie off the board) and `N`, `B`, `R` or nothing."""
    origin, plane = divmod(int(action), PLANES)
    if plane >= _PROMOTIONS:
        piece, way = divmod(plane - _PROMOTIONS, 3)
        step, distance, promotion = STEPS[_PROMOTION_WAYS[way]], 1, _PROMOTION_LETTERS[piece]
    elif plane >= _JUMPS:
        step, distance, promotion = KNIGHT_STEPS[plane - _JUMPS], 1, ""
    else:
        step, distance, promotion = STEPS[plane // 7], plane % 7 + 1, ""
    row, column = origin // 8 + step[0] * distance, origin % 8 + step[1] * distance
    on_board = 0 <= row < 8 and 0 <= column < 8
    return origin, 8 * row + column if on_board else -1, promotion


def name(action: int) -> str:
    """The action in words of the mover's view: `e2-N2`, `g1-NNW`, `a7-N=R`; the mover's own rank is 1."""
    origin, plane = divmod(int(action), PLANES)
    square = f"{chr(ord('a') + origin % 8)}{8 - origin // 8}"
    if plane >= _PROMOTIONS:
        piece, way = divmod(plane - _PROMOTIONS, 3)
        return f"{square}-{DIRECTIONS[_PROMOTION_WAYS[way]]}={_PROMOTION_LETTERS[piece]}"
    if plane >= _JUMPS:
        return f"{square}-{KNIGHT_DIRECTIONS[plane - _JUMPS]}"
    return f"{square}-{DIRECTIONS[plane // 7]}{plane % 7 + 1}"


_NAME = re.compile(r"([a-h])([1-8])-([NESW]{1,3})(?:([1-7])|=([NBR]))?")


def from_name(text: str) -> int:
    """The inverse of `name`.

    Raises:
        ValueError: not such a name.
    """
    match = _NAME.fullmatch(text.strip())
    if match:
        origin = 8 * (8 - int(match[2])) + ord(match[1]) - ord("a")
        way, distance, piece = match[3], match[4], match[5]
        if distance and way in DIRECTIONS:
            return PLANES * origin + 7 * DIRECTIONS.index(way) + int(distance) - 1
        if piece and way in DIRECTIONS and DIRECTIONS.index(way) in _PROMOTION_WAYS:
            plane = 3 * _PROMOTION_LETTERS.index(piece) + _PROMOTION_WAYS.index(DIRECTIONS.index(way))
            return PLANES * origin + _PROMOTIONS + plane
        if not distance and not piece and way in KNIGHT_DIRECTIONS:
            return PLANES * origin + _JUMPS + KNIGHT_DIRECTIONS.index(way)
    raise ValueError(f"{text!r} is not an action's name; write e2-N2, g1-NNW or a7-N=R as the mover sees it.")
