"""Othello on any even board from 4x4 to 8x8.

Bit `8 * row + column` with row 0 at the top, whatever the size, so that one set of shifts serves all sizes
and each word holds four whole rows. Runs of discs are found in all eight directions by parallel shifts.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits, diagram, svg
from games_jax.bits import Board
from games_jax.game import Symmetries
from games_jax.play import legal_moves, play
from games_jax.symmetries import dihedral

_STRIDE = 8
_WORDS = 2
_SIZES = (4, 6, 8)
_SECOND_PLAYER = np.uint32(1)
_OVER = np.uint32(2)

_Shift = Callable[[Board], Board]


class State(NamedTuple):
    """20 bytes.

    Attributes:
        own: the discs of the player to move.
        other: the discs of the other player.
        flags: uint32 `[]`; bit 0 is the player to move, bit 1 is set once neither side can move.
    """

    own: Board
    other: Board
    flags: jax.Array


def _shifts(count: int) -> tuple[_Shift, _Shift]:
    """Both ways along one line; a row never leaves its word, so shifts along it need no carry."""
    if count < _STRIDE - 1:
        return (
            lambda board: tuple(word << count for word in board),
            lambda board: tuple(word >> count for word in board),
        )
    return (lambda board: bits.shift_up(board, count), lambda board: bits.shift_down(board, count))


# One pair of shifts by one cell and one by two, for each way along rows, columns and the two diagonals.
_DIRECTIONS = tuple(
    (one, two)
    for count in (1, _STRIDE - 1, _STRIDE, _STRIDE + 1)
    for one, two in zip(_shifts(count), _shifts(2 * count), strict=True)
)
_VERTICAL = (4, 5)


@dataclasses.dataclass(frozen=True)
class _Layout:
    """What depends on the board's size: masks as numpy scalars, so that nothing happens at import."""

    positions: np.ndarray  # int [size * size], row by row from the top
    board: Board
    inner_columns: Board  # all but the first and last
    doublings: int  # steps of two cells after the first two cells of a run


@functools.cache
def _layout(size: int) -> _Layout:
    positions = np.arange(size)[:, None] * _STRIDE + np.arange(size)[None, :]
    return _Layout(
        positions=positions.ravel(),
        board=bits.constant(bits.mask_of(positions), words=_WORDS),
        inner_columns=bits.constant(bits.mask_of(positions[:, 1:-1]), words=_WORDS),
        doublings=(size - 4) // 2,
    )


def _run(seed: Board, through: Board, one: _Shift, two: _Shift, doublings: int) -> Board:
    """The cells of `through` that follow `seed` without a gap in one direction."""
    run = bits.both(through, one(seed))
    run = bits.either(run, bits.both(through, one(run)))
    pairs = bits.both(through, one(through))
    for _ in range(doublings):
        run = bits.either(run, bits.both(pairs, two(run)))
    return run


def _runs(seed: Board, other: Board, layout: _Layout) -> list[tuple[Board, Board]]:
    """For each direction, the run of `other` that follows `seed`, and that run moved on by one cell."""
    # A run inside the inner columns cannot leave one side and enter the other; a vertical one never does.
    inner = bits.both(other, layout.inner_columns)
    runs = []
    for index, (one, two) in enumerate(_DIRECTIONS):
        through = other if index in _VERTICAL else inner
        run = _run(seed, through, one, two, layout.doublings)
        runs.append((run, one(run)))
    return runs


def _placements(own: Board, other: Board, layout: _Layout) -> Board:
    """The empty cells where a disc of `own` would flip some of `other`."""
    found = bits.zeros(_WORDS)
    for _, ends in _runs(own, other, layout):
        found = bits.either(found, ends)
    return bits.without(bits.both(found, layout.board), bits.either(own, other))


