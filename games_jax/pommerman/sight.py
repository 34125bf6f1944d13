"""What the heuristic agents know of a position: the official observation, as boards.

Nobody sees hidden items, other agents' equipment or whose bomb it is; in "team" nothing is seen outside the
window.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board
from games_jax.pommerman.grid import DIRECTIONS, Grid, at_least, highest, union
from games_jax.pommerman.state import MOST_BLAST, Agent, State, bombs, burning, open_items, unpack_agent


class Sight(NamedTuple):
    """One agent's observation.

    Attributes:
        me: the agent itself.
        own: its cell, also after its death.
        rigid: rigid walls.
        wood: wooden walls.
        item: the digits of the open items.
        flames: cells with flames.
        bombs: cells with bombs, those under agents included.
        life: the digits of the bombs' steps to go.
        blast: the digits of the bombs' strength.
        others: the cells of all agents that live, by their numbers; one's own is empty.
        enemies: the cells of those of them who are not partners.
        fog: what is not seen.
    """

    me: Agent
    own: Board
    rigid: Board
    wood: Board
    item: tuple[Board, Board]
    flames: Board
    bombs: Board
    life: tuple[Board, ...]
    blast: tuple[Board, ...]
    others: tuple[Board, ...]
    enemies: Board
    fog: Board

    def agents(self) -> Board:
        """The cells of all agents."""
        return bits.either(union(self.others), self.own)

    def places(self, grid: Grid) -> list[tuple[jax.Array, jax.Array]]:
        """Row and column of each of `others`; without meaning where it is empty."""
        cells = [highest(cell) for cell in self.others]
        return [(cell // np.int32(grid.size), cell % np.int32(grid.size)) for cell in cells]

    def shown_bombs(self) -> Board:
        """The bombs that no agent stands on."""
        return bits.without(self.bombs, self.agents())


def look(grid: Grid, state: State, player: jax.Array, *, teams: bool, window: Board | None) -> Sight:
    """What `player` (int32 `[]`) sees.

    Args:
        grid: the geometry.
        state: the state.
        player: who looks.
        teams: whether agents two numbers apart are partners.
        window: the cells that can be seen; None for all.
    """
    count = len(state.agents)
    word = state.agents[0]
    for i in range(1, count):
        word = jnp.where(player == i, state.agents[i], word)
    me = unpack_agent(word)

    def seen(board: Board) -> Board:
        return board if window is None else bits.both(board, window)

    cells, enemies = [], []
    for i, other in enumerate(unpack_agent(word) for word in state.agents):
        there = other.alive & (player != i)
        cells.append(seen(grid.bit(jnp.where(there, other.cell, np.int32(-1)))))
        partner = (player % np.int32(2) == i % 2) if teams else jnp.zeros((), bool)
        enemies.append(bits.where(partner, grid.empty(), cells[-1]))
    low, high = open_items(state)
    return Sight(
        me=me,
        own=grid.bit(me.cell),
        rigid=seen(state.rigid),
        wood=seen(state.wood),
        item=(seen(low), seen(high)),
        flames=seen(burning(state)),
        bombs=seen(bombs(state)),
        life=tuple(seen(digit) for digit in state.life),
        blast=tuple(seen(digit) for digit in state.blast),
        others=tuple(cells),
        enemies=union(enemies),
        fog=grid.empty() if window is None else grid.complement(window),
    )


def in_line(grid: Grid, blast: tuple[Board, ...], *, extra: int) -> Board:
    """The cells that bombs would burn if there were no walls, or are not more than `extra` cells farther.

    Args:
        grid: the geometry.
        blast: the digits of the bombs' strength.
        extra: 1 takes a strength of b for b cells beside the bomb's, as the official agent does; 0 for b - 1.
    """
    most = min(MOST_BLAST, grid.size)
    reach = bits.compute_once(*(at_least(blast, number) for number in range(1, most + 1)))
    reach = reach[1 - extra :]  # reach[r]: bombs that reach r + 1 cells far
    lines = []
    for direction in DIRECTIONS:
        ray = reach[-1]
        for more in (*reach[-2::-1], None):
            ray = grid.shift(ray, direction)
            ray = ray if more is None else bits.either(ray, more)
        lines.append(ray)
    return union([*lines, reach[0]])
