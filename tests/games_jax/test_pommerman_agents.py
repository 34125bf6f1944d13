"""The heuristic agents: SimpleAgent against the official one, the others in positions and in play."""

import functools
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pommerman_cpp
import pytest
from cases import DATA
from pommerman_sights import AGENT, GAME, ours

import jaxsearch
from games_jax.multi_agent import single_player_view, two_player_view
from games_jax.opponents import FixedModel, GreedyModel, RandomModel
from games_jax.pommerman import Snapshot
from games_jax.pommerman.agents import UnbiasedAgent
from games_jax.pommerman.unbiased_agent import Memory

STOP, UP, DOWN, LEFT, RIGHT, BOMB = range(6)


def test_simple_agent_has_the_official_distribution():
    with np.load(DATA / "pommerman" / "simple_agent.npz") as file:
        found = dict(file)
    for answers, kind in zip(ours(found), ("mem", "clr"), strict=True):
        # What the official agent did in hundreds of calls, and probabilities from another program.
        np.testing.assert_array_equal(answers > 0, found[f"seen_{kind}"])
        np.testing.assert_allclose(answers, found[f"ex_{kind}"], atol=1e-5)


@pytest.mark.slow
def test_simple_agent_on_all_recorded_observations():
    folder = os.environ.get("POMMERMAN_RECORDS")
    if not folder:
        pytest.skip("POMMERMAN_RECORDS names no directory of recorded games")
    with np.load(Path(folder) / "simple_agent_states.npz") as file:
        found = dict(file)
    for answers, kind in zip(ours(found), ("mem", "clr"), strict=True):
        np.testing.assert_array_equal(answers > 0, found[f"cnt_{kind}"][:, :6] > 0)
        np.testing.assert_allclose(answers, found[f"ex_{kind}"][:, :6], atol=1e-5)


def test_the_papers_agent_does_what_the_program_does():
    """Positions of 2,000 games of its own, and what it did there 400 times, by other random numbers."""
    with np.load(DATA / "pommerman" / "simple_cpp.npz") as file:
        found = dict(file)
    times = pommerman_cpp.ours(found)
    np.testing.assert_array_equal(times.sum(-1), found["counts"].sum(-1))
    np.testing.assert_array_equal(times > 0, found["counts"] > 0)
    # Two samples of 400: seven standard errors of the difference of two shares.
    assert np.abs(times - found["counts"]).max() < 0.25 * 400


def position(text, agents, bombs=(), flames=()):
    """A state from rows of `.#wr` and agents `(row, column)`; None for a dead one."""
    rows = text.split() or ["." * 11] * 11
    codes = {".": 0, "#": 1, "w": 2, "r": 7}
    board = np.array([[codes[cell] for cell in row] for row in rows], np.uint8)
    filled = [[*(agent or (0, 0)), int(agent is not None), 1, 2, 0] for agent in agents]
    for row, column, *_ in flames:
        board[row, column] = 4
    for row, column, *_ in bombs:
        board[row, column] = 3
    for i, agent in enumerate(agents):
        if agent:
            board[agent] = 10 + i
    return GAME.load(Snapshot(board, board * 0, bombs, flames, filled, 0))


OPEN = ""
FAR = [(10, 10), (10, 9), (9, 10)]  # three agents out of the way
RUNS = [
    # A bomb beside, in its last step but one: it leaves the line sideways, or walks on if that is safe.
    (OPEN, [(5, 5), *FAR], [(5, 4, 2, 2, 0, 0)], {UP, DOWN, RIGHT}),
    # It stands in a passage with a bomb behind: one way out.
    ("###########\n" * 5 + "#.....#####\n" + "###########\n" * 5, [(5, 3), None, None, None],
     [(5, 2, 5, 2, 0, 0)], {RIGHT}),
    # An enemy beside it, and wood beside it: it bombs both.
    (OPEN, [(5, 5), (5, 6), None, None], [], {BOMB}),
    ("." * 11 + "\n....w......\n" + ("." * 11 + "\n") * 9, [(2, 4), None, None, None], [], {BOMB}),
    # An item four cells off.
    ("." * 11 + "\n....r......\n" + ("." * 11 + "\n") * 9, [(1, 8), None, None, None], [], {LEFT}),
    # It hunts an enemy in its row.
    (OPEN, [(5, 5), (5, 9), None, None], [], {RIGHT}),
    # Nothing but walls round it.
    ("#.#########\n" + "###########\n" * 10, [(0, 1), None, None, (10, 10)], [], {STOP}),
]  # fmt: skip


@functools.cache
def unbiased_many():
    agent = UnbiasedAgent(GAME)
    start = jax.vmap(agent.start)(jax.random.split(jax.random.key(0), 64))
    # It has been elsewhere: an agent that remembers nothing thinks that it goes round in circles.
    start = start._replace(recent=tuple(jnp.full(64, 1000 + i, jnp.int32) for i in range(4)))
    act = jax.jit(jax.vmap(agent.act, in_axes=(None, None, 0)))
    return lambda state, player=0: act(state, jnp.int32(player), start)


@pytest.mark.parametrize(("text", "agents", "bombs", "allowed"), RUNS)
def test_what_the_papers_agent_does(text, agents, bombs, allowed):
    actions, _ = unbiased_many()(position(text, agents, bombs))
    assert set(np.asarray(actions).tolist()) <= allowed
    if len(allowed) == 3:
        assert len(set(np.asarray(actions).tolist())) > 1


