"""The action filter: what an agent need not try.

Reference: the simple action filter of Weil et al. (2023), https://arxiv.org/abs/2305.13206, and its program.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.pommerman import state
from games_jax.pommerman.grid import DIRECTIONS, Grid, is_on, union
from games_jax.pommerman.state import State


def filtered_actions(grid: Grid, given: State) -> jax.Array:
    """Bool `[P, 6]`: see `Pommerman.filtered_actions`; the rows of dead agents mean nothing."""
    agents = [state.unpack_agent(word) for word in given.agents]
    cells = [grid.bit(jnp.where(agent.alive, agent.cell, np.int32(-1))) for agent in agents]
    laid = state.bombs(given)
    last = bits.without(given.flames[0], bits.either(given.flames[1], given.flames[2]))
    blocked = union([given.rigid, given.wood, laid, bits.without(state.burning(given), last), *cells])
    free = grid.complement(blocked)
    # An agent hides the bomb under it.
    kickable = bits.either(free, bits.without(laid, union(cells)))
    rows = []
    for agent, cell in zip(agents, cells, strict=True):
        may_enter = bits.where(agent.can_kick, kickable, free)
        moves = [is_on(cell, grid.back(may_enter, direction)) for direction in DIRECTIONS]
        bomb = (agent.ammo > 0) & ~is_on(laid, cell)
        rows.append(jnp.stack([jnp.ones((), bool), *moves, bomb]))
    return jnp.stack(rows)
