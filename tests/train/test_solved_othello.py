"""Solved Othello endings: what is read is what the file says, and players are judged by it."""

import gzip
import json
from pathlib import Path

import jax
import numpy as np
import pytest

import games_jax
from train.players import HostPlayer
from train.solved import accuracy
from train.solved_othello import load_endgames

DATA = Path(__file__).resolve().parent.parent / "data" / "othello_endgames.json.gz"


def test_positions_and_moves():
    game, positions = games_jax.make("othello"), load_endgames(DATA)
    legal = np.asarray(jax.vmap(game.legal_actions)(positions.states))
    assert (
        len(legal) == 500
        and (positions.keeps <= legal).all()
        and (positions.optimal <= positions.keeps).all()
    )
    with gzip.open(DATA, "rt") as file:
        entry = json.load(file)["positions"][0]
    named = {game.action_to_string(int(a)) for a in np.flatnonzero(positions.optimal[0])}
    assert named == set(entry["best"])
    assert positions.ply[0] == 60 - entry["empties"]
    np.testing.assert_array_equal(positions.decisive, (legal & ~positions.keeps).any(axis=1))


def test_a_player_that_knows_is_always_right():
    positions = load_endgames(DATA)
    best = {
        np.asarray(jax.tree.leaves(jax.tree.map(lambda x, i=i: x[i], positions.states))).tobytes(): i
        for i in range(500)
    }
    assert len(best) == 500

    def choose(state, rng):
        del rng
        return int(positions.optimal[best[np.asarray(jax.tree.leaves(state)).tobytes()]].argmax())

    found = accuracy(HostPlayer("knows", choose), positions, key=jax.random.key(0))
    assert found.all.share == found.optimal.share == found.decisive.share == 1.0


def test_other_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match="There is no file"):
        load_endgames(tmp_path / "no.json.gz")
    wrong = tmp_path / "wrong.json.gz"
    with gzip.open(wrong, "wt") as file:
        json.dump({"positions": [{"board": "X" * 60}]}, file)
    with pytest.raises(ValueError, match="not a gzipped JSON file of solved Othello"):
        load_endgames(wrong)
