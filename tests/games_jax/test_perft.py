"""How many move sequences of each length there are, counted by expanding whole batches."""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import rules_cases

import games_jax

CHUNK = 1 << 14


@functools.partial(jax.jit, static_argnums=0)
def expand(game, states, actions):
    return jax.vmap(game.step)(states, actions)


@functools.partial(jax.jit, static_argnums=0)
def legal_moves(game, states):
    return jax.vmap(game.legal_actions)(states)


def in_chunks(function, *trees):
    """Applies a batched function to arrays of any length, padded so that it compiles once."""
    size = len(jax.tree.leaves(trees)[0])
    filled = -(-size // CHUNK) * CHUNK
    padded = jax.tree.map(lambda x: np.pad(x, [(0, filled - size)] + [(0, 0)] * (x.ndim - 1)), trees)
    parts = [
        jax.device_get(function(*jax.tree.map(operator.itemgetter(slice(at, at + CHUNK)), padded)))
        for at in range(0, filled, CHUNK)
    ]
    return jax.tree.map(lambda *xs: np.concatenate(xs)[:size], *parts)


def rows(states, index):
    return jax.tree.map(operator.itemgetter(index), states)


def perft(game, depth):
    """The number of sequences of exactly 1, 2, ... `depth` plies."""
    states = jax.tree.map(lambda x: np.asarray(x)[None], game.init(jax.random.key(0)))
    counts = []
    for ply in range(depth):
        parents, actions = np.nonzero(in_chunks(functools.partial(legal_moves, game), states))
        counts.append(len(actions))
        if ply + 1 < depth:
            states = in_chunks(
                functools.partial(expand, game), rows(states, parents), actions.astype(np.int32)
            )
    return counts


DEPTHS = [
    ("tic_tac_toe", "tic_tac_toe", "game_counts", 9),
    ("connect_four", "connect_four", "perft", 7),
    ("othello", "othello", "perft_8x8_exact_plies", 8),
    ("othello(size=6)", "othello", "perft_6x6_exact_plies", 8),
    ("othello(size=4)", "othello", "perft_4x4_exact_plies", 13),
]


@pytest.mark.parametrize(("name", "game", "case", "depth"), DEPTHS)
def test_perft(name, game, case, depth):
    expected = rules_cases(game, "perft")[case]["expect"]["perft"]
    assert perft(games_jax.make(name), depth) == expected[:depth]


def test_connect_four_to_depth_8():
    expected = [7, 49, 343, 2401, 16807, 117649, 823536, 5673234]
    assert perft(games_jax.make("connect_four"), 8) == expected


@pytest.mark.slow
def test_othello_to_depth_9():
    assert perft(games_jax.make("othello"), 9)[-1] == 3005288
    assert perft(games_jax.make("othello(size=6)"), 9)[-1] == 2114912


def test_tic_tac_toe_ends():
    """Games by length and by winner, and the positions they pass through."""
    expected = rules_cases("tic_tac_toe", "games")["game_counts"]["expect"]
    game = games_jax.make("tic_tac_toe")
    over, rewards = (jax.jit(jax.vmap(fact)) for fact in (game.is_over, game.rewards))
    states = jax.tree.map(lambda x: np.asarray(x)[None], game.init(jax.random.key(0)))
    ended, won, positions = {}, {1.0: 0, 0.0: 0, -1.0: 0}, 1
    for ply in range(1, 10):
        parents, actions = np.nonzero(in_chunks(functools.partial(legal_moves, game), states))
        states = in_chunks(functools.partial(expand, game), rows(states, parents), actions.astype(np.int32))
        done = in_chunks(over, states)
        ended[str(ply)] = int(done.sum())
        for result in in_chunks(rewards, states)[done][:, 0].tolist():
            won[result] += 1
        positions += len(np.unique(np.stack(states), axis=1).T)
    assert {ply: count for ply, count in ended.items() if count} == expected["ended_by_ply"]
    assert won == {1.0: expected["X"], -1.0: expected["O"], 0.0: expected["draw"]}
    assert sum(ended.values()) == expected["games"]
    assert positions == expected["positions"]


def test_same_counts_one_state_at_a_time():
    """The batch is no part of the rules: a plain recursion over single states counts the same."""
    game = games_jax.make("tic_tac_toe")
    step, legal = jax.jit(game.step), jax.jit(game.legal_actions)

    def count(state, depth):
        actions = np.flatnonzero(legal(state))
        if depth == 1:
            return len(actions)
        return sum(count(step(state, jnp.int32(action)), depth - 1) for action in actions)

    assert [count(game.init(jax.random.key(0)), depth) for depth in (1, 2, 3)] == [9, 72, 504]
