"""The 2x2x2 cube against the truth: exact distances of all positions, and how a player solves given ones.

A position's number is `729 * r + o`: r the rank of the permutation of the seven moving corners over the
places URF UFL ULB UBR DFR DLF DRB, o the twists of the corners at the first six places as digits of base 3.

Dimensions: N positions.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.cube import geometry, planes
from games_jax.cube.rules import Cube
from train.openings import step_batch
from train.players import Act, Player

__all__ = ["NUM_POSITIONS", "Solved", "distances", "positions", "solve"]

NUM_POSITIONS = 3_674_160
_TWISTS = 3**6
_ORDERS = math.factorial(7)

# A clockwise turn: from which place the corner at each place comes, and by how much it is twisted.
_SOURCES = {"U": (3, 0, 1, 2, 4, 5, 6), "R": (4, 1, 2, 0, 6, 5, 3), "F": (1, 5, 2, 3, 0, 4, 6)}
_TURNED = {"U": (0,) * 7, "R": (2, 0, 0, 1, 1, 0, 2), "F": (1, 2, 0, 0, 2, 1, 0)}


def _rank(orders: np.ndarray) -> np.ndarray:
    """The rank of permutations `[N, 7]` in lexicographic order."""
    smaller = orders[:, None, :] < orders[:, :, None]
    later = np.arange(7)[None, :] > np.arange(7)[:, None]
    counts = (smaller & later).sum(axis=2)
    return counts @ np.array([math.factorial(6 - i) for i in range(7)])


@functools.cache
def _orders() -> np.ndarray:
    return np.array(list(itertools.permutations(range(7))))


@functools.cache
def _twists() -> np.ndarray:
    """The twists at all seven places, `[729, 7]`; they add up to a multiple of three."""
    first = np.array(list(itertools.product(range(3), repeat=6)))
    return np.concatenate([first, -first.sum(axis=1, keepdims=True) % 3], axis=1)


@functools.cache
def distances(metric: str = "htm") -> np.ndarray:
    """The number of turns from solved of every position, uint8 `[NUM_POSITIONS]`, by breadth-first search.

    Args:
        metric: "htm" or "qtm".
    """
    orders, twists = _orders(), _twists()
    digits = 3 ** np.arange(5, -1, -1)
    turns = []
    for face in "URF":
        source, turned = np.array(_SOURCES[face]), np.array(_TURNED[face])
        order = _rank(orders[:, source])
        twist = ((twists[:, source] + turned) % 3)[:, :6] @ digits
        for count in (1, 2, 3) if metric == "htm" else (1, 3):
            steps = np.arange(_ORDERS), np.arange(_TWISTS)
            for _ in range(count):
                steps = order[steps[0]], twist[steps[1]]
            turns.append(steps)
    found = np.full(NUM_POSITIONS, 255, np.uint8)
    found[0], frontier, depth = 0, np.zeros(1, np.int64), 0
    while len(frontier):
        depth += 1
        parts = [order[frontier // _TWISTS] * _TWISTS + twist[frontier % _TWISTS] for order, twist in turns]
        reached = np.unique(np.concatenate(parts))
        frontier = reached[found[reached] == 255]
        found[frontier] = depth
    return found


def positions(game: Cube, numbers: np.ndarray) -> Any:
    """The states `[N]` of position numbers, no moves made yet."""
    orders, twists = _orders()[numbers // _TWISTS], _twists()[numbers % _TWISTS]
    moving = np.array([c for c in range(planes.NUM_CORNERS) if c != geometry.FIXED])
    codes = np.full((len(numbers), planes.NUM_CORNERS), geometry.code(geometry.CORNERS[geometry.FIXED], 0))
    table = geometry.kind(geometry.CORNERS).codes
    rows = np.arange(len(numbers))[:, None]
    codes[rows, moving[orders]] = table[moving, twists]
    pack = jax.jit(jax.vmap(lambda c: game._pack(planes.from_codes(c), jnp.uint32(0))))
    return pack(jnp.asarray(codes, jnp.int32))


@dataclasses.dataclass(frozen=True, eq=False)
class Solved:
    """How positions were solved.

    Attributes:
        solved: bool `[N]`.
        turns: int `[N]`, that it took.
    """

    solved: np.ndarray
    turns: np.ndarray


def solve(game: Cube, player: Player, states: Any, *, limit: int, key: jax.Array) -> Solved:
    """Lets a player solve the cubes `[N]`, `limit` turns at most.

    Args:
        game: a cube whose `max_steps` is at least `limit`.
        player: a device player.
        states: `[N]`.
        limit: turns.
        key: consumed.
    """
    turns, solved = _solve(key, states, player.params, game=game, act=player.act, limit=limit)  # pyright: ignore
    return Solved(np.asarray(solved), np.asarray(turns))


@functools.partial(jax.jit, static_argnames=("game", "act", "limit"))
def _solve(
    key: jax.Array, states: Any, params: Any, *, game: Cube, act: Act, limit: int
) -> tuple[jax.Array, jax.Array]:
    count = jax.tree.leaves(states)[0].shape[0]

    def unfinished(carry: tuple[Any, ...]) -> jax.Array:
        step, states, _ = carry
        return (step < limit) & ~jnp.all(jax.vmap(game.is_over)(states))

    def turn(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        step, states, turns = carry
        going = ~jax.vmap(game.is_over)(states)
        act_key, chance_key = jax.random.split(jax.random.fold_in(key, step))
        states = step_batch(game, chance_key, states, act(act_key, states, params))
        return step + 1, states, turns + going

    start = jnp.int32(0), states, jnp.zeros(count, jnp.int32)
    _, states, turns = jax.lax.while_loop(unfinished, turn, start)
    return turns, jax.vmap(game.is_solved)(states)
