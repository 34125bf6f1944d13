"""Rules that follow a policy: the bonus, RAVE, and the regularised policy against its definition."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_helpers import Node, plain_search, quick_jit, random_model, random_roots, recurrent_fn, same_tree
from test_selection import make_row, one_row, random_rows

import jaxsearch
from jaxsearch import rows, selection


def exact_policy(q, priors, scale):
    """The regularised policy of one row, by bisection in float64 on the logarithm of alpha - max q."""
    legal = priors > 0
    q, weights = q[legal].astype(np.float64), scale * priors[legal].astype(np.float64)
    gaps = q.max() - q
    low, high = math.log(max((weights - gaps).max(), 1e-300)), math.log(scale)
    for _ in range(200):
        middle = (low + high) / 2
        if (weights / (math.exp(middle) + gaps)).sum() > 1:
            low = middle
        else:
            high = middle
    policy = np.zeros(len(priors))
    policy[legal] = weights / (math.exp(high) + gaps)
    return policy / policy.sum()


def exact_rows(seed, num_actions, count=6):
    """Rows whose mean values are exact in float32, so that both sides solve the same problem."""
    rng = np.random.default_rng(seed)
    visits, _, priors, value = random_rows(seed, num_actions, count)
    visits = np.where(visits > 0, 2.0 ** rng.integers(0, 12, visits.shape), 0.0)
    q = rng.integers(-64, 65, visits.shape) / 64
    # Some nodes where a hardly likely action is the best by far, and some of equal values.
    q[1] = np.where(priors[1] == priors[1].min(), 1.0, -1.0)
    q[2] = 0.25
    return visits, visits * q, priors.astype(np.float32), value.astype(np.float32)


def scale_of(visits, priors, c_init=1.25, c_base=19652.0):
    n = 1 + visits.sum(-1)
    c = c_init + np.log((n + c_base + 1) / c_base)
    return c * np.sqrt(n) / ((priors > 0).sum(-1) + n)


@functools.cache
def solver(unrolled):
    def solve(*parts):
        policy = selection.regularised_policy(make_row(*parts, unrolled=unrolled), first_play="zero")
        return jnp.stack(policy, axis=-1) if unrolled else policy

    return quick_jit(solve)


@settings(max_examples=15)
@given(seed=st.integers(0, 2**31), num_actions=st.sampled_from([1, 2, 7, 40, 362]))
def test_regularised_policy_is_the_solution(seed, num_actions):
    parts = exact_rows(seed, num_actions)
    visits, sums, priors, _ = parts
    q = np.where(visits > 0, sums / np.maximum(visits, 1), 0.0)
    scale = scale_of(visits, priors)
    wide = np.asarray(solver(False)(*map(np.float32, parts)))
    for row in range(len(priors)):
        np.testing.assert_allclose(wide[row], exact_policy(q[row], priors[row], scale[row]), atol=5e-6)
    if num_actions <= 7:
        np.testing.assert_allclose(solver(True)(*map(np.float32, parts)), wide, atol=1e-6)


@given(seed=st.integers(0, 2**31))
def test_no_policy_has_a_higher_objective(seed):
    """`Q.y - lambda KL(P || y)` of the policy, the visits' shares, the prior and random policies."""
    visits, sums, priors, value = exact_rows(seed, 9)
    q = np.where(visits > 0, sums / np.maximum(visits, 1), 0.0)
    scale = scale_of(visits, priors)
    policy = np.asarray(solver(False)(*map(np.float32, (visits, sums, priors, value))), np.float64)
    rng = np.random.default_rng(seed)

    def objective(row, y):
        p, legal = priors[row].astype(np.float64), priors[row] > 0
        return (q[row] * y).sum() - scale[row] * (p[legal] * np.log(p[legal] / y[legal])).sum()

    for row in range(len(priors)):
        legal = priors[row] > 0
        others = [priors[row], (visits[row] + 1) * legal, *rng.dirichlet(np.ones(9), 5) * legal]
        for other in others:
            other = np.maximum(other / other.sum(), 1e-9) * legal
            assert objective(row, policy[row]) >= objective(row, other / other.sum()) - 1e-5


