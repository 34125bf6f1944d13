"""The collapse of the official version 1: ring after ring of the board turns into rigid walls.

Agents on a ring that falls die, and bombs, flames and items on it are gone; owners get their bombs back.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board
from games_jax.pommerman import blasts, state
from games_jax.pommerman.grid import Grid, is_on, union
from games_jax.pommerman.state import State

_TIMES = (500, 575, 650, 725)


def collapse(grid: Grid, after: State) -> State:
    """The state after the ring that is due at its step has turned into walls; as it is at other steps."""
    rows, columns = np.indices(grid.positions.shape)
    depth = np.minimum.reduce([rows, columns, grid.size - 1 - rows, grid.size - 1 - columns])
    falls = union(
        tuple(
            jnp.where(after.steps == np.uint32(at), word, np.uint32(0))
            for word in grid.mask(grid.positions[depth == ring])
        )
        for ring, at in enumerate(_TIMES)
    )

    def clear(planes: tuple[Board, ...]) -> tuple[Board, ...]:
        return tuple(bits.without(plane, falls) for plane in planes)

    swallowed = bits.both(state.bombs(after), falls)
    words = []
    for i, word in enumerate(after.agents):
        agent = state.unpack_agent(word)
        here = grid.bit(agent.cell)
        back = blasts.refunds(swallowed, after.owner, i)
        ammo = jnp.minimum(agent.ammo + back, np.int32(state.MOST_AMMO))
        words.append(state.pack_agent(agent._replace(alive=agent.alive & ~is_on(falls, here), ammo=ammo)))
    return State(
        rigid=bits.either(after.rigid, falls),
        wood=bits.without(after.wood, falls),
        item=clear(after.item),
        flames=clear(after.flames),
        life=clear(after.life),
        blast=clear(after.blast),
        owner=clear(after.owner),
        moving=clear(after.moving),
        agents=tuple(words),
        steps=after.steps,
    )
