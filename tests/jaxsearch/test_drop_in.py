"""`jaxsearch.mctx` for mctx: the same names, arguments, actions and trees; `compat=None` mends faults."""

import dataclasses
import functools
import inspect

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_helpers import Model, quick_jit, random_invalid, random_model, random_roots, recurrent_fn

import jaxsearch
from jaxsearch import mctx as drop_in
from jaxsearch.mctx.select import Keys, make_selectors

BATCH, SIMULATIONS, OUTCOMES = 8, 32, 4

OPTIONS = {
    "muzero": ("muzero_policy", {"dirichlet_fraction": 0.25, "temperature": 0.5}),
    "muzero, min-max": (
        "muzero_policy",
        {"qtransform": functools.partial(mctx.qtransform_by_min_max, min_value=-1.5, max_value=1.5)},
    ),
    "gumbel": ("gumbel_muzero_policy", {}),
    "gumbel, options": (
        "gumbel_muzero_policy",
        {
            "qtransform": functools.partial(mctx.qtransform_completed_by_mix_value, rescale_values=False),
            "max_num_considered_actions": 5,
            "gumbel_scale": 0.3,
        },
    ),
    "stochastic": ("stochastic_muzero_policy", {"pb_c_init": 2.0}),
}


def chance_fns(model):
    """A player's and nature's half of a move of the random model."""
    table = Model(*map(jnp.asarray, model))

    def half(action, state):
        step, state = recurrent_fn(table, None, action, state)
        return step, state

    def decision(params, key, action, state):
        step, state = half(action, state)
        chances = step.prior_logits[:, :OUTCOMES]
        return mctx.DecisionRecurrentFnOutput(chance_logits=chances, afterstate_value=step.value), state

    def chance(params, key, outcome, state):
        step, state = half(outcome + 77, state)
        result = mctx.ChanceRecurrentFnOutput(
            action_logits=step.prior_logits, value=step.value, reward=step.reward, discount=step.discount
        )
        return result, state

    return decision, chance


def answer(library, case, model, key, root, invalid, max_depth):
    policy, options = OPTIONS[case]
    steps = chance_fns(model) if case == "stochastic" else (recurrent_fn,)
    return getattr(library, policy)(model, key, root, *steps, SIMULATIONS, invalid, max_depth, **options)


def equal_trees(mine, peer, tolerance=2e-5):
    for name in (field.name for field in dataclasses.fields(mctx.Tree)):
        ours, theirs = (jax.tree.leaves(getattr(tree, name)) for tree in (mine, peer))
        assert len(ours) == len(theirs), name
        for a, b in zip(ours, theirs):
            a, b = np.asarray(a, b.dtype), np.asarray(b)
            if np.issubdtype(b.dtype, np.floating):
                # Logits may be the lowest number.
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=tolerance, err_msg=name)
            else:
                np.testing.assert_array_equal(a, b, err_msg=name)


def test_every_name_of_mctx_is_there():
    assert set(mctx.__all__) <= set(drop_in.__all__)
    assert all(hasattr(drop_in, name) for name in drop_in.__all__)
    assert jaxsearch.mctx is drop_in


@pytest.mark.parametrize(
    ("name", "added"),
    [
        ("search", {"stop_at_ends"}),
        ("muzero_policy", {"compat"}),
        ("gumbel_muzero_policy", {"compat"}),
        ("stochastic_muzero_policy", {"compat"}),
    ],
)
def test_arguments_are_those_of_mctx(name, added):
    ours, theirs = (inspect.signature(getattr(library, name)).parameters for library in (drop_in, mctx))
    assert list(ours)[: len(theirs)] == list(theirs) and set(ours) - set(theirs) == added
    for parameter in theirs.values():
        mine = ours[parameter.name]
        assert (mine.kind, mine.default) == (parameter.kind, parameter.default)


@functools.cache
def compiled(library, case):
    return quick_jit(functools.partial(answer, library, case))


@pytest.mark.parametrize(
    ("case", "num_actions"),
    [
        ("muzero", 3),
        ("muzero", 40),
        ("gumbel", 9),
        ("gumbel, options", 40),
        ("stochastic", 5),
    ],
)
def test_policy_gives_mctxs_answer(case, num_actions, lax):
    """Actions, weights and each field of the tree, on random models with rewards and ends of games."""
    for seed, max_depth in enumerate((3, SIMULATIONS, 5, SIMULATIONS)):
        model = random_model(seed, num_actions)
        barred = random_invalid(seed, BATCH, num_actions, share=0.4 * (seed % 2))
        arguments = model, jax.random.key(seed), random_roots(model, seed, BATCH), barred, max_depth
        mine, peer = (compiled(library, case)(*arguments) for library in (drop_in, mctx))
        np.testing.assert_array_equal(mine.action, peer.action)
        np.testing.assert_allclose(mine.action_weights, peer.action_weights, atol=2e-5)
        equal_trees(mine.search_tree, peer.search_tree)


