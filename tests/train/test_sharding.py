"""A run on several devices, in a process that has eight of the CPU."""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest

import games_jax
from jaxsearch import keys
from train import alphazero, replay, selfplay, sharding
from train.config import Config, ConfigError, load
from train.schema import from_dict

SMALL = {
    "game": {"name": "tic_tac_toe"},
    "network": {"name": "patterns", "embed": 8, "hidden": [8]},
    "selfplay": {"games": 16, "plies_per_iteration": 3, "simulations": 6, "random_opening_plies": 2},
    "replay": {"capacity": 1024},
    "learner": {"batch_size": 32, "steps_per_iteration": 2},
}

COMPARE = """
import json, sys
import jax
jax.config.update("jax_num_cpu_devices", 8)
import numpy as np
from train import alphazero, checkpoint
from train.config import Config
from train.schema import from_dict

small, folder = json.loads(sys.argv[1]), sys.argv[2]

def made(devices):
    return alphazero.setup(from_dict(Config, {**small, "mesh": {"data": devices}}))

def on_host(state):
    return jax.device_get(state._replace(seed=jax.random.key_data(state.seed)))

def furthest(a, b):
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return max(float(np.max(np.abs(np.asarray(x, np.float64) - np.asarray(y, np.float64)))) for x, y in pairs)

runs, found = {}, {}
for devices in (1, 8):
    experiment = made(devices)
    state = experiment.init(3)
    begun = on_host(state)
    program = experiment._iterate.lower(state).compile()
    for _ in range(2):
        state, metrics = program(state)
    runs[devices] = begun, on_host(state), jax.device_get(metrics)
    found[f"places {devices}"] = [len(leaf.sharding.device_set) for leaf in jax.tree.leaves(state)]
for name, one, many in zip(("begun", "state", "metrics"), runs[1], runs[8], strict=True):
    found[name] = furthest(one, many)
found["games"] = furthest(runs[1][1].games, runs[8][1].games)

# Saved on eight devices, gone on with on two.
checkpoint.save(folder, state, experiment.parameters(state), identity=experiment.identity, config={},
                iteration=2, seconds=0.0)
other = made(2)
restored = checkpoint.restore(checkpoint.latest(folder), other.abstract(3), identity=other.identity)
found["restored"] = furthest(on_host(state), on_host(restored))
found["restored places"] = len(restored.games.plies.sharding.device_set)
after, _ = other.iterate(restored)
same, _ = program(state)
found["after"] = furthest(on_host(same), on_host(after))
text = program.as_text()
found["collectives"] = {name: text.count(f" {name}(") for name in ("all-reduce", "all-gather", "all-to-all")}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sharded")
    command = [sys.executable, "-c", COMPARE, json.dumps(SMALL), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_devices_do_not_change_the_run(found):
    assert found["begun"] == 0
    assert found["games"] == 0  # to the last bit: every game has its own random numbers
    # Gradients are summed in another order.
    assert found["state"] < 1e-5 and found["metrics"] < 1e-5


def test_a_checkpoint_goes_to_another_number_of_devices(found):
    assert found["restored"] == 0 and found["restored places"] == 2
    assert found["after"] < 1e-5


def test_every_array_is_spread_or_copied(found):
    for devices in (1, 8):
        assert set(found[f"places {devices}"]) == {devices}


def test_devices_talk_only_to_learn(found):
    # Gradients with their metrics, and counts; none in the search, which would be one for each simulation.
    assert 0 < found["collectives"].pop("all-reduce") <= 6
    assert not any(found["collectives"].values())


def test_more_devices_than_there_are():
    devices = len(jax.devices()) + 1
    with pytest.raises(ConfigError, match=f"mesh.data = {devices} devices; JAX finds {devices - 1}"):
        alphazero.setup(from_dict(Config, {**SMALL, "mesh": {"data": devices}}))


@pytest.mark.parametrize("key", ["selfplay.games", "learner.batch_size"])
def test_what_cannot_be_spread_evenly(key):
    config = load("configs/tic_tac_toe.toml", [f"{key}=100"])
    with pytest.raises(ConfigError, match=f"{key} = 100 .*multiple of 8"):
        sharding.check_divisible(config, 8)


def test_samples_are_spread_evenly_over_the_games():
    rows, games, count = 6, 10, 64
    states = {"number": np.arange(games, dtype=np.int32)}
    buffer = replay.new_replay(states, 3, capacity=rows * games, plies=1)
    numbers = np.arange(rows * games, dtype=np.float32).reshape(rows, games)
    buffer = buffer._replace(returns=jax.numpy.asarray(numbers), filled=jax.numpy.int32(rows))
    drawn = jax.jit(jax.vmap(lambda key: replay.sample(buffer, key, count).returns))
    values = np.asarray(drawn(jax.random.split(jax.random.key(0), 2000))).astype(int)
    columns = values % games
    # Sample n comes from its part of the columns, and all places are equally likely.
    assert np.all(columns >= (np.arange(count) * games // count))
    assert np.all(columns <= ((np.arange(1, count + 1) * games - 1) // count))
    share = np.bincount(values.ravel(), minlength=rows * games) / values.size
    np.testing.assert_allclose(share, 1 / (rows * games), rtol=0.1)


@pytest.mark.parametrize("search", ["puct", pytest.param("gumbel", marks=pytest.mark.slow)])
def test_a_row_with_its_own_key_does_not_see_the_others(search):
    config = from_dict(Config, {**SMALL, "selfplay": {**SMALL["selfplay"], "search": search}})
    experiment = alphazero.setup(config)
    game = games_jax.make("tic_tac_toe")
    states = selfplay.new_games(game, jax.random.key(1), 6, opening_plies=3).states
    key = keys.per_row(jax.random.key(2), np.arange(6, dtype=np.int32))
    params = experiment.network.init(jax.random.key(3))
    run = jax.jit(experiment.search)
    whole = run(key, states, params)
    part = run(key[2:4], jax.tree.map(lambda leaf: leaf[2:4], states), params)
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(part), strict=True):
        np.testing.assert_allclose(np.asarray(a)[2:4], np.asarray(b), rtol=1e-5, atol=1e-6)
