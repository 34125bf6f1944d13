"""The selection rules, on numbers worked out by hand, by mctx, and in both layouts of a row."""

import functools
import json
import math
import pathlib

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from mctx._src import action_selection, qtransforms
from search_helpers import quick_jit

from jaxsearch import rows, selection

DATA = pathlib.Path(__file__).parent.parent / "data"


def make_row(visits, sums, priors, value, *, unrolled):
    """A row of R nodes from arrays `[R, A]` and `[R]`, in the layout asked for."""
    visits, sums, priors, value = (jnp.asarray(x, jnp.float32) for x in (visits, sums, priors, value))
    total_visits, total_value = visits.sum(-1), sums.sum(-1)
    if not unrolled:
        value, total_visits, total_value = (x[:, None] for x in (value, total_visits, total_value))
    parts = (rows.columns(part, unrolled=unrolled) for part in (visits, sums, priors))
    return rows.Row(*parts, value, total_visits, total_value)


def one_row(visits, sums, priors, value):
    return make_row([visits], [sums], [priors], [value], unrolled=False)


def random_rows(seed, num_actions, count=3):
    """Statistics of nodes: some actions illegal, some unvisited, some nodes without a visit."""
    rng = np.random.default_rng(seed)
    shape = (count, num_actions)
    legal = rng.random(shape) < 0.8
    legal[np.arange(count), rng.integers(num_actions, size=count)] = True
    visits = rng.integers(0, 6, shape) * legal * (rng.random(shape) < 0.7)
    visits[0] = 0
    priors = rng.dirichlet(np.full(num_actions, 0.5), count) * legal + 1e-6 * legal
    priors /= priors.sum(-1, keepdims=True)
    sums = rng.uniform(-1, 1, shape) * visits
    return visits, sums, priors, rng.uniform(-1, 1, count)


RULES = {
    "muzero_puct": selection.muzero_puct,
    "uct": functools.partial(selection.uct, c=0.7),
    "completed_qvalues": selection.completed_qvalues,
    "completed_qvalues-plain": functools.partial(selection.completed_qvalues, rescale_values=False),
    "gumbel_interior": selection.gumbel_interior,
    **{
        f"puct-{name}": functools.partial(selection.puct, first_play=name)
        for name in ("zero", "loss", "parent", "reduction")
    },
}


@pytest.mark.parametrize("rule", RULES)
@given(seed=st.integers(0, 2**31), num_actions=st.sampled_from([1, 2, 3, 9]))
def test_unrolled_equals_wide(rule, seed, num_actions):
    parts = random_rows(seed, num_actions)
    wide = RULES[rule](make_row(*parts, unrolled=False))
    unrolled = RULES[rule](make_row(*parts, unrolled=True))
    assert isinstance(unrolled, tuple) and len(unrolled) == num_actions
    np.testing.assert_allclose(np.stack(unrolled, -1), wide, rtol=2e-5, atol=2e-5)
    assert np.isfinite(wide).all()


# By hand


def test_worked_example_of_puct():
    """Three actions of which the second is due; it wins three more trips, then the first is on top again.

    The example counts the visits of the actions (40), a search those of the node (41, its own evaluation
    included), so the bonus here is larger by sqrt(41 / 40). Issue 19: no other offset.
    """
    example = json.loads((DATA / "puct_demo.json").read_text())
    _, priors, visits, q, bonus, score = zip(*example["rows"])
    visits, q = np.array(visits, float), np.array(q)
    rule = functools.partial(selection.puct, c_init=example["c_puct"], c_base=1e9)

    def scores(visits):
        return np.asarray(rule(one_row(visits, visits * q, priors, 0.0)))[0]

    assert visits.sum() == example["sum_N"]
    np.testing.assert_allclose((scores(visits) - q) / math.sqrt(41 / 40), bonus, atol=5e-4)
    np.testing.assert_allclose(scores(visits), score, atol=4e-3)
    trips = []
    for _ in range(5):
        trips.append(int(np.argmax(scores(visits))))
        visits[trips[-1]] += 1
    assert trips == [1, 1, 1, 1, 0]