def test_ties_fall_as_in_mctx(lax):
    """Every new node has equal priors and all values are equal: the noise decides everywhere."""
    model = random_model(0, 3, discounts=(-1.0,))
    model = Model(*(np.zeros_like(table) for table in model[:3]), model.discount)
    barred = np.zeros((BATCH, 3), bool)
    for seed in range(3):
        arguments = model, jax.random.key(seed), random_roots(model, 0, BATCH), barred, SIMULATIONS
        mine, peer = (compiled(library, "muzero")(*arguments) for library in (drop_in, mctx))
        np.testing.assert_array_equal(mine.action, peer.action)
        equal_trees(mine.search_tree, peer.search_tree)


def test_rows_do_not_touch_each_other(lax):
    model = random_model(1, 3)
    root = random_roots(model, 1, BATCH)
    mixed = jax.tree.map(lambda other, mine: other.at[3].set(mine[3]), random_roots(model, 2, BATCH), root)
    barred = np.zeros((BATCH, 3), bool)
    outs = [
        compiled(drop_in, "muzero")(model, jax.random.key(0), r, barred, SIMULATIONS) for r in (root, mixed)
    ]
    jax.tree.map(lambda alone, among: np.testing.assert_array_equal(alone[3], among[3]), *outs)


def small_tree(rng, num_actions):
    """Trees of one node whose scores often tie."""
    visits = rng.integers(0, 3, (BATCH, 1, num_actions))
    return mctx.Tree(
        node_visits=jnp.asarray(1 + visits.sum(-1), jnp.int32),
        raw_values=jnp.zeros((BATCH, 1)),
        node_values=jnp.asarray(rng.integers(-1, 2, (BATCH, 1)) / 2, jnp.float32),
        parents=jnp.full((BATCH, 1), -1),
        action_from_parent=jnp.full((BATCH, 1), -1),
        children_index=jnp.full((BATCH, 1, num_actions), -1),
        children_prior_logits=jnp.asarray(rng.integers(0, 2, (BATCH, 1, num_actions)), jnp.float32),
        children_visits=jnp.asarray(visits, jnp.int32),
        children_rewards=jnp.zeros((BATCH, 1, num_actions)),
        children_discounts=jnp.ones((BATCH, 1, num_actions)),
        children_values=jnp.asarray(rng.integers(-1, 2, (BATCH, 1, num_actions)) / 2, jnp.float32),
        embeddings=(),
        root_invalid_actions=jnp.asarray(rng.random((BATCH, num_actions)) < 0.3, jnp.float32),
        extra_data=None,
    )


@functools.cache
def both_choices():
    """Ours of `mctx.muzero_action_selection`, and its own, at a level."""

    def ours(keys, tree, depth, at_root):
        node = jnp.zeros((BATCH,), jnp.int32)
        select = mctx.muzero_action_selection
        selectors = make_selectors(functools.partial(select, depth=0), select)
        selector = selectors[0 if at_root else 1]
        return selector(Keys(keys, jnp.int32(0)), tree, node, depth, jnp.ones((BATCH,), bool))[0]

    def theirs(keys, tree, depth):
        def split(_, keys):
            return jax.vmap(jax.random.split)(keys)[:, 0]

        here = jax.vmap(jax.random.split)(jax.lax.fori_loop(0, depth, split, keys))[:, 1]
        select = jax.vmap(mctx.muzero_action_selection, in_axes=(0, 0, 0, None))
        return select(here, tree, jnp.zeros((BATCH,), jnp.int32), depth)

    return quick_jit(ours, static_argnums=3), quick_jit(theirs)


@given(seed=st.integers(0, 2**31), depth=st.integers(0, 3))
def test_puct_draws_the_noise_that_decides(seed, depth):
    with jax.numpy_dtype_promotion("standard"):
        tree = small_tree(np.random.default_rng(seed), 6)
        keys = jax.random.split(jax.random.key(seed), BATCH)
        ours, theirs = both_choices()
        depth = jnp.int32(depth)
        np.testing.assert_array_equal(ours(keys, tree, depth, bool(depth == 0)), theirs(keys, tree, depth))


