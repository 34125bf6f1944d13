import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
from train.networks import make_network
from train.networks.rise import _depthwise, _products, centred
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


@pytest.mark.parametrize("reach", [2, 4])
def test_the_window_is_within_reach(reach):
    with pytest.raises(ConfigError, match=f"window = {reach + 1} is more than is seen; .*reach = {reach}"):
        make_network("rise", GAME, **SMALL, own_plane=10, reach=reach, window=reach + 1)


class TestCentred:
    """A 9x9 board of three planes, the last one the own piece."""

    board = jax.random.normal(jax.random.key(1), (1, 9, 9, 3)).at[..., 2].set(0)

    def seen(self, cell, board, reach=2):
        return np.asarray(centred(board.at[0, *cell, 2].set(1), 2, reach)[0])

    @pytest.mark.parametrize("cell", [(4, 4), (0, 0), (8, 8), (3, 6), (8, 1)])
    @pytest.mark.parametrize("reach", [2, 5])
    def test_shows_what_is_around_the_piece_and_zeros_off_the_board(self, cell, reach):
        seen = self.seen(cell, self.board, reach)
        assert seen.shape == (2 * reach + 1, 2 * reach + 1, 4)
        assert seen[reach, reach, 2] == 1
        assert seen[..., 2].sum() == 1
        for row, column in np.ndindex(seen.shape[:2]):
            at = (cell[0] + row - reach, cell[1] + column - reach)
            inside = 0 <= min(at) and max(at) < 9
            expected = [*self.board[0, *at, :2], 1] if inside else [0, 0, 0]
            np.testing.assert_array_equal(seen[row, column, [0, 1, 3]], expected)

    def test_shows_nothing_once_the_piece_is_gone(self):
        np.testing.assert_array_equal(centred(self.board, 2, 3), np.zeros((1, 7, 7, 4)))


@pytest.mark.parametrize("halve", ["stem", "block"])
def test_with_its_own_plane_a_network_sees_as_far_as_it_reaches(halve):
    """And not the rest of the board, nor where on the board it is."""
    network = make_network("rise", GAME, **{**SMALL, "halve": halve}, own_plane=10, reach=2, window=1)
    variables = network.init(jax.random.key(0))
    # Filters that are zero at first, and small last layers, would hide what is read.
    variables = jax.tree.map(lambda leaf: leaf + 0.1, variables)
    board = jax.random.normal(jax.random.key(1), (1, 8, 8, 23)).at[..., 10].set(0)

    def judged(board, cell):
        out = network.apply(variables, board.at[0, *cell, 10].set(1))
        return np.append(out.policy_logits, out.value)

    base = judged(board, (4, 4))
    for row, column in np.ndindex(8, 8):
        near = max(abs(row - 4), abs(column - 4)) <= 2
        changed = judged(board.at[0, row, column, 0].add(1), (4, 4))
        assert (changed != base).any() == near, (row, column)
    np.testing.assert_allclose(judged(jnp.roll(board, -1, axis=(1, 2)), (3, 3)), base, atol=1e-5)
