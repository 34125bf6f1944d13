"""Whole searches on tic-tac-toe, where every answer is known, and the policies' own promises."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from exhaustive import best_moves, legal_moves, reachable, states
from search_helpers import quick_jit, random_invalid, random_model, random_roots, recurrent_fn

import games_jax
import jaxsearch
from jaxsearch import selection, visit_search
from jaxsearch.policies import root_row

GAME = games_jax.make("tic_tac_toe")

SEARCHES = {
    "uct": functools.partial(jaxsearch.uct, GAME),
    "puct": functools.partial(jaxsearch.puct, GAME, jaxsearch.uniform(GAME)),
    "gumbel": functools.partial(jaxsearch.gumbel, GAME, jaxsearch.uniform(GAME)),
    "rave": functools.partial(jaxsearch.rave, GAME, c=1.0, c_rave=30.0),
    "policy_bonus": functools.partial(
        jaxsearch.policy_bonus, GAME, jaxsearch.uniform(GAME), c=1.0, c_rave=30.0, weight=1.0
    ),
    "regularised": functools.partial(jaxsearch.regularised, GAME, jaxsearch.uniform(GAME)),
}


@pytest.mark.parametrize("kind", SEARCHES)
def test_wins_and_blocks_for_both_colours(kind):
    """A win in one is played, a threat is parried (issue 15)."""
    games = {
        "a1 b1 a2 b2": 6,  # X completes column a
        "a1 b1 c3 b2 a2": 7,  # O completes column b
        "a1 b2 c3 b1": 7,  # X must stop column b
        "a1 b2 a2": 6,  # O must stop column a
    }
    position = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(GAME.from_string, games))
    out = quick_jit(SEARCHES[kind](simulations=200))(jax.random.key(0), position)
    np.testing.assert_array_equal(out.action, list(games.values()))
    assert out.qvalues[0, 6] == 1 and out.qvalues[1, 7] == 1
    assert (out.value[:2] > 0.2).all()


@pytest.mark.parametrize("kind", SEARCHES)
def test_every_position(kind):
    """Searching all 5,478 positions at once: legal moves, full counts, and perfect play nearly always."""
    positions = reachable()
    assert len(positions) == 5478
    simulations = 100
    out = quick_jit(SEARCHES[kind](simulations=simulations))(jax.random.key(0), states(positions))
    legal = np.array([[move in legal_moves(*p) for move in range(9)] for p in positions])
    alive = legal.any(-1)
    visits, weights, action = (np.asarray(leaf) for leaf in (out.visits, out.weights, out.action))
    assert alive.sum() == 4520
    np.testing.assert_array_equal(visits.sum(-1), np.where(alive, simulations, 0))
    assert not visits[~legal].any() and not weights[~legal].any()
    np.testing.assert_allclose(weights.sum(-1), alive, atol=1e-5)
    assert legal[np.arange(len(legal)), action][alive].all()
    for leaf in (out.value, out.qvalues):
        assert np.isfinite(leaf).all() and (np.abs(leaf) <= 1 + 1e-6).all()
    good = [int(action[i]) in best_moves(*positions[i]) for i in np.flatnonzero(alive)]
    assert np.mean(good) > 0.97


def preferring(cell):
    """Priors for one cell above the others, and values by the number of stones."""

    def evaluate(params, key, states):
        del params, key
        stones = jax.lax.population_count(states.own | states.other).astype(jnp.float32)
        logits = jnp.where(jnp.arange(9) == cell, 2.0, 0.0)
        return jnp.broadcast_to(logits, (len(stones), 9)), jnp.sin(3 * stones)

    return evaluate


def test_policy_bonus_by_its_parts():
    """Without playouts and what comes later, the rule alone on sharper priors; with them, another search."""
    position = states([(0, 0), (1, 2), (1, 16)])
    search = jaxsearch.policy_bonus(
        GAME, preferring(5), simulations=45, policy_temperature=0.5, playout_weight=0.0, c_rave=0.0
    )
    key = jax.random.key(3)
    out = quick_jit(search)(key, position)

    def by_hand(key, states):
        root_key, _, search_key, _ = jax.random.split(key, 4)

        def sharper(params, key, states):
            logits, value = preferring(5)(params, key, states)
            return logits / 0.5, value

        return jaxsearch.search(
            None,
            search_key,
            root=jaxsearch.make_root_fn(GAME, sharper)(None, root_key, states),
            recurrent_fn=jaxsearch.make_recurrent_fn(GAME, sharper),
            num_simulations=45,
            rule=functools.partial(selection.policy_bonus, weight=45 / 9),
        ).summary()

    np.testing.assert_array_equal(out.visits, quick_jit(by_hand)(key, position).visit_counts)
    assert (np.asarray(out.visits).argmax(-1) == 5).all()


@pytest.mark.parametrize("evaluations", [0, 7])
def test_policy_bonus_asks_for_the_first_leaves_alone(evaluations):
    """The evaluator runs so often, and no more; nodes that it did not judge have equal priors."""
    asked = []

    def counting(params, key, states):
        del params, key
        jax.debug.callback(lambda: asked.append(1))
        stones = jax.lax.population_count(states.own | states.other).astype(jnp.float32)
        return jnp.broadcast_to(0.5 * jnp.arange(9.0), (len(stones), 9)), jnp.sin(3 * stones)

    options = {"simulations": 30, "evaluations": evaluations, "weight": 1.0, "policy_temperature": 1.0}
    search = jaxsearch.policy_bonus(GAME, counting, keep_tree=True, playout_weight=0.4, **options)
    out = jax.block_until_ready(quick_jit(search)(jax.random.key(3), states([(0, 0), (1, 2)])))
    jax.effects_barrier()
    assert len(asked) == 1 + evaluations
    priors = np.asarray(out.tree.rows)[:, 18:27].reshape(31, 2, 9)
    greatest, least = priors.max(-1), np.where(priors > 0, priors, 1.0).min(-1)
    judged = greatest > 1.01 * least
    first = np.arange(31) <= evaluations
    assert not judged[~first].any()
    assert judged[first].all()
    np.testing.assert_array_equal(np.asarray(out.visits).sum(-1), 30)


def test_regularised_by_its_parts():
    """The target and the move are the policy's; without `search`, visits are those of PUCT."""
    position, key = states([(0, 0), (1, 2), (1, 16)]), jax.random.key(3)
    options = {"simulations": 12, "keep_tree": True}
    evaluator = preferring(5)
    whole = quick_jit(jaxsearch.regularised(GAME, evaluator, **options))(key, position)
    policy = selection.regularised_policy(root_row(whole.tree), first_play="reduction")
    legal = jax.vmap(GAME.legal_actions)(position)
    np.testing.assert_allclose(whole.weights, jnp.where(legal, policy, 0.0), atol=1e-6)
    np.testing.assert_array_equal(whole.action, np.asarray(whole.weights).argmax(-1))
    part = quick_jit(jaxsearch.regularised(GAME, evaluator, search=False, act=False, learn=False, **options))
    plain = quick_jit(jaxsearch.puct(GAME, evaluator, **options))(key, position)
    for a, b in zip(part(key, position)[:5], plain[:5], strict=True):
        np.testing.assert_array_equal(a, b)


