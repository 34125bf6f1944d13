"""Our convolution is Flax's, but for the order of what a CPU computes in its gradient."""

import re

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import games_jax
from train.networks import make_network
from train.networks.convolution import Conv
from train.rematerialise import rematerialised

HEX = games_jax.make("hex", size=3)
EIGEN = "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"
PADDINGS = ["SAME", "VALID", 1, ((2, 0), (0, 1))]


def pair(*arguments, **options):
    return nn.Conv(*arguments, **options), Conv(*arguments, **options)


def drawn(shapes):
    """Normal numbers of those shapes, without a program to compile for each."""
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32), shapes)


def started(shape, **options):
    """Both modules, variables for them and planes of `shape`."""
    theirs, ours = pair(4, (3, 3), **options)
    planes = drawn(jax.ShapeDtypeStruct(shape, jnp.float32))
    return theirs, ours, drawn(jax.eval_shape(ours.init, jax.random.key(1), planes)), planes


def gradient_of(apply):
    def loss(variables, planes):
        return jnp.sum(jnp.sin(apply(variables, planes)))

    return jax.grad(loss, (0, 1))


def assert_close(ours, theirs, tolerance=1e-5):
    """Relative to the largest number of each array."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        largest = max(float(jnp.max(jnp.abs(b.astype(jnp.float32)))), 1e-6)
        np.testing.assert_allclose(
            np.asarray(a, np.float32), np.asarray(b, np.float32), atol=tolerance * largest
        )


def orders(function, *arguments, platform="cpu"):
    """Of all convolutions in what `function` is compiled from."""
    text = jax.jit(function).trace(*arguments).lower(lowering_platforms=(platform,)).as_text()
    return re.findall(r"dim_numbers = (\[.*?\]x\[.*?\]->\[.*?\])", text)


@settings(max_examples=8, deadline=None)
@given(
    batch=st.integers(1, 3),
    height=st.integers(3, 8),
    width=st.integers(3, 8),
    channels=st.integers(1, 4),
    features=st.integers(1, 4),
    window=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strides=st.sampled_from([(1, 1), (2, 2), (1, 2)]),
    padding=st.sampled_from(PADDINGS),
    bias=st.booleans(),
    masked=st.booleans(),
)
def test_it_is_flaxs(batch, height, width, channels, features, window, strides, padding, bias, masked):
    mask = np.zeros((*window, channels, features), np.float32) if masked else None
    if mask is not None:
        mask.flat[::2] = 1
    theirs, ours = pair(features, window, strides, padding=padding, use_bias=bias, mask=mask)
    planes = drawn(jax.ShapeDtypeStruct((batch, height, width, channels), jnp.float32))
    shapes, expected_shapes = (
        jax.eval_shape(module.init, jax.random.key(0), planes) for module in (ours, theirs)
    )
    assert shapes == expected_shapes
    variables = drawn(shapes)

    def run(module):
        """In a program of its own."""
        both = jax.jit(lambda *inputs: (module.apply(*inputs), gradient_of(module.apply)(*inputs)))
        return both(variables, planes)

    (output, gradients), (expected, expected_gradients) = run(ours), run(theirs)
    np.testing.assert_array_equal(output, expected)
    assert_close(gradients, expected_gradients)


def test_its_name_and_first_parameters_are_flaxs():
    """Checkpoints know the parameters of a network by the names of its parts."""
    theirs, ours = (
        nn.Sequential([module(2, (3, 3)), module(2, (1, 1))]).init(jax.random.key(0), jnp.ones((1, 4, 4, 1)))
        for module in (nn.Conv, Conv)
    )
    assert Conv.__name__ == nn.Conv.__name__
    chex.assert_trees_all_equal(ours, theirs)


def test_half_precision():
    theirs, ours, variables, planes = started((2, 5, 6, 3), dtype=jnp.bfloat16)
    got, expected = (jax.jit(gradient_of(module.apply))(variables, planes) for module in (ours, theirs))
    assert_close(got, expected, 1e-2)


def test_a_population_of_kernels():
    """Each with planes of its own, as in training, or all with the same."""
    theirs, ours, one, planes = started((2, 6, 5, 3), strides=(2, 2))
    variables = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf + 1, -leaf]), one)
    for axis, seen in ((0, jnp.stack([planes, planes - 1, -planes])), (None, planes)):
        got, expected = (
            jax.jit(jax.vmap(gradient_of(module.apply), (0, axis)))(variables, seen)
            for module in (ours, theirs)
        )
        assert_close(got, expected)


@pytest.mark.parametrize("strides", [1, 2])
def test_gradient_steps_in_a_loop(strides):
    theirs, ours, variables, planes = started((2, 6, 7, 3), strides=(strides, strides))

    def steps(module):
        def step(_, variables):
            return jax.tree.map(
                lambda v, g: v - 0.1 * g, variables, gradient_of(module.apply)(variables, planes)[0]
            )

        return lambda variables: jax.lax.fori_loop(0, 3, step, variables)

    assert_close(jax.jit(steps(ours))(variables), jax.jit(steps(theirs))(variables))
    assert set(orders(steps(ours), variables)) == {EIGEN}


def test_other_platforms_have_the_derived_gradient():
    theirs, ours, variables, planes = started((2, 6, 7, 3), strides=(2, 2))
    derived = orders(gradient_of(theirs.apply), variables, planes, platform="cuda")
    assert orders(gradient_of(ours.apply), variables, planes, platform="cuda") == derived != [EIGEN] * 3


def test_recomputed_and_differentiated_twice():
    theirs, ours, variables, planes = started((2, 5, 5, 2))
    first = gradient_of(theirs.apply)(variables, planes)
    assert_close(jax.jit(gradient_of(rematerialised(ours.apply)))(variables, planes), first)

    def second(module):
        def length(variables):
            return sum(jnp.sum(g**2) for g in jax.tree.leaves(gradient_of(module.apply)(variables, planes)))

        return jax.jit(jax.grad(length))(variables)

    assert_close(second(ours), second(theirs))


def test_gradients_on_parts_of_a_batch():
    theirs, ours, variables, planes = started((4, 5, 5, 2))
    mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    everywhere, spread = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec("data")

    def total(variables, planes):
        return jax.lax.psum(gradient_of(ours.apply)(variables, planes)[0], "data")

    got = jax.jit(
        jax.shard_map(total, mesh=mesh, in_specs=(everywhere, spread), out_specs=everywhere, check_vma=False)
    )(variables, planes)
    assert_close(got, gradient_of(theirs.apply)(variables, planes)[0])


@pytest.mark.parametrize(
    "options",
    [{"kernel_dilation": 2}, {"input_dilation": 2, "padding": 1}, {"feature_group_count": 2}],
    ids=str,
)
def test_unusual_convolutions_are_flaxs_own(options):
    theirs, ours, variables, planes = started((2, 6, 6, 4), **options)
    np.testing.assert_array_equal(ours.apply(variables, planes), theirs.apply(variables, planes))
    assert orders(gradient_of(ours.apply), variables, planes) == orders(
        gradient_of(theirs.apply), variables, planes
    )


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("resnet", {"channels": 4, "blocks": 1}),
        ("hexagonal", {"channels": 4, "layers": 1}),
        ("rise", {"channels": 4, "blocks": 1}),
    ],
)
def test_networks_convolve_in_eigens_order(name, options):
    network = make_network(name, HEX, **options)
    variables = jax.eval_shape(network.init, jax.random.key(0))
    seen = jax.ShapeDtypeStruct((2, *network.observation_shape), jnp.float32)

    def loss(variables, seen):
        out = network.apply(variables, seen)
        return jnp.sum(out.policy_logits) + jnp.sum(out.value)

    found = orders(jax.grad(loss), variables, seen)
    assert found and set(found) == {EIGEN}
