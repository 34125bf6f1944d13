"""Packing states into words loses no bit."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxsearch.storage import Packer

DTYPES = ["bool", "uint8", "int8", "int16", "uint16", "bfloat16", "float16", "float32", "int32", "uint32"]


def random_leaf(rng, dtype, shape):
    """Any bits the type can hold, NaN and its payloads included."""
    dtype = jnp.dtype(dtype)
    if dtype == jnp.bool_:
        return rng.random(shape) < 0.5
    data = rng.integers(256, size=(*shape, dtype.itemsize), dtype=np.uint8)
    return data.view(dtype)[..., 0]


def bits(leaf):
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.ascontiguousarray(leaf).view(np.uint8)


def check_round_trip(tree):
    packer = Packer.of(tree)
    packed = packer.pack(tree)
    restored = packer.unpack(packed)
    assert jax.tree.structure(restored) == jax.tree.structure(tree)
    for before, after in zip(jax.tree.leaves(tree), jax.tree.leaves(restored)):
        assert before.dtype == after.dtype and before.shape == after.shape
        np.testing.assert_array_equal(bits(before), bits(after))
    return packed


leaf_kinds = st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 4), max_size=3))


@settings(max_examples=15)
@given(seed=st.integers(0, 2**31), kinds=st.lists(leaf_kinds, max_size=6), batch=st.integers(1, 3))
def test_round_trip(seed, kinds, batch):
    rng = np.random.default_rng(seed)
    leaves = [random_leaf(rng, dtype, (batch, *shape)) for dtype, shape in kinds]
    check_round_trip({"a": tuple(leaves[::2]), "b": leaves[1::2]})


def test_typed_keys():
    keys = jax.random.split(jax.random.key(0), 3)
    many = jax.vmap(lambda key: jax.random.split(key, 8))(keys)
    other = jax.random.split(jax.random.key(1, impl="rbg"), 3)
    state = {"one": keys, "raw": jax.random.key_data(keys), "many": many, "rbg": other}
    packed = check_round_trip(state)
    assert all(not jnp.issubdtype(part.dtype, jax.dtypes.prng_key) for part in packed.values())


def test_small_leaves_share_one_array():
    """A game's scalars cost one gather, not one each."""
    state = {
        "board": jnp.zeros((2, 3), jnp.uint32),
        "ply": jnp.zeros((2,), jnp.int32),
        "over": jnp.zeros((2,), bool),
        "value": jnp.zeros((2,), jnp.bfloat16),
    }
    assert [(part.shape, part.dtype) for part in check_round_trip(state).values()] == [((2, 6), jnp.uint32)]


def test_large_leaves_keep_their_type():
    state = [jnp.zeros((2, 64), jnp.int8), jnp.ones((2, 3, 5), jnp.int8), jnp.zeros((2, 9), bool)]
    packed = check_round_trip(state)
    assert {name: part.shape for name, part in packed.items()} == {"int8": (2, 79), "bool": (2, 9)}


def test_works_under_jit():
    state = (jax.random.split(jax.random.key(0), 2), jnp.arange(2, dtype=jnp.int16))
    packer = Packer.of(state)
    restored = jax.jit(lambda tree: packer.unpack(packer.pack(tree)))(state)
    for before, after in zip(state, restored):
        np.testing.assert_array_equal(bits(before), bits(after))


def test_description_names_every_leaf():
    text = Packer.of({"x": jnp.zeros((2, 3), jnp.int8), "y": jnp.zeros((2,))}).describe()
    assert "int8[B, 3], float32[B]" in text
