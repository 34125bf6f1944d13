"""Connect Four: seven columns of six cells, four in a row wins.

Bit `7 * column + row` with row 0 at the bottom; the seventh bit of each column stays empty, so that shifted
lines cannot run from one column into the next. Columns 1-4 are the first word and 5-7 the second.
"""

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

HEIGHT, WIDTH = 6, 7
_STRIDE = HEIGHT + 1
_LOW_COLUMNS = 4
_BITS_PER_WORD = _LOW_COLUMNS * _STRIDE

# The board bit of each cell, `[HEIGHT, WIDTH]`, top row first: the order of observations and pictures.
_POSITIONS = np.arange(WIDTH)[None, :] * _STRIDE + np.arange(HEIGHT)[::-1, None]
_FULL = bits.constant(bits.mask_of(_POSITIONS), words=2, width=_BITS_PER_WORD)
_BOTTOM = bits.constant(bits.mask_of(_POSITIONS[-1]), words=2, width=_BITS_PER_WORD)
_WON = np.uint32(1 << 31)
# Up, and per column to the right: level, falling, rising.
_DIRECTIONS = (1, _STRIDE, _STRIDE - 1, _STRIDE + 1)


class State(NamedTuple):
    """16 bytes.

    Attributes:
        own: the stones of the player to move.
        other: the stones of the player who moved last; bit 31 of the second word is set once they have four.
    """

    own: Board
    other: Board


def _occupied(state: State) -> Board:
    return bits.both(bits.either(state.own, state.other), _FULL)


def _won(state: State) -> jax.Array:
    return state.other[1] >= _WON


def _has_four(board: Board) -> jax.Array:
    found = bits.zeros(2)
    for step in _DIRECTIONS:
        pairs = bits.both(board, bits.shift_down(board, step, width=_BITS_PER_WORD))
        fours = bits.both(pairs, bits.shift_down(pairs, 2 * step, width=_BITS_PER_WORD))
        found = bits.either(found, fours)
    return bits.is_any(found)


