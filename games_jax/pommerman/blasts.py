"""What explodes, and what the fire reaches."""

from __future__ import annotations

import jax

from games_jax import bits
from games_jax.bits import Board
from games_jax.pommerman.grid import DIRECTIONS, Grid, at_least
from games_jax.pommerman.state import MOST_BLAST


def explode(
    grid: Grid, lit: Board, bombs: Board, blast: tuple[Board, ...], *, rigid: Board, wood: Board
) -> tuple[Board, Board]:
    """The whole chain of one step.

    Wood stops a ray after it has caught fire, and goes on shielding until the step is over; rigid walls stop
    it before. Nothing else does.

    Args:
        grid: the geometry.
        lit: bombs that go off by themselves.
        bombs: all bombs, with the digits of their `blast` strength.
        rigid: cells that do not burn.
        wood: cells that burn and shield.

    Returns:
        The bombs that exploded, and the cells on fire, the bombs' own included.
    """
    most = min(MOST_BLAST, grid.size)
    # reach[r]: the bombs whose fire goes r cells far, or farther.
    reach = bits.compute_once(*(at_least(blast, r + 1) for r in range(1, most)))

    def body(carry: tuple[Board, Board, jax.Array]) -> tuple[Board, Board, jax.Array]:
        lit, _, _ = carry
        fire = _fire(grid, lit, reach, rigid, wood)
        chain = bits.either(lit, bits.both(bombs, fire))
        chain, fire = bits.compute_once(chain, fire)
        return chain, fire, ~bits.equal(chain, lit)

    lit, fire, _ = jax.lax.while_loop(lambda carry: carry[2], body, (lit, grid.empty(), bits.is_any(lit)))
    return lit, fire


def _fire(grid: Grid, lit: Board, reach: tuple[Board, ...], rigid: Board, wood: Board) -> Board:
    """The cells on fire: a ray starts with the farthest-reaching bombs and others join as it grows short."""
    fire = lit
    for direction in DIRECTIONS:
        ray = bits.both(lit, reach[-1])
        for bombs in (*reach[-2::-1], None):
            ray = bits.without(grid.shift(bits.without(ray, wood), direction), rigid)
            ray = bits.either(ray, lit if bombs is None else bits.both(lit, bombs))
        fire = bits.either(fire, ray)
    return fire


def refunds(lit: Board, owner: tuple[Board, ...], agent: int) -> jax.Array:
    """How many of the exploding bombs are the agent's, int32 `[]`."""
    for digit, plane in enumerate(owner):
        lit = bits.both(lit, plane) if agent >> digit & 1 else bits.without(lit, plane)
    return bits.popcount(lit)