def own_search(library, model, key, root, loop_fn=jax.lax.fori_loop, num_simulations=12):
    """A selection function of one's own that uses all it is given; at the root PUCT with other options."""

    def interior(key, tree, node, depth):
        taste = tree.extra_data + tree.children_prior_logits[node] + tree.qvalues(node)
        up = tree.node_values[jnp.maximum(tree.parents[node], 0)] + depth
        score = taste * up + jax.random.normal(key, taste.shape) - tree.children_visits[node]
        return jnp.argmax(score).astype(jnp.int32)

    min_max = functools.partial(library.qtransform_by_min_max, min_value=-1.5, max_value=1.5)
    return library.search(
        model,
        key,
        root=root,
        recurrent_fn=recurrent_fn,
        root_action_selection_fn=functools.partial(
            library.muzero_action_selection, depth=0, pb_c_init=2.0, qtransform=min_max
        ),
        interior_action_selection_fn=interior,
        num_simulations=num_simulations,
        max_depth=3,
        extra_data=jnp.linspace(-1, 1, 3 * BATCH).reshape(BATCH, 3),
        loop_fn=loop_fn,
    )


def python_loop(first, last, body, carry):
    """A loop of the user's, which sees the key and the tree as in mctx."""
    for i in range(first, last):
        key, tree = carry
        assert tree.node_visits.shape == (BATCH, last + 1)
        carry = body(i, (key, tree))
    return carry


def test_search_with_functions_of_ones_own(lax):
    model = random_model(5, 3)
    arguments = model, jax.random.key(1), random_roots(model, 5, BATCH)
    mine, peer = (
        quick_jit(functools.partial(own_search, library))(*arguments) for library in (drop_in, mctx)
    )
    equal_trees(mine, peer)


def test_neither_jit_nor_the_loop_changes_a_search(lax):
    model = random_model(5, 3)
    arguments = model, jax.random.key(1), random_roots(model, 5, BATCH)
    run = functools.partial(own_search, drop_in, num_simulations=2)
    equal_trees(run(*arguments, loop_fn=python_loop), quick_jit(run)(*arguments))


def output(reward, discount, logits, value):
    return mctx.RecurrentFnOutput(reward=reward, discount=discount, prior_logits=logits, value=value)


def mended(library, model, key, root, invalid, max_depth):
    options = {"compat": None} if library is drop_in else {}
    return library.gumbel_muzero_policy(
        model, key, root, recurrent_fn, SIMULATIONS, invalid, max_depth, **options
    )


def test_mended_policy_and_native_one_agree_and_native_trees_convert(lax):
    """Games end in these models, so mctx itself would search on below."""
    native, generic = (
        quick_jit(functools.partial(mended, lib), static_argnums=4) for lib in (jaxsearch, drop_in)
    )
    convert = quick_jit(lambda tree, invalid: drop_in.to_mctx_tree(tree, invalid_actions=invalid))
    for seed in range(2):
        model = random_model(seed, 9)
        invalid = random_invalid(seed, BATCH, 9)
        arguments = (
            model,
            jax.random.key(seed),
            random_roots(model, seed, BATCH),
            jnp.asarray(invalid),
            4,
        )
        mine, ours = native(*arguments), generic(*arguments)
        np.testing.assert_array_equal(mine.action, ours.action)
        np.testing.assert_allclose(mine.action_weights, ours.action_weights, atol=2e-5)
        tree, peer = convert(mine.search_tree, invalid), ours.search_tree
        summary, expected = tree.summary(), peer.summary()
        np.testing.assert_array_equal(summary.visit_counts, expected.visit_counts)
        np.testing.assert_allclose(summary.qvalues, expected.qvalues, atol=2e-5)
        # Logits are defined up to a constant per node, and nodes that were not made have none.
        made = np.asarray(tree.node_visits > 0)[..., None]
        priors = [np.where(made, jax.nn.softmax(t.children_prior_logits), 0) for t in (tree, peer)]
        np.testing.assert_allclose(*priors, atol=1e-6)
        # mctx leaves values behind an end in place, where discount 0 hides them; ours are 0 in both.
        same = {"children_prior_logits": peer.children_prior_logits, "extra_data": peer.extra_data}
        equal_trees(tree.replace(**same), peer)


def test_mended_policy_ignores_what_lies_beyond_the_end(lax):
    def step(params, key, action, state):
        reward = jnp.where(action == 1, 1.0, -1.0)
        nan = jnp.full_like(reward, jnp.nan)
        return output(reward, jnp.zeros_like(reward), jnp.zeros((BATCH, 3)), nan), state

    root = jaxsearch.RootFnOutput(prior_logits=jnp.zeros((BATCH, 3)), value=jnp.zeros((BATCH,)), embedding=())
    for policy in (drop_in.muzero_policy, drop_in.gumbel_muzero_policy):
        run = functools.partial(policy, root=root, recurrent_fn=step, num_simulations=16, compat=None)
        out = quick_jit(run)(None, jax.random.key(0))
        assert np.isfinite(out.action_weights).all()
        assert (np.asarray(out.search_tree.children_visits)[:, 1:] == 0).all(), "searched below an end"
        assert (np.argmax(out.action_weights, -1) == 1).all()


