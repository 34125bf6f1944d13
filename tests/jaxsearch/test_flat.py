"""Flat Monte Carlo: where its playouts go, and the exact means of random play."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from search_helpers import quick_jit
from test_playouts import random_play
from toy_games import Nim, start

import games_jax
import jaxsearch

GAME = games_jax.make("tic_tac_toe")
POSITIONS = ["XX./OO./... X", "X../.O./... X", ".../.../... X", "XOX/XOO/.X. O", "XXX/OO./... O"]


def states_of(texts, copies=1):
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(GAME.from_string, texts))
    return jax.tree.map(lambda leaf: jnp.repeat(leaf, copies, axis=0), states)


@pytest.mark.parametrize("simulations", [5, 100, 3001])
def test_equal_shares(simulations):
    states = states_of(POSITIONS)
    out = quick_jit(jaxsearch.flat_monte_carlo(GAME, simulations=simulations))(jax.random.key(0), states)
    legal, visits = np.asarray(jax.vmap(GAME.legal_actions)(states)), np.asarray(out.visits)
    assert not visits[~legal].any() and not visits[4].any()
    for row in range(4):
        assert visits[row].sum() == simulations
        assert np.ptp(visits[row][legal[row]]) <= 1
    np.testing.assert_allclose(np.asarray(out.weights).sum(-1), [1, 1, 1, 1, 0])
    np.testing.assert_allclose(
        out.value, (visits * np.asarray(out.qvalues)).sum(-1) / np.maximum(visits.sum(-1), 1), atol=1e-5
    )
    assert out.tree is None


def test_means_are_those_of_random_play():
    out = quick_jit(jaxsearch.flat_monte_carlo(GAME, simulations=2000, playouts=2))(
        jax.random.key(1), states_of(POSITIONS)
    )
    for row, text in enumerate(POSITIONS[:4]):
        board, mover = text.replace("/", "").split()
        other = "O" if mover == "X" else "X"
        for action in np.flatnonzero(out.visits[row]):
            after = board[:action] + mover + board[action + 1 :]
            expected = -random_play(after, other)
            error = math.sqrt(max(1 - expected**2, 1e-6) / (2 * int(out.visits[row, action])))
            assert abs(float(out.qvalues[row, action]) - expected) <= 5 * error, (text, action)
    assert out.action[0] == 2 and out.weights[0, 2] == 1, "the winning move has the highest mean"


def test_a_remainder_falls_on_any_move():
    out = quick_jit(jaxsearch.flat_monte_carlo(GAME, simulations=1))(
        jax.random.key(0), states_of(["b2"], 1600)
    )
    first = np.asarray(out.visits).sum(0)
    assert first[4] == 0 and scipy.stats.chisquare(np.delete(first, 4)).pvalue > 1e-4
    np.testing.assert_array_equal(out.action, np.asarray(out.visits).argmax(-1))


@pytest.mark.parametrize("game", [Nim(7), games_jax.make("othello(size=4)")])
def test_ucb1(game):
    """Every move once, then most often the best; against UCB1 in plain Python on the same returns."""
    simulations, c = 40, 0.7

    def evaluator(params, key, states):  # the same judgement of a state each time
        leaves = [leaf.astype(jnp.uint32) for leaf in jax.tree.leaves(states)]
        mixed = sum(leaf * np.uint32(0x9E3779B9 + 2 * i) for i, leaf in enumerate(leaves, 1))
        value = ((mixed >> 16) % 200).astype(jnp.float32) / 100 - 1
        return jnp.zeros((value.shape[0], game.num_actions)), value

    states = start(game, 1)
    search = jaxsearch.flat_monte_carlo(
        game, simulations=simulations, allocation="ucb1", c=c, evaluator=evaluator
    )
    out = quick_jit(search)(jax.random.key(0), states)
    recurrent_fn = jaxsearch.make_recurrent_fn(game, evaluator)
    legal = np.flatnonzero(game.legal_actions(jax.tree.map(lambda leaf: leaf[0], states)))
    many = jax.tree.map(lambda leaf: jnp.repeat(leaf, len(legal), axis=0), states)
    step, _ = recurrent_fn(None, jax.random.key(0), jnp.asarray(legal, jnp.int32), many)
    worth = np.asarray(step.reward + step.discount * step.value, np.float64)
    visits = np.ones(len(legal))
    for done in range(len(legal), simulations):
        visits[np.argmax(worth + 2 * c * np.sqrt(np.log(1 + done) / visits))] += 1
    got = np.asarray(out.visits[0])[legal]
    assert got.sum() == simulations and (got >= 1).all()
    # Moves of equal worth may be counted in another order.
    np.testing.assert_array_equal(np.sort(got), np.sort(visits))
    assert got[np.flatnonzero(legal == int(out.action[0]))[0]] == got.max()
    np.testing.assert_allclose(out.weights, out.visits / simulations, rtol=1e-6)


def test_it_does_not_see_the_one_refutation():
    """Taking 2 of 6 leaves 4, a win; but at random, leaving few stones looks worse or better than it is."""
    game = Nim(6)
    flat = quick_jit(jaxsearch.flat_monte_carlo(game, simulations=6000))(jax.random.key(0), start(game, 1))
    tree = quick_jit(jaxsearch.uct(game, simulations=2000))(jax.random.key(0), start(game, 1))

    def loses(stones):
        """The mean result of random play for the mover."""
        results = [1.0 if take == stones else -loses(stones - take) for take in range(1, min(3, stones) + 1)]
        return sum(results) / len(results)

    np.testing.assert_allclose(flat.qvalues[0], [-loses(5), -loses(4), -loses(3)], atol=0.12)
    assert tree.action[0] == 1 and float(tree.qvalues[0, 1]) > 0.8 > float(flat.qvalues[0, 1])


def test_bad_arguments():
    with pytest.raises(ValueError, match="simulations is 0; expected at least 1"):
        jaxsearch.flat_monte_carlo(GAME, simulations=0)
    with pytest.raises(ValueError, match="allocation is 'best'; expected 'equal' or 'ucb1'"):
        jaxsearch.flat_monte_carlo(GAME, simulations=9, allocation="best")