@dataclasses.dataclass(frozen=True)
class ConnectFour:
    """Connect Four. An action is a column, 0-6; its notation is the column's number, 1-7.

    Example:
        >>> game = ConnectFour()
        >>> print(game.render(game.from_string("4453")))
        1 2 3 4 5 6 7
        . . . . . . .
        . . . . . . .
        . . . . . . .
        . . . . . . .
        . . . O . . .
        . . O X X . .
        1 2 3 4 5 6 7
        X to move

    Reference: https://en.wikipedia.org/wiki/Connect_Four
    """

    name = "connect_four"
    version = 1
    num_players = 2
    num_actions = WIDTH
    observation_shape = (HEIGHT, WIDTH, 3)
    max_steps = HEIGHT * WIDTH
    has_chance = False

    # Rules

    def init(self, key: jax.Array) -> State:
        """The empty board; `key` is not used."""
        del key
        return State(bits.zeros(2), bits.zeros(2))

    def step(self, state: State, action: jax.Array) -> State:
        """Drops a stone of the player to move into column `action` (int32 `[]`)."""
        occupied = _occupied(state)
        column = bits.bit(jnp.asarray(action, jnp.int32) * _STRIDE, words=2, width=_BITS_PER_WORD)
        # Adding a column's bottom bit to its stones carries into the first empty cell.
        cells = tuple(word * np.uint32((1 << HEIGHT) - 1) for word in column)
        landing = bits.both(tuple(o + c for o, c in zip(occupied, column, strict=True)), cells)
        moved = bits.either(state.own, landing)
        flagged = (moved[0], jnp.where(_has_four(moved), moved[1] | _WON, moved[1]))
        over = self.is_over(state)
        own = bits.where(over, state.own, state.other)
        other = bits.where(over, state.other, flagged)
        return State(*bits.compute_once(own, other))

    def legal_actions(self, state: State) -> jax.Array:
        """Bool `[7]`: the columns that are not full; none once the game is over."""
        # A board without an empty top cell is over, so that a won game is the one case to add.
        empty = bits.without(_FULL, bits.either(state.own, state.other))
        (free,) = bits.compute_once(bits.where(_won(state), bits.zeros(2), empty))
        return bits.unpack(free, _POSITIONS[0], width=_BITS_PER_WORD)

    def observe(self, state: State, player: jax.Array) -> jax.Array:
        """Bool `[6, 7, 3]`, top row first: `player`'s stones, the other's, cells a stone would land on."""
        mine = self.current_player(state) == player
        own = bits.where(mine, state.own, state.other)
        other = bits.where(mine, state.other, state.own)
        occupied = _occupied(state)
        filled = tuple(o + b for o, b in zip(occupied, _BOTTOM, strict=True))
        landing = bits.both(bits.without(filled, occupied), _FULL)
        landing = bits.where(self.is_over(state), bits.zeros(2), landing)
        boards = bits.compute_once(own, other, landing)
        return bits.planes(boards, _POSITIONS, width=_BITS_PER_WORD)

    def current_player(self, state: State) -> jax.Array:
        """Int32 `[]`: 0 moves at even plies, 1 at odd ones."""
        return bits.popcount(_occupied(state)) & 1

    def rewards(self, state: State) -> jax.Array:
        """Float32 `[2]`: +1 and -1 once a player has four in a row, else zeros."""
        # The player to move has not won: +1 for the first player if the second is to move.
        first = jnp.where(_won(state), 2 * self.current_player(state) - 1, np.int32(0))
        return jnp.stack([first, -first]).astype(jnp.float32)

    def is_over(self, state: State) -> jax.Array:
        """Bool `[]`: four in a row or a full board."""
        return _won(state) | bits.equal(_occupied(state), _FULL)

    # Symmetries

    @functools.cached_property
    def symmetries(self) -> Symmetries:
        """The identity and the left-right mirror (K = 2)."""
        cells = np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH)
        actions = np.arange(WIDTH)
        return Symmetries(
            cells=np.stack([cells.ravel(), cells[:, ::-1].ravel()]),
            actions=np.stack([actions, actions[::-1]]),
        )

    def transform(self, state: State, k: jax.Array) -> State:
        """The state seen through symmetry `k` (int32 `[]`)."""
        source = jnp.asarray(self.symmetries.cells)[k]
        own, other = (bits.permute(board, source, _POSITIONS, width=_BITS_PER_WORD) for board in state)
        return State(own, (other[0], other[1] | (state.other[1] & _WON)))

    # Notation

    def action_to_string(self, action: int) -> str:
        """The column's number, 1-7."""
        return str(int(action) + 1)

    def action_from_string(self, text: str) -> int:
        """The action of a column's number.

        Raises:
            ValueError: `text` is not one of 1-7.
        """
        move = text.strip()
        if move not in tuple("1234567"):
            raise ValueError(f"{text!r} is not a column; give a number from 1 to 7.")
        return int(move) - 1

    def from_string(self, text: str) -> State:
        """The state after a list of columns ("4453", spaces allowed), or a board diagram.

        Args:
            text: moves from the empty board, or six rows of `.XO` from the top separated by `/` or
                newlines and then the side to move ("X" moves first).

        Raises:
            ValueError: a bad character, a full column, a move after the end, or an impossible board.
        """
        if diagram.is_diagram(text):
            return self._from_diagram(text)
        return replay(self, "".join(text.split()))

    def to_string(self, state: State) -> str:
        """The board diagram that `from_string` reads back."""
        first, second, player = self._cells(state)
        return diagram.dump(first, second, player)

    def _from_diagram(self, text: str) -> State:
        first, second, player = diagram.parse(text, HEIGHT, WIDTH)
        diagram.check_counts(text, first, second, player)
        occupied = first | second
        floating = np.argwhere(occupied[:-1] & ~occupied[1:])
        if len(floating):
            row, column = floating[0]
            raise ValueError(
                f"row {row + 1}, column {column + 1} of {text!r} has a stone above an empty cell."
            )
        boards = [
            bits.pack(jnp.asarray(b), _POSITIONS, words=2, width=_BITS_PER_WORD) for b in (first, second)
        ]
        own, other = boards[player], boards[1 - player]
        if bool(_has_four(own)):
            raise ValueError(
                f"position {text!r} has four in a row for {diagram.STONES[player]}, who is to move; "
                f"only the player who moved last can have four."
            )
        return State(own, (other[0], jnp.where(_has_four(other), other[1] | _WON, other[1])))

    # Pictures

    def _cells(self, state: State) -> tuple[np.ndarray, np.ndarray, int]:
        boards = [np.asarray(bits.unpack(board, _POSITIONS, width=_BITS_PER_WORD)) for board in state]
        player = int(self.current_player(state))
        return boards[player], boards[1 - player], player

    def _status(self, state: State) -> str:
        player = int(self.current_player(state))
        winner = 1 - player if bool(_won(state)) else None
        return diagram.status(over=bool(self.is_over(state)), player=player, winner=winner)

    def render(self, state: State) -> str:
        """The board as text, columns numbered."""
        first, second, _ = self._cells(state)
        columns = [str(c + 1) for c in range(WIDTH)]
        return diagram.layout(diagram.cell_rows(first, second), columns, [""] * HEIGHT, self._status(state))

    def to_svg(self, state: State) -> str:
        """The board as a picture: X red, O yellow."""
        first, second, _ = self._cells(state)
        shapes = [
            svg.rectangle(svg.MARGIN, svg.MARGIN, WIDTH * svg.CELL, HEIGHT * svg.CELL, "#3b6fb6", radius=8)
        ]
        shapes += svg.coordinates([str(c + 1) for c in range(WIDTH)], [])
        for row in range(HEIGHT):
            for column in range(WIDTH):
                x, y = svg.centre(row, column)
                fill, stroke = svg.BACKGROUND, "#2f5a96"
                if first[row, column]:
                    fill, stroke = "#e4572e", "#b8431f"
                elif second[row, column]:
                    fill, stroke = "#f6c945", "#c99f24"
                shapes.append(svg.circle(x, y, svg.CELL * 0.4, fill, stroke=stroke))
        return svg.picture(HEIGHT, WIDTH, shapes, self._status(state))