def test_bad_arguments():
    with pytest.raises(ValueError, match="policy_temperature is 0; expected more than 0"):
        SEARCHES["policy_bonus"](simulations=4, policy_temperature=0)
    with pytest.raises(ValueError, match="playout_weight is 2; expected 0 to 1"):
        SEARCHES["policy_bonus"](simulations=4, playout_weight=2)
    with pytest.raises(ValueError, match="evaluations is -1 of 4 simulations"):
        SEARCHES["policy_bonus"](simulations=4, evaluations=-1)
    with pytest.raises(ValueError, match="playout_weight 0; expected 0 or more, and all of them where"):
        SEARCHES["policy_bonus"](simulations=4, evaluations=3, playout_weight=0)
    with pytest.raises(ValueError, match="leaves is 2, which goes with one evaluator alone"):
        visit_search.Settings(
            selection.puct,
            simulations=8,
            temperature=0.0,
            max_depth=None,
            discount=1.0,
            keep_tree=False,
            leaves=2,
            later=(2, jaxsearch.uniform(GAME)),
        )


def test_equal_moves_are_played_equally_often():
    """In the empty board after few simulations, and among the most visited at temperature 0 (issue 34)."""
    batch = 4500
    search = quick_jit(SEARCHES["puct"](simulations=9))
    out = search(jax.random.key(0), states([(0, 0)] * batch))
    first = np.bincount(out.action, minlength=9)
    assert scipy.stats.chisquare(first).pvalue > 1e-4


