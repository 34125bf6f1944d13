"""Where a heuristic agent of the official kind can go: its survey of the position.

Distances are walking distances by a breadth-first search, as one board for each distance.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board
from games_jax.pommerman.grid import DIRECTIONS, DOWN, LEFT, RIGHT, UP, Grid, at_least, is_on, union
from games_jax.pommerman.sight import Sight, in_line

FAR = 10
"""Cells farther than this are not looked at."""

_HALF = np.float32(0.5)


class Place(NamedTuple):
    """Where the agent is and how far it can go.

    Attributes:
        row: int32 `[]`.
        column: int32 `[]`.
        lines: the cells above, below, to the left and to the right.
        passable: cells it can walk through.
        levels: the cells at walking distance 1, 2 and 3.
        threats: bombs within walking distance of their own strength.
        may_bomb: bool `[]`, whether it could get away from its own bomb.
        line: the cells in line with a bomb.
    """

    row: jax.Array
    column: jax.Array
    lines: tuple[Board, ...]
    passable: Board
    levels: tuple[Board, ...]
    threats: Board
    may_bomb: jax.Array
    line: Board


def survey(grid: Grid, sight: Sight) -> Place:
    """Looks round."""
    row, column = sight.me.cell // np.int32(grid.size), sight.me.cell % np.int32(grid.size)
    blocked = [sight.rigid, sight.wood, sight.shown_bombs(), sight.flames, sight.fog, sight.enemies]
    passable = grid.complement(union(blocked))
    items = bits.either(*sight.item)
    passage = bits.without(grid.complement(union([*blocked, items])), sight.agents())
    unseen = union([sight.fog, sight.rigid, sight.flames])
    around = surroundings(grid, sight.me.cell)
    lines = (around[UP], around[DOWN], around[LEFT], around[RIGHT])
    cross = union([sight.own, *lines])
    considered = bits.without(around[-1], unseen)
    passable, passage, considered, cross = bits.compute_once(passable, passage, considered, cross)

    def onward(frontier: Board, seen: Board) -> Board:
        reached = grid.spread(bits.both(frontier, passable))
        return bits.without(bits.both(reached, considered), seen)

    strength = bits.compute_once(*(at_least(sight.blast, number) for number in range(1, FAR + 1)))
    frontier, seen = sight.own, sight.own
    threats = bits.both(sight.own, sight.bombs)
    far, levels = grid.empty(), []  # `far`: the cells farther away than the own bomb's strength
    for distance in range(1, FAR + 1):
        frontier = onward(frontier, seen)
        beyond = bits.where(sight.me.blast < distance, frontier, grid.empty())
        frontier, seen, threats, far = bits.compute_once(
            frontier,
            bits.either(seen, frontier),
            bits.either(threats, bits.both(frontier, strength[distance - 1])),
            bits.either(far, beyond),
        )
        levels.append(frontier)

    def more(carry: tuple[Board, Board]) -> tuple[Board, Board]:
        frontier, seen = carry
        frontier = onward(frontier, seen)
        return bits.compute_once(frontier, bits.either(seen, frontier))  # type: ignore[return-value]

    _, reached = jax.lax.while_loop(lambda carry: bits.is_any(carry[0]), more, (frontier, seen))
    far = bits.either(far, bits.without(reached, seen))
    (line,) = bits.compute_once(in_line(grid, sight.blast, extra=1))
    refuge = bits.both(passage, bits.either(far, bits.without(reached, cross)))
    return Place(
        row=row,
        column=column,
        lines=lines,
        passable=passable,
        levels=tuple(levels[:3]),
        threats=bits.both(threats, sight.bombs),
        may_bomb=(sight.me.ammo > 0) & bits.is_any(refuge),
        line=line,
    )


def surroundings(grid: Grid, cell: jax.Array) -> tuple[Board, ...]:
    """The cells above, below, to the left and right of a cell, and those an agent there looks at."""
    table = jnp.asarray(_tables(grid))
    found = jnp.moveaxis(table[cell], -1, 0)  # [words, 5]
    return tuple(tuple(found[word, kind] for word in range(grid.words)) for kind in range(table.shape[1]))


@functools.cache
def _tables(grid: Grid) -> np.ndarray:
    """Uint32 `[cells, 5, words]`: see `surroundings`.

    The official agent's window ends before the cell ten beyond its own row or column, so that an agent in
    row 0 does not see row 10.
    """
    rows, columns = np.divmod(np.arange(grid.num_cells), grid.size)
    entries = []
    for row, column in zip(rows, columns, strict=True):
        down, right = rows - row, columns - column
        looked_at = (abs(down) + abs(right) <= FAR) & (down < FAR) & (right < FAR)
        up_down, left_right = right == 0, down == 0
        kinds = [
            up_down & (down < 0),
            up_down & (down > 0),
            left_right & (right < 0),
            left_right & (right > 0),
        ]
        entries.append([grid.mask(np.flatnonzero(kind)) for kind in (*kinds, looked_at)])
    return np.array(entries, np.uint32)


def _at(grid: Grid, board: Board, row: jax.Array, column: jax.Array) -> jax.Array:
    """Bool `[]`: whether the cell is set; row and column are on the board."""
    return is_on(board, grid.bit(row * np.int32(grid.size) + column))


def nearby(grid: Grid, sight: Sight, board: Board) -> tuple[jax.Array, ...]:
    """Whether the four neighbours are set, bool `[]` each; off the board they are not."""
    return tuple(is_on(sight.own, grid.back(board, direction)) for direction in DIRECTIONS)


def first_moves(grid: Grid, sight: Sight, place: Place, target: jax.Array) -> jax.Array:
    """How likely a shortest path to a cell one to three steps away starts in each direction, float32 `[4]`.

    The official search keeps one predecessor of each cell and tosses a coin for a second one. A cell so near
    has at most two, so that each is kept half of the time.
    """
    down = target // np.int32(grid.size) - place.row
    right = target % np.int32(grid.size) - place.column
    vertical, sideways = jnp.sign(down), jnp.sign(right)

    def free(rows: jax.Array, columns: jax.Array) -> jax.Array:
        return _at(grid, place.passable, place.row + rows, place.column + columns)

    zero = jnp.zeros((), jnp.int32)
    first, second = free(vertical, zero), free(zero, sideways)
    corner = free(vertical, sideways) & (first | second)
    to_corner = jnp.where(first & second, _HALF, jnp.where(first, np.float32(1), np.float32(0)))
    # Two steps one way and one the other: by the corner, or straight on first.
    straight = jnp.where(
        jnp.abs(down) > 1, free(2 * vertical, zero) & first, free(zero, 2 * sideways) & second
    )
    if_straight = jnp.where(jnp.abs(down) > 1, np.float32(1), np.float32(0))
    mixed = jnp.where(corner, to_corner, if_straight)
    long = jnp.where(straight, jnp.where(corner, (to_corner + if_straight) * _HALF, if_straight), mixed)
    steps = jnp.abs(down) + jnp.abs(right)
    bent = jnp.where(steps == 2, to_corner, long)
    along = jnp.where(right == 0, np.float32(1), jnp.where(down == 0, np.float32(0), bent))
    across = 1 - along
    parts = [
        jnp.where(vertical < 0, along, 0),
        jnp.where(vertical > 0, along, 0),
        jnp.where(sideways < 0, across, 0),
        jnp.where(sideways > 0, across, 0),
    ]
    return jnp.where(target >= 0, jnp.stack(parts), np.float32(0))
