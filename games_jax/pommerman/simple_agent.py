"""The official heuristic agent, SimpleAgent, as a distribution over actions.

It flees from bombs, bombs enemies beside it, approaches near ones, takes near items, bombs wood, walks to
wood, and wanders, in this order. What the official program decides by chance is a weight here, so that one
random number draws an action.

Reference: the SimpleAgent of Resnick et al. (2018), https://arxiv.org/abs/1809.07124, and its program.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
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
    highest,
    is_on,
    union,
)
from games_jax.pommerman.sight import Sight
from games_jax.pommerman.state import LAY_BOMB, NUM_ACTIONS, STOP
from games_jax.pommerman.survey import Place, first_moves, nearby, surroundings, survey

_RECENT = 6
_HALF = np.float32(0.5)


class Memory(NamedTuple):
    """What the agent remembers.

    Attributes:
        recent: int32 `[]` each, the cells where it last wandered, oldest first, -1 for none.
        heading: int32 `[]`, the last direction (0 to 3) in which it approached an enemy, -1 for none.
    """

    recent: tuple[jax.Array, ...]
    heading: jax.Array


class Weights(NamedTuple):
    """Probabilities of actions, float32 `[6]` each, by what led to them; together they add up to 1.

    Attributes:
        approach: approaching an enemy, which is remembered.
        other: everything else.
        wander: wandering, which is remembered too.
    """

    approach: jax.Array
    other: jax.Array
    wander: jax.Array

    def total(self) -> jax.Array:
        """Float32 `[6]`: the probability of each action."""
        return self.approach + self.other + self.wander


def start() -> Memory:
    """The memory of a new agent."""
    none = jnp.full((), -1, jnp.int32)
    return Memory(recent=(none,) * _RECENT, heading=none)


def decide(grid: Grid, sight: Sight, memory: Memory) -> Weights:
    """How the agent decides between its actions."""
    place = survey(grid, sight)
    nothing = jnp.zeros(NUM_ACTIONS, jnp.float32)

    flees, flight = _flee(grid, sight, place)
    attack = is_on(sight.enemies, place.levels[0]) & place.may_bomb
    early = jnp.where(flees, flight, _only(LAY_BOMB))
    late = ~flees & ~attack

    approach = jnp.where(late, _approach(grid, sight, place, memory), nothing)
    rest = 1 - jnp.sum(approach)
    other, falls_through = _gather(grid, sight, place)
    wander = _wander(grid, sight, place, memory)
    return Weights(
        approach=approach,
        other=jnp.where(late, rest * other, early),
        wander=jnp.where(late, rest * falls_through * wander, nothing),
    )


def draw(sight: Sight, memory: Memory, weights: Weights, number: jax.Array) -> tuple[jax.Array, Memory]:
    """Draws an action (int32 `[]`), and the memory after it, by a number in [0, 1) (float32 `[]`)."""
    ladder = jnp.cumsum(jnp.concatenate(weights))
    # The last entry with any weight, should rounding leave the sum below the number.
    last = jnp.max(jnp.where(jnp.concatenate(weights) > 0, np.arange(3 * NUM_ACTIONS, dtype=np.int32), 0))
    chosen = jnp.minimum(jnp.sum(ladder <= number, dtype=jnp.int32), last)
    action = chosen % np.int32(NUM_ACTIONS)
    approaches, wanders = chosen < NUM_ACTIONS, chosen >= 2 * NUM_ACTIONS
    newer = (*memory.recent[1:], sight.me.cell)
    recent = tuple(jnp.where(wanders, new, old) for new, old in zip(newer, memory.recent, strict=True))
    return action, Memory(recent, jnp.where(approaches, action - 1, memory.heading))


def _only(action: int) -> np.ndarray:
    return (np.arange(NUM_ACTIONS) == action).astype(np.float32)


def _flee(grid: Grid, sight: Sight, place: Place) -> tuple[jax.Array, jax.Array]:
    """Whether a bomb is near, bool `[]`, and where the agent then goes, float32 `[6]`.

    A bomb makes its direction unsafe, one underfoot all four.
    """
    underfoot = is_on(place.threats, sight.own)
    there = tuple(bits.both(line, place.threats) for line in place.lines)
    marked = tuple(underfoot | bits.is_any(bombs) for bombs in there)
    on_board = nearby(grid, sight, grid.full)
    enter = nearby(grid, sight, bits.either(place.passable, sight.fog))

    quiet = jnp.stack([~mark & free for mark, free in zip(marked, enter, strict=True)])
    unsafe = jnp.stack([mark & inside for mark, inside in zip(marked, on_board, strict=True)])
    some = jnp.where(quiet.any(), quiet, unsafe)
    moves = jnp.concatenate([~some.any()[None], some, jnp.zeros(1, bool)])
    uniform = moves.astype(jnp.float32) / jnp.sum(moves, dtype=jnp.float32)

    all_four = marked[0] & marked[1] & marked[2] & marked[3]
    out = _way_out(grid, sight, place, underfoot, there)
    surrounded = (jnp.arange(NUM_ACTIONS) == out).astype(jnp.float32)
    flees = functools.reduce(jnp.logical_or, marked)
    return flees, jnp.where(all_four, surrounded, uniform)


def _way_out(
    grid: Grid, sight: Sight, place: Place, underfoot: jax.Array, there: tuple[Board, ...]
) -> jax.Array:
    """The action, int32 `[]`, of an agent with bombs on all sides: the first that leads out, or stop.

    A direction leads out if one can walk from its cell to another row and column, or farther than the
    strongest bomb that threatens it; not through the agent's own cell.
    """
    passable = bits.without(place.passable, sight.own)
    strengths = tuple(
        _strongest(sight, bits.either(bombs, bits.where(underfoot, sight.own, grid.empty())))
        for bombs in there
    )
    # Walks along the neighbour's row and column; a step aside from there has left both.
    ways = tuple(bits.both(grid.shift(sight.own, direction), passable) for direction in DIRECTIONS)
    crosses = []
    for direction in DIRECTIONS:
        row = place.row + np.int32(ROWS[direction])
        column = place.column + np.int32(COLUMNS[direction])
        cell = jnp.clip(row * np.int32(grid.size) + column, 0, grid.num_cells - 1)
        crosses.append(union(surroundings(grid, cell)[:4]))
    crosses = bits.compute_once(*crosses, passable, *ways)
    crosses, passable, ways = crosses[:4], crosses[4], crosses[5:]

    def walk(
        distance: jax.Array, carry: tuple[tuple[Board, ...], tuple[jax.Array, ...]]
    ) -> tuple[tuple[Board, ...], tuple[jax.Array, ...]]:
        fronts, out, seen = [], [], carry[0]
        for front, found, cross, strength in zip(seen, carry[1], crosses, strengths, strict=True):
            onward = bits.both(grid.spread(front), passable)
            aside = bits.is_any(bits.without(bits.without(onward, cross), front))
            along = bits.both(onward, cross)
            new = bits.without(along, front)
            out.append(found | aside | (bits.is_any(new) & (distance > strength)))
            fronts.append(bits.either(front, along))
        fronts = bits.compute_once(*fronts)
        return fronts, tuple(out)

    none = tuple(jnp.zeros((), bool) for _ in DIRECTIONS)
    _, leads_out = jax.lax.fori_loop(1, grid.size + 1, walk, (ways, none))
    # The official agent tries the directions in the order in which its bombs, row by row, have marked them.
    above, _, left, _ = (bits.is_any(bombs) for bombs in there)
    order = (
        (UP, leads_out[UP] & above),
        (LEFT, leads_out[LEFT] & left),
        (RIGHT, leads_out[RIGHT]),
        (LEFT, leads_out[LEFT]),
        (UP, leads_out[UP]),
        (DOWN, leads_out[DOWN]),
    )
    action = jnp.full((), STOP, jnp.int32)
    for direction, works in reversed(order):
        action = jnp.where(works, np.int32(direction + 1), action)
    return action


def _strongest(sight: Sight, among: Board) -> jax.Array:
    """The largest strength of some bombs, int32 `[]`."""
    total = jnp.zeros((), jnp.int32)
    for digit in reversed(range(len(sight.blast))):
        stronger = bits.both(among, sight.blast[digit])
        has = bits.is_any(stronger)
        among = bits.where(has, stronger, among)
        total = total + jnp.where(has, np.int32(1 << digit), np.int32(0))
    return total


def _approach(grid: Grid, sight: Sight, place: Place, memory: Memory) -> jax.Array:
    """Towards the nearest enemy within 3 steps; a direction taken before is taken again half of the time."""
    target = jnp.full((), -1, jnp.int32)
    for level in reversed(place.levels):
        for cell in sight.others:  # of several the one with the highest number
            here = bits.both(bits.both(cell, sight.enemies), level)
            target = jnp.where(bits.is_any(here), highest(here), target)
    way = first_moves(grid, sight, place, target)
    again = np.arange(4, dtype=np.int32) == memory.heading
    way = jnp.where(target >= 0, way * jnp.where(again, _HALF, np.float32(1)), np.float32(0))
    return _as_actions(way)


def _gather(grid: Grid, sight: Sight, place: Place) -> tuple[jax.Array, jax.Array]:
    """Items, wood beside the agent, wood at two steps: float32 `[6]`, and float32 `[]` for none of it."""
    low, high = sight.item
    kinds = (
        bits.both(low, high),
        bits.without(high, low),
        bits.without(low, high),
    )  # the last kind counts first
    item = jnp.full((), -1, jnp.int32)
    for level in (place.levels[1], place.levels[0]):
        for kind in reversed(kinds):
            here = bits.both(kind, level)
            item = jnp.where(bits.is_any(here), highest(here), item)
    beside = is_on(sight.wood, place.levels[0])
    wood = highest(bits.both(sight.wood, place.levels[1]))

    to_item = _as_actions(first_moves(grid, sight, place, item))
    safe = jnp.stack(nearby(grid, sight, grid.complement(place.line)))
    to_wood = _as_actions(jnp.where((wood >= 0) & safe, first_moves(grid, sight, place, wood), np.float32(0)))
    at_wood = jnp.where(place.may_bomb, _only(LAY_BOMB), _only(STOP))
    chosen = jnp.where(item >= 0, to_item, jnp.where(beside, at_wood, to_wood))
    return chosen, 1 - jnp.sum(chosen)


def _wander(grid: Grid, sight: Sight, place: Place, memory: Memory) -> jax.Array:
    """A random safe move to a cell where it has not been lately; float32 `[6]`."""
    stays = ~is_on(place.line, sight.own)
    moves = nearby(grid, sight, bits.without(place.passable, place.line))
    allowed = jnp.stack([stays, *moves])
    offsets = (0, *(grid.size * ROWS[d] + COLUMNS[d] for d in DIRECTIONS))
    been = [
        functools.reduce(jnp.logical_or, [place_ == sight.me.cell + o for place_ in memory.recent])
        for o in offsets
    ]
    new = allowed & ~jnp.stack(been)
    kept = jnp.where(new.any(), new, allowed)
    stop = np.arange(len(offsets)) == 0
    kept = kept & ~(stop & (jnp.sum(kept, dtype=jnp.int32) > 1))
    kept = kept | (stop & ~kept.any())
    share = kept.astype(jnp.float32) / jnp.sum(kept, dtype=jnp.float32)
    return jnp.concatenate([share, jnp.zeros(1, jnp.float32)])


def _as_actions(directions: jax.Array) -> jax.Array:
    """Float32 `[4]` of directions as `[6]` of actions."""
    nothing = jnp.zeros(1, jnp.float32)
    return jnp.concatenate([nothing, directions, nothing])
