"""The state of a game of chess and what a move does to it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board
from games_jax.chess import actions
from games_jax.chess.board import STEPS, WORDS, Pieces, move, row_mask, union
from games_jax.chess.moves import Moves, legal_moves

ENDINGS = (
    "running",
    "checkmate",
    "stalemate",
    "insufficient material",
    "move rule",
    "repetition",
    "length",
)
"""How a game stands, in the order of the codes that a state holds."""

RUNNING, CHECKMATE, STALEMATE, INSUFFICIENT, MOVE_RULE, REPETITION, LENGTH = range(len(ENDINGS))

_RIGHTS = np.uint32(0xF)
_PASSED, _CLOCK, _ENDING = 4, 8, 16  # where the fields of `flags` start

_LAST_ROW = row_mask(0)
_LIGHT = bits.constant(0xAA55AA55AA55AA55, words=WORDS)
# Both squares that the rook leaves and enters, in the word of the mover's own rows.
_ROOK_SHORT = np.uint32((1 << 31) | (1 << 29))
_ROOK_LONG = np.uint32((1 << 24) | (1 << 27))


class State(NamedTuple):
    """40 bytes, 8 more for each earlier position remembered, 32 for each earlier one observed.

    Attributes:
        pieces: the position as the mover sees it.
        flags: uint32 `[]`. Bits 0-3 castling rights (own short and long, the other's short and long); bits
            4-7 one more than the column of a pawn that may legally be taken in passing, or 0; bits 8-15
            plies since the last capture or pawn move; bits 16-18 the ending, an index of `ENDINGS`.
        ply: uint32 `[]`, plies since move 1 of the game as FEN counts; odd where Black moves.
        seen: uint32 `[2, window]`, keys of the positions since the last capture or pawn move: the one at
            clock `c` is in column `c % window`. Zero where there is none. An empty tuple without repetition
            rules.
        past: uint32 `[history - 1, 8]`, the pieces of the positions before, latest first, each as its own
            mover saw it; zeros before the start. An empty tuple for a history of 1.
    """

    pieces: Pieces
    flags: jax.Array
    ply: jax.Array
    seen: Any
    past: Any


class Limits(NamedTuple):
    """The rules that a `Chess` was made with.

    Attributes:
        repetition: how many times a position occurs before the game is a draw; 0 for never.
        clock: plies without capture or pawn move that make a draw.
        plies: the longest game.
    """

    repetition: int
    clock: int
    plies: int


def rights(flags: jax.Array) -> jax.Array:
    """Uint32 `[]`: the four castling rights."""
    return flags & _RIGHTS


def passed(flags: jax.Array) -> jax.Array:
    """Uint32 `[]`: one more than the column of a pawn that may be taken in passing, or 0."""
    return (flags >> _PASSED) & np.uint32(0xF)


def clock(flags: jax.Array) -> jax.Array:
    """Int32 `[]`: plies since the last capture or pawn move."""
    return ((flags >> _CLOCK) & np.uint32(0xFF)).astype(jnp.int32)


def ending(flags: jax.Array) -> jax.Array:
    """Int32 `[]`: how the game ended, an index of `ENDINGS`."""
    return (flags >> _ENDING).astype(jnp.int32)


def rewards(ending: jax.Array, ply: jax.Array) -> jax.Array:
    """Float32 `[2]` from an ending (int32 `[]`) with the mover of `ply` (uint32 `[]`) to move."""
    mover = (ply & np.uint32(1)).astype(jnp.int32)
    white = jnp.where(ending == CHECKMATE, 2 * mover - 1, np.int32(0))
    return jnp.stack([white, -white]).astype(jnp.float32)


def position_of(state: State) -> Position:
    """What decides the state's legal moves; a finished game's position may have some."""
    return Position(state.pieces, rights(state.flags), passed(state.flags))


def key(state: State) -> jax.Array:
    """Uint32 `[2]`: the same for positions that count as a repetition of each other.

    These have the same pieces, mover, castling rights and captures in passing, of which only legal ones
    count. It is made from the board and not step by step, so that no way of reaching a position can matter.
    """
    return jnp.stack(_key(state.pieces, state.flags, state.ply))


def _key(pieces: Pieces, flags: jax.Array, ply: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Two 32-bit mixes (murmur3's steps) of the same words, with different seeds and factors."""
    facts = (flags & np.uint32(0xFF)) | ((ply & np.uint32(1)) << 8)
    words = [word for board in pieces for word in board] + [facts]
    return _mix(words, 0x9E3779B9, 0xCC9E2D51, 0x1B873593), _mix(words, 0x7F4A7C15, 0x239B961B, 0xAB0E9789)


def _mix(words: list[jax.Array], seed: int, first: int, second: int) -> jax.Array:
    state = jnp.asarray(np.uint32(seed))
    for word in words:
        word = jnp.asarray(word) * np.uint32(first)
        state = state ^ (((word << 15) | (word >> 17)) * np.uint32(second))
        state = ((state << 13) | (state >> 19)) * np.uint32(5) + np.uint32(0xE6546B64)
    state = (state ^ (state >> 16)) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> 13)) * np.uint32(0xC2B2AE35)
    return state ^ (state >> 16)


