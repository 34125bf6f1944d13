"""Budgets, early stops, playout caps and forced playouts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exhaustive import legal_moves, reachable, states
from search_helpers import quick_jit

import games_jax
import jaxsearch
from jaxsearch import selection
from jaxsearch.forced import pruned_visits
from jaxsearch.stopping import playout_cap

GAME = games_jax.make("connect_four")
OXO = games_jax.make("tic_tac_toe")
ALIVE = [position for position in reachable() if legal_moves(*position)]


def positions(batch):
    return jax.vmap(GAME.init)(jax.random.split(jax.random.key(0), batch))


def test_every_tree_keeps_its_budget():
    """And is searched as if it were alone: a prefix of the longer search."""
    search = quick_jit(jaxsearch.puct(GAME, jaxsearch.uniform(GAME), simulations=50, keep_tree=True))
    budgets = jnp.array([0, 1, 17, 50, 50], jnp.int32)
    out = search(jax.random.key(0), positions(5), budgets=budgets)
    np.testing.assert_array_equal(out.visits.sum(-1), budgets)
    full = search(jax.random.key(0), positions(5))
    np.testing.assert_array_equal(out.visits[3:], full.visits[3:])
    again = search(jax.random.key(0), positions(5), budgets=jnp.array([50, 1, 17, 3, 50], jnp.int32))
    np.testing.assert_array_equal(out.visits[1:3], again.visits[1:3])


def test_stopping_early_plays_the_same():
    options = {"simulations": 60}
    plain = jaxsearch.puct(OXO, jaxsearch.uniform(OXO), **options)
    early = jaxsearch.puct(OXO, jaxsearch.uniform(OXO), **options, stop_early=True)
    full, cut = (quick_jit(search)(jax.random.key(0), states(ALIVE)) for search in (plain, early))
    top = np.sort(full.visits, axis=-1)
    clear = top[:, -1] > top[:, -2]
    np.testing.assert_array_equal(full.action[clear], cut.action[clear])
    done = np.asarray(cut.visits).sum(-1)
    assert done.mean() < 50 and done.max() <= 60
    with pytest.raises(ValueError, match=r"temperature is 1.0; expected 0"):
        jaxsearch.puct(OXO, jaxsearch.uniform(OXO), simulations=4, stop_early=True, temperature=1.0)


def test_playout_cap():
    budgets, is_full = playout_cap(jax.random.key(0), 4000, full=100, fast=20, share=0.25)
    np.testing.assert_array_equal(budgets, np.where(is_full, 100, 20))
    assert abs(float(is_full.mean()) - 0.25) < 0.03
    with pytest.raises(ValueError, match="expected 1 <= fast <= full"):
        playout_cap(jax.random.key(0), 4, full=10, fast=20, share=0.5)
    with pytest.raises(ValueError, match=r"share is 1.5; expected 0 to 1"):
        playout_cap(jax.random.key(0), 4, full=10, fast=2, share=1.5)


def test_forced_playouts_are_given_and_taken_back():
    """Tried actions get sqrt(k P N) visits, and the target is pruned towards a search without them."""
    k, options = 4.0, {"simulations": 200, "keep_tree": True, "dirichlet_fraction": 0.25}
    evaluator = jaxsearch.playouts(GAME)
    forced = jaxsearch.puct(GAME, evaluator, forced_playouts=k, **options)
    plain = jaxsearch.puct(GAME, evaluator, **options)
    start = jax.vmap(GAME.step)(positions(32), jnp.arange(32, dtype=jnp.int32) % 7)
    out, free = (quick_jit(search)(jax.random.key(1), start) for search in (forced, plain))
    tree = out.tree
    priors = np.asarray(tree.block(2)[:, 0])
    visits = np.asarray(out.visits)
    tried = visits > 0
    assert (visits + 1 >= np.floor(np.sqrt(k * priors * 200)))[tried].all()
    kept = np.asarray(pruned_visits(tree, selection.puct, k=k))
    best = visits.argmax(-1)
    rows = np.arange(32)
    np.testing.assert_array_equal(kept[rows, best], visits[rows, best])
    assert (kept <= visits).all() and (kept >= 0).all() and (kept < visits).any()
    assert (visits - kept <= np.ceil(np.sqrt(k * priors * 200)))[kept > 0].all()
    # The most visited action's share: the target is nearer to the plain search's than the visits are.
    raw, pruned, wanted = (np.mean(np.max(p, -1)) for p in (visits / 200, out.weights, free.weights))
    assert raw < pruned <= wanted + 0.02


def test_root_temperature():
    """Flattens or sharpens the prior that the search starts from."""

    def evaluate(params, key, planes):
        del params, key
        return jnp.tile(jnp.arange(7.0)[None], (planes.own[0].shape[0], 1)), jnp.zeros(planes.own[0].shape[0])

    def prior(temperature):
        search = jaxsearch.puct(GAME, evaluate, simulations=2, root_temperature=temperature, keep_tree=True)
        return np.asarray(search(jax.random.key(0), positions(1)).tree.block(2)[0, 0])

    np.testing.assert_allclose(prior(2.0), np.asarray(jax.nn.softmax(jnp.arange(7.0) / 2)), rtol=1e-5)
    with pytest.raises(ValueError, match="root_temperature is 0; expected more than 0"):
        prior(0)
