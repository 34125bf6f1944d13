"""Sequential Halving against mctx's tables, and what its root rule must do in a search."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mctx._src import seq_halving
from search_helpers import quick_jit, random_invalid, random_model, random_roots, recurrent_fn

import jaxsearch
from jaxsearch import halving


@given(considered=st.integers(0, 100), simulations=st.integers(1, 300))
def test_considered_visits_equals_mctx(considered, simulations):
    ours = halving.considered_visits(considered, simulations)
    theirs = seq_halving.get_sequence_of_considered_visits(considered, simulations)
    np.testing.assert_array_equal(ours, theirs)


def test_considered_visits_of_trees_that_differ():
    most, simulations = 11, 40
    candidates, budgets = np.divmod(np.arange((most + 1) * simulations), simulations)
    budgets = budgets + 1
    ours = halving.considered_visits_within(
        jnp.asarray(candidates, jnp.int32), jnp.asarray(budgets, jnp.int32), simulations, most=most
    )
    ours = np.asarray(ours)
    for tree, (m, budget) in enumerate(zip(candidates, budgets)):
        np.testing.assert_array_equal(ours[:budget, tree], halving.considered_visits(m, budget))


def test_considered_visits_by_hand():
    """16 simulations, 4 candidates: two visits each, then four more each of the better two."""
    expected = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    np.testing.assert_array_equal(halving.considered_visits(4, 16), expected)


@given(seed=st.integers(0, 2**31))
def test_halving_score_equals_mctx(seed):
    rng = np.random.default_rng(seed)
    gumbel, logits, q = (rng.normal(size=7).astype(np.float32) for _ in range(3))
    logits -= logits.max()
    logits[3] = np.finfo(np.float32).min
    visits = rng.integers(0, 3, 7)
    ours = halving.halving_score(jnp.int32(1), *map(jnp.asarray, (gumbel, logits, q, visits)))
    theirs = seq_halving.score_considered(1, gumbel, logits, q, visits)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


BATCH, ACTIONS, SIMULATIONS = 6, 6, 16


@quick_jit
def gumbel_search(model, key, root, invalid, scale):
    return jaxsearch.gumbel_muzero_policy(
        model,
        key,
        root,
        recurrent_fn,
        SIMULATIONS,
        invalid,
        max_num_considered_actions=4,
        gumbel_scale=scale,
    )


def case(seed):
    model = random_model(seed, ACTIONS)
    return model, random_roots(model, seed, BATCH), random_invalid(seed, BATCH, ACTIONS)


def test_root_follows_the_schedule():
    """Visits equal the table's; the action is the best of the most visited (issue 18)."""
    for seed in range(10):
        model, root, invalid = case(seed)
        out = gumbel_search(model, jax.random.key(seed), root, invalid, 1.0)
        visits = np.asarray(out.search_tree.summary().visit_counts)
        for row in range(BATCH):
            valid = (~invalid[row]).sum()
            schedule = halving.considered_visits(min(4, valid), SIMULATIONS)
            # Visit number n of an action happens once in the schedule for each action that reaches it.
            reached = np.bincount(schedule, minlength=SIMULATIONS)
            counts = (visits[row][:, None] > np.arange(SIMULATIONS)).sum(0)
            np.testing.assert_array_equal(counts, reached)
            assert visits[row, out.action[row]] == visits[row].max()
        assert not visits[invalid].any()
        np.testing.assert_allclose(out.action_weights.sum(-1), 1, rtol=1e-5)
        assert not np.asarray(out.action_weights)[invalid].any()


def test_noise_is_of_the_key():
    """New noise for each key, the same for the same; at scale 0 none, not even between equal moves (18)."""
    model, root, invalid = case(0)
    flat = root.replace(prior_logits=jnp.zeros_like(root.prior_logits))
    model = model._replace(logits=np.zeros_like(model.logits))

    def visits(seed, scale):
        out = gumbel_search(model, jax.random.key(seed), flat, invalid, scale)
        return np.asarray(out.search_tree.children_visits)

    assert (visits(0, 1.0) == visits(0, 1.0)).all()
    assert (visits(0, 1.0) != visits(1, 1.0)).any()
    assert (visits(0, 0.0) == visits(1, 0.0)).all()


def test_improved_policy_follows_the_values():
    """The action with a clearly better value gets most of the weight, whatever the prior was."""
    model, root, _ = case(0)
    value = np.full_like(model.value, 0.0)
    model = model._replace(value=value, reward=np.zeros_like(value), discount=np.zeros_like(value))

    def step(model, key, action, state):
        output, state = recurrent_fn(model, key, action, state)
        return output.replace(reward=jnp.where(action == 2, 1.0, -1.0)), state

    flat = root.replace(prior_logits=jnp.zeros_like(root.prior_logits))
    out = quick_jit(lambda key: jaxsearch.gumbel_muzero_policy(model, key, flat, step, 24))(jax.random.key(0))
    assert (out.action == 2).all()
    assert (np.asarray(out.action_weights)[:, 2] > 0.9).all()


def test_no_candidates():
    model, root, invalid = case(0)
    with pytest.raises(ValueError, match="max_num_considered_actions is 0; expected at least 1"):
        jaxsearch.gumbel_muzero_policy(
            model, jax.random.key(0), root, recurrent_fn, 4, invalid, max_num_considered_actions=0
        )
