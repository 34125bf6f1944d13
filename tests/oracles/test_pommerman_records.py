"""Every recorded transition of the official Pommerman environment, 108,947 of them."""

import jax
import numpy as np
import pytest
from pommerman_records import FILES, load, planes_of, running

from games_jax.pommerman import Pommerman
from games_jax.pommerman.state import from_planes, to_planes

GAME = Pommerman()
BATCH = 4096


@jax.jit
def play(planes, agents, steps, actions):
    def one(state, actions):
        new = GAME.step(state, actions)
        return to_planes(new, 11), (GAME.rewards(new), GAME.is_over(new), GAME.result(new), GAME.winners(new))

    return jax.vmap(one)(jax.vmap(from_planes)(planes, agents, steps), actions)


@jax.jit
def replay(planes, agents, steps, actions):
    """Whole games of a batch, `actions` `[T, B, 4]`: the states on the way, in pieces."""

    def step(state, actions):
        new = jax.vmap(GAME.step)(state, actions)
        return new, jax.vmap(lambda one: to_planes(one, 11))(new)

    return jax.lax.scan(step, jax.vmap(from_planes)(planes, agents, steps), actions)[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES[1:])
def test_whole_recorded_games(name):
    """From each first state on by the recorded actions alone."""
    found = load(name)
    planes, offset = planes_of(found), found["episode_offset"]
    first, length = offset[:-1], np.diff(offset) - 1
    ticks = np.minimum(
        np.arange(length.max())[:, None], length - 1
    )  # [T, B]; the last action again at the end
    agents, steps, actions = (found[key].astype(np.int32) for key in ("agents", "step_count", "actions"))
    for some in np.array_split(np.arange(len(first)), -(-len(first) // 300)):
        played = actions[first[some] + ticks[:, some]]
        new, new_agents, _ = replay(planes[first[some]], agents[first[some]], steps[first[some]], played)
        for tick in range(length[some].max()):
            now = first[some] + ticks[tick, some] + 1
            # One-step games are not over after their step, and would go on.
            still = tick < length[some]
            np.testing.assert_array_equal(np.asarray(new[tick])[still], planes[now][still])
            np.testing.assert_array_equal(np.asarray(new_agents[tick])[still], agents[now][still])


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_recorded_games(name):
    found = load(name)
    planes, rows = planes_of(found), running(found)
    agents, steps, actions = (found[key].astype(np.int32) for key in ("agents", "step_count", "actions"))
    for first in range(0, len(rows), BATCH):
        now = np.resize(rows[first : first + BATCH], BATCH)  # the last batch begins anew to be as large
        (new, new_agents, new_steps), facts = jax.device_get(
            play(planes[now], agents[now], steps[now], actions[now])
        )
        np.testing.assert_array_equal(new, planes[now + 1])
        np.testing.assert_array_equal(new_agents, agents[now + 1])
        np.testing.assert_array_equal(new_steps, steps[now + 1])
        rewards, over, result, winners = facts
        np.testing.assert_array_equal(rewards, found["rewards"][now])
        np.testing.assert_array_equal(over, found["done"][now])
        np.testing.assert_array_equal(result, found["result"][now])
        np.testing.assert_array_equal(winners @ np.array([1, 2, 4, 8]), found["winners"][now])
