"""The training loop on tic-tac-toe: it learns, resumes bit for bit, and plays only what is legal."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
from train import alphazero, checkpoint, learner, replay, selfplay
from train.arena import play_match
from train.config import (
    Config,
    ConfigError,
    EvaluationConfig,
    GameConfig,
    LearnerConfig,
    NetworkConfig,
    ReplayConfig,
    RunConfig,
    SelfplayConfig,
)
from train.networks import make_network
from train.players import network_player, random_player
from train.run import run
from train.targets import returns_of


def small_config(**changes) -> Config:
    config = Config(
        game=GameConfig(name="tic_tac_toe"),
        run=RunConfig(iterations=20, tensorboard=False),
        network=NetworkConfig(name="mlp", options={"width": 32, "depth": 1}),
        selfplay=SelfplayConfig(
            games=32, plies_per_iteration=4, simulations=16, temperature_plies=4, random_opening_plies=2
        ),
        replay=ReplayConfig(capacity=4096),
        learner=LearnerConfig(batch_size=128, steps_per_iteration=4, learning_rate=3e-3),
        evaluation=EvaluationConfig(every=0),
    )
    return dataclasses.replace(config, **changes)


@pytest.fixture(scope="module")
def experiment():
    return alphazero.setup(small_config())


def raw(tree):
    """The leaves as NumPy arrays, keys as their data."""
    is_key = lambda x: jnp.issubdtype(x.dtype, jax.dtypes.prng_key)  # noqa: E731
    return [np.asarray(jax.random.key_data(x) if is_key(x) else x) for x in jax.tree.leaves(tree)]


def test_ten_and_ten_iterations_equal_twenty(experiment, tmp_path):
    whole = run(experiment.config, tmp_path / "whole", experiment=experiment)
    ten = dataclasses.replace(
        experiment.config, run=dataclasses.replace(experiment.config.run, iterations=10)
    )
    run(ten, tmp_path / "parts", experiment=experiment)
    parts = run(experiment.config, tmp_path / "parts", experiment=experiment, resume=True)
    assert parts.iteration == whole.iteration == 20
    for one, other in zip(raw(whole.state), raw(parts.state), strict=True):
        np.testing.assert_array_equal(one, other)


def test_iterations_leave_nothing_behind(experiment):
    """As many arrays and bytes after five iterations as after one, and the state before is gone."""
    state, metrics = experiment.iterate(experiment.init(0))
    alive = []
    for _ in range(5):
        before, (state, metrics) = state, experiment.iterate(state)
        jax.block_until_ready((state, metrics))
        assert before.replay.weights.is_deleted() and not state.replay.weights.is_deleted()
        alive.append((len(jax.live_arrays()), sum(array.nbytes for array in jax.live_arrays())))
    assert len(set(alive)) == 1


def test_regularised_search_teaches_more_than_its_visits():
    """Its targets are no multiples of 1 / simulations, and every legal move has a share."""
    config = small_config()
    search = dataclasses.replace(config.selfplay, search="regularised", plies_per_iteration=1)
    trained = alphazero.setup(dataclasses.replace(config, selfplay=search))
    state, metrics = trained.iterate(trained.init(0))
    targets = np.asarray(state.replay.weights[0])
    legal = jax.vmap(trained.game.legal_actions)(jax.tree.map(lambda x: x[0], state.replay.states))
    np.testing.assert_array_equal(targets > 0, legal)
    np.testing.assert_allclose(targets.sum(1), 1, rtol=1e-5)
    assert np.abs(targets * 16 - np.round(targets * 16)).max() > 0.1
    assert np.isfinite(float(metrics["policy_loss"]))


def test_another_seed_is_another_run(experiment):
    one, _ = experiment.iterate(experiment.init(1))
    other, _ = experiment.iterate(experiment.init(2))
    assert any((a != b).any() for a, b in zip(raw(one.learner), raw(other.learner), strict=True))


def test_checkpoint_of_another_network_is_refused(experiment, tmp_path):
    run(experiment.config, tmp_path / "run", experiment=experiment)
    wider = alphazero.setup(
        small_config(network=NetworkConfig(name="mlp", options={"width": 64, "depth": 1}))
    )
    with pytest.raises(checkpoint.CheckpointError, match=r"width.*(32.*64|64.*32)"):
        checkpoint.restore(
            checkpoint.latest(tmp_path / "run" / "checkpoints"),
            jax.eval_shape(lambda: wider.init(0)),
            identity=wider.identity,
        )


def test_learns_to_beat_random_play():
    config = small_config(run=RunConfig(iterations=60, tensorboard=False))
    experiment = alphazero.setup(config)
    state = experiment.init(0)
    losses = []
    for _ in range(60):
        state, metrics = experiment.iterate(state)
        losses.append({name: float(value) for name, value in metrics.items()})
    player = network_player(
        "trained", experiment.game, experiment.network, experiment.parameters(state), simulations=16
    )
    match = play_match(
        experiment.game,
        player,
        random_player(experiment.game),
        games=200,
        key=jax.random.key(1),
        opening_plies=0,
    )
    assert match.to_dict()["score"] > 0.9
    assert losses[-1]["policy_loss"] < losses[0]["policy_loss"]
    assert losses[-1]["games"] > 0


def test_trajectory_is_legal_and_continuous(experiment):
    game, state = experiment.game, experiment.init(3)
    _, trajectory = selfplay.play(
        game,
        experiment.search,
        experiment.parameters(state),
        jax.random.key(0),
        state.games,
        experiment.config.selfplay,
    )
    legal = jax.vmap(jax.vmap(game.legal_actions))(trajectory.states)
    assert not np.any(np.asarray(trajectory.weights)[~np.asarray(legal)])
    np.testing.assert_allclose(np.sum(trajectory.weights, axis=-1), 1.0, rtol=1e-5)
    assert not np.any(jax.vmap(jax.vmap(game.is_over))(trajectory.states))
    stones = np.asarray(
        jax.vmap(jax.vmap(lambda s: jnp.sum(game.observe(s, jnp.int32(0))[..., :2])))(trajectory.states)
    )
    goes_on = ~np.asarray(trajectory.over)[:-1]
    np.testing.assert_array_equal((stones[1:] - stones[:-1])[goes_on], 1)
    assert np.all(stones[1:][~goes_on] <= experiment.config.selfplay.random_opening_plies)


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four", "othello"])
def test_new_games_have_varied_openings_and_are_not_over(name):
    game = games_jax.make(name)
    games = selfplay.new_games(game, jax.random.key(0), 256, opening_plies=6)
    assert not np.any(jax.vmap(game.is_over)(games.states))
    assert set(np.asarray(games.plies)) == set(range(7))


def test_pending_positions_are_not_learnt_from(experiment):
    state = experiment.init(0)
    settings = experiment.config.selfplay
    _, trajectory = selfplay.play(
        experiment.game,
        experiment.search,
        experiment.parameters(state),
        jax.random.key(0),
        state.games,
        settings,
    )
    buffer = replay.insert(state.replay, trajectory, returns_of(trajectory))
    batch = replay.sample(buffer, jax.random.key(1), 256)
    assert 0 < np.sum(batch.usable) < 256
    garbled = batch._replace(
        returns=jnp.where(batch.usable, batch.returns, 123.0),
        weights=jnp.where(batch.usable[:, None], batch.weights, 0.5),
    )
    losses = [
        learner.loss(
            experiment.game,
            experiment.network,
            experiment.config.learner,
            state.learner.variables,
            b,
            jax.random.key(2),
        )[0]
        for b in (batch, garbled)
    ]
    np.testing.assert_array_equal(*losses)


@pytest.mark.parametrize("value_head", ["scalar", "wdl"])
def test_loss_by_hand(value_head):
    game = games_jax.make("tic_tac_toe")
    network = make_network("mlp", game, width=8, depth=1, value_head=value_head)
    variables = network.init(jax.random.key(0))
    states = selfplay.new_games(game, jax.random.key(1), 5, opening_plies=3).states
    movers = jax.vmap(game.current_player)(states)
    legal = np.asarray(jax.vmap(game.legal_actions)(states))
    weights = jax.nn.softmax(jax.random.normal(jax.random.key(2), (5, 9)), where=jnp.asarray(legal))
    returns, roots = jnp.array([1.0, -1.0, 0.0, 1.0, 0.0]), jnp.array([0.5, 0.0, 0.5, -0.5, 0.0])
    batch = replay.Batch(states, movers, weights, roots, returns, jnp.ones(5, bool))
    settings = LearnerConfig(augment=False, value_target_mix=0.25, value_loss_weight=2.0)
    total, metrics = learner.loss(game, network, settings, variables, batch, jax.random.key(3))

    out = network.apply(variables, jax.vmap(game.observe)(states, movers))
    policy = value = 0.0
    for i in range(5):
        logits = np.asarray(out.policy_logits[i], np.float64)
        log_p = logits - np.log(np.sum(np.exp(logits[legal[i]])))
        policy -= np.sum(np.asarray(weights)[i][legal[i]] * log_p[legal[i]]) / 5
        target = 0.75 * float(returns[i]) + 0.25 * float(roots[i])
        if value_head == "scalar":
            value += (target - float(out.value[i])) ** 2 / 5
        else:
            assert out.value_logits is not None
            shares = [max(target, 0), 1 - abs(target), max(-target, 0)]
            value -= np.sum(shares * np.asarray(jax.nn.log_softmax(out.value_logits[i]))) / 5
    np.testing.assert_allclose(metrics["policy_loss"], policy, rtol=1e-5)
    np.testing.assert_allclose(metrics["value_loss"], value, rtol=1e-4)
    np.testing.assert_allclose(total, policy + 2.0 * value, rtol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"game": GameConfig(name="tictactoe")}, "tic_tac_toe"),
        ({"network": NetworkConfig(name="mpl")}, "mlp"),
        ({"network": NetworkConfig(name="mlp", options={"widht": 3})}, "width"),
        ({"replay": ReplayConfig(capacity=200)}, "replay.capacity"),
    ],
)
def test_mistakes_in_a_config_are_named(change, message):
    with pytest.raises(ConfigError, match=message):
        alphazero.setup(small_config(**change))
