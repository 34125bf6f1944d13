"""From a game to a model: whose reward, which sign, what ends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_helpers import quick_jit
from toy_games import AgainNim, Corridor, Nim, Pile, solve_pile, start

import games_jax
import jaxsearch
from jaxsearch.environment import masked_logits
from jaxsearch.priors import prior_probabilities


def constant_evaluator(value, logits=0.0):
    def evaluate(params, key, states):
        del params, key
        batch = jax.tree.leaves(states)[0].shape[0]
        return jnp.full((batch, 3), logits), jnp.full((batch,), value)

    return evaluate


def piles(stones, player):
    return Pile(*(jnp.asarray(x, jnp.int32) for x in (stones, player, [-1] * len(stones))))


def test_one_step_of_a_game():
    """Winning brings the mover 1 and ends; else the sign follows the player to move (issue 16)."""
    model = jaxsearch.make_recurrent_fn(AgainNim(9), constant_evaluator(0.5), discount=0.9)
    # Take one stone each: 7 -> 6 moves again, 6 -> 5 passes, 1 -> 0 wins, for both players.
    states = piles([7, 7, 6, 6, 1, 1], [0, 1, 0, 1, 0, 1])
    step, after = model(None, jax.random.key(0), jnp.zeros(6, jnp.int32), states)
    np.testing.assert_array_equal(after.stones, [6, 6, 5, 5, 0, 0])
    np.testing.assert_array_equal(after.player, [0, 1, 1, 0, 0, 1])  # the last mover stays
    np.testing.assert_allclose(step.discount, [0.9, 0.9, -0.9, -0.9, 0, 0])
    np.testing.assert_allclose(step.reward, [0, 0, 0, 0, 1, 1])
    np.testing.assert_allclose(step.value, [0.5, 0.5, 0.5, 0.5, 0, 0])
    legal = step.prior_logits > -1e8
    np.testing.assert_array_equal(legal.sum(-1), [3, 3, 3, 3, 0, 0])


def test_stepping_on_from_a_finished_game_brings_nothing():
    model = jaxsearch.make_recurrent_fn(Nim(3), constant_evaluator(jnp.nan, logits=jnp.nan))
    over = Pile(jnp.zeros(2, jnp.int32), jnp.array([0, 1]), jnp.array([1, 0]))
    step, after = model(None, jax.random.key(0), jnp.ones(2, jnp.int32), over)
    for leaf in (step.reward, step.discount, step.value):
        np.testing.assert_array_equal(leaf, 0)
    np.testing.assert_array_equal(after.stones, 0)
    root = jaxsearch.make_root_fn(Nim(3), constant_evaluator(jnp.nan, logits=jnp.nan))(
        None, jax.random.key(0), over
    )
    np.testing.assert_array_equal(root.value, 0)
    assert np.isfinite(root.prior_logits).all()


def test_a_legal_move_stays_legal_however_low_its_logit():
    """A policy that gives all its mass to illegal moves is uniform over the legal ones (issue 11)."""
    legal = jnp.array([[True, True, False], [False, True, True]])
    for low in (-jnp.inf, -1e9):
        logits = jnp.where(legal, low, 0.0)
        priors = prior_probabilities(masked_logits(logits, legal))
        np.testing.assert_allclose(priors, np.asarray(legal) / 2)
    assert masked_logits(jnp.zeros((2, 3), jnp.bfloat16), legal).dtype == jnp.float32


SEARCHES = {
    "uct": lambda game, n, discount=1.0: jaxsearch.uct(game, simulations=n, discount=discount),
    "puct": lambda game, n, discount=1.0: jaxsearch.puct(
        game, jaxsearch.uniform(game), simulations=n, discount=discount
    ),
    "gumbel": lambda game, n, discount=1.0: jaxsearch.gumbel(
        game, jaxsearch.uniform(game), simulations=n, discount=discount
    ),
}


@pytest.mark.parametrize("kind", SEARCHES)
def test_nim(kind):
    """With 15 stones: take 3, the only move that wins (issue 15)."""
    game = Nim(15)
    out = quick_jit(SEARCHES[kind](game, 5000))(jax.random.key(0), start(game, 4))
    assert (out.action == 2).all()
    assert (out.qvalues[:, 2] > 0.3).all() and (out.qvalues[:, :2] < 0.1).all()
    if kind != "gumbel":  # which spends a third of its visits on each loser: its mean says less
        assert (out.value > 0.3).all()


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("game", [Nim(10), AgainNim(10)], ids=["nim", "again"])
def test_piles_against_exhaustive_search(kind, game):
    """Every pile up to ten stones, either player to move: the best move, and the sign of the value."""

    def passes(left):
        return bool(game.passes_turn(np.int32(left)))

    stones = np.repeat(np.arange(1, 11), 2)
    out = quick_jit(SEARCHES[kind](game, 400))(jax.random.key(1), piles(stones, np.tile([0, 1], 10)))
    for row, pile in enumerate(stones.tolist()):
        value, takes = solve_pile(pile, passes)
        assert int(out.action[row]) + 1 in takes, pile
        assert np.sign(out.qvalues[row, out.action[row]]) == value, pile
        if kind != "gumbel":
            assert np.sign(out.value[row]) == value, pile


def test_the_moving_again_matters():
    """The test above would notice an unconditional minus sign."""
    right = [solve_pile(pile, lambda left: left % 3 != 0) for pile in range(1, 11)]
    wrong = [solve_pile(pile, lambda left: True) for pile in range(1, 11)]
    assert any(a[0] != b[0] or not a[1] & b[1] for a, b in zip(right, wrong))


@pytest.mark.parametrize(("discount", "action"), [(0.9, 1), (0.5, 0)])
def test_one_player_with_a_discount(discount, action):
    """0.3 now, or 1 three steps away: worth 0.81 or 0.25 at the first step (issue 37)."""
    game = Corridor(3, 0.3)
    out = quick_jit(SEARCHES["puct"](game, 300, discount))(jax.random.key(0), start(game, 2))
    assert (out.action == action).all()
    best = max(0.3, discount**2)
    np.testing.assert_allclose(np.max(out.qvalues, -1), best, atol=0.1)
    np.testing.assert_allclose(out.qvalues[:, 0], 0.3, atol=1e-5)


@given(seed=st.integers(0, 2**31))
def test_finished_rows_are_harmless(seed):
    """Rows whose game is over give zeros, and change nothing for the others."""
    game = Nim(7)
    search = mixed_search(game)
    player = np.random.default_rng(seed).integers(2, size=4)
    alive = piles([7, 5, 3, 6], player)
    half = jax.tree.map(lambda a: a.at[1].set(0).at[3].set(0), alive)
    half = half._replace(winner=half.winner.at[1].set(0).at[3].set(1))
    key = jax.random.key(seed)
    all_alive, some_over = search(key, alive), search(key, half)
    for name in ("visits", "value", "weights", "qvalues", "action"):
        a, b = np.asarray(getattr(all_alive, name)), np.asarray(getattr(some_over, name))
        np.testing.assert_array_equal(a[[0, 2]], b[[0, 2]])
        assert np.isfinite(b).all()
    for leaf in (some_over.visits, some_over.value, some_over.weights, some_over.qvalues, some_over.action):
        np.testing.assert_array_equal(leaf[jnp.array([1, 3])], 0)


_mixed = {}


def mixed_search(game):
    if game not in _mixed:
        _mixed[game] = quick_jit(jaxsearch.puct(game, jaxsearch.uniform(game), simulations=30))
    return _mixed[game]


def test_three_players_need_three_values():
    class Three(Nim):
        num_players = 3

    step = jaxsearch.make_recurrent_fn(Three(3), constant_evaluator(0.0))
    with pytest.raises(
        ValueError, match=r"values of shape \(2,\) for a game of 3 players; expected \[B, 3\]"
    ):
        jax.eval_shape(step, None, jax.random.key(0), jnp.zeros(2, jnp.int32), start(Three(3), 2))


@pytest.mark.parametrize("discount", [0.0, -1.0, 1.5])
def test_discounts_out_of_range(discount):
    with pytest.raises(ValueError, match=f"discount is {discount}; expected more than 0 and at most 1"):
        jaxsearch.uct(games_jax.make("tic_tac_toe"), simulations=4, discount=discount)
