import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from games_jax.multi_agent import single_player_view
from games_jax.opponents import FixedModel, RandomModel
from games_jax.pommerman import Pommerman
from train import demonstrations
from train import pommerman_iterations as iterations
from train.against_models import Results, Searched
from train.networks import make_network

GAME = Pommerman(mode="one_v_one", max_steps=30)
VIEW = single_player_view(GAME, FixedModel())


@pytest.fixture(scope="module")
def results():
    keys = jax.random.split(jax.random.key(0), 5)
    states = jax.device_get(jax.vmap(GAME.init)(keys))
    weights = np.array([[0, 0.5, 0.25, 0.25, 0, 0]] * 5, np.float32)
    searched = Searched(states, weights, np.array([0, 1, 1, 0, 2], np.int32))
    outcome = np.array([1, -1, 0], np.float32)
    return Results(outcome, np.zeros(3, bool), np.array([2, 2, 1], np.int32), searched)


def test_the_target_is_half_the_search_and_half_its_best_action():
    weights = np.array([[0.2, 0.5, 0.3], [1, 0, 0]], np.float32)
    np.testing.assert_allclose(iterations.sharpened(weights), [[0.1, 0.75, 0.15], [1, 0, 0]])


def test_positions_get_the_outcome_of_their_game(results):
    data = iterations.dataset(results)
    np.testing.assert_array_equal(data.values, [1, -1, -1, 1, 0])
    np.testing.assert_allclose(data.weights[0], [0, 0.75, 0.125, 0.125, 0, 0])
    seen = jax.vmap(VIEW.observe, (0, None))(data.states, jnp.int32(0))
    own = jax.vmap(GAME.observe, (0, None))(results.searched.states, jnp.int32(0))
    np.testing.assert_array_equal(seen, own)
    assert int(data.filled) == 5 and data.usable.all()


def test_games_that_time_ends_may_count_as_lost(results):
    late = results._replace(timed_out=np.array([False, False, True]))
    np.testing.assert_array_equal(iterations.dataset(late).values, [1, -1, -1, 1, 0])
    np.testing.assert_array_equal(iterations.dataset(late, time_out=-1.0).values, [1, -1, -1, 1, -1])


def test_no_positions_without_a_record(results):
    with pytest.raises(ValueError, match="record=True"):
        iterations.dataset(results._replace(searched=None))


def test_positions_are_joined_written_and_read(results, tmp_path):
    data = iterations.dataset(results)
    both = iterations.join([data, data])
    iterations.save(tmp_path / "games.npz", both)
    again = iterations.load(tmp_path / "games.npz", VIEW)
    for new, old in zip(jax.tree.leaves(again), jax.tree.leaves(both), strict=True):
        np.testing.assert_array_equal(new, old)
    np.testing.assert_array_equal(again.values, np.tile(data.values, 2))


@pytest.mark.slow  # compiles gradient steps
def test_training_predicts_demonstrations_better_and_goes_on():
    record = jax.jit(functools.partial(demonstrations.record, games=6, steps=70), static_argnums=(0, 1))
    data = demonstrations.dataset(VIEW, record(GAME, RandomModel(GAME), jax.random.key(0)))
    # What is to be done can be seen: to stop where a bomb can be laid no more.
    out = np.asarray(jax.vmap(VIEW.observe, (0, None))(data.states, jnp.int32(0)))[:, 0, 0, 15] > 0
    data = data._replace(weights=np.eye(6, dtype=np.float32)[np.where(out, 0, 5)])
    network = make_network(
        "rise", VIEW, channels=4, expansion=2, blocks=0, late_blocks=1, value_width=8, halve="stem"
    )
    optimizer = iterations.make_optimizer(3e-3)
    fresh = iterations.new_trainee(network.init(jax.random.key(1)), optimizer)
    before = iterations.examine(VIEW, network, fresh.variables, data)
    once = functools.partial(iterations.train, VIEW, network, optimizer, data=data, batch_size=32)
    trainee = once(fresh, seed=0, steps=200)
    after = iterations.examine(VIEW, network, trainee.variables, data)
    assert after["policy_accuracy"] > 0.9 > before["policy_accuracy"]
    assert after["policy_loss"] < 0.5 * before["policy_loss"]
    assert int(trainee.optimizer[0].count) == 200


def test_nothing_usable_is_an_error(results):
    data = iterations.dataset(results)
    data = data._replace(usable=np.zeros(5, bool))
    network = make_network("rise", VIEW, channels=4, expansion=1, blocks=0, late_blocks=0, halve="stem")
    optimizer = iterations.make_optimizer(1e-3, steps=1000)
    trainee = iterations.new_trainee(network.init(jax.random.key(0)), optimizer)
    with pytest.raises(ValueError, match="no position"):
        iterations.train(VIEW, network, optimizer, trainee, data, 0, steps=1)