def test_regularised_policy_at_its_limits():
    """Equal values give the prior, many visits the best action, none the prior; a single action all."""

    @functools.cache
    def solver(c_init):
        return quick_jit(
            lambda *parts: selection.regularised_policy(make_row(*parts, unrolled=False), c_init=c_init)[0]
        )

    def policy(visits, sums, priors, value, c_init=1.25):
        parts = ([visits], [sums], [priors], [value])
        return solver(c_init)(*(np.array(part, np.float32) for part in parts))

    priors = [0.2, 0.5, 0.3, 0.0]
    np.testing.assert_allclose(policy([0] * 4, [0.0] * 4, priors, 0.3), priors, atol=1e-6)
    equal = policy([2, 4, 0, 0], [0.5, 1.0, 0.0, 0.0], priors, 0.25)
    np.testing.assert_allclose(equal, priors, atol=1e-6)
    sure = policy([1e6, 1e6, 1e6, 0], [1e5, 2e5, 6e5, 0.0], priors, 0.0)
    np.testing.assert_allclose(sure, [0, 0, 1, 0], atol=0.01)
    single = policy([3, 0, 0, 0], [-3.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], 0.0)
    np.testing.assert_allclose(single, [1, 0, 0, 0])
    strong = policy([2, 4, 1, 0], [-2.0, 1.0, 1.0, 0.0], priors, 0.0, c_init=1e6)
    np.testing.assert_allclose(strong, priors, atol=1e-5)
    # However small the prior of the best action, it is heard; no action is legal: nothing, but numbers.
    tiny = policy([50, 50, 0, 0], [-50.0, 50.0, 0.0, 0.0], [1.0, 1e-30, 0.0, 0.0], 0.0)
    scale = scale_of(np.array([[50, 50]]), np.array([[1, 1e-12]]))[0]
    exact = exact_policy(np.array([-1, 1]), np.array([1, 1e-12]), scale)
    np.testing.assert_allclose(tiny[:2], exact, atol=1e-5)
    assert not np.asarray(policy([0] * 4, [0.0] * 4, [0.0] * 4, 0.0)).any()


@pytest.mark.parametrize("rule", [selection.puct, selection.regularised])
def test_visits_tend_to_the_regularised_policy(rule):
    """At fixed values, after many simulations, by PUCT as by the rule made for it."""
    rng = np.random.default_rng(0)
    q, priors = rng.uniform(-0.5, 0.5, (20, 7)), rng.dirichlet(np.ones(7), 20)

    def step(_, visits):
        row = make_row(visits, visits * q.astype(np.float32), priors, np.zeros(20), unrolled=False)
        return visits + jax.nn.one_hot(jnp.argmax(rule(row, first_play="zero"), axis=-1), 7)

    run = quick_jit(lambda visits: jax.lax.fori_loop(0, 2000, step, visits))
    visits = np.asarray(run(jnp.ones((20, 7))), np.float64)
    for row in range(20):
        exact = exact_policy(q[row], priors[row], scale_of(visits, priors)[row])
        assert np.abs(visits[row] / visits[row].sum() - exact).max() < 0.02


@pytest.mark.parametrize("num_actions", [4, 20])
def test_search_by_the_regularised_policy(num_actions):
    """Trees in both layouts, node by node those of a plain search in float64."""
    model, simulations = random_model(5, num_actions, illegal=0.2), 40
    root = random_roots(model, 2, 4)
    tree = quick_jit(
        lambda root: jaxsearch.search(
            model,
            jax.random.key(0),
            root=root,
            recurrent_fn=recurrent_fn,
            num_simulations=simulations,
            rule=selection.regularised,
            random_ties=False,
        )
    )(root)

    def score(node: Node):
        n = 1 + node.visits.sum()
        mean = (node.value + node.returns.sum()) / n
        q = np.where(node.visits > 0, node.returns / np.maximum(node.visits, 1), mean)
        return exact_policy(q, node.priors, scale_of(node.visits, node.priors)) - node.visits / n

    same = 0
    for row in range(4):
        state = np.asarray(root.embedding)[row]
        plain = plain_search(
            model,
            state,
            score,
            simulations=simulations,
            max_depth=simulations,
            invalid=np.zeros(num_actions, bool),
        )
        same += same_tree(plain, tree, row)
    assert same >= 3, "rounding may decide one near tie otherwise"


def test_policy_bonus_by_hand():
    """Ten visits of the node: ln 10 = 2.302585; the bonus is on a scale of two."""
    row = one_row([4, 5, 0], [2.0, -1.0, 0.0], [0.2, 0.3, 0.5], 0.9)
    got = np.asarray(selection.policy_bonus(row, weight=3.0, c=0.5, first_play="zero"))[0]
    expected = [
        0.5 + math.sqrt(2.302585 / 4) + 6 * 0.2 / 5,
        -0.2 + math.sqrt(2.302585 / 5) + 6 * 0.3 / 6,
        0.0 + math.sqrt(2.302585) + 6 * 0.5,
    ]
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    plain = np.asarray(selection.policy_bonus(row, weight=0.0, c=0.5))[0]
    np.testing.assert_allclose(plain[:2], np.asarray(selection.uct(row, c=0.5))[0, :2], rtol=1e-6)