def test_sample_visits():
    visits = jnp.tile(jnp.array([[0, 3, 3, 2, 0, 3]]), (6000, 1))
    counts = np.bincount(jaxsearch.sample_visits(jax.random.key(0), visits, 0.0), minlength=6)
    assert counts[[0, 3, 4]].sum() == 0
    assert scipy.stats.chisquare(counts[[1, 2, 5]]).pvalue > 1e-4
    for temperature in (1.0, 0.5):
        counts = np.bincount(jaxsearch.sample_visits(jax.random.key(1), visits, temperature), minlength=6)
        shares = np.array([3, 3, 2, 3.0]) ** (1 / temperature)
        expected = 6000 * shares / shares.sum()
        assert counts[[0, 4]].sum() == 0
        assert scipy.stats.chisquare(counts[[1, 2, 3, 5]], expected).pvalue > 1e-4
    # One temperature per row; rows without a visit.
    mixed = jaxsearch.sample_visits(
        jax.random.key(2), jnp.array([[1, 50], [1, 50], [0, 0]]), jnp.array([0.0, 1e-3, 1.0])
    )
    np.testing.assert_array_equal(mixed, [1, 1, 0])
    np.testing.assert_array_equal(
        jaxsearch.sample_visits(jax.random.key(0), jnp.zeros((4, 5), jnp.int32), 0.0), 0
    )


def test_root_noise_and_temperature():
    """Noise of the key spreads the visits; without it the same search repeats itself."""
    position = states([(0, 0)] * 64)
    noisy = quick_jit(
        SEARCHES["puct"](simulations=40, dirichlet_fraction=0.5, dirichlet_alpha=0.1, temperature=1.0)
    )
    a, b, again = (noisy(jax.random.key(seed), position) for seed in (0, 1, 0))
    assert (a.visits != b.visits).any()
    np.testing.assert_array_equal(a.visits, again.visits)
    assert np.asarray(a.visits).max() > 20
    assert len(np.unique(a.action)) > 4


POLICIES = {
    "muzero": functools.partial(jaxsearch.muzero_policy, num_simulations=12),
    "gumbel": functools.partial(jaxsearch.gumbel_muzero_policy, num_simulations=12),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("num_actions", [4, 18])
def test_roots_with_few_legal_actions(policy, num_actions):
    """None, one, or a one-hot prior: finite answers, and the legal action where there is one (11, 12)."""
    model = random_model(0, num_actions, illegal=0.2)
    root = random_roots(model, 0, 4)
    invalid = random_invalid(0, 4, num_actions)
    invalid[0] = True
    invalid[1] = np.arange(num_actions) != 2
    invalid[2] = False
    one_hot = jnp.where(jnp.arange(num_actions) == 1, 0.0, -jnp.inf)
    root = root.replace(prior_logits=root.prior_logits.at[2].set(one_hot))
    run = quick_jit(
        lambda model, key, root, invalid: POLICIES[policy](
            model, key, root, recurrent_fn, invalid_actions=invalid
        )
    )
    out = run(model, jax.random.key(0), root, jnp.asarray(invalid))
    weights, visits = np.asarray(out.action_weights), np.asarray(out.search_tree.summary().visit_counts)
    assert np.isfinite(weights).all() and np.isfinite(out.search_tree.rows).all()
    assert (out.action >= 0).all() and (out.action < num_actions).all()
    assert out.action[1] == 2 and weights[1, 2] == 1 and visits[1, 2] == 12
    assert out.action[2] == 1 and weights[2, 1] == pytest.approx(1) and visits[2, 1] == 12
    assert not visits[3, invalid[3]].any() and not invalid[3, out.action[3]]


def test_keep_tree():
    search = quick_jit(SEARCHES["puct"](simulations=10, keep_tree=True))
    out = search(jax.random.key(0), states([(0, 0)] * 2))
    np.testing.assert_array_equal(out.tree.summary().visit_counts, out.visits)
    root = out.tree.node_states(jnp.zeros(2, jnp.int32))
    np.testing.assert_array_equal(root.own, 0)
    without = SEARCHES["puct"](simulations=10)
    assert jax.eval_shape(without, jax.random.key(0), states([(0, 0)] * 2)).tree is None


def test_public_names():
    """Every public name is there and documented."""
    for name in jaxsearch.__all__:
        assert getattr(jaxsearch, name).__doc__, name
