"""Dirichlet noise at the root reaches the legal actions, all of it and only them (issue 13)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from search_helpers import quick_jit

from jaxsearch import add_dirichlet

noisy_logits = quick_jit(add_dirichlet)


def noisy_priors(seed, logits, **options):
    return np.exp(np.asarray(noisy_logits(jax.random.key(seed), jnp.asarray(logits), **options), np.float64))


@given(
    seed=st.integers(0, 2**31),
    num_actions=st.sampled_from([1, 6, 60]),
    alpha=st.sampled_from([1e-3, 0.03, 0.3, 10.0]),
)
def test_is_a_distribution_over_legal_actions(seed, num_actions, alpha):
    rng = np.random.default_rng(seed)
    legal = rng.random((4, num_actions)) < 0.5
    legal[:, rng.integers(num_actions)] = True
    logits = rng.normal(size=(4, num_actions)).astype(np.float32) * 5
    p = noisy_priors(seed, logits, alpha=alpha, fraction=0.25, legal=jnp.asarray(legal))
    np.testing.assert_allclose(p.sum(-1), 1, rtol=1e-5)
    assert not p[~legal].any()
    prior = np.where(legal, np.exp(logits - logits.max(-1, keepdims=True)), 0)
    prior /= prior.sum(-1, keepdims=True)
    noise = (p - 0.75 * prior) / 0.25
    assert (noise > -1e-5).all() and (noise < 1 + 1e-5).all()


@pytest.mark.parametrize("num_actions", [5, 82, 1000])
def test_effect_does_not_depend_on_illegal_actions(num_actions):
    """Distance of noisy and plain priors over five legal actions, against numpy's Dirichlet on five."""
    rows = 400
    legal = np.zeros(num_actions, bool)
    legal[np.linspace(0, num_actions - 1, 5).astype(int)] = True
    logits = np.where(legal, 0.0, -np.inf).astype(np.float32)
    p = noisy_priors(0, np.tile(logits, (rows, 1)), alpha=0.3, fraction=0.25)
    distance = np.abs(p[:, legal] - 0.2).sum(-1) / 2
    expected = np.random.default_rng(0).dirichlet(np.full(5, 0.3), 100_000)
    expected = 0.25 * np.abs(expected - 0.2).sum(-1) / 2
    error = np.sqrt(expected.var() / rows)
    assert abs(distance.mean() - expected.mean()) < 5 * error
    assert scipy.stats.ks_2samp(distance, expected).pvalue > 1e-4


def test_small_concentrations_do_not_underflow():
    """At alpha 0.001 the noise is one action, each as often as the others."""
    p = noisy_priors(0, np.zeros((3000, 6), np.float32), alpha=1e-3, fraction=1.0)
    assert np.isfinite(p).all()
    assert (p.max(-1) > 0.99).mean() > 0.95
    assert scipy.stats.chisquare(np.bincount(p.argmax(-1), minlength=6)).pvalue > 1e-4


def test_fraction_zero_is_no_noise():
    logits = np.array([[1.0, 2.0, -1e9, 0.5]], np.float32)
    p = noisy_priors(0, logits, alpha=0.3, fraction=0.0)
    np.testing.assert_allclose(p, np.exp(logits) / np.exp(logits).sum(), rtol=1e-5)


def test_half_precision_logits():
    out = add_dirichlet(jax.random.key(0), jnp.zeros((2, 3), jnp.bfloat16), alpha=0.3, fraction=0.25)
    assert out.dtype == jnp.float32


def test_keys_matter():
    logits = np.zeros((2, 5), np.float32)
    a, b, again = (noisy_priors(seed, logits, alpha=0.3, fraction=0.25) for seed in (0, 1, 0))
    assert (a != b).any() and (a[0] != a[1]).any()
    np.testing.assert_array_equal(a, again)
