"""Games for one player: what is measured, and that a run of one trains and is evaluated."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

import games_jax
from train import solo
from train.cli import main
from train.players import HostPlayer, random_player, uct_player

GAME = games_jax.make("cube2(scramble=1, step_cost=0.25, max_steps=3)")
CONFIG = Path(__file__).parents[2] / "configs" / "cube2.toml"


def test_a_searcher_solves_what_is_one_turn_away():
    result = solo.play_alone(GAME, uct_player(GAME, simulations=60), games=16, key=jax.random.key(0))
    assert result.won.all() and (result.lengths == 1).all()
    assert result.returns.tolist() == [0.75] * 16


def test_random_play_is_counted_game_by_game():
    result = solo.play_alone(GAME, random_player(GAME), games=400, key=jax.random.key(1))
    assert np.array_equal(result.returns, result.won - 0.25 * result.lengths)
    assert set(result.lengths.tolist()) == {1, 2, 3} and (result.lengths[~result.won] == 3).all()
    # One turn of nine solves at once; 12 of 81 pairs of turns solve exactly at the second.
    assert 0.06 < (result.lengths == 1).mean() < 0.17
    facts = result.to_dict()
    assert facts["wins"] + facts["losses"] == facts["games"] == 400
    assert facts["low"] < facts["score"] == facts["wins"] / 400 < facts["high"]


def test_evaluation_plays_the_fixed_players_once(monkeypatch):
    asked = []
    play = solo.play_alone
    monkeypatch.setattr(
        solo, "play_alone", lambda game, player, **k: asked.append(player.name) or play(game, player, **k)
    )
    player = random_player(GAME)
    evaluate = solo.solo_evaluation(
        GAME,
        [player],
        games=8,
        base_key=jax.random.key(0),
        self_at=lambda state, iteration: uct_player(GAME, simulations=8),
    )
    first, second = evaluate(None, 1), evaluate(None, 2)
    assert asked == ["uct:8", "random", "uct:8"]
    assert first["alone"]["random"] == second["alone"]["random"] and set(first["alone"]) == {
        "agent",
        "random",
    }


def test_what_is_refused():
    two = games_jax.make("tic_tac_toe")
    with pytest.raises(ValueError, match="Nobody plays tic_tac_toe alone; it is a game for 2"):
        solo.play_alone(two, random_player(two), games=2, key=jax.random.key(0))
    with pytest.raises(ValueError, match="engine does not play cube2"):
        solo.solo_evaluation(
            GAME,
            [HostPlayer("engine", lambda state, rng: 0)],
            games=2,
            base_key=jax.random.key(0),
            self_at=print,
        )


def test_a_run_is_trained_evaluated_and_reported(tmp_path, capsys):
    changes = ["run.iterations=2", "run.tensorboard=false", "selfplay.games=8", "selfplay.simulations=4"]
    changes += ["selfplay.plies_per_iteration=4", "replay.capacity=1024", "learner.batch_size=16"]
    changes += ["learner.steps_per_iteration=1", "network.width=16", "network.depth=1"]
    changes += ["evaluation.games=4", 'evaluation.opponents=["random"]', "evaluation.simulations=2"]
    assert main(["train", str(CONFIG), "--dir", str(tmp_path), "--set", *changes]) == 0
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    (record,) = [record for record in records if record["kind"] == "evaluation"]
    assert set(record["alone"]) == {"agent", "random"} and record["alone"]["agent"]["games"] == 4
    assert all(
        "won" in record and "draws" not in record for record in records if record["kind"] == "iteration"
    )
    assert "Games won alone" in (tmp_path / "report.html").read_text()
    assert "agent " in capsys.readouterr().out
