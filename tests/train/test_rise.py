import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
from train.networks import make_network
from train.networks.rise import OwnCell, RiseOptions, _depthwise, _products
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


def test_the_own_plane_is_one_of_the_observation():
    planes = GAME.observation_shape[-1]
    with pytest.raises(
        ConfigError, match=f"own_plane = {planes} is out of range; expected 0 to {planes - 1}"
    ):
        make_network("rise", GAME, **SMALL, own_plane=planes)


class TestOwnCell:
    """Features of a 9x9 board of three planes, the last one the own piece, and of its 5x5 trunk."""

    module = OwnCell(RiseOptions(own_plane=2, window=2, own_width=16))

    def features(self, cell, *, planes, trunk):
        planes = planes.at[..., 2].set(0)
        if cell is not None:
            planes = planes.at[0, *cell, 2].set(1)
        variables = self.module.init(jax.random.key(0), planes, trunk)
        return np.asarray(self.module.apply(variables, planes, trunk)[0])

    def boards(self):
        keys = jax.random.split(jax.random.key(1))
        return jax.random.normal(keys[0], (1, 9, 9, 3)), jax.random.normal(keys[1], (1, 5, 5, 4))

    @pytest.mark.parametrize("cell", [(4, 4), (0, 0), (8, 8), (3, 6), (8, 1)])
    def test_reads_the_window_and_the_trunk_beside_it_alone(self, cell):
        planes, trunk = self.boards()
        base = self.features(cell, planes=planes, trunk=trunk)
        for row in range(9):
            for column in range(9):
                changed = self.features(cell, planes=planes.at[0, row, column, 0].add(1), trunk=trunk)
                seen = max(abs(row - cell[0]), abs(column - cell[1])) <= 2
                assert (changed != base).any() == seen, (row, column)
        for row in range(5):
            for column in range(5):
                changed = self.features(cell, planes=planes, trunk=trunk.at[0, row, column].add(1))
                seen = max(abs(2 * row - cell[0]), abs(2 * column - cell[1])) <= 1
                assert (changed != base).any() == seen, (row, column)

    def test_moves_along_with_the_board(self):
        planes, trunk = self.boards()
        moved = self.features(
            (5, 5), planes=jnp.roll(planes, 2, axis=(1, 2)), trunk=jnp.roll(trunk, 1, axis=(1, 2))
        )
        np.testing.assert_allclose(moved, self.features((3, 3), planes=planes, trunk=trunk), atol=1e-6)

    def test_sees_the_edge_of_the_board(self):
        zeros = jnp.zeros((1, 9, 9, 3)), jnp.zeros((1, 5, 5, 4))
        middle, edge = (self.features(cell, planes=zeros[0], trunk=zeros[1]) for cell in ((4, 4), (4, 8)))
        assert (middle != edge).any()

    def test_reads_nothing_once_the_piece_is_gone(self):
        planes, trunk = self.boards()
        np.testing.assert_array_equal(self.features(None, planes=planes, trunk=trunk), np.zeros(16))
