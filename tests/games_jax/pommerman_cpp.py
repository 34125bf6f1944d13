"""Positions of the C++ environment with what its SimpleUnbiasedAgent does there, and what ours does."""

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.pommerman import Pommerman, unbiased_agent
from games_jax.pommerman.sight import look
from games_jax.pommerman.state import from_planes

GAME = Pommerman()


def planes_of(found):
    """The boards as `Snapshot.as_planes`, uint8 `[N, 9, 11, 11]`; whose bombs they are is not seen."""
    planes = np.zeros((len(found["board"]), 9, 11, 11), np.uint8)
    planes[:, 0] = found["board"]
    planes[:, 6] = found["board"] == 4
    case, number = np.nonzero(found["bombs"][:, :, 0] >= 0)
    row, column, life, blast = found["bombs"][case, number].T
    planes[case, 2, row, column], planes[case, 3, row, column] = life, blast
    return planes


def agents_of(found):
    """Int32 `[N, 4, 6]`: row, column, alive, ammo, blast strength, no kick."""
    alive, row, column, ammo, blast = np.moveaxis(found["agents"].astype(np.int32), -1, 0)
    return np.stack([row, column, alive, ammo, blast, 0 * alive], axis=-1)


def recent_of(found):
    """Int32 `[N, 4]`: where the agent last meant to go, oldest first, -1 before that."""
    recent = found["recent"].astype(np.int32)
    numbers = np.where(recent[..., 0] > -9, (recent[..., 0] + 1) * 16 + recent[..., 1] + 1, -1)
    count = (numbers >= 0).sum(-1)
    return np.stack([np.roll(row, 4 - n) for row, n in zip(numbers, count, strict=True)])


def ranks_of(order):
    """When each comes, uint32 `[N, K]`, for lists of what comes first, second ..."""
    return np.argsort(order, axis=-1).astype(np.uint32)


@jax.jit
def frequencies(planes, agents, player, recent, orders):
    """How often each action is ours with 400 different random numbers, int32 `[N, 6]`."""

    def one(planes, agents, player, recent, orders):
        state = from_planes(planes, agents, jnp.int32(0))
        sight = look(GAME.grid, state, player, teams=False, window=None)

        def action(seed):
            start = unbiased_agent.start(seed)._replace(recent=tuple(recent))
            return unbiased_agent.act(GAME.grid, sight, start, orders)[0]

        actions = jax.vmap(action)(jnp.arange(400, dtype=jnp.uint32) * np.uint32(2654435761))
        return jnp.sum(jax.nn.one_hot(actions, 6, dtype=jnp.int32), axis=0)

    return jax.lax.map(lambda case: one(*case), (planes, agents, player, recent, orders))


def ours(found):
    """`frequencies` in all positions of a file."""
    orders = unbiased_agent.Orders(*(ranks_of(found[name]) for name in ("rows", "columns", "order")))
    player = found["player"].astype(np.int32)
    return np.asarray(frequencies(planes_of(found), agents_of(found), player, recent_of(found), orders))
