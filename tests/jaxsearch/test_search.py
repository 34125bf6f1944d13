"""What holds for every finished tree, whatever the model: checked from the outside, by recomputing."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_helpers import (
    Node,
    check_tree,
    edges,
    plain_search,
    quick_jit,
    random_invalid,
    random_model,
    random_roots,
    recurrent_fn,
    same_tree,
)

import jaxsearch
from jaxsearch import selection
from jaxsearch.priors import prior_probabilities
from jaxsearch.tree import ended, node_number

BATCH = 4


@functools.cache
def searcher(rule, simulations, max_depth=None, *, random_ties=True):
    """One compiled program per configuration and number of actions."""

    def run(model, key, root, invalid):
        return jaxsearch.search(
            model,
            key,
            root=root,
            recurrent_fn=recurrent_fn,
            num_simulations=simulations,
            rule=rule,
            invalid_actions=invalid,
            max_depth=max_depth,
            random_ties=random_ties,
        )

    return quick_jit(run)


def random_case(seed, num_actions, *, illegal=0.3):
    model = random_model(seed, num_actions, illegal=illegal)
    return (
        model,
        jax.random.key(seed),
        random_roots(model, seed, BATCH),
        random_invalid(seed, BATCH, num_actions),
    )


# Odd and even numbers of simulations and depths, since the loops handle two levels a turn.
@pytest.mark.parametrize(
    ("num_actions", "simulations", "max_depth"),
    [(4, 40, None), (3, 25, 1), (3, 25, 2), (3, 25, 3), (2, 33, 6), (20, 24, None), (20, 24, 2)],
)
@given(seed=st.integers(0, 2**31))
def test_tree_is_sound(num_actions, simulations, max_depth, seed):
    """Sums recomputed from below; no illegal action; nothing below an end or `max_depth` (issues 9, 10)."""
    model, key, root, invalid = random_case(seed, num_actions)
    tree = searcher(selection.puct, simulations, max_depth)(model, key, root, invalid)
    check_tree(tree, simulations=simulations, max_depth=max_depth)
    assert not np.any(np.asarray(tree.summary().visit_counts)[invalid])


def test_a_revisited_edge_keeps_its_node():
    """At `max_depth` an edge is evaluated again and again; the node of its first visit stays."""
    model, key, root, _ = random_case(0, 3, illegal=0.0)
    tree = searcher(selection.uct, 25, 1)(model, key, root, np.zeros((BATCH, 3), bool))
    np.testing.assert_array_equal(np.sort(tree.children_index[:, 0], axis=-1), [[1, 2, 3]] * BATCH)


def test_one_simulation():
    model, key, root, invalid = random_case(0, 3)
    tree = searcher(selection.puct, 1)(model, key, root, invalid)
    check_tree(tree, simulations=1)


@given(seed=st.integers(0, 2**31))
def test_summary_is_the_mean_of_what_was_backed_up(seed):
    tree = searcher(selection.puct, 40)(*random_case(seed, 4))
    summary, visits = tree.summary(), np.asarray(tree.children_visits)[:, 0]
    sums = np.asarray(tree.block(1), np.float64)[:, 0]
    value = (np.asarray(tree.column(0), np.float64)[:, 0] + sums.sum(-1)) / 41
    np.testing.assert_array_equal(summary.visit_counts, visits)
    np.testing.assert_allclose(summary.visit_probs, visits / 40, rtol=1e-6)
    np.testing.assert_allclose(summary.value, value, atol=1e-5)
    np.testing.assert_allclose(
        summary.qvalues, np.where(visits > 0, sums / np.maximum(visits, 1), 0), atol=1e-6
    )


# A plain search of one tree, as a textbook writes it


def plain_uct(node: Node, c: float = 0.7) -> np.ndarray:
    n, w = node.visits, node.returns
    with np.errstate(all="ignore"):
        tried = w / n + 2 * c * np.sqrt(np.log(1 + n.sum()) / n)
    return np.where(n > 0, tried, np.inf)


def plain_puct(node: Node, first_play: str) -> np.ndarray:
    n, w, p = node.visits, node.returns, node.priors
    mean = (node.value + w.sum()) / (1 + n.sum())
    unvisited = {
        "zero": 0.0,
        "loss": -1.0,
        "parent": mean,
        "reduction": mean - 0.25 * np.sqrt(p[n > 0].sum()),
    }[first_play]
    q = np.where(n > 0, w / np.maximum(n, 1), unvisited)
    total = 1 + n.sum()
    return q + (1.25 + np.log((total + 19653.0) / 19652.0)) * p * np.sqrt(total) / (1 + n)


RULES = {
    "uct": (functools.partial(selection.uct, c=0.7), plain_uct),
    **{
        f"puct-{name}": (
            functools.partial(selection.puct, first_play=name),
            functools.partial(plain_puct, first_play=name),
        )
        for name in ("zero", "loss", "parent", "reduction")
    },
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("num_actions", "max_depth"), [(5, None), (18, 3)])
def test_equals_a_plain_search(rule, num_actions, max_depth):
    """The same visits at every node of the tree as a search of one tree with objects and float64 numbers."""
    ours, plain = RULES[rule]
    for seed in range(4):
        model, key, root, invalid = random_case(seed, num_actions)
        tree = searcher(ours, 40, max_depth, random_ties=False)(model, key, root, invalid)
        for row, state in enumerate(np.asarray(root.embedding)):
            expected = plain_search(
                model, state, plain, simulations=40, max_depth=max_depth or 40, invalid=invalid[row]
            )
            assert same_tree(expected, tree, row)


# Ends of games, odd numbers, odd types


def test_nothing_of_the_network_is_used_at_ends():
    """NaN from the network at finished games changes nothing (issue 9)."""
    model, key, root, invalid = random_case(3, 4)
    over = model.discount == 0
    poisoned = model._replace(
        value=np.where(over, np.nan, model.value), logits=np.where(over[:, None], np.nan, model.logits)
    )
    run = searcher(selection.puct, 40)
    clean, other = (run(m, key, root, invalid) for m in (model, poisoned))
    assert any(clean.column(2)[e.batch, e.child] == 0 for e in edges(clean)), "some game ends"
    assert np.isfinite(other.rows).all()
    chex.assert_trees_all_equal(clean.children_visits, other.children_visits)
    chex.assert_trees_all_equal(clean.summary(), other.summary())


def test_statistics_are_float32_for_a_bfloat16_network():
    """A running mean in bfloat16 stops moving after a few hundred visits; sums do not."""
    model = random_model(0, 3, discounts=(-1.0,))
    root = random_roots(model, 0, BATCH)
    half = functools.partial(jax.tree.map, lambda leaf: jnp.asarray(leaf, jnp.bfloat16))

    @quick_jit
    def run(model, key, root):
        return jaxsearch.search(
            model, key, root=root, recurrent_fn=recurrent_fn, num_simulations=600, rule=selection.puct
        )

    small = root.replace(prior_logits=half(root.prior_logits), value=half(root.value))
    tree = run(half(model), jax.random.key(0), small)
    assert tree.rows.dtype == jnp.float32
    summary = tree.summary()
    dtypes = [leaf.dtype for leaf in summary]
    assert dtypes == [jnp.int32, jnp.float32, jnp.float32, jnp.float32]
    check_tree(tree, simulations=600)
    # And the mean is that of the same numbers in float32.
    wide = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), (half(model), small.prior_logits, small.value))
    reference = run(wide[0], jax.random.key(0), root.replace(prior_logits=wide[1], value=wide[2]))
    chex.assert_trees_all_close(summary, reference.summary(), atol=1e-6)


def test_integer_and_numpy_inputs():
    model, key, root, invalid = random_case(0, 3)
    run = searcher(selection.puct, 25)
    root_numpy = jax.tree.map(np.asarray, root)
    chex.assert_trees_all_equal(
        run(model, key, root, invalid), run(model, key, root_numpy, invalid.astype(np.int32))
    )


def test_embedding_may_be_any_pytree():
    """Typed keys, numbers of several kinds, an empty part."""

    def step(params, key, action, state):
        del params, key
        keys = jax.vmap(jax.random.fold_in)(state["key"], action)
        value = jax.vmap(lambda k: jax.random.uniform(k, minval=-1))(keys)
        new = {"key": keys, "count": state["count"] + jnp.int8(1), "board": state["board"], "none": ()}
        zeros = jnp.zeros_like(value)
        logits = jnp.zeros((*value.shape, 2))
        return jaxsearch.RecurrentFnOutput(
            reward=zeros, discount=zeros - 1, prior_logits=logits, value=value
        ), new

    state = {
        "key": jax.random.split(jax.random.key(0), BATCH),
        "count": jnp.zeros((BATCH,), jnp.int8),
        "board": jnp.ones((BATCH, 3, 5), jnp.bfloat16),
        "none": (),
    }
    root = jaxsearch.RootFnOutput(prior_logits=jnp.zeros((BATCH, 2)), value=jnp.zeros(BATCH), embedding=state)
    tree = quick_jit(
        lambda key: jaxsearch.search(
            None, key, root=root, recurrent_fn=step, num_simulations=9, rule=selection.puct
        )
    )(jax.random.key(0))
    depth = {(b, 0): 0 for b in range(BATCH)}
    for edge in edges(tree):
        depth[edge.batch, edge.child] = edge.depth
    for node in range(tree.num_nodes):
        found = tree.node_states(jnp.full((BATCH,), node))
        np.testing.assert_array_equal(found["count"], [depth[b, node] for b in range(BATCH)])
        np.testing.assert_array_equal(found["board"], 1)


# The contract of the priors


def test_prior_probabilities():
    logits = jnp.array(
        [
            [0.0, 1.0, -1e8],
            [-1e9, -1e9, -jnp.inf],
            [0.0, -500.0, -jnp.inf],
            [-900.0, -900.0, -1e8],
            [5.0, 5.0, 5.0],
        ]
    )
    p = np.asarray(prior_probabilities(logits.astype(jnp.bfloat16)))
    assert p.dtype == np.float32
    np.testing.assert_allclose(p[0], [0.26894, 0.73106, 0], atol=1e-4)
    np.testing.assert_array_equal(p[1], 0)
    assert p[2, 1] > 0 and p[2, 2] == 0  # however unlikely, a legal action can be found
    np.testing.assert_allclose(p[3], [0.5, 0.5, 0])
    np.testing.assert_allclose(p[4], 1 / 3, rtol=1e-6)


@pytest.mark.parametrize("lowest", [-jnp.inf, -1e9, jnp.finfo(jnp.float32).min])
def test_prior_mass_on_barred_actions_only(lowest):
    """All mass on illegal moves: uniform over the others (issue 11)."""
    model, key, root, invalid = random_case(0, 4)
    logits = jnp.where(invalid, 0.0, jnp.float32(lowest))
    tree = searcher(selection.puct, 40)(model, key, root.replace(prior_logits=logits), invalid)
    uniform = ~invalid / (~invalid).sum(-1, keepdims=True)
    np.testing.assert_allclose(tree.block(2)[:, 0], uniform, rtol=1e-6)
    assert not np.any(np.asarray(tree.summary().visit_counts)[invalid])


# Batches, keys, compilation


def test_rows_do_not_depend_on_each_other():
    model, key, root, invalid = random_case(0, 4)
    run = searcher(selection.puct, 40)
    before = run(model, key, root, invalid)
    other = random_roots(model, 99, BATCH)
    mixed = jax.tree.map(lambda a, b: jnp.concatenate([a[:2], b[2:]]), root, other)
    after = run(model, key, mixed, invalid)
    assert (after.summary().value[2:] != before.summary().value[2:]).all()
    for a, b in ((before.children_visits, after.children_visits), (before.block(1), after.block(1))):
        np.testing.assert_array_equal(a[:2], b[:2])


def test_rows_follow_their_positions():
    """The same root in every row gives the same tree, but for ties; here there are none."""
    model, key, root, _ = random_case(0, 4)
    same = jax.tree.map(lambda leaf: jnp.repeat(leaf[:1], BATCH, axis=0), root)
    visits = np.asarray(
        searcher(selection.puct, 40)(model, key, same, np.zeros((BATCH, 4), bool)).children_visits
    )
    np.testing.assert_array_equal(visits, np.repeat(visits[:1], BATCH, axis=0))


def test_jit_equals_no_jit():
    model, key, root, _ = random_case(0, 2)
    two = jax.tree.map(lambda leaf: leaf[:2], root)

    def run(key):
        return jaxsearch.search(
            model, key, root=two, recurrent_fn=recurrent_fn, num_simulations=4, rule=selection.puct
        )

    compiled = quick_jit(run)(key)
    with jax.disable_jit():
        plain = run(key)
    chex.assert_trees_all_equal(compiled.children_visits, plain.children_visits)
    chex.assert_trees_all_close(compiled, plain, atol=1e-6)


def test_vmap_equals_loop():
    """A population of models, searched by one program."""
    models = [random_model(seed, 3) for seed in range(3)]
    root = random_roots(models[0], 0, BATCH)
    keys = jax.random.split(jax.random.key(0), 3)
    invalid = np.zeros((BATCH, 3), bool)
    run = searcher(selection.puct, 25)
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *models)
    together = quick_jit(jax.vmap(run.__wrapped__, in_axes=(0, 0, None, None)))(stacked, keys, root, invalid)
    for index, model in enumerate(models):
        alone = run(model, keys[index], root, invalid)
        np.testing.assert_array_equal(together.children[index], alone.children)
        np.testing.assert_array_equal(together.rows[index][:, :3], alone.rows[:, :3])  # visits
        np.testing.assert_allclose(together.rows[index], alone.rows, atol=1e-5)  # two programs, last bits


def test_one_trace_serves_all_inputs():
    model, key, root, invalid = random_case(0, 3)
    chex.clear_trace_counter()

    @quick_jit
    @chex.assert_max_traces(n=1)
    def run(model, key, root, invalid):
        return jaxsearch.muzero_policy(model, key, root, recurrent_fn, 8, invalid).action

    for seed in range(3):
        model, key, root, invalid = random_case(seed, 3)
        run(model, key, root, invalid)


def test_64_bit_mode():
    """Under `jax_enable_x64` the tree keeps its own types, and its answers."""
    model, key, root, invalid = random_case(0, 3)
    arguments = {"recurrent_fn": recurrent_fn, "num_simulations": 25, "rule": selection.puct}
    expected = searcher(selection.puct, 25)(model, key, root, invalid)
    with jax.enable_x64(True):
        run = quick_jit(
            lambda model, key, root: jaxsearch.search(
                model, key, root=root, invalid_actions=invalid, **arguments
            )
        )
        tree = run(model, key, root)
    assert tree.rows.dtype == jnp.float32
    np.testing.assert_array_equal(tree.children_visits, expected.children_visits)


def test_marks_of_finished_games():
    nodes = jnp.arange(5)
    np.testing.assert_array_equal(node_number(ended(nodes)), nodes)
    np.testing.assert_array_equal(node_number(nodes), nodes)
    assert (ended(nodes) < -1).all()


def test_memory_is_a_closed_formula():
    """16 A + 24 bytes a node and its state's, as docs/tree.md says (issue 6)."""
    model, key, root, invalid = random_case(0, 20)
    tree = jax.eval_shape(searcher(selection.puct, 24), model, key, root, invalid)
    tables = (tree.rows, tree.children, tree.choice, *tree.states.values())
    num_bytes = sum(leaf.size * leaf.dtype.itemsize for leaf in tables)
    assert num_bytes == 25 * BATCH * (16 * 20 + 24 + 4)
