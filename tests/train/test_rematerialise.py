"""Gradients by `rematerialised` are the same, and take less memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
from train import learner
from train.networks import make_network
from train.rematerialise import rematerialised
from train.replay import Batch

GAME = games_jax.make("tic_tac_toe")


def gradient_of(network, apply):
    def loss(variables, observation):
        out = apply(variables, observation)
        return jnp.sum(out.policy_logits**2) + jnp.sum(jnp.sin(out.value))

    return jax.jit(jax.grad(loss))


def furthest(a, b):
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return max(float(jnp.max(jnp.abs(x - y)) / jnp.maximum(jnp.max(jnp.abs(y)), 1e-6)) for x, y in pairs)


def test_a_deep_network_takes_a_fraction_of_the_memory():
    network = make_network("mlp", GAME, width=32, depth=32)
    variables = network.init(jax.random.key(0))
    observation = jax.random.normal(jax.random.key(1), (512, *GAME.observation_shape))
    plain, less = (
        gradient_of(network, apply).lower(variables, observation).compile()
        for apply in (network.apply, rematerialised(network.apply))
    )
    kept, kept_less = (p.memory_analysis().temp_size_in_bytes for p in (plain, less))
    assert kept_less < 0.4 * kept
    assert furthest(less(variables, observation), plain(variables, observation)) < 1e-4


def test_whole_numbers_and_constants_on_the_way():
    table = jnp.arange(12.0).reshape(4, 3)

    def function(x, place):
        y = jnp.sin(x) * table[place]
        order = jnp.argsort(y, axis=-1)
        for _ in range(6):
            y = jnp.tanh(jnp.take_along_axis(y, order, axis=-1) + x)
        return {"y": y, "order": order, "same": place, "one": 1.0}

    x, place = jax.random.normal(jax.random.key(0), (5, 3)), jnp.array([0, 3, 1, 1, 2])
    ours, theirs = rematerialised(function)(x, place), function(x, place)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    assert furthest(ours, theirs) < 1e-6
    grads = [
        jax.grad(lambda x, f=f: jnp.sum(f(x, place)["y"] ** 2))(x)
        for f in (function, rematerialised(function))
    ]
    assert furthest(*grads) < 1e-5


@pytest.mark.parametrize("name", ["patterns", pytest.param("resnet", marks=pytest.mark.slow)])
def test_the_loss_is_the_same(name):
    options = {"patterns": {"embed": 8, "hidden": [8]}, "resnet": {"channels": 8, "blocks": 2}}[name]
    network = make_network(name, GAME, **options)
    variables = network.init(jax.random.key(0))
    states = jax.vmap(GAME.init)(jax.random.split(jax.random.key(1), 4))
    batch = Batch(
        states,
        jnp.zeros(4, jnp.int32),
        jnp.full((4, 9), 1 / 9),
        jnp.zeros(4),
        jnp.array([1.0, 0.0, -1.0, 1.0]),
        jnp.array([True, True, True, False]),
    )
    settings = learner.LossOptions(value_loss_weight=1.0, value_target_mix=0.0, augment=True)
    plain, less = (
        jax.jit(jax.grad(learner.loss, argnums=3, has_aux=True), static_argnums=(0, 1, 2))(
            GAME, network, settings._replace(rematerialise=again), variables, batch, jax.random.key(2)
        )
        for again in (False, True)
    )
    assert furthest(less, plain) < 1e-4
    assert np.isfinite(float(plain[1]["policy_loss"]))
