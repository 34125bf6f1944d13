"""The hexagonal network for Hex: what it sees, what its kernels reach, and its heads."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
from games_jax.hex import Hex
from train.networks import evaluator, make_network, show
from train.schema import ConfigError

HEX = Hex(size=5)
SMALL = {"channels": 4, "layers": 1}


@pytest.fixture(scope="module")
def network():
    return make_network("hexagonal", HEX, **SMALL)


@pytest.fixture(scope="module")
def variables(network):
    shapes = jax.eval_shape(network.init, jax.random.key(0))
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32), shapes)


def test_it_sees_stones_edges_and_who_moves(network):
    state = HEX.from_string("c3 d2 c2")
    planes = np.asarray(show(network, HEX, state))
    assert planes.shape == (9, 9, 7) == network.observation_shape
    np.testing.assert_array_equal(planes[..., :6], HEX.edge_planes(state))
    assert planes[..., 6].all() and not show(network, HEX, HEX.from_string("c3 d2"))[..., 6].any()


def test_a_convolution_reaches_the_six_neighbours_alone(network, variables):
    """The trunk sees through hexagons: with one layer of each kind the logits' features are local.

    A stone two corner steps away along the long diagonal is three cells away, not two.
    """
    kernel = variables["params"]["Conv_0"]["kernel"]
    assert kernel.shape == (3, 3, 6, 4)
    planes = jnp.asarray(show(network, HEX, HEX.from_string("c3")), jnp.float32)

    def first_layer(kernel):
        changed = {"params": variables["params"] | {"Conv_0": {"kernel": kernel}}}
        return network.apply(changed, planes[None]).policy_logits

    gradient = np.asarray(jax.jacobian(first_layer)(kernel))
    reached = np.abs(gradient).sum(axis=(0, 1, 4, 5)) > 0
    np.testing.assert_array_equal(reached, [[False, True, True], [True, True, True], [True, True, False]])


def test_each_colour_has_its_own_heads(network, variables):
    """The same stones with the other player to move are judged by other weights."""
    planes = show(network, HEX, HEX.from_string("c3 d2"))[None]
    other = planes.at[..., 6].set(True)
    first, second = network.apply(variables, planes), network.apply(variables, other)
    assert np.abs(first.policy_logits - second.policy_logits).max() > 1e-3

    def change(head):
        kernel = variables["params"]["policy"]["kernel"]
        half = kernel.shape[1] // 2
        columns = slice(0, half) if head == 0 else slice(half, None)
        policy = variables["params"]["policy"] | {"kernel": kernel.at[:, columns].set(0.0)}
        return {"params": variables["params"] | {"policy": policy}}

    chex.assert_trees_all_equal(network.apply(change(1), planes), first)
    chex.assert_trees_all_equal(network.apply(change(0), other), second)


def test_value_is_a_probability_without_draws(network, variables):
    output = network.apply(variables, show(network, HEX, HEX.from_string("c3"))[None])
    probabilities = jax.nn.softmax(output.value_logits)
    assert probabilities[0, 1] == 0 and np.isfinite(output.value_logits).all()
    np.testing.assert_allclose(output.value, 2 * probabilities[:, 0] - 1, rtol=1e-5)


def test_the_papers_network_has_thirteen_layers_and_reads_any_size():
    network = make_network("hexagonal", games_jax.make("hex", size=9))
    shapes = jax.eval_shape(network.init, jax.random.key(0))["params"]
    assert sum(name.startswith("Conv") for name in shapes) == 13
    assert shapes["policy"]["kernel"].shape == (9 * 9 * 64, 2 * 81)


def test_the_evaluator_shows_it_the_planes(network, variables):
    states = jax.vmap(HEX.init)(jax.random.split(jax.random.key(0), 3))
    logits, values = jax.jit(evaluator(network, HEX))(variables, jax.random.key(0), states)
    chex.assert_shape(logits, (3, 25))
    expected = network.apply(variables, jax.vmap(lambda state: show(network, HEX, state))(states))
    chex.assert_trees_all_close((logits, values), (expected.policy_logits, expected.value), atol=1e-4)


def test_other_games_are_refused():
    with pytest.raises(ConfigError, match="plays hex, not othello"):
        make_network("hexagonal", games_jax.make("othello"))
