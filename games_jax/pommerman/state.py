"""The state of a game, its packing, and its exchange with arrays that a person can read."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board
from games_jax.pommerman.grid import Grid

PASSAGE, RIGID, WOOD, BOMB, FLAMES, FOG, EXTRA_BOMB, RANGE, KICK, _, AGENT = range(11)
"""Codes of the official board; agent `i` is `AGENT + i`. An item's code is its number 1 to 3 plus 5."""
ITEM = EXTRA_BOMB - 1

STOP, GO_UP, GO_DOWN, GO_LEFT, GO_RIGHT, LAY_BOMB = range(6)
NUM_ACTIONS = 6

BOMB_LIFE = 10
FLAME_LIFE = 2
MOST_AMMO = 10
MOST_BLAST = 10

_CELL, _ALIVE, _AMMO, _BLAST, _KICK = (0, 7, 8, 12, 16)  # the first bit of each part of an agent's word


class State(NamedTuple):
    """20 boards, a word an agent, and the step: 340 bytes on 11 x 11.

    Attributes:
        rigid: the rigid walls.
        wood: the wooden walls that stand.
        item: two digits, 1 extra bomb, 2 range, 3 kick. Hidden under wood and under flames (of burnt wood),
            open elsewhere.
        flames: for each life 0, 1 and 2 the cells with a flame that has so many steps left; a cell may be in
            several.
        life: four digits, a bomb's steps to go, 1 to 9; a cell has a bomb if it is not 0.
        blast: four digits, the bomb's blast strength, 2 to 10.
        owner: two digits, the agent who laid the bomb.
        moving: for each direction, the bombs that roll that way, as three boards: whether it moves, and two
            digits of the direction.
        agents: a word each: cell, alive, ammo, blast strength, can_kick.
        steps: uint32 `[]`, joint actions so far.
    """

    rigid: Board
    wood: Board
    item: tuple[Board, ...]
    flames: tuple[Board, ...]
    life: tuple[Board, ...]
    blast: tuple[Board, ...]
    owner: tuple[Board, ...]
    moving: tuple[Board, ...]
    agents: tuple[jax.Array, ...]
    steps: jax.Array


class Agent(NamedTuple):
    """An agent's word taken apart: int32 numbers and bools, each `[]`; dead ones keep their last values."""

    cell: jax.Array
    alive: jax.Array
    ammo: jax.Array
    blast: jax.Array
    can_kick: jax.Array


def unpack_agent(word: jax.Array) -> Agent:
    """The inverse of `pack_agent`; `word` may have any shape."""

    def part(first: int, width: int) -> jax.Array:
        return (word >> np.uint32(first) & np.uint32((1 << width) - 1)).astype(jnp.int32)

    return Agent(
        cell=part(_CELL, 7),
        alive=part(_ALIVE, 1) != 0,
        ammo=part(_AMMO, 4),
        blast=part(_BLAST, 4),
        can_kick=part(_KICK, 1) != 0,
    )


def pack_agent(agent: Agent) -> jax.Array:
    """An agent as one uint32 word."""
    firsts = (_CELL, _ALIVE, _AMMO, _BLAST, _KICK)
    parts = [part.astype(jnp.uint32) << np.uint32(first) for part, first in zip(agent, firsts, strict=True)]
    word = parts[0]
    for part in parts[1:]:
        word = word | part
    return word


def bombs(state: State) -> Board:
    """The cells with a bomb."""
    a, b, c, d = state.life
    return bits.either(bits.either(a, b), bits.either(c, d))


def burning(state: State) -> Board:
    """The cells with flames."""
    return bits.either(bits.either(state.flames[0], state.flames[1]), state.flames[2])


def open_items(state: State) -> tuple[Board, Board]:
    """The two digits of the items that can be seen."""
    covered = bits.either(state.wood, burning(state))
    return bits.without(state.item[0], covered), bits.without(state.item[1], covered)


@dataclasses.dataclass
class Snapshot:
    """A state on the host, in the official environment's terms.

    Attributes:
        board: uint8 `[H, W]`, codes of what can be seen.
        hidden: uint8 `[H, W]`, item codes under wood and under flames, 0 for none.
        bombs: rows `(row, column, life, blast, owner, direction)`; direction 0 none, 1 up, 2 down, 3 left,
            4 right.
        flames: rows `(row, column, life)`.
        agents: rows `(row, column, alive, ammo, blast, can_kick)`.
        steps: joint actions so far.
    """

    board: np.ndarray
    hidden: np.ndarray
    bombs: Sequence[Sequence[int]]
    flames: Sequence[Sequence[int]]
    agents: Sequence[Sequence[int]]
    steps: int

    @property
    def as_planes(self) -> np.ndarray:
        """Uint8 `[9, H, W]`: board, hidden, bombs' life, blast, owner, direction, flames of life 0 to 2."""
        planes = np.zeros((9, *self.board.shape), np.uint8)
        planes[0], planes[1] = self.board, self.hidden
        for row, column, *facts in self.bombs:
            planes[2:6, row, column] = facts
        for row, column, life in self.flames:
            planes[6 + life, row, column] = 1
        return planes


