"""The paper's heuristic opponent, SimpleCpp: the SimpleUnbiasedAgent of the C++ environment.

It runs from any blast, bombs enemies and wood beside it, hunts enemies it can reach, walks to items, and
else makes a safe move. What the program decides in an order that it shuffles is decided by random words
here. Where several shortest paths lead to a target, one of their first moves is drawn.

Reference: Weil et al. (2023), Know your Enemy, https://arxiv.org/abs/2305.13206, and its program.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits, dice
from games_jax.bits import Board
from games_jax.pommerman.grid import (
    COLUMNS,
    DIRECTIONS,
    ROWS,
    Grid,
    at_least,
    equals,
    is_on,
    union,
)
from games_jax.pommerman.sight import Sight, in_line
from games_jax.pommerman.state import GO_UP, LAY_BOMB, MOST_BLAST, STOP

_HUNT = 14
_ITEMS = 5
_RECENT = 4


class Memory(NamedTuple):
    """What the agent remembers.

    Attributes:
        recent: int32 `[]` each, the cells where it last meant to go, oldest first, -1 for none.
        order: uint32 `[]`, from which the orders of the whole game are shuffled.
        seed: uint32 `[]`, of its random numbers.
    """

    recent: tuple[jax.Array, ...]
    order: jax.Array
    seed: jax.Array


class _Place(NamedTuple):
    """The position as the agent judges it.

    Attributes:
        row: int32 `[]`.
        column: int32 `[]`.
        walkable: passages and items.
        reached: the walkable cells it can reach, and its own.
        soon: the cells that a blast reaches within one step, and within two.
        danger: int32 `[]`, the steps until a blast reaches its own cell, 0 for never.
    """

    row: jax.Array
    column: jax.Array
    walkable: Board
    reached: Board
    soon: tuple[Board, Board]
    danger: jax.Array


def start(seed: jax.Array) -> Memory:
    """The memory of a new agent, from a random word (uint32 `[]`)."""
    none = jnp.full((), -1, jnp.int32)
    return Memory((none,) * _RECENT, dice.mix(seed, 0), dice.mix(seed, 1))


def act(grid: Grid, sight: Sight, memory: Memory) -> tuple[jax.Array, Memory]:
    """The action, int32 `[]`, and what the agent then remembers."""
    seed, word = dice.roll(memory.seed)
    place = _survey(grid, sight)
    wished = _decide(grid, sight, memory, place, word)
    offsets = [np.int32(grid.size * ROWS[d] + COLUMNS[d]) for d in DIRECTIONS]
    step = sum(jnp.where(wished == GO_UP + d, offsets[d], np.int32(0)) for d in DIRECTIONS)
    recent = (*memory.recent[1:], sight.me.cell + step)
    # Going to and fro, or standing still, is broken by a random move.
    loops = (recent[0] >= 0) & (recent[0] == recent[2]) & (recent[1] == recent[3])
    anywhere = (dice.mix(word, 1) >> 30).astype(jnp.int32) + np.int32(GO_UP)
    return jnp.where(loops, anywhere, wished), Memory(recent, memory.order, seed)


def _survey(grid: Grid, sight: Sight) -> _Place:
    blocked = [sight.rigid, sight.wood, sight.bombs, sight.flames, sight.fog, sight.agents()]
    first = equals(sight.life, 1, sight.bombs)
    second = equals(sight.life, 2, sight.bombs)
    soon = tuple(
        in_line(grid, tuple(bits.both(digit, lit) for digit in sight.blast), extra=0)
        for lit in (first, bits.either(first, second))
    )
    walkable, *soon = bits.compute_once(grid.complement(union(blocked)), *soon)

    def more(carry: tuple[Board, Board]) -> tuple[Board, Board]:
        reached, _ = carry
        wider = bits.either(reached, bits.both(grid.spread(reached), walkable))
        wider = bits.either(wider, bits.both(grid.spread(wider), walkable))
        return bits.compute_once(wider, bits.without(wider, reached))  # type: ignore[return-value]

    reached, _ = jax.lax.while_loop(lambda carry: bits.is_any(carry[1]), more, (sight.own, sight.own))
    return _Place(
        row=sight.me.cell // np.int32(grid.size),
        column=sight.me.cell % np.int32(grid.size),
        walkable=walkable,
        reached=reached,
        soon=(soon[0], soon[1]),
        danger=_danger(grid, sight),
    )


def _danger(grid: Grid, sight: Sight) -> jax.Array:
    """The steps until a bomb blasts the agent's cell, walls aside; int32 `[]`, 0 if none does."""
    threats = bits.both(sight.own, sight.bombs)
    rays = [sight.own] * len(DIRECTIONS)
    for distance in range(1, min(MOST_BLAST, grid.size)):
        rays = [grid.shift(ray, direction) for direction, ray in enumerate(rays)]
        threats = bits.either(threats, bits.both(union(rays), at_least(sight.blast, distance + 1)))
    (threats,) = bits.compute_once(threats)
    some = bits.is_any(threats)
    total = jnp.zeros((), jnp.int32)
    for digit in reversed(range(len(sight.life))):
        sooner = bits.without(threats, sight.life[digit])
        zero = bits.is_any(sooner)
        threats = bits.where(zero, sooner, threats)
        total = total + jnp.where(zero, np.int32(0), np.int32(1 << digit))
    return jnp.where(some, total, np.int32(0))


