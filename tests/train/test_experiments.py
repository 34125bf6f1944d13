"""Experiments of several runs: what was measured stays, runs go on, tournaments grow."""

import json

import jax
import jax.numpy as jnp
import pytest

import games_jax
from train.experiments import Notes, meet_all, percent, trained
from train.players import Player, random_player

HEX = games_jax.make("hex", size=3)

CONFIG = """
[run]
algorithm = "reinforce"
iterations = 2
[game]
name = "hex"
size = 3
[network]
name = "mlp"
width = 8
depth = 1
[reinforce]
games = 8
updates_per_iteration = 1
[evaluation]
every = 0
"""


def last_legal(key, states, params=None):
    del key, params
    legal = jax.vmap(HEX.legal_actions)(states)
    return (8 - jnp.argmax(legal[:, ::-1], axis=1)).astype(jnp.int32)


def test_what_was_measured_is_not_measured_again(tmp_path):
    path, calls = tmp_path / "sub" / "notes.json", []
    find = lambda: calls.append(1) or [1, 2.5]  # noqa: E731
    assert Notes(path).once("a", find) == Notes(path).once("a", find) == [1, 2.5]
    assert len(calls) == 1 and json.loads(path.read_text()) == {"a": [1, 2.5]}


def test_a_failure_keeps_what_was_found(tmp_path):
    notes = Notes(tmp_path / "notes.json")
    notes.once("a", lambda: 1)
    with pytest.raises(ZeroDivisionError):
        notes.once("b", lambda: 1 / 0)
    assert Notes(notes.path).found == {"a": 1}


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "notes.json").write_text("{")
    with pytest.raises(ValueError, match="no JSON file of results"):
        Notes(tmp_path / "notes.json")


def test_a_share_and_its_error():
    assert percent(75, 100) == "75.0 ± 4.3 %"


def test_a_tournament_plays_only_pairs_that_have_not_met(tmp_path, capsys):
    notes = Notes(tmp_path / "notes.json")
    players = [random_player(HEX), Player("last", last_legal)]
    (first,) = meet_all(HEX, players, notes, "a: ")
    assert first.games == 18 and (first.first, first.second) == ("random", "last")
    both = meet_all(HEX, [*players, Player("too", last_legal)], Notes(notes.path), "a: ")
    assert len(both) == 3 and first in both
    assert meet_all(HEX, players, Notes(notes.path), "a: ") == [first]
    assert capsys.readouterr().out.count("measuring") == 3


@pytest.mark.slow
def test_a_run_goes_on_where_it_stopped(tmp_path, capsys):
    config = tmp_path / "config.toml"
    config.write_text(CONFIG)
    trained(config, [], tmp_path / "run")
    experiment = trained(config, ["run.iterations=3"], tmp_path / "run")
    assert experiment.game == HEX
    assert "3 iterations" in capsys.readouterr().out