def test_mended_policy_keeps_noise_to_valid_actions_and_sums_to_float32(lax):
    root = jaxsearch.RootFnOutput(
        prior_logits=jnp.zeros((BATCH, 50), jnp.bfloat16),
        value=jnp.zeros((BATCH,), jnp.bfloat16),
        embedding=(),
    )
    invalid = jnp.ones((BATCH, 50), bool).at[:, :3].set(False)

    def step(params, key, action, state):
        zeros = jnp.zeros(action.shape, jnp.bfloat16)
        return output(zeros, zeros + 1, jnp.zeros((BATCH, 50), jnp.bfloat16), zeros), state

    def run(compat):
        policy = functools.partial(drop_in.muzero_policy, recurrent_fn=step, num_simulations=1, compat=compat)
        return quick_jit(policy)(None, jax.random.key(0), root, invalid_actions=invalid).search_tree

    mended, faithful = run(None), run("mctx")
    assert (mended.node_values.dtype, faithful.node_values.dtype) == (jnp.float32, jnp.bfloat16)
    priors = np.asarray(jax.nn.softmax(mended.children_prior_logits[:, 0]))
    assert (priors[:, 3:] == 0).all()
    noise = (priors[:, :3] - 0.75 / 3) / 0.25  # a whole Dirichlet draw of alpha 0.3, over three
    np.testing.assert_allclose(noise.sum(-1), 1, atol=1e-5)
    assert noise.min() > -1e-5 and noise.max(-1).mean() > 0.6


def bad_root(**changes):
    fields = {"prior_logits": jnp.zeros((2, 3)), "value": jnp.zeros((2,)), "embedding": jnp.zeros((2, 4))}
    return mctx.RootFnOutput(**(fields | changes))


def bandit(params, key, action, state):
    zeros = jnp.zeros((2,))
    return output(zeros, zeros, jnp.zeros((2, 3)), zeros), state


@pytest.mark.parametrize(
    ("message", "root", "options"),
    [
        ("root.prior_logits has shape", bad_root(prior_logits=jnp.zeros((3,))), {}),
        ("root.value has shape", bad_root(value=jnp.zeros((3,))), {}),
        ("a leaf of root.embedding", bad_root(embedding=jnp.zeros((3,))), {}),
        ("num_simulations is -1", bad_root(), {"num_simulations": -1}),
        ("max_depth is 0", bad_root(), {"max_depth": 0}),
        ("invalid_actions has shape", bad_root(), {"invalid_actions": jnp.zeros((2, 4))}),
        ("max_num_considered_actions is 0", bad_root(), {"max_num_considered_actions": 0}),
        ("compat is 'mtcx'; expected 'mctx' or None", bad_root(), {"compat": "mtcx"}),
        (
            "returned reward of shape",
            bad_root(),
            {"recurrent_fn": lambda *a: (bandit(*a)[0].replace(reward=1.0), a[3])},
        ),
        ("returned an embedding", bad_root(), {"recurrent_fn": lambda *a: (bandit(*a)[0], ())}),
    ],
)
def test_bad_input_gets_one_clear_error(message, root, options, lax):
    options = {"recurrent_fn": bandit, "num_simulations": 4} | options
    with pytest.raises(ValueError, match=message):
        drop_in.gumbel_muzero_policy(None, jax.random.key(0), root, **options)


def test_native_policies_on_demand_answer_as_mctx(lax):
    """`compat="mctx"` and a q-transform of one's own; and the native tree has mctx's fields."""
    model, root = random_model(3, 9), random_roots(random_model(3, 9), 3, 4)
    invalid = random_invalid(3, 4, 9)
    arguments = (model, jax.random.key(5), root, recurrent_fn, 12, invalid)
    ours = jaxsearch.gumbel_muzero_policy(*arguments, compat="mctx")
    theirs = mctx.gumbel_muzero_policy(*arguments)
    np.testing.assert_array_equal(ours.action, theirs.action)
    counts = (out.search_tree.children_visits for out in (ours, theirs))
    np.testing.assert_array_equal(*counts)
    custom = jaxsearch.gumbel_muzero_policy(
        *arguments, qtransform=OPTIONS["gumbel, options"][1]["qtransform"]
    )
    assert custom.action_weights.shape == (4, 9)
    native = jaxsearch.gumbel_muzero_policy(*arguments).search_tree
    assert native.ROOT_INDEX == 0 and native.num_simulations == 12
    np.testing.assert_array_equal(native.node_visits[:, 0], 13)
    np.testing.assert_array_equal(native.parents[:, 0], native.NO_PARENT)
    with pytest.raises(AttributeError, match="a Tree has no 'nothing'"):
        _ = native.nothing
    with pytest.raises(ValueError, match="compat is 'mcts'; expected 'mctx' or None"):
        jaxsearch.gumbel_muzero_policy(*arguments, compat="mcts")
