import re

import jax
import pytest

from train import alphazero, plan, profile
from train.cli import main
from train.config import Config, ConfigError
from train.schema import from_dict

CONFIG = {
    "game": {"name": "tic_tac_toe"},
    "network": {"name": "patterns", "embed": 8, "hidden": [8]},
    "selfplay": {"games": 16, "plies_per_iteration": 3, "simulations": 6},
    "replay": {"capacity": 1024},
    "learner": {"batch_size": 32, "steps_per_iteration": 2},
}


@pytest.fixture(scope="module")
def experiment():
    return alphazero.setup(from_dict(Config, CONFIG))


def test_bytes_are_those_of_the_state(experiment):
    _, taken = plan.check(experiment)
    state = experiment.init(0)
    size = lambda part: sum(leaf.nbytes for leaf in jax.tree.leaves(part))  # noqa: E731
    assert taken["games"] == size(state.games)
    assert taken["replay"] == size(state.replay)
    assert taken["parameters"] + taken["optimizer"] == size(state.learner)


def test_a_run_that_does_not_fit_is_refused_with_the_knob(experiment, monkeypatch):
    monkeypatch.setattr(plan, "available", lambda: 2**16)
    with pytest.raises(ConfigError, match=r"needs [\d.]+ MiB .* a smaller replay.capacity helps"):
        plan.check(experiment)


def test_what_an_iteration_takes_for_itself_has_knobs_too(experiment, monkeypatch):
    monkeypatch.setattr(plan, "available", lambda: 2**30)
    _, taken = plan.check(experiment)
    with pytest.raises(
        ConfigError, match=r"is temporary with .*: learner\.rematerialise = true or a smaller "
    ):
        plan.refuse_too_much({**taken, "temporary": 2**31}, experiment)
    other = alphazero.setup(
        from_dict(Config, {**CONFIG, "learner": {**CONFIG["learner"], "rematerialise": True}})
    )
    with pytest.raises(ConfigError, match=r"MiB: a smaller learner\.batch_size"):
        plan.refuse_too_much({**taken, "temporary": 2**31}, other)


@pytest.mark.slow  # compiles an iteration and its parts
def test_the_probe_and_the_parts(experiment):
    found = plan.plan(experiment)
    assert found.rates["plies"] == pytest.approx(16 * 3 / found.iteration_seconds)
    text = plan.text(found, 100)
    assert re.search(r"replay\s+[\d.]+ MiB  uint", text) and "100 iterations" in text
    parts = profile.parts(experiment, experiment.init(0))
    assert list(parts) == ["search and moves", "into the buffer", "gradient steps"]
    assert min(parts.values()) > 0


def test_other_algorithms_have_no_plan(capsys):
    assert main(["train", "configs/td_cube2.toml", "--plan"]) == 2
    assert "know alphazero" in capsys.readouterr().err