def test_uct_by_hand():
    """Node with 1 + 4 + 5 visits: ln 10 = 2.302585."""
    row = one_row([4, 5, 0], [2.0, -1.0, 0.0], [0.2, 0.3, 0.5], 0.9)
    got = np.asarray(selection.uct(row, c=1.0))[0]
    # 0.5 + 2 sqrt(2.302585 / 4), -0.2 + 2 sqrt(2.302585 / 5)
    np.testing.assert_allclose(got[:2], [2.017427, 1.157229], rtol=1e-5)
    assert got[2] > 1e6
    np.testing.assert_allclose(np.asarray(selection.uct(row, c=0.5))[0, 0], 0.5 + 0.758714, rtol=1e-5)


@pytest.mark.parametrize(
    ("first_play", "unvisited"),
    # The node's mean is (0.2 + 1) / 3 = 0.4, the prior mass visited 0.6.
    [("zero", 0.0), ("loss", -1.0), ("parent", 0.4), ("reduction", 0.4 - 0.25 * math.sqrt(0.6))],
)
def test_first_play_by_hand(first_play, unvisited):
    row = one_row([2, 0], [1.0, 0.0], [0.6, 0.4], 0.2)
    factor = math.sqrt(3) * (1.25 + math.log((3 + 19652 + 1) / 19652))
    expected = [0.5 + factor * 0.6 / 3, unvisited + factor * 0.4]
    np.testing.assert_allclose(selection.puct(row, first_play=first_play)[0], expected, rtol=1e-6)


def test_unvisited_node_prefers_by_prior():
    row = one_row([0, 0, 0], [0.0, 0.0, 0.0], [0.2, 0.7, 0.1], -0.3)
    for rule in ("muzero_puct", "gumbel_interior", "puct-parent", "puct-reduction", "puct-loss", "puct-zero"):
        scores = np.asarray(RULES[rule](row))[0]
        assert list(np.argsort(scores)) == [2, 0, 1], rule


def test_unknown_first_play():
    with pytest.raises(ValueError, match="'best'; expected 'zero', 'parent', 'reduction' or 'loss'"):
        selection.puct(one_row([1, 0], [0.0, 0.0], [0.5, 0.5], 0.0), first_play="best")


