"""Legal moves of a whole position at once.

For each way a piece can move (a direction and a distance: a plane of the action encoding) the squares from
which that move is legal are a board. Sliding moves are found backwards, from the squares where a move may
end; nothing loops over pieces and nothing is tried and taken back.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board
from games_jax.chess.board import (
    FULL,
    KNIGHT_STEPS,
    STEPS,
    WORDS,
    Pieces,
    attacks,
    move,
    row_mask,
    square_mask,
    union,
)

_N, _NE, _E, _W, _NW = 0, 1, 2, 6, 7
OWN_SHORT, OWN_LONG, OTHER_SHORT, OTHER_LONG = (np.uint32(1 << i) for i in range(4))

_BEFORE_LAST_ROW = row_mask(1)
_START_ROW = row_mask(6)
_KING_HOME = square_mask(60)
_PASSED_SHORT = square_mask(61, 62)
_PASSED_LONG = square_mask(58, 59)
_BETWEEN_LONG = square_mask(57, 58, 59)


class Moves(NamedTuple):
    """What a position allows.

    Attributes:
        slides: 56 boards, direction by direction and distance 1 to 7: the squares from which a piece may move
            so. Kings, castling and pawns are among them; a pawn that reaches the last row becomes a queen.
        jumps: 8 boards, the knight's ways.
        promotions: 3 boards, NW, N and NE: the pawns that may also become another piece.
        in_check: bool `[]`.
        en_passant: bool `[]`, whether a pawn may be taken in passing.
    """

    slides: tuple[Board, ...]
    jumps: tuple[Board, ...]
    promotions: tuple[Board, ...]
    in_check: jax.Array
    en_passant: jax.Array

    @property
    def planes(self) -> tuple[Board, ...]:
        """73 boards in the order of the action planes: promotions to knight, bishop and rook come last."""
        return (*self.slides, *self.jumps, *(self.promotions * 3))

    def kept_planes(self) -> tuple[Board, ...]:
        """`planes` for those who read them more than once, see `bits.compute_once`.

        A kernel for every two directions: one for all takes XLA three times as long to compile.
        """
        slides = [bits.compute_once(*self.slides[i : i + 14]) for i in range(0, len(self.slides), 14)]
        others = bits.compute_once(*self.jumps, *self.promotions)
        jumps, promotions = others[: len(self.jumps)], others[len(self.jumps) :]
        return (*itertools.chain(*slides), *jumps, *(promotions * 3))

    @property
    def any(self) -> jax.Array:
        """Bool `[]`: whether there is a legal move."""
        # A pawn that may promote may become a queen, which is among the slides.
        return bits.is_any(union(*self.slides, *self.jumps))


class _Threats(NamedTuple):
    """How the other side bears on the mover and its king.

    Attributes:
        danger: squares where the king may not stand.
        seen: for each direction, the squares that the other side's sliders see that way, through the king.
        rays: for each direction, the squares that a slider on the king's square would see.
        pinned: for each of the four lines, own pieces that may move along no other line.
        block: where a piece other than the king must arrive to answer a check; everywhere if there is none.
        in_check: bool `[]`.
    """

    danger: Board
    seen: tuple[Board, ...]
    rays: tuple[Board, ...]
    pinned: tuple[Board, ...]
    block: Board
    in_check: jax.Array


class _Restraints(NamedTuple):
    """What the other side leaves to the mover's pieces.

    All moves follow from these boards, and they are computed once: a program that repeats what they depend on
    for each of the 73 planes takes XLA three times as long to compile.

    Attributes:
        ends: where a piece other than the king may arrive.
        king_ends: where the king may.
        free: for each of the four lines, the squares whose piece may move along it: not pinned, or on it.
        takes: the pawns that may take in passing to the NE, and to the NW.
        castlings: the king's square or none, for castling short, and long.
        in_check: bool `[]`.
    """

    ends: Board
    king_ends: Board
    free: tuple[Board, ...]
    takes: tuple[Board, Board]
    castlings: tuple[Board, Board]
    in_check: jax.Array


def _threats(pieces: Pieces) -> _Threats:
    own, occupied = pieces.own, pieces.occupied
    other = bits.without(occupied, own)
    king, other_king = bits.both(pieces.kings, own), bits.both(pieces.kings, other)
    sliders = [bits.both(line, other) for line in (pieces.straight, pieces.diagonal)]
    pawns, knights = bits.both(pieces.pawns, other), bits.both(pieces.knights, other)
    empty = bits.without(FULL, occupied)
    # The king shades no square behind him: he could not flee there.
    through_king = bits.either(empty, king)
    seen = tuple(attacks(sliders[d % 2], through_king, d) for d in range(8))
    rays = tuple(attacks(king, empty, d) for d in range(8))
    danger = union(
        *seen,
        *(move(knights, step) for step in KNIGHT_STEPS),
        *(move(other_king, step) for step in STEPS),
        *(move(pawns, STEPS[d]) for d in (3, 5)),
    )
    contact = bits.either(
        bits.both(union(*(move(king, step) for step in KNIGHT_STEPS)), knights),
        bits.both(union(*(move(king, STEPS[d]) for d in (_NE, _NW))), pawns),
    )
    block, checks = contact, bits.popcount(contact)
    for d, ray in enumerate(rays):
        checked = bits.is_any(bits.both(ray, sliders[d % 2]))
        block = bits.either(block, bits.where(checked, ray, bits.zeros(WORDS)))
        checks = checks + checked.astype(jnp.int32)
    block = bits.where(checks == 0, FULL, bits.where(checks == 1, block, bits.zeros(WORDS)))
    held = [bits.both(bits.both(seen[d], rays[(d + 4) % 8]), own) for d in range(8)]
    pinned = tuple(bits.either(held[d], held[d + 4]) for d in range(4))
    return _Threats(danger, seen, rays, pinned, block, checks > 0)


def _castlings(pieces: Pieces, rights: jax.Array, threats: _Threats) -> tuple[Board, Board]:
    """The king's square, or none, for castling short and long."""

    def castling(right: np.uint32, between: Board, passed: Board) -> Board:
        blocked = union(bits.both(pieces.occupied, between), bits.both(threats.danger, passed))
        allowed = ((rights & right) != 0) & ~threats.in_check & ~bits.is_any(blocked)
        return bits.where(allowed, _KING_HOME, bits.zeros(WORDS))

    return (
        castling(OWN_SHORT, _PASSED_SHORT, _PASSED_SHORT),
        castling(OWN_LONG, _BETWEEN_LONG, _PASSED_LONG),
    )


