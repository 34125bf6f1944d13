"""The experimental kernels against the steps that they stand for, in Pallas's interpreter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from search_helpers import quick_jit, random_invalid, random_model, random_roots, recurrent_fn

import games_jax
import jaxsearch
from jaxsearch import pallas_steps, selection, steps
from jaxsearch.search import search
from jaxsearch.steps import Cursor


def grown(seed, batch, actions, simulations):
    model = random_model(seed, actions)
    return search(
        model,
        jax.random.key(seed),
        root=random_roots(model, seed, batch),
        recurrent_fn=recurrent_fn,
        num_simulations=simulations,
        rule=selection.puct,
        invalid_actions=jnp.asarray(random_invalid(seed, batch, actions)),
    )


@pytest.mark.parametrize(
    ("batch", "limit", "first"), [pytest.param(5, None, 0, marks=pytest.mark.slow), (130, 3, 1)]
)
def test_steps_on_random_trees(batch, limit, first):
    simulations = 30
    tree = jax.jit(grown, static_argnums=(0, 1, 2, 3))(batch, batch, 4, simulations)
    on = np.random.default_rng(0).random(batch) < 0.8
    at = jnp.where(on, jnp.arange(batch, dtype=jnp.int32), -2)
    path, passed = steps.make_room(tree, batch, simulations)
    returns = jax.random.normal(jax.random.key(1), (batch,))

    @jax.jit
    def run(tree, at, path, passed):
        out = []
        for by in (steps, pallas_steps):
            cursor = by.descend(tree, Cursor(at, jnp.int32(0), path), limit)
            edge = -2 - cursor.at
            length = jnp.where(jnp.asarray(on), steps.length_of(tree, edge), 0)
            out.append((cursor, length, by.back_up(tree, passed, cursor, returns, length, first=first)))
        return out

    (ours, length, (passed_a, count_a, roots_a)), (theirs, _, (passed_b, count_b, roots_b)) = run(
        tree, at, path, passed
    )
    np.testing.assert_array_equal(ours.at, theirs.at)
    length = np.asarray(length)
    assert length.max() > 2 and (limit is None or length.max() == limit)
    for lane in range(batch):
        rows = slice(steps.ABOVE, steps.ABOVE + length[lane])
        np.testing.assert_array_equal(ours.path[rows, lane], theirs.path[rows, lane])
    count = int(count_a)
    assert count == int(count_b) == np.maximum(length - first, 0).sum()
    np.testing.assert_array_equal(passed_a.edges[:count], passed_b.edges[:count])
    np.testing.assert_allclose(passed_a.returns[:count], passed_b.returns[:count], rtol=1e-6)
    np.testing.assert_allclose(roots_a, roots_b, rtol=1e-6)


@pytest.mark.parametrize("solver", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_whole_search(solver):
    game = games_jax.make("tic_tac_toe")
    states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 6))
    budgets = jnp.array([40, 40, 3, 17, 40, 25], jnp.int32)
    found = []
    for kernels in ("xla", "pallas"):
        run = jaxsearch.puct(
            game, jaxsearch.uniform(game), simulations=40, max_depth=5, solver=solver, kernels=kernels
        )
        found.append(quick_jit(run)(jax.random.key(1), states, budgets=budgets))
    np.testing.assert_array_equal(found[0].visits, found[1].visits)
    np.testing.assert_allclose(found[0].qvalues, found[1].qvalues, atol=1e-6)


@pytest.mark.skipif(jax.__version_info__ >= (0, 12), reason="lowering asks for a GPU from jax 0.12 on")
def test_they_lower_for_a_gpu(monkeypatch):
    """To Triton's language, which needs no GPU; whether it runs there, and how fast, this does not say."""
    monkeypatch.setattr(pallas_steps, "_interpreted", lambda: False)
    game = games_jax.make("tic_tac_toe")
    states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 6))
    run = jaxsearch.puct(game, jaxsearch.uniform(game), simulations=8, kernels="pallas")
    program = jax.jit(run).trace(jax.random.key(1), states).lower(lowering_platforms=("cuda",))
    assert program.as_text().count("xla.gpu.triton") >= 2


def test_what_they_cannot_do():
    game = games_jax.make("tic_tac_toe")
    states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 2))
    with pytest.raises(ValueError, match="leaves is 4"):
        jaxsearch.puct(game, jaxsearch.uniform(game), simulations=8, leaves=4, kernels="pallas")
    run = jaxsearch.puct(game, jaxsearch.uniform(game), simulations=8, kernels="triton")
    with pytest.raises(ValueError, match="'triton'; expected 'xla' or 'pallas'"):
        jax.eval_shape(run, jax.random.key(0), states)