def from_planes(planes: jax.Array, agents: jax.Array, steps: jax.Array) -> State:
    """A state from `Snapshot.as_planes` (uint8 `[9, H, W]`), agents (int `[P, 6]`) and steps (`[]`)."""
    grid = Grid(planes.shape[-1])
    board, hidden, life, blast, owner, direction, *flames = planes

    def pack(cells: jax.Array) -> Board:
        return bits.pack(cells, grid.positions, words=grid.words)

    def digits(numbers: jax.Array, count: int) -> tuple[Board, ...]:
        numbers = numbers.astype(jnp.int32)
        return tuple(pack((numbers >> digit & 1) != 0) for digit in range(count))

    shown = jnp.where((board >= EXTRA_BOMB) & (board <= KICK), board, np.uint8(0))
    code = jnp.where(hidden > 0, hidden, shown).astype(jnp.int32)
    moves = direction > 0
    way = jnp.where(moves, direction.astype(jnp.int32) - 1, 0)
    rows = agents.astype(jnp.int32)
    words = pack_agent(
        Agent(rows[:, 0] * grid.size + rows[:, 1], rows[:, 2] > 0, rows[:, 3], rows[:, 4], rows[:, 5] > 0)
    )
    return State(
        rigid=pack(board == RIGID),
        wood=pack(board == WOOD),
        item=digits(jnp.where(code > 0, code - ITEM, 0), 2),
        flames=tuple(pack(flame > 0) for flame in flames),
        life=digits(life, 4),
        blast=digits(blast, 4),
        owner=digits(owner, 2),
        moving=(pack(moves), *digits(way, 2)),
        agents=tuple(words[i] for i in range(agents.shape[0])),
        steps=jnp.asarray(steps).astype(jnp.uint32),
    )


def to_planes(state: State, size: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The inverse of `from_planes`: uint8 `[9, H, W]`, int32 `[P, 6]`, int32 `[]`."""
    positions = Grid(size).positions

    def unpack(board: Board) -> jax.Array:
        return bits.unpack(board, positions).astype(jnp.uint8)

    def number(digits: Sequence[Board]) -> jax.Array:
        total = unpack(digits[0])
        for i, digit in enumerate(digits[1:], start=1):
            total = total + (unpack(digit) << np.uint8(i))
        return total

    agents = unpack_agent(jnp.stack(state.agents))
    board = unpack(state.rigid) * np.uint8(RIGID) + unpack(state.wood) * np.uint8(WOOD)
    covered = unpack(state.wood) | unpack(burning(state))
    item = number(state.item)
    code = jnp.where(item > 0, item + np.uint8(ITEM), np.uint8(0))
    board = board + jnp.where(covered > 0, np.uint8(0), code)
    board = jnp.where(unpack(bombs(state)) > 0, np.uint8(BOMB), board)
    board = jnp.where(unpack(burning(state)) > 0, np.uint8(FLAMES), board)
    for i in range(len(state.agents)):
        here = (positions == agents.cell[i]) & agents.alive[i]
        board = jnp.where(here, np.uint8(AGENT + i), board)
    moves, *way = state.moving
    planes = [
        board,
        jnp.where(covered > 0, code, np.uint8(0)),
        number(state.life),
        number(state.blast),
        number(state.owner),
        unpack(moves) * (number(way) + np.uint8(1)),
        *(unpack(flame) for flame in state.flames),
    ]
    facts = [agents.cell // size, agents.cell % size, *agents[1:]]
    rows = jnp.stack([fact.astype(jnp.int32) for fact in facts], axis=-1)
    return jnp.stack(planes), rows, state.steps.astype(jnp.int32)


def load(shot: Snapshot) -> State:
    """A state from the host."""
    agents = jnp.asarray(np.array(shot.agents), jnp.int32)
    return from_planes(jnp.asarray(shot.as_planes), agents, jnp.int32(shot.steps))


_to_planes = jax.jit(to_planes, static_argnums=1)


def snapshot(state: State, size: int) -> Snapshot:
    """A state on the host; the inverse of `load`."""
    planes, agents, steps = jax.device_get(_to_planes(state, size))
    board, hidden, life, blast, owner, direction, *flames = planes
    facts = [
        [int(n) for n in (r, c, life[r, c], blast[r, c], owner[r, c], direction[r, c])]
        for r, c in np.argwhere(life)
    ]
    fires = [[int(r), int(c), left] for left, plane in enumerate(flames) for r, c in np.argwhere(plane)]
    return Snapshot(board, hidden, facts, fires, [[int(n) for n in row] for row in agents], int(steps))