def _decide(grid: Grid, sight: Sight, memory: Memory, place: _Place, word: jax.Array) -> jax.Array:
    """What it means to do, before loops are broken."""
    in_danger = place.danger > 0
    attacks = ~in_danger & (sight.me.ammo > 0)
    beside = bits.both(grid.spread(sight.own), bits.either(sight.enemies, sight.wood))

    target = bits.where(in_danger, _refuge(grid, sight, memory, place), _prey(grid, sight, memory, place))
    towards = _first_move(grid, sight, place, target, dice.mix(word, 2))
    safe_now = _neighbour_in(grid, sight, towards, grid.complement(place.soon[0]))
    safe_hunt = _neighbour_in(grid, sight, towards, grid.complement(place.soon[1]))
    goes = (towards != STOP) & jnp.where(in_danger, safe_now, attacks & safe_hunt)

    item = _first_move(grid, sight, place, _nearest_item(grid, sight, place), dice.mix(word, 3))
    takes = (item != STOP) & _neighbour_in(grid, sight, item, grid.complement(place.soon[0]))
    idle = _safe_move(grid, sight, memory, place, dice.mix(word, 4))

    wished = jnp.where(goes, towards, jnp.where(takes, item, idle))
    return jnp.where(attacks & bits.is_any(beside), np.int32(LAY_BOMB), wished)


def _refuge(grid: Grid, sight: Sight, memory: Memory, place: _Place) -> Board:
    """The first safe cell within the time left, row by row in the game's own order of rows and columns.

    As in the original a row is left at the first column that is too far.
    """
    lines = np.arange(grid.size)
    row_order, column_order = dice.mix(memory.order, lines) >> 8, dice.mix(memory.order, 32 + lines) >> 8
    away = jnp.abs(place.row - lines)[:, None] + jnp.abs(place.column - lines)[None, :]
    near = away <= place.danger
    first_far = jnp.min(jnp.where(near, np.uint32(0xFFFFFFFF), column_order[None, :]), axis=1, keepdims=True)
    unsafe = bits.either(place.soon[0], sight.own)
    safe = bits.unpack(bits.without(place.reached, unsafe), grid.positions)
    eligible = near & safe & (column_order[None, :] < first_far)
    best_column = jnp.min(jnp.where(eligible, column_order[None, :], np.uint32(0xFFFFFFFF)), axis=1)
    has = eligible.any(axis=1)
    best_row = jnp.min(jnp.where(has, row_order, np.uint32(0xFFFFFFFF)))
    chosen = (row_order[:, None] == best_row) & (column_order[None, :] == best_column[:, None]) & eligible
    return bits.pack(chosen, grid.positions, words=grid.words)


def _prey(grid: Grid, sight: Sight, memory: Memory, place: _Place) -> Board:
    """The cell of the first enemy, in the game's own order, that is near enough and can be reached."""
    at_hand = bits.both(grid.spread(place.reached), sight.enemies)
    away = [jnp.abs(place.row - row) + jnp.abs(place.column - column) for row, column in sight.places(grid)]
    best, chosen = jnp.full((), 0xFFFFFFFF, jnp.uint32), grid.empty()
    for i, cell in enumerate(sight.others):
        found = is_on(at_hand, cell) & (away[i] <= _HUNT)
        order = jnp.where(found, dice.mix(memory.order, 64 + i) >> 8, best)
        chosen = bits.where(order < best, cell, chosen)
        best = jnp.minimum(order, best)
    return chosen


