"""The policies with a twin in mctx give its answers: same key, same action, visits, weights and tree."""

import functools

import jax
import mctx
import numpy as np
import pytest
from search_helpers import quick_jit, random_invalid, random_model, random_roots, recurrent_fn

import jaxsearch

BATCH, SIMULATIONS = 12, 48

POLICIES = {
    # mctx spends its noise on illegal actions, so noise is compared elsewhere.
    "muzero_policy": {"dirichlet_fraction": 0.0},
    "gumbel_muzero_policy": {},
}


def answers(library, policy, params, key, root, invalid, max_depth):
    output = getattr(library, policy)(
        params, key, root, recurrent_fn, SIMULATIONS, invalid, max_depth, **POLICIES[policy]
    )
    summary = output.search_tree.summary()
    children = output.search_tree.children_index, output.search_tree.children_visits
    return (
        (output.action, summary.visit_counts),
        (output.action_weights, summary.value, summary.qvalues),
        children,
    )


def compiled(library, policy, num_actions):
    function = functools.partial(answers, library, policy)
    if library is mctx:  # which takes the depth as a traced number: one compilation for all
        return quick_jit(function)
    # One size of each layout as users compile it.
    return (jax.jit if num_actions in (9, 17) else quick_jit)(function, static_argnums=4)


@pytest.mark.parametrize(
    ("policy", "num_actions", "depths"),
    [
        ("muzero_policy", 3, (3,)),
        ("muzero_policy", 9, (None,)),
        ("muzero_policy", 17, (1, None)),
        ("muzero_policy", 80, (4,)),
        ("gumbel_muzero_policy", 9, (4,)),
        ("gumbel_muzero_policy", 16, (3,)),
        ("gumbel_muzero_policy", 17, (None,)),
        ("gumbel_muzero_policy", 40, (None,)),
    ],
)
def test_policy_equals_mctx(policy, num_actions, depths, lax):
    """On random trees with rewards, changing signs, ends of games and actions barred at the root."""
    ours, theirs = (compiled(library, policy, num_actions) for library in (jaxsearch, mctx))
    for max_depth in depths:
        for seed in range(3):
            model = random_model(seed, num_actions)
            root = random_roots(model, seed, BATCH)
            invalid = random_invalid(seed, BATCH, num_actions)
            key = jax.random.key(seed)
            mine = ours(model, key, root, invalid, max_depth)
            peer = theirs(model, key, root, invalid, SIMULATIONS if max_depth is None else max_depth)
            for a, b in zip(mine[0], peer[0]):
                np.testing.assert_array_equal(a, b)
            for a, b in zip(mine[1], peer[1]):
                np.testing.assert_allclose(a, b, rtol=0, atol=2e-5)
            assert not np.any(np.asarray(mine[0][1])[invalid])