def test_extreme_priors_stay_finite():
    """One-hot priors, a single legal action, visits only where the prior is tiny (issue 12)."""
    tiny = 1e-30
    cases = [
        ([3, 0, 0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
        ([0, 2, 0], [0.0, -2.0, 0.0], [1.0 - tiny, tiny, 0.0]),
        ([0, 0, 0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]),
        ([5, 5, 0], [5.0, -5.0, 0.0], [tiny, 1.0, 0.0]),
    ]
    for visits, sums, priors in cases:
        for name, rule in RULES.items():
            assert np.isfinite(rule(one_row(visits, sums, priors, 0.5))).all(), name
    # With one action visited the mixed value is (value + N Q) / (N + 1), however small that action's prior.
    q = selection.completed_qvalues(one_row(*cases[1], 0.5), rescale_values=False, value_scale=1.0)
    np.testing.assert_allclose(q[0, 0] / 52, (0.5 + 2 * -1.0) / 3, rtol=1e-5)


# mctx's functions on the same node


def mctx_node(visits, sums, priors, value):
    """A tree of mctx that is a single node."""
    q = sums / np.maximum(visits, 1)
    zeros = np.zeros(len(visits), np.float32)
    with np.errstate(divide="ignore"):
        logits = np.where(priors > 0, np.log(priors), -1e9).astype(np.float32)
    mean = (value + sums.sum()) / (1 + visits.sum())
    as_row = functools.partial(np.asarray, dtype=np.float32)
    return mctx.Tree(
        node_visits=np.array([1 + visits.sum()], np.int32),
        raw_values=as_row([value]),
        node_values=as_row([mean]),
        parents=np.array([-1]),
        action_from_parent=np.array([-1]),
        children_index=np.full((1, len(visits)), -1),
        children_prior_logits=logits[None],
        children_visits=visits[None].astype(np.int32),
        children_rewards=as_row(q)[None],
        children_discounts=zeros[None],
        children_values=zeros[None],
        embeddings=None,
        root_invalid_actions=(priors == 0).astype(np.float32),
        extra_data=None,
    )


SIZES = st.sampled_from([2, 7, 20])


batched = functools.cache(lambda function: quick_jit(jax.vmap(function)))


def by_mctx(function, parts):
    """A function of mctx's trees, on each of several nodes."""
    nodes = [mctx_node(*part) for part in zip(*parts)]
    trees = jax.tree.map(lambda *leaves: np.stack(leaves), *nodes)
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        return jax.tree.map(np.asarray, batched(function)(trees))


def mctx_gumbel(tree):
    completed = qtransforms.qtransform_completed_by_mix_value(tree, 0)
    plain = qtransforms.qtransform_completed_by_mix_value(tree, 0, rescale_values=False, value_scale=0.3)
    probs = jax.nn.softmax(tree.children_prior_logits[0] + completed)
    return plain, completed, action_selection._prepare_argmax_input(probs, tree.children_visits[0])


def mctx_muzero(tree):
    return action_selection.muzero_action_selection(jax.random.key(0), tree, 0, 0)


@given(seed=st.integers(0, 2**31), num_actions=SIZES)
def test_gumbel_rules_equal_mctx(seed, num_actions):
    parts = random_rows(seed, num_actions, count=20)
    row = make_row(*parts, unrolled=False)
    plain, completed, interior = by_mctx(mctx_gumbel, parts)
    ours = selection.completed_qvalues(row, rescale_values=False, value_scale=0.3)
    np.testing.assert_allclose(ours, plain, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(selection.completed_qvalues(row), completed, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(selection.gumbel_interior(row), interior, rtol=1e-4, atol=1e-5)


@given(seed=st.integers(0, 2**31), num_actions=SIZES)
def test_muzero_puct_equals_mctx(seed, num_actions):
    """mctx's function gives an action only: it must be one of our best."""
    parts = random_rows(seed, num_actions, count=20)
    scores = np.asarray(selection.muzero_puct(make_row(*parts, unrolled=False)))
    scores = np.where(parts[2] > 0, scores, -np.inf)
    chosen = np.take_along_axis(scores, by_mctx(mctx_muzero, parts)[:, None], axis=-1)
    np.testing.assert_allclose(chosen[:, 0], scores.max(-1), atol=1e-5)


# Equal scores


def best(scores, seeds, num_actions):
    unrolled = num_actions <= rows.UNROLL
    return np.asarray(
        rows.argmax(rows.columns(scores, unrolled=unrolled), rows.tie_codes(seeds, num_actions))
    )


@pytest.mark.parametrize("num_actions", [3, 16, 17, 80])
def test_ties_are_uniform(num_actions):
    """Over keys, each of the equal actions wins as often: all of them, and any subset (issue 34)."""
    count = 200 * num_actions
    seeds = jax.random.bits(jax.random.key(0), (count,), jnp.uint32)
    subset = np.random.default_rng(0).permutation(num_actions)[: max(2, num_actions // 2)]
    for actions in (np.arange(num_actions), subset):
        # A score next to which noise of 1e-7 would be lost.
        scores = jnp.full((count, num_actions), -1.0).at[:, actions].set(0.6)
        wins = np.bincount(best(scores, seeds, num_actions), minlength=num_actions)
        assert wins.sum() == wins[actions].sum()
        assert scipy.stats.chisquare(wins[actions]).pvalue > 1e-4


@pytest.mark.parametrize("num_actions", [1, 2, 16, 17, 500])
def test_argmax(num_actions):
    """The highest score wins whatever the code; the first of equals without seeds; never out of range."""
    rng = np.random.default_rng(0)
    seeds = jnp.asarray(rng.integers(2**32, size=64, dtype=np.uint32))
    scores = jnp.asarray(rng.normal(size=(64, num_actions)), jnp.float32)
    for some in (seeds, None):
        np.testing.assert_array_equal(best(scores, some, num_actions), np.argmax(scores, -1))
    tied = jnp.round(scores)
    np.testing.assert_array_equal(best(tied, None, num_actions), np.argmax(tied, -1))
    broken = scores.at[:, num_actions // 2].set(jnp.nan)
    for nothing in (broken, jnp.full_like(scores, jnp.nan), jnp.full_like(scores, -jnp.inf)):
        action = best(nothing, seeds, num_actions)
        assert ((action >= 0) & (action < num_actions)).all()