def _en_passant(pawns: Board, target: Board, threats: _Threats) -> tuple[Board, Board]:
    """The pawns that may take in passing to the NE and to the NW, pins along their own lines left aside.

    Args:
        pawns: the mover's pawns.
        target: the square that the other side's pawn passed over, or none.
    """
    taken = move(target, STEPS[4])
    answered = bits.is_any(bits.both(threats.block, bits.either(target, taken)))
    # The pawn that is taken may have shielded the king: on a diagonal alone, on the row with the taker.
    shields = [bits.both(bits.both(threats.seen[d], threats.rays[(d + 4) % 8]), taken) for d in (1, 3, 5, 7)]
    allowed = answered & ~bits.is_any(union(*shields))
    takers = []
    for side in (_W, _E):
        taker = bits.both(move(taken, STEPS[side]), pawns)
        back = (side + 4) % 8
        left_open = [
            bits.is_any(bits.both(ahead[side], taken)) & bits.is_any(bits.both(behind[back], taker))
            for ahead, behind in ((threats.rays, threats.seen), (threats.seen, threats.rays))
        ]
        legal = allowed & ~(left_open[0] | left_open[1])
        takers.append(bits.where(legal, taker, bits.zeros(WORDS)))
    return takers[0], takers[1]


def _restraints(pieces: Pieces, rights: jax.Array, passed: Board) -> _Restraints:
    threats = _threats(pieces)
    pins = union(*threats.pinned)
    free = tuple(bits.either(bits.without(FULL, pins), pinned) for pinned in threats.pinned)
    pawns = bits.both(pieces.pawns, pieces.own)
    taking_ne, taking_nw = _en_passant(pawns, passed, threats)
    # NE and SW are line 1, NW and SE line 3.
    boards = _Restraints(
        ends=bits.without(threats.block, pieces.own),
        king_ends=bits.without(FULL, bits.either(pieces.own, threats.danger)),
        free=free,
        takes=(bits.both(taking_ne, free[_NE]), bits.both(taking_nw, free[_NW % 4])),
        castlings=_castlings(pieces, rights, threats),
        in_check=threats.in_check,
    )
    flag = boards.in_check.astype(jnp.uint32)
    ends, king_ends, *rest, (flag,) = bits.compute_once(
        boards.ends, boards.king_ends, *boards.free, *boards.takes, *boards.castlings, (flag,)
    )
    return _Restraints(ends, king_ends, tuple(rest[:4]), (rest[4], rest[5]), (rest[6], rest[7]), flag != 0)