def with_ending(flags: jax.Array, code: int) -> jax.Array:
    """The flags of a running game, ended so."""
    return flags | np.uint32(code << _ENDING)


class Position(NamedTuple):
    """What decides the legal moves, seen by the mover.

    Attributes:
        pieces: who stands where.
        rights: uint32 `[]`, the castling rights as in `State.flags`.
        passed: uint32 `[]`, one more than the column of a pawn that has just gone two squares, or 0; whether
            it can be taken is another question.
    """

    pieces: Pieces
    rights: jax.Array
    passed: jax.Array

    def moves(self) -> Moves:
        """The legal moves."""
        # The other side's pawn went from row 1 to row 3.
        square = jnp.where(self.passed == 0, -1, 15 + self.passed.astype(jnp.int32))
        return legal_moves(self.pieces, self.rights, bits.bit(square, words=WORDS))

    def after(self, action: jax.Array) -> tuple[Position, jax.Array]:
        """The position after `action` (int32 `[]`) as the other side sees it, and whether it was quiet.

        A quiet move is neither a capture nor a pawn's.
        """
        pieces, (origin, target, column, rows, columns, promotion) = self.pieces, actions.decode(action)
        is_pawn, is_king = _meet(pieces.pawns, origin), _meet(pieces.kings, origin)
        passes = is_pawn & (columns != 0) & ~_meet(pieces.occupied, target)
        taken = bits.where(passes, move(target, STEPS[4]), bits.zeros(WORDS))
        is_capture = passes | _meet(pieces.occupied, target)
        castles = is_king & (jnp.abs(columns) == 2)
        rook = jnp.where(castles, jnp.where(columns > 0, _ROOK_SHORT, _ROOK_LONG), np.uint32(0))

        promotes = is_pawn & _meet(_LAST_ROW, target)
        as_promoted = (promotion != 3, (promotion == 0) | (promotion == 3), promotion == 1)
        cleared = union(origin, target, taken)

        def placed(board: Board, promoted: jax.Array) -> Board:
            arrives = jnp.where(promotes, promoted, _meet(board, origin))
            return bits.either(bits.without(board, cleared), bits.where(arrives, target, bits.zeros(WORDS)))

        codes = (pieces.a, pieces.b, pieces.c)
        a, b, c = (placed(board, new) for board, new in zip(codes, as_promoted, strict=True))
        own = bits.either(bits.without(pieces.own, origin), target)
        kept = self.rights & ~_lost_rights(bits.either(origin, target))
        turned = Pieces((own[0], own[1] ^ rook), a, (b[0], b[1] ^ rook), c).turned()
        rights = ((kept & np.uint32(3)) << 2) | (kept >> 2)
        passed = jnp.where(is_pawn & (rows == -2), column + 1, 0).astype(jnp.uint32)
        quiet = (~(is_pawn | is_capture)).astype(jnp.uint32)
        # Whatever comes next reads the position often.
        *boards, (rights, passed, quiet) = bits.compute_once(*turned, (rights, passed, quiet))
        return Position(Pieces(*boards), rights, passed), quiet != 0


