"""The rules of Hex: the state, the step, what the players see, and notation."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits, diagram
from games_jax.bits import Board
from games_jax.game import Symmetries
from games_jax.hex import connection, render
from games_jax.hex.playout import random_subset, random_word
from games_jax.play import replay

_LEAST, _GREATEST = 2, 19
_SECOND_PLAYER = np.uint32(1)
_OVER = np.uint32(2)
_SWAP = ("swap", "swap-pieces")


class State(NamedTuple):
    """Two bits a cell and 4 bytes: 36 bytes on 11x11, 28 on 9x9, 12 on 5x5, 100 on 19x19.

    Attributes:
        first: the stones of the first player, who joins top and bottom; bit `size * row + column`.
        second: the stones of the second player, who joins left and right.
        flags: uint32 `[]`; bit 0 is the player to move, bit 1 is set once a player has won.
    """

    first: Board
    second: Board
    flags: jax.Array


@dataclasses.dataclass(frozen=True)
class Hex:
    """Hex. The first player (X) joins the top and bottom edges, the second (O) the left and right ones.

    An action is a cell, row by row from the top. There is no draw: a full board has exactly one winner.

    Attributes:
        size: cells on a side, 2 to 19.
        swap: whether the second player may answer the first stone by taking it over (the pie rule). It is the
            last action, legal at the second ply only: the stone becomes the second player's and moves to its
            mirror image in the long diagonal, so that it stands to the second player's edges as it stood to
            the first player's; then the first player moves.

    Raises:
        ValueError: another size, or a `swap` that is no bool.

    Example:
        >>> game = Hex(size=3)
        >>> print(game.render(game.from_string("c1 a1 b2 a2 a3")))
         a b c
        1 O . X 1
         2 O X . 2
          3 X . . 3
             a b c
        X has won (X joins top and bottom, O left and right)

    Reference: https://www.hexwiki.net/index.php/Rules
    """

    size: int = 11
    swap: bool = False

    version = 1
    num_players = 2
    has_chance = False
    lattice = "hexagonal"

    def __post_init__(self):
        if type(self.size) is not int or not _LEAST <= self.size <= _GREATEST:
            raise ValueError(
                f"hex has no size {self.size!r}; give a whole number from {_LEAST} to {_GREATEST}."
            )
        if type(self.swap) is not bool:
            raise ValueError(f"hex takes swap=True or swap=False, not {self.swap!r}.")

    @property
    def name(self) -> str:
        """The registry name with the parameters that are not the default."""
        options = [f"size={self.size}"] * (self.size != 11) + ["swap=True"] * self.swap
        return f"hex({', '.join(options)})" if options else "hex"

    @property
    def num_actions(self) -> int:
        """The cells and, with `swap`, the swap."""
        return self.size**2 + self.swap

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """`(size, size, 4)`."""
        return (self.size, self.size, 4)

    @property
    def max_steps(self) -> int:
        """A stone for each cell and, with `swap`, the swap, which adds none."""
        return self.size**2 + self.swap

    # Rules

    def init(self, key: jax.Array) -> State:
        """The empty board; `key` is not used."""
        del key
        return State(bits.zeros(self._words), bits.zeros(self._words), jnp.zeros((), jnp.uint32))

    def step(self, state: State, action: jax.Array) -> State:
        """Places a stone of the player to move on cell `action` (int32 `[]`), or swaps."""
        over, sideways = self.is_over(state), self._second_moves(state)
        cell = jnp.asarray(action, jnp.int32)
        # A swap, and any action of a finished game, places nothing.
        placed = bits.bit(jnp.where(over | (cell >= self.size**2), np.int32(-1), cell), words=self._words)
        nothing = bits.zeros(self._words)
        first = bits.either(state.first, bits.where(sideways, nothing, placed))
        second = bits.either(state.second, bits.where(sideways, placed, nothing))
        if self.swap:
            swaps = ~over & (cell == self.size**2)
            mirrored = bits.bit(self._mirror(_lowest(state.first)), words=self._words)
            first, second = bits.where(swaps, nothing, first), bits.where(swaps, mirrored, second)
        own = bits.where(sideways, second, first)
        rows, first, second = bits.compute_once(connection.to_rows(own, self.size), first, second)
        # A swap never wins: no board is so small that one stone joins two edges.
        won = connection.is_joined(rows, sideways)
        turned = state.flags ^ _SECOND_PLAYER | jnp.where(won, _OVER, np.uint32(0))
        return State(first, second, jnp.where(over, state.flags, turned))

    def legal_actions(self, state: State) -> jax.Array:
        """Bool `[A]`: the empty cells, and the swap at the second ply; none once the game is over."""
        (free,) = bits.compute_once(self._free(state))
        if not self.swap:
            return bits.unpack(free, np.arange(self.size**2))
        # One elementwise expression: a concatenation of cells and swap would be a slower loop of its own.
        is_swap = np.arange(self.num_actions) == self.size**2
        cells = bits.unpack(free, np.append(np.arange(self.size**2), 0))
        return jnp.where(is_swap, self._may_swap(state), cells)

    def observe(self, state: State, player: jax.Array) -> jax.Array:
        """Bool `[size, size, 4]`, top row first, and a cell is set in at most one plane.

        0: `player`'s stones. 1: the other's. 2: the empty cells, if `player` joins top and bottom. 3: the
        empty cells, if `player` joins left and right. Planes 2 and 3 are empty once the game is over.
        """
        sideways = jnp.asarray(player, jnp.int32) == 1
        free, nothing = self._free(state), bits.zeros(self._words)
        boards = bits.compute_once(
            bits.where(sideways, state.second, state.first),
            bits.where(sideways, state.first, state.second),
            bits.where(sideways, nothing, free),
            bits.where(sideways, free, nothing),
        )
        return bits.planes(boards, np.arange(self.size**2).reshape(self.size, self.size))

    def edge_planes(self, state: State, *, padding: int = 2) -> jax.Array:
        """Stones and their connections to the edges on a padded board, in absolute colours.

        Args:
            padding: rows and columns of dummy stones on each side: the first player's above and below, the
                second's on the left and right, both colours in the corners.

        Returns:
            Bool `[size + 2 * padding, size + 2 * padding, 6]`: the first player's stones; the second's; the
            first player's that are connected to the top; to the bottom; the second player's that are
            connected to the left; to the right. An edge's dummy stones are connected to it.

        Reference: Anthony, Tian and Barber (2017), https://arxiv.org/abs/1705.08439, appendix D.
        """
        first, second = (
            connection.to_rows(state.first, self.size),
            connection.to_rows(state.second, self.size),
        )
        chains = [
            connection.connected_to(stones, edge(stones))
            for stones, edge in (
                (first, connection.top),
                (first, connection.bottom),
                (second, connection.left),
                (second, connection.right),
            )
        ]
        boards = [state.first, state.second, *(connection.from_rows(rows, self.size) for rows in chains)]
        inside = bits.planes(boards, np.arange(self.size**2).reshape(self.size, self.size))
        width = self.size + 2 * padding
        dummies = np.zeros((width, width, 6), bool)
        above, below = slice(0, padding), slice(width - padding, width)
        for plane, row in ((0, above), (0, below), (2, above), (3, below)):
            dummies[row, :, plane] = True
        for plane, column in ((1, above), (1, below), (4, above), (5, below)):
            dummies[:, column, plane] = True
        return jnp.pad(inside, ((padding, padding), (padding, padding), (0, 0))) | dummies

    def current_player(self, state: State) -> jax.Array:
        """Int32 `[]`: 0 joins top and bottom."""
        return (state.flags & _SECOND_PLAYER).astype(jnp.int32)

    def rewards(self, state: State) -> jax.Array:
        """Float32 `[2]`: +1 for the player who has joined two edges, -1 for the other, else zeros."""
        # The player to move has not won: +1 for the first player if the second is to move.
        first = jnp.where(self.is_over(state), 2 * self.current_player(state) - 1, np.int32(0))
        return jnp.stack([first, -first]).astype(jnp.float32)

    def is_over(self, state: State) -> jax.Array:
        """Bool `[]`: a player has joined two edges."""
        return (state.flags & _OVER) != 0

    def playout(self, state: State, key: jax.Array) -> jax.Array:
        """The rewards of one game played on from `state` uniformly at random, without playing it.

        The board is filled at random and its winner read off, at the price of about two steps.

        Returns:
            Float32 `[2]`; of a finished game its rewards.
        """
        state, first, _ = self._fill(state, key)
        return self._result(state, first)

    def playout_moves(self, state: State, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """`playout`, and what each player played.

        The cells that a player got of the filled board, those filled after the win among them; uint32
        `[2, W]`, action `a` being bit `a % 32` of word `a // 32`.
        """
        mover = self.current_player(state)
        state, first, swapped = self._fill(state, key)
        empty = bits.where(self.is_over(state), bits.zeros(self._words), self._empty(state))
        moves = []
        for player, board in enumerate((bits.both(empty, first), bits.without(empty, first))):
            words = [*board, *[jnp.zeros((), jnp.uint32)] * (-(-self.num_actions // 32) - self._words)]
            if self.swap:
                swap = (swapped & (mover == player)).astype(jnp.uint32)
                words[-1] = words[-1] | swap << (self.size**2 % 32)
            moves.append(jnp.stack(words))
        return self._result(state, first), jnp.stack(moves)

    def _fill(self, state: State, key: jax.Array) -> tuple[State, Board, jax.Array]:
        """The state once any swap is made, the first player's stones on the full board; was it made?"""
        swaps = jnp.zeros((), bool)
        if self.swap:
            # The one choice that is no cell: one of as many actions as there are cells.
            draw = random_word(key, self._words) % np.uint32(self.size**2)
            swaps = self._may_swap(state) & (draw == 0)
            mirrored = bits.bit(self._mirror(_lowest(state.first)), words=self._words)
            state = State(
                first=bits.where(swaps, bits.zeros(self._words), state.first),
                second=bits.where(swaps, mirrored, state.second),
                flags=jnp.where(swaps, state.flags ^ _SECOND_PLAYER, state.flags),
            )
        empty = self._empty(state)
        # The mover gets the odd cell.
        second_moves = self._second_moves(state).astype(jnp.int32)
        count = (bits.popcount(empty) + 1 - second_moves) // 2
        return state, bits.either(state.first, random_subset(key, empty, count)), swaps

    def _result(self, state: State, first: Board) -> jax.Array:
        """The rewards once the first player has all of `first`; of a finished game its own."""
        rows = bits.compute_once(connection.to_rows(first, self.size))[0]
        won = jnp.where(connection.is_joined(rows, jnp.zeros((), bool)), np.float32(1), np.float32(-1))
        return jnp.where(self.is_over(state), self.rewards(state), jnp.stack([won, -won]))

    @property
    def _words(self) -> int:
        return connection.words(self.size)

    def _second_moves(self, state: State) -> jax.Array:
        return (state.flags & _SECOND_PLAYER) != 0

    def _empty(self, state: State) -> Board:
        cells = bits.constant((1 << self.size**2) - 1, words=self._words)
        return bits.without(cells, bits.either(state.first, state.second))

    def _free(self, state: State) -> Board:
        return bits.where(self.is_over(state), bits.zeros(self._words), self._empty(state))

    def _may_swap(self, state: State) -> jax.Array:
        """Bool `[]`: the second player moves and has no stone; after a swap it is the first who has none."""
        return self._second_moves(state) & ~bits.is_any(state.second)

    def _mirror(self, cell: jax.Array) -> jax.Array:
        row, column = jax.lax.div(cell, np.int32(self.size)), jax.lax.rem(cell, np.int32(self.size))
        return column * self.size + row

    # Symmetries

    @functools.cached_property
    def symmetries(self) -> Symmetries:
        """The identity and the half turn (K = 2).

        A reflection in a diagonal exchanges the players' edges, so that it is a symmetry only together with
        an exchange of the players: no symmetry of the rules as this contract means it.
        """
        cells = np.arange(self.size**2)
        rest = np.arange(self.size**2, self.num_actions)
        return Symmetries(
            cells=np.stack([cells, cells[::-1]]),
            actions=np.stack([np.append(cells, rest), np.append(cells[::-1], rest)]),
        )

    def transform(self, state: State, k: jax.Array) -> State:
        """The state seen through symmetry `k` (int32 `[]`)."""
        source, positions = jnp.asarray(self.symmetries.cells)[k], np.arange(self.size**2)
        first, second = (bits.permute(board, source, positions) for board in (state.first, state.second))
        return State(first, second, state.flags)

    # Notation

    def action_to_string(self, action: int) -> str:
        """The cell's name, a1 in the upper acute corner, or "swap"."""
        return _SWAP[0] if int(action) == self.size**2 else diagram.square(int(action), self.size)

    def action_from_string(self, text: str) -> int:
        """The action of a cell's name or, in games with the swap, of "swap" (also "swap-pieces").

        Raises:
            ValueError: anything else.
        """
        if self.swap and text.strip().lower() in _SWAP:
            return self.size**2
        try:
            return diagram.parse_square(text, self.size, self.size)
        except ValueError as error:
            also = ", or 'swap'." if self.swap else "."
            raise ValueError(str(error).replace(".", also)) from None

    def from_string(self, text: str) -> State:
        """The state after a list of moves ("a3 swap b2", also "a3b2"), or a board diagram.

        Args:
            text: moves from the empty board; or rows of `.XO` from the top separated by `/` or newlines, then
                the side to move.

        Raises:
            ValueError: an unreadable or illegal move, a move after the end, or an impossible board.
        """
        if diagram.is_diagram(text):
            return self._from_diagram(text)
        return replay(self, diagram.split_moves(text, "swap(?:-pieces)?"))

    def to_string(self, state: State) -> str:
        """The board diagram that `from_string` reads back."""
        return diagram.dump(*self._cells(state), int(self.current_player(state)))

    def _from_diagram(self, text: str) -> State:
        first, second, player = diagram.parse(text, self.size, self.size)
        if not self.swap or first.sum() - second.sum() != player - 1:
            diagram.check_counts(text, first, second, player)
        boards = [bits.pack(jnp.asarray(b), self._positions, words=self._words) for b in (first, second)]
        joined = [
            bool(connection.is_joined(connection.to_rows(board, self.size), jnp.asarray(sideways)))
            for board, sideways in zip(boards, (False, True), strict=True)
        ]
        if joined[player]:
            raise ValueError(
                f"position {text!r} has a winning chain of {diagram.STONES[player]}, who is to move; only "
                f"the player who moved last can have won."
            )
        over = _OVER if joined[1 - player] else np.uint32(0)
        return State(boards[0], boards[1], jnp.uint32(player) | over)

    # Pictures

    @property
    def _positions(self) -> np.ndarray:
        return np.arange(self.size**2).reshape(self.size, self.size)

    def _cells(self, state: State) -> tuple[np.ndarray, np.ndarray]:
        first, second = (np.asarray(bits.unpack(b, self._positions)) for b in (state.first, state.second))
        return first, second

    def _status(self, state: State) -> str:
        player, over = int(self.current_player(state)), bool(self.is_over(state))
        status = diagram.status(over=over, player=player, winner=1 - player)
        return f"{status} (X joins top and bottom, O left and right)"

    def render(self, state: State) -> str:
        """The slanted board as text."""
        return render.text(*self._cells(state), self._status(state))

    def to_svg(self, state: State) -> str:
        """The board as a picture: hexagons, and edges in the colours of the players who join them."""
        return render.svg_picture(*self._cells(state), self._status(state))


def _lowest(board: Board) -> jax.Array:
    """The number of the one set bit, int32 `[]`; anything where there is not exactly one."""
    index = jnp.zeros((), jnp.int32)
    for word, cells in enumerate(board):
        inside = (np.uint32(31) - jax.lax.clz(cells)).astype(jnp.int32)
        index = jnp.where(cells != 0, inside + 32 * word, index)
    return index