@jax.jit  # traced once for all who ask; a search asks in six places
def legal_moves(pieces: Pieces, rights: jax.Array, passed: Board) -> Moves:
    """The legal moves.

    Args:
        pieces: the position.
        rights: uint32 `[]`, the castling rights in bits 0-3: own short and long, the other's short and long.
        passed: the square that the other side's pawn has just passed over, or none.
    """
    own, occupied = pieces.own, pieces.occupied
    other, empty = bits.without(occupied, own), bits.without(FULL, occupied)
    pawns, knights, king = (bits.both(kind, own) for kind in (pieces.pawns, pieces.knights, pieces.kings))
    sliders = [bits.both(line, own) for line in (pieces.straight, pieces.diagonal)]
    ends, king_ends, free, takes, castling, in_check = _restraints(pieces, rights, passed)
    castlings, taking = dict(zip((_E, _W), castling)), dict(zip((_NE, _NW), takes))

    slides, promotions = [], {}
    for d in range(8):
        back = STEPS[(d + 4) % 8]
        movers, walkers = bits.both(sliders[d % 2], free[d % 4]), bits.both(pawns, free[d % 4])
        start = move(ends, back)
        nearest = union(bits.both(movers, start), bits.both(king, move(king_ends, back)))
        if d in (_N, _NE, _NW):
            landing = bits.both(ends, empty if d == _N else other)
            steps = bits.both(walkers, move(landing, back))
            promotions[d] = bits.both(steps, _BEFORE_LAST_ROW)
            nearest = bits.either(nearest, steps)
        if d in taking:
            nearest = bits.either(nearest, taking[d])
        slides.append(nearest)
        for distance in range(2, 8):
            start = move(bits.both(start, empty), back)
            movable = bits.both(movers, start)
            if d == _N and distance == 2:
                onto = bits.both(move(bits.both(ends, empty), back), empty)
                runs = bits.both(bits.both(walkers, _START_ROW), move(onto, back))
                movable = bits.either(movable, runs)
            if d in castlings and distance == 2:
                movable = bits.either(movable, castlings[d])
            slides.append(movable)

    jumpers = bits.both(knights, bits.both(free[_N], free[_NE]))  # pinned on no line
    jumps = [bits.both(jumpers, move(ends, (-rows, -columns))) for rows, columns in KNIGHT_STEPS]
    return Moves(
        slides=tuple(slides),
        jumps=tuple(jumps),
        promotions=(promotions[_NW], promotions[_N], promotions[_NE]),
        in_check=in_check,
        en_passant=bits.is_any(bits.either(*takes)),
    )