def _meet(board: Board, squares: Board) -> jax.Array:
    return bits.is_any(bits.both(board, squares))


def _lost_rights(touched: Board) -> jax.Array:
    """The rights that go when a king or rook leaves its square or a rook is taken on it."""
    far, near = touched
    king = (near >> 28) & np.uint32(1)  # square 60
    own_short, own_long = (near >> 31) | king, ((near >> 24) & np.uint32(1)) | king
    other_short, other_long = (far >> 7) & np.uint32(1), far & np.uint32(1)
    return own_short | (own_long << 1) | (other_short << 2) | (other_long << 3)


def _lacks_material(pieces: Pieces) -> jax.Array:
    """Kings alone, with one knight or bishop, or with bishops on squares of one colour only."""
    pawns, knights, bishops, rooks, queens, _ = pieces.kinds()
    decisive = bits.is_any(union(pawns, rooks, queens))
    one_minor = bits.popcount(bits.either(knights, bishops)) <= 1
    one_colour = ~bits.is_any(bits.both(bishops, _LIGHT)) | ~bits.is_any(bits.without(bishops, _LIGHT))
    return ~decisive & (one_minor | (~bits.is_any(knights) & one_colour))


def settle(
    position: Position, moves: Moves, stuck: jax.Array, clock: jax.Array, ply: jax.Array, limits: Limits
) -> jax.Array:
    """The flags of a position; repetition is not looked at.

    Args:
        position: the position.
        moves: its legal moves.
        stuck: bool `[]`, whether there is none.
        clock, ply: uint32 `[]`.
        limits: the rules.
    """
    code = jnp.zeros((), jnp.uint32)
    # The last that applies stands: a mate on the last quiet move wins.
    for applies, number in (
        (ply >= np.uint32(limits.plies), LENGTH),
        (clock >= np.uint32(limits.clock), MOVE_RULE),
        (_lacks_material(position.pieces), INSUFFICIENT),
        (stuck, STALEMATE),
        (stuck & moves.in_check, CHECKMATE),
    ):
        code = jnp.where(applies, np.uint32(number), code)
    takable = jnp.where(moves.en_passant, position.passed, np.uint32(0))
    return position.rights | (takable << _PASSED) | (clock << _CLOCK) | (code << _ENDING)


def step(state: State, action: jax.Array, limits: Limits) -> State:
    """The state after `action` (int32 `[]`); a finished game is returned unchanged."""
    over = ending(state.flags) != RUNNING
    position, is_quiet = position_of(state).after(jnp.asarray(action, jnp.int32))
    quiet_plies = jnp.where(is_quiet, clock(state.flags) + 1, 0).astype(jnp.uint32)
    ply = state.ply + np.uint32(1)
    moves = position.moves()
    flags = settle(position, moves, ~moves.any, quiet_plies, ply, limits)
    boards = [bits.where(over, old, new) for old, new in zip(state.pieces, position.pieces, strict=True)]
    flags, ply = jnp.where(over, state.flags, flags), jnp.where(over, state.ply, ply)
    keys = (_key(state.pieces, state.flags, state.ply), _key(Pieces(*boards), flags, ply))
    *boards, (flags, ply), old_key, new_key = bits.compute_once(*boards, (flags, ply), *keys)
    seen, flags = _remember(state, flags, old_key, new_key, over, limits)
    return State(Pieces(*boards), flags, ply, seen, _shift_past(state, over))


