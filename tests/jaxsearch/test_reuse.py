"""Trees gone on with after a move: the same statistics, and sound trees afterwards."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_helpers import edges, quick_jit, random_model, random_roots, recurrent_fn

from jaxsearch import selection
from jaxsearch.reuse import reroot
from jaxsearch.search import search

BATCH = 4


def grow(model, key, root, simulations, start=None):
    return search(
        model,
        key,
        root=root,
        recurrent_fn=recurrent_fn,
        num_simulations=simulations,
        rule=selection.puct,
        start=start,
    )


first_search = quick_jit(lambda model, key, root: grow(model, key, root, 40))
second_search = quick_jit(lambda model, key, root, start: grow(model, key, root, 30, start))
move = jax.jit(reroot, static_argnames="capacity")


def case(seed, num_actions):
    model = random_model(seed, num_actions)
    root = random_roots(model, seed, BATCH)
    return model, root, first_search(model, jax.random.key(seed), root)


def facts(tree, batch, node):
    """All that is known of one node, without its children's numbers."""
    blocks = [np.asarray(tree.block(k)[batch, node]) for k in range(3)]
    columns = [np.asarray(tree.column(k)[batch, node]) for k in range(3)]
    at = jnp.full((tree.num_trees,), node, jnp.int32)
    state = [np.asarray(leaf[batch]) for leaf in jax.tree.leaves(tree.node_states(at))]
    choice = np.asarray(tree.choice.reshape(-1, tree.num_trees)[node, batch])
    return [*blocks, *columns, choice, *state]


def assert_same_below(old, new, batch, old_root):
    """Walks both trees; returns how many nodes they share."""
    old_children, new_children = np.asarray(old.children_index), np.asarray(new.children_index)
    waiting, count = [(old_root, 0)], 0
    while waiting:
        a, b = waiting.pop()
        count += 1
        for left, right in zip(facts(old, batch, a), facts(new, batch, b), strict=True):
            np.testing.assert_array_equal(left, right)
        np.testing.assert_array_equal(old_children[batch, a] < 0, new_children[batch, b] < 0)
        pairs = zip(old_children[batch, a], new_children[batch, b], strict=True)
        waiting += [(int(x), int(y)) for x, y in pairs if x >= 0]
    return count


@pytest.mark.parametrize("num_actions", [4, 20])
@settings(max_examples=10)
@given(seed=st.integers(0, 2**31))
def test_statistics_are_those_of_the_old_subtree(num_actions, seed):
    _, _, tree = case(seed, num_actions)
    action = jnp.argmax(tree.summary().visit_counts, axis=-1)
    new = move(tree, action)
    children = np.asarray(tree.children.reshape(-1, BATCH, num_actions)[0])
    for batch in range(BATCH):
        child = int(children[batch, int(action[batch])])
        if child >= 0:
            count = assert_same_below(tree, new, batch, child // BATCH)
            assert 1 <= count <= int(tree.children_visits[batch, 0, int(action[batch])])
        else:  # the game ended there
            assert not np.asarray(new.block(0)[batch]).any()


@given(seed=st.integers(0, 2**31), capacity=st.sampled_from([1, 5, 41]))
def test_going_on(seed, capacity):
    """New visits are added to the kept ones, whatever room there was; every sum can be recomputed."""
    model, root, tree = case(seed, 4)
    action = jnp.argmax(tree.summary().visit_counts, axis=-1)
    old = move(tree, action, capacity=capacity)
    before = np.asarray(old.block(0)[:, 0].sum(-1))
    again = second_search(
        model, jax.random.key(1), root.replace(embedding=old.node_states(jnp.zeros(BATCH, int))), old
    )
    np.testing.assert_array_equal(again.block(0)[:, 0].sum(-1), before + 30)
    assert again.num_nodes == capacity + 30
    visits = np.asarray(again.block(0))
    for batch, _, node, edge, child in edges(again):
        assert node < child
        if capacity == 41 and visits[batch, child].any():  # nothing was dropped
            assert visits[batch, node, edge] == 1 + visits[batch, child].sum()


def test_an_unvisited_move_starts_afresh():
    model, root, tree = case(0, 20)
    visits = np.asarray(tree.summary().visit_counts)
    assert (visits == 0).any(-1).all()
    new = move(tree, jnp.argmin(visits, axis=-1), capacity=10)
    assert not np.asarray(new.block(0)).any() and (np.asarray(new.children_index) == -1).all()
    again = second_search(model, jax.random.key(3), root, new)
    np.testing.assert_array_equal(again.summary().visit_counts.sum(-1), 30)


def test_bad_input():
    model, root, tree = case(0, 4)
    with pytest.raises(ValueError, match=r"action has shape \(2,\); expected \(4,\)"):
        reroot(tree, jnp.zeros((2,), jnp.int32))
    with pytest.raises(ValueError, match="capacity is 0"):
        reroot(tree, jnp.zeros((BATCH,), jnp.int32), capacity=0)
    other = random_roots(random_model(0, 5), 0, BATCH)
    with pytest.raises(ValueError, match="start holds 4 trees of 4 actions; expected 4 of 5"):
        grow(model, jax.random.key(0), other, 5, tree)
    with pytest.raises(ValueError, match="start keeps no proofs, and this search some"):
        search(
            model,
            jax.random.key(0),
            root=root,
            recurrent_fn=recurrent_fn,
            num_simulations=4,
            rule=selection.puct,
            start=tree,
            prove=True,
        )