def test_the_papers_agent_breaks_loops_while_it_hunts():
    agent = UnbiasedAgent(GAME)
    act = jax.jit(agent.act)
    walls = "#.#########\n" + "###########\n" * 10
    for enemy, hunts in (((10, 10), False), ((0, 8), True)):
        walled = position(walls, [(0, 1), enemy, None, None])
        memory = agent.start(jax.random.key(0))
        actions = []
        for _ in range(12):
            action, memory = act(walled, jnp.int32(0), memory)
            actions.append(int(action))
        assert isinstance(memory, Memory)
        if hunts:
            assert STOP not in actions[:2] and BOMB not in actions and len(set(actions)) > 2
        else:
            assert actions == [STOP] * 12


@functools.cache
def played(kind, games, steps, seed=0):
    """Games of four equal agents: alive at the end, and length."""
    game = type(GAME)(random_corners=True)
    model = {"simple": type(AGENT)(game), "unbiased": UnbiasedAgent(game)}[kind]
    key, own = jax.random.split(jax.random.key(seed))
    states = jax.vmap(game.init)(jax.random.split(key, games))
    memories = jax.vmap(jax.vmap(model.start))(jax.random.split(own, (4, games)))
    act = jax.vmap(jax.vmap(model.act, in_axes=(0, None, 0)), in_axes=(None, 0, 0))

    def step(carry, _):
        states, memories = carry
        actions, memories = act(states, jnp.arange(4, dtype=jnp.int32), memories)
        return (jax.vmap(game.step, in_axes=(0, 1))(states, actions), memories), None

    final, _ = jax.jit(lambda carry: jax.lax.scan(step, carry, None, steps)[0])((states, memories))
    return np.asarray(jax.vmap(game.winners)(final)), np.asarray(final.steps)


@pytest.mark.slow
def test_games_of_simple_agents_look_like_the_official_ones():
    winners, steps = played("simple", 128, 800)
    # 150 recorded games: 413 steps on average, 74 % won, 11 % not over after 800 steps.
    assert abs(steps.mean() - 413) < 90
    assert abs(winners.any(-1).mean() - 0.74) < 0.15
    assert abs((steps == 800).mean() - 0.113) < 0.1
    assert np.abs(winners.mean(0) - winners.mean()).max() < 0.14  # corners are random


@pytest.mark.slow
def test_games_of_the_papers_agents():
    winners, steps = played("unbiased", 128, 800)
    # 4,000 games in C++, on other boards: 226 steps, 91 % won, 5 % not over.
    assert abs(steps.mean() - 226) < 60
    assert abs(winners.any(-1).mean() - 0.91) < 0.09
    assert (steps == 800).mean() < 0.12
    assert np.abs(winners.mean(0) - winners.mean()).max() < 0.14


def test_random_and_network_agents_keep_to_the_filter():
    state = position(OPEN, [(5, 5), (5, 6), (4, 5), None], flames=[(6, 5, 2)])
    random = RandomModel(GAME, GAME.filtered_actions)
    seeds = jax.vmap(random.start)(jax.random.split(jax.random.key(0), 300))
    actions, _ = jax.vmap(random.act, in_axes=(None, None, 0))(state, jnp.int32(0), seeds)
    assert set(np.asarray(actions).tolist()) == {STOP, LEFT, BOMB}
    network = GreedyModel(GAME, lambda seen: jnp.arange(6.0) + 0 * seen.sum(), GAME.filtered_actions)
    assert int(network.act(state, jnp.int32(0), ())[0]) == BOMB
    assert int(network.act(state, jnp.int32(3), ())[0]) == STOP  # the dead


def test_nearest_enemy():
    state = position(OPEN, [(5, 5), (9, 9), (5, 2), (2, 5)])
    nearest = jax.jit(GAME.nearest_enemy)
    assert [int(nearest(state, jnp.int32(i))) for i in range(4)] == [2, 0, 0, 0]
    alone = position(OPEN, [None, (9, 9), None, (2, 5)])
    assert int(nearest(alone, jnp.int32(1))) == 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["single", "two"])
def test_search_saves_itself_from_a_bomb(kind):
    make = single_player_view if kind == "single" else two_player_view
    view = make(GAME, FixedModel(), allowed=GAME.filtered_actions)
    passage = "###########\n" * 5 + "##....#####\n" + "####.######\n" + "###########\n" * 4
    start = position(passage, [(5, 3), (0, 0), None, None], bombs=[(5, 2, 2, 4, 1, 0)])
    root = jax.tree.map(lambda leaf: leaf[None], view.begin(start, 0, jax.random.key(0)))
    search = jaxsearch.uct(view, simulations=64, evaluator=blind)
    found = jax.jit(search)(jax.random.key(0), root)
    # Two steps are left: right, then down round the corner; any other start is too late.
    assert int(found.action[0]) == RIGHT
    assert found.visits.sum() == 64


def blind(params, key, states):
    """An evaluator that knows nothing."""
    del params, key
    batch = jax.tree.leaves(states)[0].shape[0]
    return jnp.zeros((batch, 6)), jnp.zeros(batch)
