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
        ways: for each direction, the cells to which it would set out that way.
        items: the nearest items to which it can set out without running into a blast.
    """

    row: jax.Array
    column: jax.Array
    walkable: Board
    soon: tuple[Board, Board]
    danger: jax.Array
    ways: tuple[Board, ...]
    items: Board


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
    place = _survey(grid, sight)
    action = _decide(grid, sight, memory, place, orders, word)
    going = _number(place)
    for direction, number in enumerate(_neighbours(place)):
        going = jnp.where(action == GO_UP + direction, number, going)
    return action, Memory((*memory.recent[1:], going), memory.order, seed)


def _survey(grid: Grid, sight: Sight) -> _Place:
    blocked = [sight.rigid, sight.wood, sight.bombs, sight.flames, sight.fog, sight.agents()]
    first = equals(sight.life, 1, sight.bombs)
    second = equals(sight.life, 2, sight.bombs)
    soon = tuple(
        in_line(grid, tuple(bits.both(digit, lit) for digit in sight.blast), extra=0)
        for lit in (first, bits.either(first, second))
    )
    walkable, *soon = bits.compute_once(grid.complement(union(blocked)), *soon)
    row, column = sight.me.cell // np.int32(grid.size), sight.me.cell % np.int32(grid.size)
    items = bits.both(bits.either(*sight.item), _square(grid, row, column))
    ways, items = _explore(grid, sight, walkable, soon[0], items)
    return _Place(row, column, walkable, (soon[0], soon[1]), _danger(grid, sight), ways, items)


def _square(grid: Grid, row: jax.Array, column: jax.Array) -> Board:
    """The cells that are at most five rows and columns away."""

    def lines(at: jax.Array, masks: np.ndarray) -> Board:
        return union(
            tuple(jnp.where(jnp.abs(at - i) <= _ITEMS, word, np.uint32(0)) for word in grid.mask(line))
            for i, line in enumerate(masks)
        )

    return bits.both(lines(row, grid.positions), lines(column, grid.positions.T))


class _Front(NamedTuple):
    """A search in breadth: what each first move reaches, its newest cells, and the first items found."""

    ways: tuple[Board, ...]
    newest: tuple[Board, ...]
    items: Board


def _explore(
    grid: Grid, sight: Sight, walkable: Board, blast: Board, items: Board
) -> tuple[tuple[Board, ...], Board]:
    """The cells that shortest paths reach by each first move, and the nearest of `items` with a safe one.

    Agents are reached but not passed.
    """
    others = union(sight.others)
    open_cells, none = bits.either(walkable, others), grid.empty()

    def add(front: _Front, wider: list[Board]) -> _Front:
        taken = bits.either(union(front.ways), sight.own)
        new: dict[int, Board] = {}
        for direction in _ORDER:
            new[direction] = bits.without(bits.both(wider[direction], open_cells), taken)
            taken = bits.either(taken, new[direction])
        safe = [bits.where(blasted[d], none, bits.both(new[d], items)) for d in DIRECTIONS]
        found = bits.where(bits.is_any(front.items), front.items, union(safe))
        ways = [bits.either(front.ways[d], new[d]) for d in DIRECTIONS]
        newest = [bits.both(new[d], walkable) for d in DIRECTIONS]
        *boards, found = bits.compute_once(*ways, *newest, found)
        return _Front(tuple(boards[:4]), tuple(boards[4:]), found)

    beside = [grid.shift(sight.own, direction) for direction in DIRECTIONS]
    blasted = [is_on(blast, cell) for cell in beside]
    first = add(_Front((none,) * 4, (none,) * 4, none), beside)
    last = jax.lax.while_loop(
        lambda front: bits.is_any(union(front.newest)),
        lambda front: add(front, [grid.spread(board) for board in front.newest]),
        first,
    )
    return last.ways, last.items


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
    flees = _towards(place, _refuge(grid, orders, place))
    saved = _walks_safely(grid, sight, place, flees, place.soon[0])
    in_danger = place.danger > 0
    attacks = ~in_danger & (sight.me.ammo > 0)
    prey, near = _prey(grid, sight, orders, place)
    hunts = _towards(place, prey)
    goes = near & _walks_safely(grid, sight, place, hunts, place.soon[1])
    anywhere = (dice.mix(word, 1) >> 30).astype(jnp.int32) + np.int32(GO_UP)
    beside = grid.spread(sight.own)

    wished = _safe_move(grid, sight, memory, place, dice.mix(word, 2))
    item = _towards(place, _first(grid, orders, bits.unpack(place.items, grid.positions)))
    wished = jnp.where(item != STOP, item, wished)
    wished = jnp.where(attacks & is_on(beside, sight.wood), np.int32(LAY_BOMB), wished)
    wished = jnp.where(attacks & goes, hunts, wished)
    wished = jnp.where(attacks & near & _loops(memory), anywhere, wished)
    wished = jnp.where(attacks & is_on(beside, sight.enemies), np.int32(LAY_BOMB), wished)
    return jnp.where(in_danger & saved, flees, wished)


def _loops(memory: Memory) -> jax.Array:
    """Whether it goes to and fro, or stands still; an agent that remembers less than two places does, too."""
    a, b, c, d = memory.recent
    return (c < 0) | ((a == c) & (b == d) & (a >= 0)) | ((a < 0) & (b >= 0) & (b == d))


def _towards(place: _Place, target: Board) -> jax.Array:
    """The first move to a cell; stop if there is none or it is not reached."""
    action = jnp.zeros((), jnp.int32)
    for direction in DIRECTIONS:
        action = jnp.where(is_on(place.ways[direction], target), np.int32(GO_UP + direction), action)
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
    safe = bits.unpack(bits.without(union(place.ways), place.soon[0]), grid.positions)
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
    at_hand = union(place.ways)
    best, chosen, any_near = jnp.full((), _LAST, jnp.uint32), grid.empty(), jnp.zeros((), bool)
    for i, (cell, (row, column)) in enumerate(zip(sight.others, sight.places(grid), strict=True)):
        away = jnp.abs(place.row - row) + jnp.abs(place.column - column)
        near = is_on(sight.enemies, cell) & (away <= _HUNT)
        order = jnp.where(near & is_on(at_hand, cell), orders.agents[i], best)
        chosen = bits.where(order < best, cell, chosen)
        best, any_near = jnp.minimum(order, best), any_near | near
    return chosen, any_near


def _number(place: _Place) -> jax.Array:
    """The number of its own cell, for its memory."""
    return (place.row + 1) * np.int32(_ROW) + place.column + 1


def _neighbours(place: _Place) -> list[jax.Array]:
    """Those of the cells beside it, by direction."""
    return [_number(place) + np.int32(_ROW * ROWS[d] + COLUMNS[d]) for d in DIRECTIONS]


def _safe_move(grid: Grid, sight: Sight, memory: Memory, place: _Place, word: jax.Array) -> jax.Array:
    """One of the first two safe neighbours in a random order, recent places last; or stop.

    The program's queue loses a recent place as it moves it back, and gets the next one twice.
    """
    free = bits.without(place.walkable, place.soon[0])
    safe = [is_on(sight.own, grid.back(free, direction)) for direction in DIRECTIONS]
    keys = [dice.mix(word, direction) >> 1 for direction in DIRECTIONS]
    keys = [jnp.where(ok, key, _LAST) for ok, key in zip(safe, keys, strict=True)]
    count = functools.reduce(jnp.add, [ok.astype(jnp.int32) for ok in safe])
    before = [[(o < key) | ((o == key) & (j < d)) for j, o in enumerate(keys)] for d, key in enumerate(keys)]
    ranks = [functools.reduce(jnp.add, [one.astype(jnp.int32) for one in row]) for row in before]
    queue = [
        functools.reduce(jnp.add, [jnp.where(ranks[d] == slot, np.int32(d), np.int32(0)) for d in DIRECTIONS])
        for slot in range(4)
    ]
    been = [jnp.any(jnp.stack([number == other for other in memory.recent])) for number in _neighbours(place)]
    at = jnp.zeros((), jnp.int32)
    for step in range(4):
        recent = _pick(been, _pick(queue, at)) & (step < count)
        shifts = recent & (at < count - 1)
        moved = [jnp.where(slot >= at, queue[min(slot + 1, 3)], queue[slot]) for slot in range(4)]
        moved = [jnp.where(slot == count - 1, _pick(moved, at), moved[slot]) for slot in range(4)]
        queue = [jnp.where(shifts, new, old) for new, old in zip(moved, queue, strict=True)]
        at = at + jnp.where(recent, np.int32(0), np.int32(1))
    second = (dice.mix(word, 4) >> 31 == 1) & (count > 1)
    chosen = jnp.where(second, queue[1], queue[0])
    return jnp.where(count > 0, chosen + np.int32(GO_UP), np.int32(STOP))


def _pick(values: list[jax.Array], index: jax.Array) -> jax.Array:
    """`values[index]`, the last one where `index` is larger."""
    chosen = values[-1]
    for i in reversed(range(len(values) - 1)):
        chosen = jnp.where(index == i, values[i], chosen)
    return chosen
