"""Several leaves of a tree at a time: the same search where nothing can differ, sound trees where it can."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exhaustive import legal_moves, reachable, solve, states
from hypothesis import given
from hypothesis import strategies as st
from search_helpers import check_tree, quick_jit, random_invalid, random_model, random_roots, recurrent_fn

import games_jax
import jaxsearch
from jaxsearch import selection
from jaxsearch.halving import considered_visits
from jaxsearch.parallel import virtual_loss_search
from jaxsearch.search import search
from jaxsearch.solver import root_proof

BATCH = 5
TIC_TAC_TOE = games_jax.make("tic_tac_toe")


@functools.cache
def searcher(leaves, simulations=24, rule=selection.puct, **options):
    def run(model, key, root):
        common = {"root": root, "recurrent_fn": recurrent_fn, "num_simulations": simulations, "rule": rule}
        if leaves is None:
            return search(model, key, **common, **options)
        return virtual_loss_search(model, key, leaves=leaves, **common, **options)

    return quick_jit(run)


def case(seed, num_actions):
    model = random_model(seed, num_actions)
    return model, jax.random.key(seed), random_roots(model, seed, BATCH)


@given(seed=st.integers(0, 2**31))
def test_one_leaf_is_the_plain_search(seed):
    plain, parallel = (searcher(leaves)(*case(seed, 4)) for leaves in (None, 1))
    np.testing.assert_array_equal(plain.children_visits, parallel.children_visits)
    np.testing.assert_array_equal(plain.children_index, parallel.children_index)
    np.testing.assert_allclose(plain.block(1), parallel.block(1), atol=1e-5)


@pytest.mark.parametrize(("num_actions", "leaves", "max_depth"), [(4, 4, None), (20, 6, None), (2, 8, 3)])
@given(seed=st.integers(0, 2**31))
def test_no_virtual_loss_remains(num_actions, leaves, max_depth, seed):
    """Counts are exact and every value sum can be recomputed from below; two actions make collisions."""
    tree = searcher(leaves, max_depth=max_depth)(*case(seed, num_actions))
    visits = np.asarray(tree.block(0))
    np.testing.assert_array_equal(visits[:, 0].sum(-1), 24)
    sums, value = np.asarray(tree.block(1)), np.asarray(tree.column(0))
    reward, discount = np.asarray(tree.column(1)), np.asarray(tree.column(2))
    children = np.asarray(tree.children_index)
    for b, n, a in zip(*np.nonzero(children >= 0), strict=True):
        child = children[b, n, a]
        below = visits[b, child].sum()
        # Visits that went no further: the first, and those that came to the same edge in the same step.
        ended_here = visits[b, n, a] - below
        assert ended_here >= 1
        expected = visits[b, n, a] * reward[b, child] + discount[b, child] * (
            ended_here * value[b, child] + sums[b, child].sum()
        )
        np.testing.assert_allclose(sums[b, n, a], expected, atol=1e-3)


def test_trees_do_not_disturb_each_other():
    model, key, root = case(0, 4)
    other = random_roots(model, 7, BATCH)
    mixed = jax.tree.map(lambda a, b: jnp.concatenate([a[:3], b[3:]]), root, other)
    alone, together = (searcher(4)(model, key, r).children_visits for r in (root, mixed))
    np.testing.assert_array_equal(alone[:3], together[:3])


def test_leaves_differ():
    """Virtual losses send the descents of a step to different leaves where there are enough."""
    game = games_jax.make("connect_four")
    start = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 2))
    search = jaxsearch.puct(game, jaxsearch.uniform(game), simulations=7, leaves=7, keep_tree=True)
    out = search(jax.random.key(0), start)
    np.testing.assert_array_equal(out.visits, np.ones((2, 7)))


POSITIONS = [position for position in reachable() if legal_moves(*position)]


@functools.cache
def solving(leaves):
    options = {"simulations": 64, "solver": True, "keep_tree": True, "leaves": leaves}
    search = jaxsearch.puct(TIC_TAC_TOE, jaxsearch.uniform(TIC_TAC_TOE), **options)

    def run(key, positions, budgets):
        out = search(key, positions, budgets=budgets)
        return out, root_proof(out.tree)

    return quick_jit(run)


@pytest.mark.parametrize("leaves", [4, 16])
def test_what_several_leaves_prove_is_true(leaves):
    """On all positions of tic-tac-toe, where many leaves of a step settle the same node."""
    budgets = jnp.full(len(POSITIONS), 64, jnp.int32)
    out, proof = solving(leaves)(jax.random.key(0), states(POSITIONS), budgets)
    truth, proven = np.array([solve(*position) for position in POSITIONS]), np.asarray(proof.proven)
    np.testing.assert_array_equal(np.asarray(out.value)[proven], truth[proven])
    late = np.array([len(legal_moves(*position)) <= 3 for position in POSITIONS])
    assert proven[late].all() and proven.mean() > 0.3
    for (own, other), lost in zip(POSITIONS, np.asarray(proof.lost), strict=True):
        assert all(solve(other, own | 1 << int(move)) == 1 for move in np.flatnonzero(lost))
    played = np.array([solve(o, s | 1 << int(a)) for (s, o), a in zip(POSITIONS, out.action, strict=True)])
    np.testing.assert_array_equal(-played[proven], truth[proven])


def test_budgets_end_within_a_step():
    """Each tree gets its own number of simulations, also where that is no multiple of the leaves."""
    budgets = jnp.arange(1, 14, dtype=jnp.int32)
    start = jax.tree.map(lambda x: jnp.broadcast_to(x, (13, *x.shape)), TIC_TAC_TOE.init(jax.random.key(0)))
    judge = jaxsearch.uniform(TIC_TAC_TOE)
    for stop_early in (False, True):
        search = jaxsearch.puct(TIC_TAC_TOE, judge, simulations=16, leaves=4, stop_early=stop_early)
        run = quick_jit(lambda key, states, budgets, search=search: search(key, states, budgets=budgets))
        visits = run(jax.random.key(0), start, budgets).visits.sum(-1)
        assert (visits <= budgets).all() if stop_early else (visits == budgets).all()


@pytest.mark.parametrize("leaves", [1, 4])
def test_trees_go_on_with_several_leaves(leaves):
    """What the subtree knew stays, and new visits are added to it; one leaf does as the plain search."""
    start = jax.tree.map(lambda x: jnp.broadcast_to(x, (3, *x.shape)), TIC_TAC_TOE.init(jax.random.key(0)))
    options = {"simulations": 32, "keep_tree": True}
    judge = jaxsearch.uniform(TIC_TAC_TOE)
    first = quick_jit(jaxsearch.puct(TIC_TAC_TOE, judge, **options))(jax.random.key(1), start)
    after = jax.vmap(TIC_TAC_TOE.step)(start, first.action)
    kept = jaxsearch.reroot(first.tree, first.action)
    before = kept.summary().visit_counts

    def on(**more):
        search = jaxsearch.puct(TIC_TAC_TOE, judge, **options, **more)
        return quick_jit(lambda key, states, tree: search(key, states, tree=tree))

    visits = on(leaves=leaves)(jax.random.key(2), after, kept).visits
    assert (before.sum(-1) > 0).all() and (visits >= before).all()
    np.testing.assert_array_equal(visits.sum(-1), before.sum(-1) + 32)
    if leaves == 1:
        np.testing.assert_array_equal(visits, on()(jax.random.key(2), after, kept).visits)


def test_bad_input():
    with pytest.raises(ValueError, match="leaves is 5; expected a divisor of the 24"):
        searcher(5)(*case(0, 4))
    with pytest.raises(ValueError, match=r"virtual_loss is -1.0; expected 0 or more"):
        searcher(4, virtual_loss=-1.0)(*case(0, 4))
    game = games_jax.make("tic_tac_toe")
    with pytest.raises(ValueError, match="leaves is 4, which goes with no forced_playouts"):
        jaxsearch.puct(game, jaxsearch.uniform(game), simulations=8, leaves=4, forced_playouts=2.0)


@functools.cache
def gumbel(parallel, simulations, considered, **options):
    def run(model, key, root, invalid):
        return jaxsearch.gumbel_muzero_policy(
            model,
            key,
            root,
            recurrent_fn,
            simulations,
            invalid,
            max_num_considered_actions=considered,
            parallel=parallel,
            **options,
        )

    return quick_jit(run)


@given(seed=st.integers(0, 2**31))
def test_two_candidates_searched_at_once_are_as_one_by_one(seed):
    """One phase only, so that nothing is ranked anew: equal in every count."""
    arguments = (*case(seed, 6), jnp.zeros((BATCH, 6), bool))
    one_by_one, at_once = (gumbel(parallel, 20, 2)(*arguments) for parallel in (False, True))
    counts = [out.search_tree.summary().visit_counts for out in (one_by_one, at_once)]
    np.testing.assert_array_equal(*counts)
    np.testing.assert_array_equal(one_by_one.action, at_once.action)
    np.testing.assert_allclose(one_by_one.action_weights, at_once.action_weights, atol=1e-5)


@given(seed=st.integers(0, 2**31))
def test_halving_visits_by_schedule(seed):
    """Root visits are those of the published schedule, for every number of valid actions in one batch."""
    simulations, num_actions = 30, 8
    invalid = random_invalid(seed, BATCH, num_actions)
    out = gumbel(True, simulations, num_actions)(*case(seed, num_actions), invalid)
    tree = out.search_tree
    counts = np.asarray(tree.summary().visit_counts)
    valid = np.asarray(tree.block(2)[:, 0]) > 0
    assert not counts[~valid].any()
    for row, candidates in zip(counts, valid.sum(-1), strict=True):
        if candidates < 2:
            continue  # a forced move gets as many visits as the longest schedule has rounds
        schedule = considered_visits(int(candidates), simulations)
        expected = [0] * int(candidates)
        for visit in schedule:  # whoever has `visit` visits gets the next
            expected[expected.index(visit)] += 1
        np.testing.assert_array_equal(sorted(row[row > 0]), sorted(v for v in expected if v))
    assert np.isfinite(np.asarray(tree.block(1))).all()


def test_phases_in_sequence_make_a_sound_tree():
    """Without invalid actions all trees are in step, and no node is left out."""
    out = gumbel(True, 16, 2)(*case(3, 4), jnp.zeros((BATCH, 4), bool))
    check_tree(out.search_tree, simulations=16)
