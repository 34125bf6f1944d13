"""Evaluators made of others and of value functions, against plain Python."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from search_helpers import quick_jit
from toy_games import AgainNim, Corridor, Nim, start

import games_jax
import jaxsearch

GAME = games_jax.make("tic_tac_toe")
LOWEST = np.finfo(np.float32).min


def value_fn(params, states):
    """Worth of the stones left, for whoever moves; not a number where the game is over."""
    return jnp.where(states.stones == 0, jnp.nan, jnp.asarray(params)[states.stones])


PARAMS = np.array([9.0, 0.5, -0.25, 0.125, -0.75, 0.3, 0.1], np.float32)


@pytest.mark.parametrize("game", [Nim(6), AgainNim(6)])
def test_successor_values_by_hand(game):
    stones, players = np.array([1, 2, 3, 4, 5, 6, 6]), np.array([0, 1, 0, 1, 0, 0, 1])
    states = start(game, 7)._replace(
        stones=jnp.asarray(stones, jnp.int32), player=jnp.asarray(players, jnp.int32)
    )
    expected = np.full((7, 3), -np.inf)
    for row, pile in enumerate(stones):
        for take in range(1, min(3, pile) + 1):
            left = pile - take
            same = not bool(game.passes_turn(np.int32(left)))
            later = PARAMS[left] if same else -PARAMS[left]
            expected[row, take - 1] = 1.0 if left == 0 else 0.9 * later
    for value, worth in (("state", PARAMS[stones]), ("best", expected.max(-1))):
        evaluate = quick_jit(
            jaxsearch.successor_values(game, value_fn, temperature=0.5, value=value, discount=0.9)
        )
        logits, got = evaluate(PARAMS, jax.random.key(0), states)
        legal = np.isfinite(expected)
        np.testing.assert_allclose(np.asarray(logits)[legal], expected[legal] / 0.5, rtol=1e-6)
        assert (np.asarray(logits)[~legal] == LOWEST).all()
        np.testing.assert_allclose(got, worth, rtol=1e-6)


def test_successor_values_of_one_player_and_of_a_game_that_is_over():
    game = Corridor(2, 0.25)
    states = start(game, 2)._replace(over=jnp.array([False, True]))
    evaluate = jaxsearch.successor_values(game, lambda params, s: 0.5 + 0.0 * s.gained, value="best")
    logits, value = quick_jit(evaluate)(None, jax.random.key(0), states)
    np.testing.assert_allclose(logits[0], [2.5, 5.0])  # take 0.25, or walk on to a place worth 0.5
    np.testing.assert_allclose(value, [0.5, 0.0])


def test_a_perfect_value_function_plays_perfectly():
    """One evaluation per root move is enough for a search that trusts it."""
    # A pile of 4 n is lost for the mover.
    perfect = jnp.where(jnp.arange(12) % 4 == 0, -1.0, 1.0)
    game = Nim(11)
    states = start(game, 11)._replace(stones=jnp.arange(1, 12, dtype=jnp.int32))
    evaluator = jaxsearch.successor_values(
        game, lambda params, states: params[states.stones], temperature=0.05
    )
    search = quick_jit(jaxsearch.puct(game, evaluator, simulations=4))
    action = np.asarray(search(jax.random.key(0), states, perfect).action)
    for stones, taken in zip(range(1, 12), action + 1):
        assert stones % 4 == 0 or (stones - taken) % 4 == 0


def test_mixture():
    """Priors of the first, values mixed; each asked with a key of its own."""

    def first(params, key, states):
        value = jnp.full((3,), params, jnp.bfloat16)
        return jax.random.normal(key, (3, 9)), value

    def second(params, key, states):
        return jnp.full((3, 9), jnp.nan), jax.random.uniform(key, (3,)) + params

    states = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], 3, axis=0), GAME.from_string("b2"))
    key = jax.random.key(0)
    keys = jax.random.split(key)
    for weight in (0.0, 0.25, 1.0):
        logits, value = jaxsearch.mixture(first, second, weight=weight)(0.5, key, states)
        np.testing.assert_array_equal(logits, first(0.5, keys[0], states)[0])
        expected = (1 - weight) * 0.5 + weight * np.asarray(second(0.5, keys[1], states)[1])
        np.testing.assert_allclose(value, expected, rtol=1e-6)
        assert value.dtype == jnp.float32


def test_each_state_is_judged_alone():
    """Where nothing is drawn, the value of a state does not depend on what else is in the batch."""
    game = Nim(6)
    states = start(game, 6)._replace(stones=jnp.arange(1, 7, dtype=jnp.int32))
    evaluate = quick_jit(jaxsearch.successor_values(game, value_fn))
    together = evaluate(PARAMS, jax.random.key(0), states)
    for row in range(6):
        one = jax.tree.map(lambda leaf, row=row: leaf[row : row + 1], states)
        for got, all_of_them in zip(evaluate(PARAMS, jax.random.key(1), one), together):
            np.testing.assert_array_equal(got[0], all_of_them[row])


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"weight is 1.5; expected 0 to 1"):
        jaxsearch.mixture(jaxsearch.uniform(GAME), jaxsearch.uniform(GAME), weight=1.5)
    with pytest.raises(ValueError, match="temperature is 0; expected more than 0"):
        jaxsearch.successor_values(GAME, value_fn, temperature=0)
    with pytest.raises(ValueError, match="value is 'worst'; expected 'state' or 'best'"):
        jaxsearch.successor_values(GAME, value_fn, value="worst")
