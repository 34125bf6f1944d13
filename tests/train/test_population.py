import itertools
import json
import subprocess
import sys

import jax
import numpy as np
import pytest

from train import alphazero
from train.config import Config, ConfigError
from train.population import Member, member_of, population
from train.schema import from_dict

CONFIG = {
    "game": {"name": "tic_tac_toe"},
    "network": {"name": "patterns", "embed": 8, "hidden": [8]},
    "selfplay": {"games": 16, "plies_per_iteration": 4, "simulations": 6, "random_opening_plies": 2},
    "replay": {"capacity": 1024},
    "learner": {"batch_size": 32, "steps_per_iteration": 2},
}
MEMBERS = [
    Member("plain", {"run.seed": 3}),
    Member(
        "explorer",
        {
            "run.seed": 4,
            "search.c_puct": 3.0,
            "selfplay.dirichlet_alpha": 0.2,
            "selfplay.dirichlet_fraction": 0.4,
            "selfplay.temperature": 0.5,
        },
    ),
    Member(
        "fast",
        {
            "run.seed": 3,
            "learner.learning_rate": 1e-2,
            "learner.value_target_mix": 0.5,
            "selfplay.simulations": 3,
        },
    ),
]


def config_of(settings=()):
    nested = {name: dict(section) for name, section in CONFIG.items()}
    for key, value in dict(settings).items():
        section, name = key.split(".")
        nested.setdefault(section, {})[name] = value
    return from_dict(Config, nested)


@pytest.fixture(scope="module")
def grown():
    experiment = population(config_of(), MEMBERS)
    state = experiment.init(0)
    for _ in range(3):
        state, metrics = experiment.iterate(state)
    return experiment, state, metrics


@pytest.mark.parametrize(
    "number", [pytest.param(0, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.slow), 2]
)
def test_each_member_is_what_it_would_be_alone(grown, number):
    check_alone(grown, MEMBERS[number], number, config_of(MEMBERS[number].settings))