class Walk(NamedTuple):
    """A random game on its way, which finds the moves of each position once.

    A step looks for moves to see whether the game has ended, and the choice of the next move for all of them.
    Here the end is noticed when the next move is to be chosen, one turn later.

    Attributes:
        position: the position, its ending not yet looked at.
        clock: uint32 `[]`, plies since the last capture or pawn move.
        ply: uint32 `[]`.
        seen: the keys of earlier positions as in `State`, up to the last.
        ending: int32 `[]`, an index of `ENDINGS`.
    """

    position: Position
    clock: jax.Array
    ply: jax.Array
    seen: Any
    ending: jax.Array

    @classmethod
    def begin(cls, state: State) -> Walk:
        """The walk from a state."""
        quiet = clock(state.flags).astype(jnp.uint32)
        return cls(position_of(state), quiet, state.ply, state.seen, ending(state.flags))

    def on(self, random: jax.Array, limits: Limits) -> Walk:
        """Notes the ending if there is one; else plays a move that `random` (uint32 `[]`) draws."""
        moves = self.position.moves()
        planes = moves.kept_planes()
        count = actions.count(planes)
        flags = settle(self.position, moves, count == 0, self.clock, self.ply, limits)
        position, is_quiet = self.position.after(actions.draw(planes, count, random))
        # Computed once: the keys are two long chains of which much depends.
        (flags,), key = bits.compute_once((flags,), _key(self.position.pieces, flags, self.ply))
        seen, repeats = self.seen, jnp.zeros((), bool)
        if limits.repetition:
            window = seen.shape[1]
            same = (seen[0] == key[0]) & (seen[1] == key[1])
            repeats = (jnp.sum(same, dtype=jnp.int32) + 1 >= limits.repetition) & (self.clock != 0)
            is_slot = np.arange(window, dtype=np.uint32) == jax.lax.rem(self.clock, np.uint32(window))
            seen = jnp.where(is_slot[None, :], jnp.stack(key)[:, None], seen)
            seen = jnp.where(is_quiet, seen, np.uint32(0))
        code = ending(flags)
        code = jnp.where((code == RUNNING) & repeats, np.int32(REPETITION), code)
        quiet = jnp.where(is_quiet, self.clock + np.uint32(1), np.uint32(0))
        ended = code != RUNNING
        return Walk(position, quiet, jnp.where(ended, self.ply, self.ply + np.uint32(1)), seen, code)


def _remember(
    state: State, flags: jax.Array, old_key: Board, new_key: Board, over: jax.Array, limits: Limits
) -> tuple[Any, jax.Array]:
    """The keys with the old position's among them, and the flags with a repetition noted."""
    if not limits.repetition:
        return state.seen, flags
    window = state.seen.shape[1]
    columns = np.arange(window, dtype=np.int32)
    slot = jax.lax.rem(clock(state.flags), np.int32(window))
    is_slot = (columns == slot)[None, :]
    is_start = clock(flags) == 0  # nothing before a capture or pawn move can come again
    seen = jnp.where(is_slot, jnp.stack(old_key)[:, None], state.seen)
    seen = jnp.where(over, state.seen, jnp.where(is_start, np.uint32(0), seen))
    same = (state.seen[0] == new_key[0]) & (state.seen[1] == new_key[1]) & ~is_slot[0]
    times = jnp.sum(same, dtype=jnp.int32) + 1
    repeats = (times >= limits.repetition) & ~is_start & (ending(flags) == RUNNING)
    return seen, jnp.where(repeats, with_ending(flags, REPETITION), flags)


def _shift_past(state: State, over: jax.Array) -> Any:
    if isinstance(state.past, tuple):
        return state.past
    words = jnp.stack([word for board in state.pieces for word in board])
    shifted = jnp.concatenate([words[None], state.past[:-1]])
    return jnp.where(over, state.past, shifted)