def test_policy_bonus_with_rave_by_hand():
    """RAVE alone before the first visit, blended after it, and the bonus on top of both."""
    row = one_row([4, 0, 0, 5], [2.0, 0.0, 0.0, 1.0], [0.1, 0.2, 0.3, 0.4], 0.5)
    amaf = rows.Amaf(jnp.array([[10.0, 8.0, 0.0, 0.0]]), jnp.array([[-5.0, 4.0, 0.0, 0.0]]))
    got = np.asarray(
        selection.policy_bonus(dataclasses.replace(row, amaf=amaf), weight=3.0, c=0.1, c_rave=30.0)
    )[0]
    beta = math.sqrt(30 / (3 * 10 + 30))
    later = -0.5 + 0.2 * math.sqrt(math.log(18) / 10)
    own = 0.5 + 0.2 * math.sqrt(math.log(10) / 4)
    expected = [
        beta * later + (1 - beta) * own + 6 * 0.1 / 5,
        0.5 + 0.2 * math.sqrt(math.log(18) / 8) + 6 * 0.2,
        (0.5 + 3.0) / 10 + 0.2 * math.sqrt(math.log(10)) + 6 * 0.3,
        0.2 + 0.2 * math.sqrt(math.log(10) / 5) + 6 * 0.4 / 6,
    ]
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_rave_by_hand():
    row = one_row([4, 0, 0, 2], [2.0, 0.0, 0.0, 1.0], [0.25] * 4, 0.0)
    amaf = rows.Amaf(jnp.array([[10.0, 8.0, 0.0, 0.0]]), jnp.array([[-5.0, 4.0, 0.0, 0.0]]))
    row = dataclasses.replace(row, amaf=amaf)
    got = np.asarray(selection.rave(row, c=0.1, c_rave=21.0))[0]
    beta = math.sqrt(21 / (3 * 7 + 21))
    first = -0.5 + 0.2 * math.sqrt(math.log(18) / 10)
    own = 0.5 + 0.2 * math.sqrt(math.log(7) / 4)
    np.testing.assert_allclose(got[0], beta * first + (1 - beta) * own, rtol=1e-5)
    np.testing.assert_allclose(got[1], 0.5 + 0.2 * math.sqrt(math.log(18) / 8), rtol=1e-5)
    assert got[2] > 1e6, "never seen: tried first"
    np.testing.assert_allclose(got[3], 0.5 + 0.2 * math.sqrt(math.log(7) / 2), rtol=1e-5)
    late = np.asarray(selection.rave(row, c=0.1, c_rave=1e-6))[0]
    np.testing.assert_allclose(late[0], own, rtol=1e-3)
    by_action = np.asarray(selection.rave(row, c=0.1, c_rave=21.0, per_action=True))[0]
    beta = math.sqrt(21 / (3 * 4 + 21))
    np.testing.assert_allclose(by_action[0], beta * first + (1 - beta) * own, rtol=1e-5)


@settings(max_examples=6)
@given(seed=st.integers(0, 2**31), num_actions=st.sampled_from([1, 3, 9]))
def test_unrolled_equals_wide(seed, num_actions):
    parts = random_rows(seed, num_actions)
    counts = np.random.default_rng(seed).integers(0, 9, (2, 3, num_actions)).astype(np.float32)

    def scores(unrolled, parts, counts):
        row = make_row(*parts, unrolled=unrolled)
        amaf = rows.Amaf(*(rows.columns(part, unrolled=unrolled) for part in counts))
        later = dataclasses.replace(row, amaf=amaf)
        return (
            selection.rave(later),
            selection.policy_bonus(row, weight=2.0),
            selection.policy_bonus(later, weight=2.0),
        )

    parts = [np.asarray(part, np.float32) for part in parts]
    unrolled, wide = (
        quick_jit(functools.partial(scores, layout))(parts, jnp.asarray(counts)) for layout in (True, False)
    )
    for some, others in zip(unrolled, wide):
        np.testing.assert_allclose(np.stack(some, -1), others, rtol=2e-5, atol=2e-5)
        assert np.isfinite(others).all()