def check_alone(grown, member, number, config):
    """Three iterations of a member against a run of its own."""
    _, state, metrics = grown
    alone = alphazero.setup(config)
    expected = alone.init(config.run.seed)
    for _ in range(3):
        expected, expected_metrics = alone.iterate(expected)
    # The games to the last bit; what is learnt up to the rounding of products in another order.
    for a, b in zip(
        jax.tree.leaves(member_of(state.games, number)), jax.tree.leaves(expected.games), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    learnt = member_of(state.learner, number)
    for a, b in zip(jax.tree.leaves(learnt), jax.tree.leaves(expected.learner), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5, rtol=1e-4)
    told = float(metrics[f"policy_loss.{member.name}"])
    assert told == pytest.approx(float(expected_metrics["policy_loss"]), rel=1e-4)


GUMBEL = {"selfplay.search": "gumbel"}
GUMBEL_MEMBERS = [
    Member("many", {"run.seed": 3, "selfplay.simulations": 9, "search.considered_actions": 8}),
    Member(
        "few",
        {
            "run.seed": 4,
            "selfplay.simulations": 5,
            "search.considered_actions": 3,
            "search.gumbel_scale": 0.5,
        },
    ),
]


@pytest.mark.slow  # compiles a population and two runs
def test_gumbel_members_are_what_they_would_be_alone():
    experiment = population(config_of(GUMBEL), GUMBEL_MEMBERS)
    state = experiment.init(0)
    for _ in range(3):
        state, metrics = experiment.iterate(state)
    for number, member in enumerate(GUMBEL_MEMBERS):
        check_alone((experiment, state, metrics), member, number, config_of({**GUMBEL, **member.settings}))


COMPARE = """
import json, sys
import jax
jax.config.update("jax_num_cpu_devices", 8)
import numpy as np
from train import checkpoint
from train.config import Config
from train.population import Member, population
from train.schema import from_dict

config, members, folder = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]

def made(devices, data):
    tree = {**config, "mesh": {"population": devices, "data": data}}
    return population(from_dict(Config, tree), [Member(str(n), own) for n, own in enumerate(members)])

def on_host(state):
    return jax.device_get(state._replace(seeds=jax.random.key_data(state.seeds)))

def furthest(a, b):
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return max(float(np.max(np.abs(np.asarray(x, np.float64) - np.asarray(y, np.float64)))) for x, y in pairs)

runs, found = {}, {}
for mesh in ((1, 1), (4, 2)):
    experiment = made(*mesh)
    state = experiment.init(3)
    for _ in range(2):
        state, metrics = experiment.iterate(state)
    runs[mesh] = on_host(state), jax.device_get(metrics)
(one, told), (many, told_of_many) = runs[1, 1], runs[4, 2]
found["games"] = furthest(one.games, many.games)
found["learner"] = furthest(one.learner, many.learner)
found["metrics"] = furthest(told, told_of_many)
found["part of games"] = list(state.games.plies.sharding.shard_shape(state.games.plies.shape))
kernel = jax.tree.leaves(state.learner.variables)[0]
found["part of network"] = kernel.sharding.shard_shape(kernel.shape)[0]

checkpoint.save(folder, state, experiment.parameters(state), identity=experiment.identity, config={},
                iteration=2, seconds=0.0)
alone = made(1, 1)
restored = checkpoint.restore(checkpoint.latest(folder), alone.abstract(3), identity=alone.identity)
found["restored"] = furthest(many, on_host(restored))
print(json.dumps(found))
"""


@pytest.mark.slow  # compiles for one device and for eight
def test_members_divided_among_devices(tmp_path):
    members = [dict(member.settings) for member in [*MEMBERS, Member("other", {"run.seed": 9})]]
    command = [sys.executable, "-c", COMPARE, json.dumps(CONFIG), json.dumps(members), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["games"] == 0  # to the last bit
    assert found["learner"] < 1e-5 and found["metrics"] < 1e-5  # gradients are summed in another order
    assert found["part of games"] == [1, 8] and found["part of network"] == 1
    assert found["restored"] == 0


def test_members_differ(grown):
    _, state, _ = grown
    for a, b in itertools.combinations(range(len(MEMBERS)), 2):
        pairs = zip(*(jax.tree.leaves(member_of(state.learner.variables, n)) for n in (a, b)), strict=True)
        assert any(not np.array_equal(x, y) for x, y in pairs), (MEMBERS[a].name, MEMBERS[b].name)


def test_counts_are_of_all_members(grown):
    _, _, metrics = grown
    assert int(metrics["plies"]) == len(MEMBERS) * 16 * 4
    assert int(metrics["simulations"]) == (6 + 6 + 3) * 16 * 4


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([Member("a", {"selfplay.games": 3})], "selfplay.games changes the program"),
        ([Member("a", {}), Member("a", {})], "different names"),
        ([], "different names"),
        ([Member("a", {"selfplay.dirichlet_fraction": 2.0})], "dirichlet_fraction"),
        ([Member("a", {"selfplay.simulations": 2.5})], "selfplay.simulations = 2.5"),
        ([Member("a", {"search.gumbel_scale": 0.5})], 'does nothing where selfplay.search = "puct"'),
    ],
)
def test_members_that_cannot_be(members, message):
    with pytest.raises(ConfigError, match=message):
        population(config_of(), members)


def test_constants_that_gumbel_does_not_read():
    with pytest.raises(ConfigError, match=r"search\.c_puct does nothing .* search\.gumbel_scale"):
        population(config_of(GUMBEL), [Member("a", {"search.c_puct": 1.0})])


def test_devices_that_cannot_be_shared():
    with pytest.raises(ConfigError, match=r"mesh\.population = 4; JAX finds"):
        population(config_of({"mesh.population": 4, "mesh.data": 8}), MEMBERS)
    with pytest.raises(ConfigError, match="this run has no members"):
        alphazero.setup(config_of({"mesh.population": 2}))
