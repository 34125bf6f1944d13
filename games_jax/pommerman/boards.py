"""Random boards with the official generator's distribution.

Walls come in pairs mirrored at the main diagonal, which itself stays free; so do the cells beside the
agents. In the large game the middles of the sides of the ring at distance 1 are wooden, so that no agent is
walled in. A board on which more than four passages cannot be reached is drawn again. 20 (10) of the wooden
walls hide an item.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board
from games_jax.pommerman.grid import Grid
from games_jax.pommerman.state import Agent, State, pack_agent

_MOST_UNREACHED = 4


@dataclasses.dataclass(frozen=True)
class Layout:
    """What all boards of one size share.

    Attributes:
        size: cells of a side.
        rigid: rigid walls.
        wood: wooden walls.
        items: hidden items.
        corners: int `[P, 2]`, where agents start.
        ring: whether the middles of the ring's sides are wooden.
    """

    size: int
    rigid: int
    wood: int
    items: int
    corners: tuple[tuple[int, int], ...]
    ring: bool

    @functools.cached_property
    def fixed_wood(self) -> np.ndarray:
        """Int `[F]`: the cells that are wooden on every board."""
        if not self.ring:
            return np.zeros(0, int)
        far, middle = self.size - 2, range(4, self.size - 4)
        return np.sort([self._cell(*cell) for i in middle for cell in ((1, i), (i, 1), (far, i), (i, far))])

    @functools.cached_property
    def pairs(self) -> np.ndarray:
        """Int `[K, 2]`: the pairs of mirrored cells that may have a wall."""
        kept = {self._cell(*cell) for corner in self.corners for cell in self._surroundings(*corner)}
        kept |= set(self.fixed_wood.tolist())
        above = [(r, c) for r in range(self.size) for c in range(r + 1, self.size)]
        return np.array(
            [(self._cell(r, c), self._cell(c, r)) for r, c in above if self._cell(r, c) not in kept]
        )

    def _cell(self, row: int, column: int) -> int:
        return row * self.size + column

    def _surroundings(self, row: int, column: int) -> list[tuple[int, int]]:
        """A corner of the ring, and the two cells beside it along both arms."""
        inward = [1 if at == 1 else -1 for at in (row, column)]
        steps = range(1, 3)
        arms = [(row + inward[0] * i, column) for i in steps] + [(row, column + inward[1] * i) for i in steps]
        return [(row, column), *arms]


LARGE = Layout(11, rigid=36, wood=36, items=20, corners=((1, 1), (9, 1), (9, 9), (1, 9)), ring=True)
SMALL = Layout(8, rigid=16, wood=16, items=10, corners=((1, 1), (6, 6)), ring=False)


def generate(layout: Layout, key: jax.Array, corners: jax.Array) -> State:
    """A game's first state.

    Args:
        layout: the kind of board.
        key: consumed.
        corners: int32 `[P]`, the corner at which each agent starts.
    """
    grid = Grid(layout.size)
    wall_key, item_key = jax.random.split(key)
    rigid, wood = _walls(layout, grid, wall_key)
    start = np.array([row * layout.size + column for row, column in layout.corners], np.int32)
    one = jnp.ones((), jnp.int32)
    agents = [
        Agent(jnp.asarray(start)[corners[i]], jnp.ones((), bool), one, one + 1, jnp.zeros((), bool))
        for i in range(len(start))
    ]
    none = grid.empty()
    return State(
        rigid=rigid,
        wood=wood,
        item=_items(layout, grid, item_key, wood),
        flames=(none,) * 3,
        life=(none,) * 4,
        blast=(none,) * 4,
        owner=(none,) * 2,
        moving=(none,) * 3,
        agents=tuple(pack_agent(agent) for agent in agents),
        steps=jnp.zeros((), jnp.uint32),
    )


def _walls(layout: Layout, grid: Grid, key: jax.Array) -> tuple[Board, Board]:
    pairs = layout.pairs
    fixed = grid.mask(layout.fixed_wood)
    num_rigid = layout.rigid // 2
    num_wood = (layout.wood - len(layout.fixed_wood)) // 2

    def draw(carry: tuple[jax.Array, Board, Board, jax.Array]) -> tuple[jax.Array, Board, Board, jax.Array]:
        key, own = jax.random.split(carry[0])
        order = _ranks(jax.random.bits(own, (len(pairs),), jnp.uint32))[:, None]
        rigid = _pack(grid, jnp.broadcast_to(order < num_rigid, pairs.shape), pairs)
        chosen = (order >= num_rigid) & (order < num_rigid + num_wood)
        wood = bits.either(_pack(grid, jnp.broadcast_to(chosen, pairs.shape), pairs), fixed)
        return key, rigid, wood, _unreached(layout, grid, rigid, wood) > _MOST_UNREACHED

    start = (key, grid.empty(), grid.empty(), jnp.ones((), bool))
    return jax.lax.while_loop(lambda carry: carry[3], draw, start)[1:3]


def _unreached(layout: Layout, grid: Grid, rigid: Board, wood: Board) -> jax.Array:
    """The passages that cannot be reached even if all wood burns, int32 `[]`."""
    free = grid.complement(rigid)

    def grow(carry: tuple[Board, jax.Array]) -> tuple[Board, jax.Array]:
        reached, _ = carry
        more = reached
        for _ in range(4):
            more = bits.either(more, bits.both(grid.spread(more), free))
        return more, ~bits.equal(more, reached)

    row, column = layout.corners[2 if len(layout.corners) > 2 else 1]
    seed = tuple(jnp.asarray(word) for word in grid.mask(grid.positions[row, column]))
    reached, _ = jax.lax.while_loop(lambda carry: carry[1], grow, (seed, jnp.ones((), bool)))
    return bits.popcount(bits.without(bits.without(free, wood), reached))


def _items(layout: Layout, grid: Grid, key: jax.Array, wood: Board) -> tuple[Board, Board]:
    """Hides the items, each kind equally likely, under as many different wooden walls."""
    candidates = np.concatenate([layout.fixed_wood, layout.pairs.ravel()])
    where, what = jax.random.bits(key, (2, len(candidates)), jnp.uint32)
    is_wood = bits.unpack(wood, candidates)
    # The walls come first: their numbers lose the highest bit, which the others have.
    order = _ranks(where >> 1 | jnp.where(is_wood, np.uint32(0), np.uint32(1 << 31)))
    kind = jnp.where(is_wood & (order < layout.items), what % np.uint32(3) + np.uint32(1), np.uint32(0))
    low, high = (kind & np.uint32(digit) for digit in (1, 2))
    return _pack(grid, low != 0, candidates), _pack(grid, high != 0, candidates)


def _pack(grid: Grid, cells: jax.Array, positions: np.ndarray) -> Board:
    return bits.pack(cells, positions, words=grid.words)


def _ranks(numbers: jax.Array) -> jax.Array:
    """The rank of each number, int32 `[K]`; of equal ones the first comes first."""
    count = np.arange(numbers.shape[0])
    before = (numbers[None, :] < numbers[:, None]) | (
        (numbers[None, :] == numbers[:, None]) & (count[None, :] < count[:, None])
    )
    return jnp.sum(before, axis=1, dtype=jnp.int32)


def corner_order(layout: Layout, key: jax.Array, *, keep_teams: bool) -> jax.Array:
    """A random corner for each agent, int32 `[P]`; with `keep_teams` every second one stays a team's own."""
    count = len(layout.corners)
    if not keep_teams:
        return _ranks(jax.random.bits(key, (count,), jnp.uint32))
    first, turn = jax.random.bits(key, (2,), jnp.uint32) >> 8
    way = jnp.where(turn % np.uint32(2) == 0, np.int32(1), np.int32(count - 1))
    return ((first % np.uint32(count)).astype(jnp.int32) + way * np.arange(count, dtype=np.int32)) % np.int32(
        count
    )
