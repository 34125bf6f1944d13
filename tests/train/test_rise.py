import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
from train.networks import make_network
from train.networks.rise import _depthwise, _products
from train.schema import ConfigError

GAME = games_jax.make("pommerman", mode="one_v_one")
SMALL = {"channels": 4, "expansion": 2, "blocks": 0, "late_blocks": 2, "value_width": 8, "halve": "stem"}


@pytest.mark.parametrize("size", [6, 11])
@pytest.mark.parametrize("stride", [1, 2])
def test_filters_of_single_planes_are_a_grouped_convolution(size, stride):
    planes = jax.random.normal(jax.random.key(0), (2, size, size, 3))
    kernel = jax.random.normal(jax.random.key(1), (3, 3, 3))
    expected = jax.lax.conv_general_dilated(
        planes,
        kernel[:, :, None],
        (stride, stride),
        ((1, 1), (1, 1)),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=3,
    )
    np.testing.assert_allclose(_depthwise(planes, kernel, stride), expected, atol=1e-5)


@pytest.mark.parametrize("size", [6, 11])
@pytest.mark.parametrize("stride", [1, 2])
def test_the_gradient_is_the_derived_one(size, stride):
    planes = jax.random.normal(jax.random.key(0), (2, size, size, 3))
    kernel = jax.random.normal(jax.random.key(1), (3, 3, 3))
    ours, derived = (
        jax.grad(lambda x, k, f=f: jnp.sum(jnp.square(f(x, k, stride))), (0, 1))(planes, kernel)
        for f in (_depthwise, _products)
    )
    for mine, auto in zip(ours, derived, strict=True):
        np.testing.assert_allclose(mine, auto, rtol=1e-4, atol=1e-3)


def test_blocks_without_norms_begin_as_the_identity():
    network = make_network("rise", GAME, **SMALL, norm="none")
    variables = network.init(jax.random.key(0))
    seen = jax.random.normal(jax.random.key(1), (3, *GAME.observation_shape))
    before = network.apply(variables, seen)
    # The filters of the blocks then say nothing about the output.
    params = {
        name: jax.tree.map(lambda leaf: leaf + 1.0, part) if name.startswith("Depthwise") else part
        for name, part in variables["params"].items()
    }
    assert sum(name.startswith("Depthwise") for name in params) == SMALL["late_blocks"]
    after = network.apply({"params": params}, seen)
    np.testing.assert_array_equal(before.policy_logits, after.policy_logits)
    np.testing.assert_array_equal(before.value, after.value)


def test_no_blocks_fit_before_the_stem():
    with pytest.raises(ConfigError, match="expected blocks = 0"):
        make_network("rise", GAME, **{**SMALL, "blocks": 1}).init(jax.random.key(0))