def _flips(placed: Board, own: Board, other: Board, layout: _Layout) -> Board:
    """The discs of `other` that turn when `placed` (one bit or none) is added to `own`."""
    flipped = bits.zeros(_WORDS)
    for run, ends in _runs(placed, other, layout):
        closed = bits.is_any(bits.both(ends, own))
        flipped = bits.either(flipped, bits.where(closed, run, bits.zeros(_WORDS)))
    return flipped


def _settle(own: Board, other: Board, player: jax.Array, layout: _Layout) -> State:
    """The state with these boards and `player` to move, marked as over if neither side can place a disc."""
    movable = bits.either(_placements(own, other, layout), _placements(other, own, layout))
    flags = player | jnp.where(bits.is_any(movable), np.uint32(0), _OVER)
    own, other, (flags,) = bits.compute_once(own, other, (flags,))
    return State(own, other, flags)


@dataclasses.dataclass(frozen=True)
class Othello:
    """Othello (Reversi) by the rules of the game's federation, on a board of 4, 6 or 8 cells a side.

    An action is a cell, row by row from the top, or the last action: pass. Passing is legal only where the
    mover cannot place a disc and the opponent can. The game ends as soon as neither side can place one; more
    discs win. Black (X) moves first.

    Attributes:
        size: cells on a side: 4, 6 or 8.

    Raises:
        ValueError: another size.

    Example:
        >>> game = Othello(size=4)
        >>> print(game.render(game.from_string("b1")))
          a b c d
        1 . X . . 1
        2 . X X . 2
        3 . X O . 3
        4 . . . . 4
          a b c d
        O to move (X 4, O 1)

    Reference: https://www.worldothello.org/about/about-othello/othello-rules/official-rules/english
    """

    size: int = 8

    version = 1
    num_players = 2
    has_chance = False

    def __post_init__(self):
        if type(self.size) is not int or self.size not in _SIZES:
            raise ValueError(f"othello has no size {self.size!r}; give one of {', '.join(map(str, _SIZES))}.")

    @property
    def name(self) -> str:
        """The registry name; size 8 is the default and left out."""
        return "othello" if self.size == 8 else f"othello(size={self.size})"

    @property
    def num_actions(self) -> int:
        """The cells, and pass."""
        return self.size**2 + 1

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """`(size, size, 3)`."""
        return (self.size, self.size, 3)

    @property
    def max_steps(self) -> int:
        """A disc for each cell but the four of the start, and never two passes in a row."""
        return 2 * (self.size**2 - 4)

    # Rules

    def init(self, key: jax.Array) -> State:
        """White (O) on d4 and e5, Black (X) on e4 and d5, Black to move; `key` is not used."""
        del key
        middle = self.size // 2 * (_STRIDE + 1)
        black = (1 << (middle - _STRIDE)) | (1 << (middle - 1))
        white = (1 << (middle - _STRIDE - 1)) | (1 << middle)
        return State(
            own=bits.from_int(black, words=_WORDS),
            other=bits.from_int(white, words=_WORDS),
            flags=jnp.zeros((), jnp.uint32),
        )

    def step(self, state: State, action: jax.Array) -> State:
        """Places a disc on cell `action` (int32 `[]`) and turns what it encloses, or passes."""
        layout = _layout(self.size)
        over = self.is_over(state)
        cell = jnp.asarray(action, jnp.int32)
        row, column = jax.lax.div(cell, np.int32(self.size)), jax.lax.rem(cell, np.int32(self.size))
        # A pass, and any action of a finished game, places nothing and so turns nothing.
        index = jnp.where(over | (cell >= self.size**2), np.int32(-1), row * _STRIDE + column)
        placed = bits.bit(index, words=_WORDS)
        flipped = _flips(placed, state.own, state.other, layout)
        moved = bits.either(bits.either(state.own, placed), flipped)
        turned = bits.without(state.other, flipped)
        own, other = bits.where(over, moved, turned), bits.where(over, turned, moved)
        player = (state.flags & _SECOND_PLAYER) ^ jnp.where(over, np.uint32(0), _SECOND_PLAYER)
        return _settle(own, other, player, layout)

    def legal_actions(self, state: State) -> jax.Array:
        """Bool `[size * size + 1]`; pass (the last) alone where no disc can be placed; none once over."""
        layout = _layout(self.size)
        (placements,) = bits.compute_once(_placements(state.own, state.other, layout))
        must_pass = ~bits.is_any(placements) & ~self.is_over(state)
        # One elementwise expression: a concatenation of cells and pass would be a slower loop of its own.
        is_pass = np.arange(self.num_actions) == self.size**2
        cells = bits.unpack(placements, np.append(layout.positions, 0))
        return jnp.where(is_pass, must_pass, cells)

    def observe(self, state: State, player: jax.Array) -> jax.Array:
        """Bool `[size, size, 3]`, top row first: `player`'s discs, the other's, where the mover may place."""
        layout = _layout(self.size)
        mine = self.current_player(state) == player
        own = bits.where(mine, state.own, state.other)
        other = bits.where(mine, state.other, state.own)
        boards = bits.compute_once(own, other, _placements(state.own, state.other, layout))
        return bits.planes(boards, layout.positions.reshape(self.size, self.size))

    def stones(self, state: State, player: jax.Array) -> jax.Array:
        """Int32 `[size * size]`: 0 where empty, 1 where `player` has a disc, 2 where the other has one."""
        positions = _layout(self.size).positions
        mine = self.current_player(state) == player
        own = bits.unpack(bits.where(mine, state.own, state.other), positions)
        other = bits.unpack(bits.where(mine, state.other, state.own), positions)
        return own.astype(jnp.int32) + 2 * other.astype(jnp.int32)

    def current_player(self, state: State) -> jax.Array:
        """Int32 `[]`: 0 is Black."""
        return (state.flags & _SECOND_PLAYER).astype(jnp.int32)

    def rewards(self, state: State) -> jax.Array:
        """Float32 `[2]`: +1 to the side with more discs and -1 to the other at the end, else zeros."""
        margin = jnp.sign(bits.popcount(state.own) - bits.popcount(state.other))
        black = jnp.where(self.current_player(state) == 0, margin, -margin)
        black = jnp.where(self.is_over(state), black, np.int32(0))
        return jnp.stack([black, -black]).astype(jnp.float32)

    def is_over(self, state: State) -> jax.Array:
        """Bool `[]`: neither side can place a disc."""
        return (state.flags & _OVER) != 0

    # Symmetries

    @functools.cached_property
    def symmetries(self) -> Symmetries:
        """The eight rotations and reflections; four of them turn the start into its colour-swapped twin."""
        return dihedral(self.size, extra_actions=1)

    def transform(self, state: State, k: jax.Array) -> State:
        """The state seen through symmetry `k` (int32 `[]`)."""
        positions = _layout(self.size).positions
        source = jnp.asarray(self.symmetries.cells)[k]
        own, other = (bits.permute(board, source, positions) for board in (state.own, state.other))
        return State(own, other, state.flags)

    # Notation

    def action_to_string(self, action: int) -> str:
        """The cell's name, a1 at the top left, or "pass"."""
        return "pass" if int(action) == self.size**2 else diagram.square(int(action), self.size)

    def action_from_string(self, text: str) -> int:
        """The action of a cell's name or of "pass"; ValueError for anything else."""
        if text.strip().lower() == "pass":
            return self.size**2
        try:
            return diagram.parse_square(text, self.size, self.size)
        except ValueError as error:
            raise ValueError(str(error).replace(".", ", or 'pass'.")) from None

    def from_string(self, text: str) -> State:
        """The state after a transcript ("f5d6c3", spaces allowed), or a board diagram.

        Args:
            text: moves from the start, where a forced pass may be written ("pass") or left out, as printed
                transcripts do; or rows of `.XO` from the top separated by `/` or newlines, then the side to
                move.

        Raises:
            ValueError: an unreadable or illegal move, a move after the end, or a malformed board.
        """
        if diagram.is_diagram(text):
            first, second, player = diagram.parse(text, self.size, self.size)
            return self.from_cells(jnp.asarray(first), jnp.asarray(second), jnp.int32(player))
        state = self.init(jax.random.key(0))
        for number, move in enumerate(diagram.split_moves(text, "pass"), start=1):
            if move != "pass" and legal_moves(self, state) == ["pass"]:
                state = play(self, state, "pass")
            try:
                state = play(self, state, move)
            except ValueError as error:
                raise ValueError(f"at move {number} of {text!r}: {error}") from None
        return state

    def to_string(self, state: State) -> str:
        """The board diagram that `from_string` reads back."""
        return diagram.dump(*self._cells(state))

    def from_cells(self, first: jax.Array, second: jax.Array, player: jax.Array) -> State:
        """The state of a board, of which nothing is checked; for many of them at once under `vmap`.

        Args:
            first: bool `[size, size]`, top row first: the discs of Black.
            second: the same, of White.
            player: int32 `[]`, the side to move.
        """
        layout = _layout(self.size)
        black, white = (bits.pack(board.ravel(), layout.positions, words=_WORDS) for board in (first, second))
        own = bits.where(player == 0, black, white)
        other = bits.where(player == 0, white, black)
        return _settle(own, other, player.astype(jnp.uint32), layout)

    # Pictures

    def _cells(self, state: State) -> tuple[np.ndarray, np.ndarray, int]:
        positions = _layout(self.size).positions
        shape = (self.size, self.size)
        boards = [np.asarray(bits.unpack(b, positions)).reshape(shape) for b in (state.own, state.other)]
        player = int(self.current_player(state))
        return boards[player], boards[1 - player], player

    def _labels(self) -> tuple[list[str], list[str]]:
        return list("abcdefgh"[: self.size]), [str(row + 1) for row in range(self.size)]

    def _status(self, state: State) -> str:
        first, second, player = self._cells(state)
        discs = int(first.sum()), int(second.sum())
        winner = None if discs[0] == discs[1] else int(discs[1] > discs[0])
        status = diagram.status(over=bool(self.is_over(state)), player=player, winner=winner)
        return f"{status} (X {discs[0]}, O {discs[1]})"

    def render(self, state: State) -> str:
        """The board as text, with the count of discs."""
        first, second, _ = self._cells(state)
        return diagram.layout(diagram.cell_rows(first, second), *self._labels(), self._status(state))

    def to_svg(self, state: State) -> str:
        """The board as a picture; small dots mark where the mover may place a disc."""
        size, cell = self.size, svg.CELL
        low, high = svg.MARGIN, svg.MARGIN + size * cell
        shapes = [svg.rectangle(low - 4, low - 4, size * cell + 8, size * cell + 8, "#2f7d5b", radius=6)]
        shapes += svg.coordinates(*self._labels())
        for i in range(size + 1):
            at = low + i * cell
            shapes += [svg.line(at, low, at, high, "#256348"), svg.line(low, at, high, at, "#256348")]
        first, second, _ = self._cells(state)
        playable = np.asarray(self.observe(state, self.current_player(state)))[..., 2]
        for row in range(size):
            for column in range(size):
                x, y = svg.centre(row, column)
                if first[row, column]:
                    shapes.append(svg.circle(x, y, cell * 0.4, "#1f2937", stroke="#111827"))
                elif second[row, column]:
                    shapes.append(svg.circle(x, y, cell * 0.4, "#f9fafb", stroke="#c7ccd4"))
                elif playable[row, column]:
                    shapes.append(svg.circle(x, y, cell * 0.07, "#9fd3ba"))
        return svg.picture(size, size, shapes, self._status(state))
