import itertools

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
    Member("fast", {"run.seed": 3, "learner.learning_rate": 1e-2, "learner.value_target_mix": 0.5}),
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
    "number", [pytest.param(0, marks=pytest.mark.slow), 1, pytest.param(2, marks=pytest.mark.slow)]
)
def test_each_member_is_what_it_would_be_alone(grown, number):
    _, state, metrics = grown
    member = MEMBERS[number]
    config = config_of(member.settings)
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


def test_members_differ(grown):
    _, state, _ = grown
    for a, b in itertools.combinations(range(len(MEMBERS)), 2):
        pairs = zip(*(jax.tree.leaves(member_of(state.learner.variables, n)) for n in (a, b)), strict=True)
        assert any(not np.array_equal(x, y) for x, y in pairs), (MEMBERS[a].name, MEMBERS[b].name)


def test_counts_are_of_all_members(grown):
    _, _, metrics = grown
    assert int(metrics["plies"]) == len(MEMBERS) * 16 * 4


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([Member("a", {"selfplay.games": 3})], "selfplay.games changes the program"),
        ([Member("a", {}), Member("a", {})], "different names"),
        ([], "different names"),
        ([Member("a", {"selfplay.dirichlet_fraction": 2.0})], "dirichlet_fraction"),
    ],
)
def test_members_that_cannot_be(members, message):
    with pytest.raises(ConfigError, match=message):
        population(config_of(), members)
