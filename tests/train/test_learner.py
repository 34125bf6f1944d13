"""The loss at its edges, and what a run logs about how well it explores and how busy the device is."""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_run

import games_jax
import train.run
from train import learner, replay
from train.config import LearnerConfig
from train.metrics import read_jsonl
from train.networks import make_network
from train.selfplay import new_games

GAME = games_jax.make("tic_tac_toe")
COUNT = 6


@functools.cache
def positions():
    states = new_games(GAME, jax.random.key(1), COUNT, opening_plies=3).states
    return states, np.asarray(jax.vmap(GAME.legal_actions)(states))


def batch(weights) -> replay.Batch:
    states, _ = positions()
    values = jnp.array([1.0, -1.0, 0.0, 1.0, -1.0, 0.5])
    movers = jax.vmap(GAME.current_player)(states)
    return replay.Batch(states, movers, jnp.asarray(weights), values, -values, jnp.ones(COUNT, bool))


def one_hot(which) -> np.ndarray:
    """All of the target on one legal move: the first or the last."""
    _, legal = positions()
    move = legal.argmax(-1) if which == "first" else 8 - legal[:, ::-1].argmax(-1)
    return np.eye(9, dtype=np.float32)[move]


@functools.cache
def parts(value_head):
    network = make_network("mlp", GAME, width=8, depth=1, value_head=value_head)
    settings = LearnerConfig(augment=False, value_target_mix=0.5)

    def loss(variables, batch):
        return learner.loss(GAME, network, settings, variables, batch, jax.random.key(0))

    return network.init(jax.random.key(0)), jax.jit(jax.value_and_grad(loss, has_aux=True))


@pytest.mark.parametrize("value_head", ["scalar", "wdl"])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
@pytest.mark.parametrize("which", ["first", "last"])
def test_loss_and_gradient_are_finite(value_head, scale, which):
    """For one-hot targets, and for a network so certain that other moves have no probability left."""
    variables, loss = parts(value_head)
    variables = jax.tree.map(lambda leaf: scale * leaf, variables)
    (total, metrics), gradient = loss(variables, batch(one_hot(which)))
    for leaf in jax.tree.leaves((total, metrics, gradient)):
        assert np.isfinite(leaf).all()
    assert float(metrics["target_entropy"]) == 0
    if scale == 0:  # uniform over the legal moves
        _, legal = positions()
        np.testing.assert_allclose(metrics["policy_loss"], np.log(legal.sum(-1)).mean(), rtol=1e-5)


def test_entropy_of_the_target_is_logged():
    """In nats, the mean over positions: how far the search still spreads its visits."""
    _, legal = positions()
    weights = np.where(legal, np.random.default_rng(0).random(legal.shape), 0)
    weights = (weights / weights.sum(-1, keepdims=True)).astype(np.float32)
    variables, loss = parts("scalar")
    (_, metrics), _ = loss(variables, batch(weights))
    expected = -np.sum(weights * np.log(np.where(weights > 0, weights, 1)), axis=-1).mean()
    np.testing.assert_allclose(metrics["target_entropy"], expected, rtol=1e-5)


class Clock:
    """A clock that goes on when somebody works."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class Waited:
    """A metric for which the host waits three seconds."""

    def __init__(self, clock: Clock):
        self.clock = clock

    def __array__(self, dtype=None, copy=None):
        self.clock.now += 3
        return np.zeros((), np.float32)


def test_idle_share_is_what_the_host_did_not_wait(tmp_path, monkeypatch):
    """One second of the host's own and three of waiting for the device: idle for a quarter at most."""
    clock = Clock()
    monkeypatch.setattr(train.run, "time", types.SimpleNamespace(monotonic=clock.monotonic))

    class Busy(toy_run.ToyExperiment):
        def iterate(self, state):
            clock.now += 1
            return state, {"value_loss": Waited(clock)}

    settings = toy_run.config(iterations=4, every=100, evaluation_every=0)
    train.run.run(settings, tmp_path / "run", experiment=Busy(), display=toy_run.SilentDisplay())
    records = read_jsonl(tmp_path / "run" / "metrics.jsonl")
    assert [record["idle_share"] for record in records] == pytest.approx([0.4, 0.25, 0.25, 0.0])
    assert [record["iteration_seconds"] for record in records] == [5, 4, 4, 3]
