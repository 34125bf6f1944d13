"""Tic-tac-toe: three by three cells, three in a row wins. Bit `3 * row + column`, row 0 at the top."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits, diagram, svg
from games_jax.bits import Board
from games_jax.game import Symmetries
from games_jax.play import replay
from games_jax.symmetries import dihedral

SIZE = 3
_POSITIONS = np.arange(SIZE * SIZE)
_FULL = np.uint32(0b111_111_111)
_DIAGONALS = (np.uint32(0b100_010_001), np.uint32(0b001_010_100))


class State(NamedTuple):
    """8 bytes.

    Attributes:
        own: uint32 `[]`, the cells of the player to move.
        other: uint32 `[]`, the cells of the player who moved last.
    """

    own: jax.Array
    other: jax.Array


def _has_three(board: jax.Array) -> jax.Array:
    rows = board & (board >> 1) & (board >> 2) & np.uint32(0b001_001_001)
    columns = board & (board >> 3) & (board >> 6)
    found = (rows | columns) != 0
    for line in _DIAGONALS:
        found = found | ((board & line) == line)
    return found


@dataclasses.dataclass(frozen=True)
class TicTacToe:
    """Tic-tac-toe. An action is a cell, 0-8 row by row; its notation is a1 (top left) to c3.

    Example:
        >>> game = TicTacToe()
        >>> print(game.render(game.from_string("b2 a1 c3")))
          a b c
        1 O . . 1
        2 . X . 2
        3 . . X 3
          a b c
        O to move
    """

    name = "tic_tac_toe"
    version = 1
    num_players = 2
    num_actions = SIZE * SIZE
    observation_shape = (SIZE, SIZE, 3)
    max_steps = SIZE * SIZE
    has_chance = False

    # Rules

    def init(self, key: jax.Array) -> State:
        """The empty board; `key` is not used."""
        del key
        return State(jnp.zeros((), jnp.uint32), jnp.zeros((), jnp.uint32))

    def step(self, state: State, action: jax.Array) -> State:
        """Takes cell `action` (int32 `[]`) for the player to move."""
        (cell,) = bits.bit(jnp.asarray(action, jnp.int32), words=1)
        over = self.is_over(state)
        own = jnp.where(over, state.own, state.other)
        other = jnp.where(over, state.other, state.own | cell)
        return State(*bits.compute_once((own, other))[0])

    def legal_actions(self, state: State) -> jax.Array:
        """Bool `[9]`: the empty cells; none once the game is over."""
        return bits.unpack(self._empty(state), _POSITIONS)

    def observe(self, state: State, player: jax.Array) -> jax.Array:
        """Bool `[3, 3, 3]`: `player`'s cells, the other's, and the empty cells while the game goes on."""
        mine = self.current_player(state) == player
        own = jnp.where(mine, state.own, state.other)
        other = jnp.where(mine, state.other, state.own)
        boards = [(own,), (other,), self._empty(state)]
        return bits.planes(boards, _POSITIONS.reshape(SIZE, SIZE))

    def _empty(self, state: State) -> Board:
        empty = jnp.where(self.is_over(state), np.uint32(0), _FULL ^ (state.own | state.other))
        return bits.compute_once((empty,))[0]

    def current_player(self, state: State) -> jax.Array:
        """Int32 `[]`: 0 moves at even plies, 1 at odd ones."""
        return bits.popcount((state.own | state.other,)) & 1

    def rewards(self, state: State) -> jax.Array:
        """Float32 `[2]`: +1 and -1 once a player has three in a row, else zeros."""
        # The player to move has not won: +1 for the first player if the second is to move.
        first = jnp.where(_has_three(state.other), 2 * self.current_player(state) - 1, np.int32(0))
        return jnp.stack([first, -first]).astype(jnp.float32)

    def is_over(self, state: State) -> jax.Array:
        """Bool `[]`: three in a row or a full board."""
        return _has_three(state.other) | ((state.own | state.other) == _FULL)

    # Symmetries

    @functools.cached_property
    def symmetries(self) -> Symmetries:
        """The eight rotations and reflections of the square."""
        return dihedral(SIZE)

    def transform(self, state: State, k: jax.Array) -> State:
        """The state seen through symmetry `k` (int32 `[]`)."""
        source = jnp.asarray(self.symmetries.cells)[k]
        return State(*(bits.permute((board,), source, _POSITIONS)[0] for board in state))

    # Notation

    def action_to_string(self, action: int) -> str:
        """The cell's name, a1 at the top left."""
        return diagram.square(int(action), SIZE)

    def action_from_string(self, text: str) -> int:
        """The action of a cell's name; ValueError if it is none of a1 to c3."""
        return diagram.parse_square(text, SIZE, SIZE)

    def from_string(self, text: str) -> State:
        """The state after a list of cells ("b2 a1 c3" or "b2a1c3"), or a board diagram.

        Args:
            text: moves from the empty board, or three rows of `.XO` from the top separated by `/` or newlines
                and then the side to move ("X" moves first).

        Raises:
            ValueError: an unreadable or illegal move, a move after the end, or an impossible board.
        """
        if not diagram.is_diagram(text):
            return replay(self, diagram.split_moves(text))
        first, second, player = diagram.parse(text, SIZE, SIZE)
        diagram.check_counts(text, first, second, player)
        boards = [bits.pack(jnp.asarray(b.ravel()), _POSITIONS, words=1)[0] for b in (first, second)]
        own, other = boards[player], boards[1 - player]
        if bool(_has_three(own)):
            raise ValueError(
                f"position {text!r} has three in a row for the side to move; the game ended before."
            )
        return State(own, other)

    def to_string(self, state: State) -> str:
        """The board diagram that `from_string` reads back."""
        return diagram.dump(*self._cells(state))

    # Pictures

    def _cells(self, state: State) -> tuple[np.ndarray, np.ndarray, int]:
        boards = [np.asarray(bits.unpack((b,), _POSITIONS)).reshape(SIZE, SIZE) for b in state]
        player = int(self.current_player(state))
        return boards[player], boards[1 - player], player

    def _status(self, state: State) -> str:
        player = int(self.current_player(state))
        winner = 1 - player if bool(_has_three(state.other)) else None
        return diagram.status(over=bool(self.is_over(state)), player=player, winner=winner)

    def render(self, state: State) -> str:
        """The board as text."""
        first, second, _ = self._cells(state)
        return diagram.layout(diagram.cell_rows(first, second), list("abc"), list("123"), self._status(state))

    def to_svg(self, state: State) -> str:
        """The board as a picture: X crosses, O rings."""
        first, second, _ = self._cells(state)
        shapes = svg.coordinates(list("abc"), list("123"))
        low, high = svg.MARGIN, svg.MARGIN + SIZE * svg.CELL
        for i in range(1, SIZE):
            at = svg.MARGIN + i * svg.CELL
            shapes += [svg.line(at, low, at, high, svg.LINE, width=2, cap="round")]
            shapes += [svg.line(low, at, high, at, svg.LINE, width=2, cap="round")]
        for row, column in np.argwhere(first):
            x, y = svg.centre(row, column)
            reach = svg.CELL * 0.26
            for dx in (reach, -reach):
                shapes.append(svg.line(x - dx, y - reach, x + dx, y + reach, "#e4572e", width=5, cap="round"))
        for row, column in np.argwhere(second):
            shapes.append(
                svg.circle(*svg.centre(row, column), svg.CELL * 0.28, "none", stroke="#3b6fb6", width=5)
            )
        return svg.picture(SIZE, SIZE, shapes, self._status(state))
