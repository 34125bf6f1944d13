"""The paper's heuristic opponent, SimpleCpp: the SimpleUnbiasedAgent of the C++ environment.

It runs from any blast; with a bomb at hand it bombs enemies beside it, hunts those it can reach, and bombs
wood beside it; else it walks to items, or makes a safe move. Decisions, their order and the choice among
shortest paths are the program's, its slips included; only its random numbers are others.

Reference: Weil et al. (2023), Know your Enemy, https://arxiv.org/abs/2305.13206, and its program,
jw3il/pomcpp2.
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
    DOWN,
    LEFT,
    RIGHT,
    ROWS,
    UP,
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
_ORDER = (DOWN, UP, RIGHT, LEFT)
"""Of several shortest paths the one is walked whose first move comes first here."""

_ROW = 16
"""Of the numbers of remembered places, which may lie one cell outside the board."""

_LAST = np.uint32(0xFFFFFFFF)


class Memory(NamedTuple):
    """What the agent remembers.

    Attributes:
        recent: int32 `[]` each, the places where it last meant to go, oldest first, -1 for none.
        order: uint32 `[]`, from which the orders of the whole game are shuffled.
        seed: uint32 `[]`, of its random numbers.
    """

    recent: tuple[jax.Array, ...]
    order: jax.Array
    seed: jax.Array


class Orders(NamedTuple):
    """In which order the agent goes through lines of the board and through agents: the lowest number first.

    Attributes:
        rows: uint32 `[size]`.
        columns: uint32 `[size]`.
        agents: uint32 `[P]`.
    """

    rows: jax.Array
    columns: jax.Array
    agents: jax.Array


class _Place(NamedTuple):
    """The position as the agent judges it.

    Attributes:
        row: int32 `[]`.
        column: int32 `[]`.
        walkable: passages and items.
        soon: the cells that a blast reaches within one step, and within two.
        danger: int32 `[]`, the steps until a blast reaches its own cell, 0 for never.
        reached: the cells that it can reach, those of other agents at the end of a path included.
        item: int32 `[]`, the first move to the nearest item to which it can set out without running into a
            blast; stop if there is none.
    """

    row: jax.Array
    column: jax.Array
    walkable: Board
    soon: tuple[Board, Board]
    danger: jax.Array
    reached: Board
    item: jax.Array


def start(seed: jax.Array) -> Memory:
    """The memory of a new agent, from a random word (uint32 `[]`)."""
    none = jnp.full((), -1, jnp.int32)
    return Memory((none,) * _RECENT, dice.mix(seed, 0), dice.mix(seed, 1))


def orders_of(grid: Grid, memory: Memory, agents: int) -> Orders:
    """The orders of the whole game, shuffled."""
    lines, numbers = np.arange(grid.size), np.arange(agents)
    rows, columns, others = (
        dice.mix(memory.order, first + count) >> 8
        for first, count in ((0, lines), (32, lines), (64, numbers))
    )
    return Orders(rows, columns, others)


def act(grid: Grid, sight: Sight, memory: Memory, orders: Orders | None = None) -> tuple[jax.Array, Memory]:
    """The action, int32 `[]`, and what the agent then remembers; `orders` are `orders_of` by default."""
    if orders is None:
        orders = orders_of(grid, memory, len(sight.others))
    seed, word = dice.roll(memory.seed)
    place = _survey(grid, sight, orders)
    action = _decide(grid, sight, memory, place, orders, word)
    going = _number(place)
    for direction, number in enumerate(_neighbours(place)):
        going = jnp.where(action == GO_UP + direction, number, going)
    return action, Memory((*memory.recent[1:], going), memory.order, seed)


def _survey(grid: Grid, sight: Sight, orders: Orders) -> _Place:
    blocked = [sight.rigid, sight.wood, sight.bombs, sight.flames, sight.fog, sight.agents()]
    first = equals(sight.life, 1, sight.bombs)
    second = equals(sight.life, 2, sight.bombs)
    soon = tuple(
        in_line(grid, tuple(bits.both(digit, lit) for digit in sight.blast), extra=0)
        for lit in (first, bits.either(first, second))
    )
    walkable, *soon = bits.compute_once(grid.complement(union(blocked)), *soon)
    row, column = sight.me.cell // np.int32(grid.size), sight.me.cell % np.int32(grid.size)
    reached = _reach(grid, sight, walkable)
    items = bits.both(bits.both(bits.either(*sight.item), reached), _square(grid, row, column))
    ways, items = _nearest(grid, sight, walkable, soon[0], items)
    target = _first(grid, orders, bits.unpack(items, grid.positions))
    item = jnp.zeros((), jnp.int32)
    for direction in DIRECTIONS:
        item = jnp.where(is_on(ways[direction], target), np.int32(GO_UP + direction), item)
    return _Place(row, column, walkable, (soon[0], soon[1]), _danger(grid, sight), reached, item)


def _flood(grid: Grid, start: Board, free: Board, stop: Board) -> Board:
    """What `start` spreads to over free cells, step by step, until it meets `stop`.

    Whether to go on is carried along: as a condition on the boards it would be computed again for every word
    of the loop's batch. `bits.compute_once` costs more here than it saves: its words are not vectorised.
    """

    def more(carry: tuple[Board, jax.Array]) -> tuple[Board, jax.Array]:
        wider = bits.either(carry[0], bits.both(grid.spread(carry[0]), free))
        return wider, bits.is_any(bits.without(wider, carry[0])) & ~is_on(wider, stop)

    return jax.lax.while_loop(lambda carry: carry[1], more, (start, ~is_on(start, stop)))[0]


def _reach(grid: Grid, sight: Sight, walkable: Board) -> Board:
    """The cells to which there is a path; agents may be at its end."""
    reached = _flood(grid, sight.own, walkable, grid.empty())
    met = bits.both(grid.spread(reached), union(sight.others))
    (found,) = bits.compute_once(bits.without(bits.either(reached, met), sight.own))
    return found


def _square(grid: Grid, row: jax.Array, column: jax.Array) -> Board:
    """The cells that are at most five rows and columns away."""

    def lines(at: jax.Array, masks: np.ndarray) -> Board:
        return union(
            tuple(jnp.where(jnp.abs(at - i) <= _ITEMS, word, np.uint32(0)) for word in grid.mask(line))
            for i, line in enumerate(masks)
        )

    return bits.both(lines(row, grid.positions), lines(column, grid.positions.T))


def _nearest(
    grid: Grid, sight: Sight, walkable: Board, blast: Board, items: Board
) -> tuple[tuple[Board, ...], Board]:
    """The nearest of `items` with a safe first move; also what each first move reaches in so many steps.

    `items` can be reached. Of several shortest paths to a cell the program knows one, `_ORDER` says which: an
    item is passed over if that one is unsafe.
    """
    items = bits.both(items, walkable)
    beside = [grid.shift(sight.own, direction) for direction in DIRECTIONS]
    blasted = [is_on(blast, cell) for cell in beside]

    def claimed(ways: tuple[Board, ...]) -> tuple[Board, ...]:
        """The ways, each cell that several shortest paths lead to left to the first of them."""
        claims, earlier = list(ways), grid.empty()
        for direction in _ORDER:
            claims[direction] = bits.without(ways[direction], earlier)
            earlier = bits.either(earlier, ways[direction])
        return tuple(claims)

    def found(ways: tuple[Board, ...]) -> Board:
        claims = claimed(ways)
        safe = union(bits.where(blasted[d], grid.empty(), claims[d]) for d in DIRECTIONS)
        return bits.both(items, safe)

    def unfinished(ways: tuple[Board, ...]) -> jax.Array:
        return ~bits.is_any(found(ways)) & bits.is_any(bits.without(items, union(ways)))

    def more(carry: tuple[tuple[Board, ...], jax.Array]) -> tuple[tuple[Board, ...], jax.Array]:
        ways, _ = carry
        free = bits.without(walkable, union(ways))
        ways = tuple(bits.either(way, bits.both(grid.spread(way), free)) for way in ways)
        return ways, unfinished(ways)

    start = tuple(bits.both(cell, walkable) for cell in beside)
    ways, _ = jax.lax.while_loop(lambda carry: carry[1], more, (start, unfinished(start)))
    *claims, nearest = bits.compute_once(*claimed(ways), found(ways))
    return tuple(claims), nearest


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


def _decide(
    grid: Grid, sight: Sight, memory: Memory, place: _Place, orders: Orders, word: jax.Array
) -> jax.Array:
    in_danger = place.danger > 0
    attacks = ~in_danger & (sight.me.ammo > 0)
    prey, near = _prey(grid, sight, orders, place)
    towards = _towards(grid, sight, place, bits.where(in_danger, _refuge(grid, orders, place), prey))
    saved = _walks_safely(grid, sight, place, towards, place.soon[0])
    goes = near & _walks_safely(grid, sight, place, towards, place.soon[1])
    anywhere = (dice.mix(word, 1) >> 30).astype(jnp.int32) + np.int32(GO_UP)
    beside = grid.spread(sight.own)

    wished = _safe_move(grid, sight, memory, place, dice.mix(word, 2))
    wished = jnp.where(place.item != STOP, place.item, wished)
    wished = jnp.where(attacks & is_on(beside, sight.wood), np.int32(LAY_BOMB), wished)
    wished = jnp.where(attacks & goes, towards, wished)
    wished = jnp.where(attacks & near & _loops(memory), anywhere, wished)
    wished = jnp.where(attacks & is_on(beside, sight.enemies), np.int32(LAY_BOMB), wished)
    return jnp.where(in_danger & saved, towards, wished)


def _loops(memory: Memory) -> jax.Array:
    """Whether it goes to and fro, or stands still; an agent that remembers less than two places does, too."""
    a, b, c, d = memory.recent
    return (c < 0) | ((a == c) & (b == d) & (a >= 0)) | ((a < 0) & (b >= 0) & (b == d))


def _towards(grid: Grid, sight: Sight, place: _Place, target: Board) -> jax.Array:
    """The first move of the program's shortest path to a cell that is reached; stop if there is no cell.

    It searches in breadth in `_ORDER`, so that of the first moves of all shortest paths it takes the first.
    """
    beside = bits.both(grid.spread(sight.own), bits.either(place.walkable, target))
    target, beside = bits.compute_once(target, beside)
    trail = _flood(grid, target, place.walkable, beside)
    starts = bits.both(trail, beside)
    action = jnp.zeros((), jnp.int32)
    for direction in reversed(_ORDER):
        sets_out = is_on(sight.own, grid.back(starts, direction))
        action = jnp.where(sets_out, np.int32(GO_UP + direction), action)
    return action


def _walks_safely(grid: Grid, sight: Sight, place: _Place, action: jax.Array, blast: Board) -> jax.Array:
    """Whether an action (int32 `[]`) is a move to a walkable cell outside a blast, bool `[]`."""
    free = bits.without(place.walkable, blast)
    found = jnp.zeros((), bool)
    for direction in DIRECTIONS:
        found = found | ((action == GO_UP + direction) & is_on(sight.own, grid.back(free, direction)))
    return found


def _refuge(grid: Grid, orders: Orders, place: _Place) -> Board:
    """The first safe cell within the time left, row by row in the agent's orders.

    As in the original, a row is left at the first column that is too far, as many cells or more to the right
    or farther to the left.
    """
    lines, time = np.arange(grid.size), place.danger
    row_near, column_near = ((lines >= at - time) & (lines < at + time) for at in (place.row, place.column))
    away = jnp.abs(place.row - lines)[:, None] + jnp.abs(place.column - lines)[None, :]
    first_far = jnp.min(jnp.where(column_near, _LAST, orders.columns))
    safe = bits.unpack(bits.without(place.reached, place.soon[0]), grid.positions)
    inspected = row_near[:, None] & (orders.columns < first_far)[None, :] & (away <= time)
    return _first(grid, orders, safe & inspected)


def _first(grid: Grid, orders: Orders, eligible: jax.Array) -> Board:
    """The first cell of `eligible` (bool `[size, size]`), row by row."""
    best_row = jnp.min(jnp.where(eligible.any(axis=1), orders.rows, _LAST))
    here = eligible & (orders.rows == best_row)[:, None]
    best_column = jnp.min(jnp.where(here, orders.columns[None, :], _LAST))
    return bits.pack(here & (orders.columns == best_column)[None, :], grid.positions, words=grid.words)


def _prey(grid: Grid, sight: Sight, orders: Orders, place: _Place) -> tuple[Board, jax.Array]:
    """The cell of the first enemy, in the agent's order, that is near enough and can be reached.

    Also whether any enemy is near enough, bool `[]`.
    """
    best, chosen, any_near = jnp.full((), _LAST, jnp.uint32), grid.empty(), jnp.zeros((), bool)
    for i, (cell, (row, column)) in enumerate(zip(sight.others, sight.places(grid), strict=True)):
        away = jnp.abs(place.row - row) + jnp.abs(place.column - column)
        near = is_on(sight.enemies, cell) & (away <= _HUNT)
        order = jnp.where(near & is_on(place.reached, cell), orders.agents[i], best)
        chosen = bits.where(order < best, cell, chosen)
        best, any_near = jnp.minimum(order, best), any_near | near
    return chosen, any_near


def _number(place: _Place) -> jax.Array:
    """The number of its own cell, for its memory."""
    return (place.row + 1) * np.int32(_ROW) + place.column + 1


def _neighbours(place: _Place) -> list[jax.Array]:
    """Those of the cells beside it, by direction."""
    return [_number(place) + np.int32(_ROW * ROWS[d] + COLUMNS[d]) for d in DIRECTIONS]


def _first_two(count: int, recent: int) -> tuple[int, int]:
    """Which of the places of a queue of `count` are its first two once recent ones have been moved back.

    Bit i of `recent` says that place i is. The program's queue loses a recent place as it moves it back and
    gets the next one twice, unless it is the last.
    """
    queue, at = list(range(count)), 0
    for _ in range(count):
        if not recent >> queue[at] & 1:
            at += 1
        elif at < len(queue) - 1:
            del queue[at]
            queue.append(queue[at])
    return (queue[0], queue[min(1, count - 1)]) if count else (0, 0)


_FIRST_TWO = np.array([[_first_two(count, recent) for recent in range(16)] for count in range(5)], np.int32)


def _safe_move(grid: Grid, sight: Sight, memory: Memory, place: _Place, word: jax.Array) -> jax.Array:
    """One of the first two safe neighbours in a random order, recent places last; or stop."""
    free = bits.without(place.walkable, place.soon[0])
    safe = [is_on(sight.own, grid.back(free, direction)) for direction in DIRECTIONS]
    keys = [dice.mix(word, direction) >> 1 for direction in DIRECTIONS]
    keys = [jnp.where(ok, key, _LAST) for ok, key in zip(safe, keys, strict=True)]
    before = [[(o < key) | ((o == key) & (j < d)) for j, o in enumerate(keys)] for d, key in enumerate(keys)]
    ranks = [_total(row) for row in before]
    recent = jnp.zeros((), jnp.int32)
    for ok, rank, number in zip(safe, ranks, _neighbours(place), strict=True):
        been = functools.reduce(jnp.logical_or, [number == other for other in memory.recent])
        recent = recent | jnp.where(ok & been, np.int32(1) << rank, np.int32(0))
    second = (dice.mix(word, 4) >> 31).astype(jnp.int32)
    chosen = jnp.asarray(_FIRST_TWO)[_total(safe), recent, second]
    action = jnp.zeros((), jnp.int32)
    for direction in DIRECTIONS:
        here = safe[direction] & (ranks[direction] == chosen)
        action = jnp.where(here, np.int32(GO_UP + direction), action)
    return action


def _total(conditions: list[jax.Array]) -> jax.Array:
    """How many of them hold, int32 `[]`."""
    return functools.reduce(jnp.add, [condition.astype(jnp.int32) for condition in conditions])