def _nearest_item(grid: Grid, sight: Sight, place: _Place) -> Board:
    """The items in the square of radius 5 that are reached first."""
    rows = union(
        tuple(jnp.where(jnp.abs(place.row - i) <= _ITEMS, word, np.uint32(0)) for word in grid.mask(line))
        for i, line in enumerate(grid.positions)
    )
    columns = union(
        tuple(jnp.where(jnp.abs(place.column - i) <= _ITEMS, word, np.uint32(0)) for word in grid.mask(line))
        for i, line in enumerate(grid.positions.T)
    )
    items = bits.both(bits.both(rows, columns), bits.both(bits.either(*sight.item), place.reached))
    (items,) = bits.compute_once(items)

    def more(carry: tuple[Board, Board]) -> tuple[Board, Board]:
        wider = bits.either(carry[0], bits.both(grid.spread(carry[0]), place.walkable))
        return bits.compute_once(wider, carry[1])  # type: ignore[return-value]

    def searching(carry: tuple[Board, Board]) -> jax.Array:
        return bits.is_any(carry[1]) & ~is_on(carry[0], carry[1])

    around, _ = jax.lax.while_loop(searching, more, (sight.own, items))
    return bits.both(around, items)


def _first_move(grid: Grid, sight: Sight, place: _Place, target: Board, word: jax.Array) -> jax.Array:
    """The first move of a shortest path to the nearest of the target cells; stop if there is none to go."""
    goal = bits.without(target, sight.own)
    beside = grid.spread(sight.own)
    (goal, beside) = bits.compute_once(goal, bits.both(beside, bits.either(place.walkable, goal)))

    def more(carry: tuple[Board, Board]) -> tuple[Board, Board]:
        trail, _ = carry
        wider = bits.either(trail, bits.both(grid.spread(trail), place.walkable))
        return bits.compute_once(wider, bits.without(wider, trail))  # type: ignore[return-value]

    def searching(carry: tuple[Board, Board]) -> jax.Array:
        return bits.is_any(carry[1]) & ~is_on(carry[0], beside)

    trail, _ = jax.lax.while_loop(searching, more, (goal, goal))
    starts = bits.both(trail, beside)
    open_ways = jnp.stack([is_on(sight.own, grid.back(starts, direction)) for direction in DIRECTIONS])
    return jnp.where(open_ways.any(), dice.choose(word, open_ways) + np.int32(GO_UP), np.int32(STOP))


def _neighbour_in(grid: Grid, sight: Sight, action: jax.Array, board: Board) -> jax.Array:
    """Whether the cell that a move (int32 `[]`) leads to is set, bool `[]`."""
    found = jnp.zeros((), bool)
    for direction in DIRECTIONS:
        found = found | ((action == direction + 1) & is_on(sight.own, grid.back(board, direction)))
    return found


def _safe_move(grid: Grid, sight: Sight, memory: Memory, place: _Place, word: jax.Array) -> jax.Array:
    """One of the first two safe neighbours in random order, new ones first; or stop."""
    free = bits.without(place.walkable, place.soon[0])
    safe = jnp.stack([is_on(sight.own, grid.back(free, direction)) for direction in DIRECTIONS])
    cells = [sight.me.cell + np.int32(grid.size * ROWS[d] + COLUMNS[d]) for d in DIRECTIONS]
    been = [functools.reduce(jnp.logical_or, [cell == other for other in memory.recent]) for cell in cells]
    new = safe & ~jnp.stack(been)
    old = safe & ~new
    # With one new neighbour it is that one or one of the old ones.
    count = jnp.sum(new, dtype=jnp.int32)
    take_old = (count == 0) | ((count == 1) & old.any() & (dice.mix(word, 0) >> 31 == 0))
    chosen = dice.choose(word, jnp.where(take_old, old, new))
    return jnp.where(safe.any(), chosen + np.int32(GO_UP), np.int32(STOP))
