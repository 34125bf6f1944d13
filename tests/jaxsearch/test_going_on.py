"""What users do with a tree beyond one search: keep it, save it, spend more on some moves."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
from search_helpers import quick_jit

import games_jax
import jaxsearch

GAME = games_jax.make("connect_four")
EVALUATOR = jaxsearch.uniform(GAME)
BATCH = 4


def boards(batch=BATCH):
    return jax.vmap(GAME.init)(jax.random.split(jax.random.key(0), batch))


@functools.cache
def search_with_noise():
    options = {"dirichlet_fraction": 0.5, "dirichlet_alpha": 0.3, "keep_tree": True}
    return quick_jit(jaxsearch.puct(GAME, EVALUATOR, simulations=40, **options))


def reroot(tree, action):
    return quick_jit(functools.partial(jaxsearch.reroot, capacity=41))(tree, action)


def test_noise_comes_again_at_the_new_root_alone():
    search, position = search_with_noise(), boards()
    first = search(jax.random.key(0), position)
    kept = reroot(first.tree, first.action)
    position = jax.vmap(GAME.step)(position, first.action)
    one, other = (search(jax.random.key(seed), position, tree=kept).tree for seed in (1, 2))
    used = np.asarray(kept.block(0).sum(-1) > 0)[:, 1:]
    assert used.any()
    for tree in (one, other):
        priors = np.asarray(tree.block(2)[:, 1:41])[used]
        np.testing.assert_array_equal(priors, np.asarray(kept.block(2)[:, 1:])[used])
        np.testing.assert_allclose(tree.block(2)[:, 0].sum(-1), 1, rtol=1e-5)
    assert (np.asarray(one.block(2)[:, 0]) != np.asarray(other.block(2)[:, 0])).all()
    # The evaluator's priors are equal: all that differs is noise.
    np.testing.assert_allclose(kept.block(2)[:, 0], 1 / 7, rtol=1e-5)


def test_a_tree_is_saved_and_gone_on_with(tmp_path):
    """As plain arrays in a file: the search goes on from it as from the tree itself, bit for bit."""
    search, position = search_with_noise(), boards()
    first = search(jax.random.key(0), position)
    kept = reroot(first.tree, first.action)
    position = jax.vmap(GAME.step)(position, first.action)
    leaves, structure = jax.tree.flatten(kept)
    np.savez(tmp_path / "tree.npz", *map(np.asarray, leaves))
    with np.load(tmp_path / "tree.npz") as file:
        read = jax.tree.unflatten(structure, [jnp.asarray(file[name]) for name in file.files])
    chex.assert_trees_all_equal(
        search(jax.random.key(3), position, tree=kept), search(jax.random.key(3), position, tree=read)
    )


def test_budgets_follow_the_move_number_in_one_program():
    """A schedule of the user's is data: 20 simulations in the opening, 60 later, compiled once."""
    search = jaxsearch.puct(GAME, jaxsearch.uniform(GAME), simulations=60)
    chex.clear_trace_counter()

    @quick_jit
    @chex.assert_max_traces(n=1)
    def run(key, states, plies):
        return search(key, states, budgets=jnp.where(plies < 4, 20, 60))

    states, plies = boards(), jnp.array([0, 2, 5, 30], jnp.int32)
    np.testing.assert_array_equal(run(jax.random.key(0), states, plies).visits.sum(-1), [20, 20, 60, 60])
    np.testing.assert_array_equal(run(jax.random.key(0), states, plies + 2).visits.sum(-1), [20, 60, 60, 60])


def test_counts_are_exact_up_to_sixteen_million():
    """As float32 they are whole numbers up to 2^24: a tree with as many visits less 60 counts on rightly."""
    search, position = search_with_noise(), boards()
    kept = reroot(search(jax.random.key(0), position).tree, jnp.zeros(BATCH, jnp.int32))
    many = 2.0**24 - 60
    root = jnp.zeros((BATCH, 7)).at[:, 3].set(many)
    full = kept.rows.at[:BATCH, :7].set(root).at[:BATCH, 7:14].set(root / 2)
    tree = search(jax.random.key(1), position, tree=dataclasses.replace(kept, rows=full)).tree
    visits = np.asarray(tree.summary().visit_counts, np.int64)
    assert visits.dtype == np.int64 and (visits.sum(-1) == int(many) + 40).all()
