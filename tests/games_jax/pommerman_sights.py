"""Observations of the official SimpleAgent with what it does there, as states and memories of ours."""

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.pommerman import Pommerman
from games_jax.pommerman.agents import SimpleAgent, SimpleMemory
from games_jax.pommerman.simple_agent import Memory, start
from games_jax.pommerman.state import from_planes

GAME = Pommerman()
AGENT = SimpleAgent(GAME)


def planes_of(found):
    """The observed maps as `Snapshot.as_planes`, uint8 `[N, 9, 11, 11]`; owners are not observed."""
    flames = [found["flife"] == left + 1 for left in range(3)]
    nothing = np.zeros_like(found["board"])
    maps = [found["board"], nothing, found["blife"], found["bbs"], nothing, found["bdir"], *flames]
    return np.stack([np.asarray(one, np.uint8) for one in maps], axis=1)


def agents_of(found):
    """Int32 `[N, 4, 6]`: the agent's own equipment, and where the others are."""
    count = len(found["board"])
    rows = np.zeros((count, 4, 6), np.int32)
    rows[..., 3:5] = 1, 2
    for agent in range(4):
        at = found["board"] == 10 + agent
        rows[:, agent, 2] = at.any((1, 2))
        cell = at.reshape(count, -1).argmax(-1)
        rows[:, agent, 0], rows[:, agent, 1] = cell // 11, cell % 11
    me, place = found["agent_id"].astype(int), np.arange(count)
    for column, name in ((3, "ammo"), (4, "blast"), (5, "kick")):
        rows[place, me, column] = found[name]
    np.testing.assert_array_equal(rows[place, me, :2], found["pos"])
    return rows


def memories_of(found):
    """The recorded memories, `[N]`."""
    recent = found["recent"].astype(np.int32)
    cells = np.where(recent[..., 0] >= 0, recent[..., 0] * 11 + recent[..., 1], -1)
    heading = np.where(found["prevdir"] > 0, found["prevdir"].astype(np.int32) - 1, -1)
    return Memory(tuple(jnp.asarray(cells[:, i]) for i in range(6)), jnp.asarray(heading))


@jax.jit
def probabilities(planes, agents, player, memory):
    """Our agent's probabilities with this memory and with none, float32 `[2, N, 6]`."""

    def one(planes, agents, player, memory):
        state = from_planes(planes, agents, jnp.int32(0))
        seed = jnp.uint32(0)
        with_it = AGENT.probabilities(state, player, SimpleMemory(memory, seed))
        return jnp.stack([with_it, AGENT.probabilities(state, player, SimpleMemory(start(), seed))])

    return jnp.moveaxis(jax.vmap(one)(planes, agents, player, memory), 0, 1)


def ours(found):
    """`probabilities` of all observations of a file."""
    player = found["agent_id"].astype(np.int32)
    return np.asarray(probabilities(planes_of(found), agents_of(found), player, memories_of(found)))
