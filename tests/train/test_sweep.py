import json

import numpy as np
import pytest

from train import sweep
from train.cli import main
from train.config import ConfigError, load
from train.packable import PACKABLE
from train.run_directory import RunError
from train.sweep_report import Result, effects

CONFIG = "configs/tic_tac_toe.toml"
TINY = [
    "network.embed=8",
    "network.hidden=[8]",
    "selfplay.games=8",
    "selfplay.plies_per_iteration=4",
    "learner.batch_size=16",
    "learner.steps_per_iteration=1",
    "run.iterations=3",
    "evaluation.every=0",
    "run.tensorboard=false",
]


def test_what_changes_no_shapes_is_one_job():
    grid = ["learner.learning_rate=1e-3,3e-3", "search.c_puct=1.0,2.0", "selfplay.simulations=8,16"]
    plan = sweep.make_plan(load(CONFIG, ["run.seed=5"]), grid, 3, PACKABLE)
    assert [dict(job.settings) for job in plan.jobs] == [
        {"selfplay.simulations": 8},
        {"selfplay.simulations": 16},
    ]
    for job in plan.jobs:
        assert len(job.members) == 2 * 2 * 3
        assert {settings["run.seed"] for settings in job.members.values()} == {5, 6, 7}
    names = [name for job in plan.jobs for name in job.members]
    assert len(set(names)) == 24
    assert names[0] == "learning_rate=0.001 c_puct=1.0 simulations=8 seed=5"


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("learner.learning_rate", "expected KEY=VALUE"),
        ("learner.lerning_rate=1", "learning_rate"),
        ("learner.learning_rate=0", "learning_rate"),
        ("run.seed=1,2", "--seeds"),
        ("game.size=4,6", "one game"),
        ("rate=1", "section.key"),
    ],
)
def test_grids_that_cannot_be(grid, message):
    with pytest.raises(ConfigError, match=message):
        sweep.make_plan(load(CONFIG), [grid], 1, PACKABLE)


def test_a_directory_keeps_one_sweep(tmp_path):
    one = sweep.make_plan(load(CONFIG), ["search.c_puct=1.0,2.0"], 2, PACKABLE)
    sweep.write_plan(tmp_path / "sweep", one)
    sweep.write_plan(tmp_path / "sweep", one)
    assert sweep.read_plan(tmp_path / "sweep") == one
    other = sweep.make_plan(load(CONFIG), ["search.c_puct=1.0"], 2, PACKABLE)
    with pytest.raises(RunError, match="another sweep"):
        sweep.write_plan(tmp_path / "sweep", other)
    with pytest.raises(RunError, match="no sweep"):
        sweep.read_plan(tmp_path)


def result(setting, seed, elo):
    return Result(f"{setting} {seed}", {"a.b": setting}, seed, elo, elo - 20, elo + 20, np.zeros(1))


def test_effects_by_hand():
    # Means 10 and -10; the spread of seeds within a setting is sqrt(8), and so is the difference's error.
    (effect,) = effects([result(1, 0, 8.0), result(1, 1, 12.0), result(2, 0, -8.0), result(2, 1, -12.0)])
    assert (effect.best, effect.worst, effect.difference) == (1, 2, 20.0)
    assert effect.error == pytest.approx(4.302653 * 8**0.5)  # Student's t, 2 degrees of freedom
    assert effect.exceeds_noise
    (effect,) = effects([result(1, 0, 0.0), result(1, 1, 40.0), result(2, 0, -10.0), result(2, 1, 30.0)])
    assert effect.difference == 10.0 and not effect.exceeds_noise
    (effect,) = effects([result(1, 0, 8.0), result(2, 0, -8.0)])  # one seed says nothing about noise
    assert not effect.exceeds_noise


@pytest.mark.slow  # compiles in two processes
def test_a_sweep_runs_once_and_is_compared(tmp_path, capsys):
    folder = tmp_path / "sweep"
    command = ["sweep", CONFIG, "--dir", str(folder), "--seeds", "2", "--grid"]
    command += ["search.c_puct=1.0,2.0", "selfplay.simulations=4,6", "--set", *TINY]
    assert main([*command, "--retries", "0"]) == 0
    capsys.readouterr()
    assert main(command) == 0
    assert "2 of 2 jobs are done already" in capsys.readouterr().out
    assert main(["sweep", "report", str(folder), "--plies", "1"]) == 0
    text = capsys.readouterr().out
    assert "| search.c_puct |" in text and "| selfplay.simulations |" in text
    assert (folder / "report.png").read_bytes().startswith(b"\x89PNG")
    assert len((folder / "members.csv").read_text().splitlines()) == 1 + 8
    assert len(json.loads((folder / "matches.json").read_text()).popitem()[1]) == 8 * 7 // 2


@pytest.mark.slow
def test_a_job_that_crashes_is_given_up_and_reported(tmp_path):
    plan = sweep.make_plan(load(CONFIG, TINY), ["search.c_puct=1.0,2.0"], 1, PACKABLE)
    sweep.write_plan(tmp_path / "sweep", plan)
    in_the_way = tmp_path / "sweep" / "jobs" / "000" / "run"
    in_the_way.mkdir(parents=True)
    (in_the_way / "other").write_text("")
    said: list[str] = []
    assert sweep.launch_local(tmp_path / "sweep", workers=1, retries=1, say=said.append) == [0]
    assert sum("started again" in line for line in said) == 1
    assert "given up after 2 crashes" in said[-1]
    (in_the_way / "other").unlink()
    assert sweep.launch_local(tmp_path / "sweep", workers=1, retries=0, say=said.append) == []
    assert sweep.job_state(tmp_path / "sweep", 0) == "done"


def test_more_values_need_a_larger_difference():
    two = [result(value, seed, elo + 4 * seed) for value, elo in ((1, 10.0), (2, -10.0)) for seed in (0, 1)]
    three = [*two, result(3, 0, 0.0), result(3, 1, 4.0)]
    (narrow,), (wide,) = effects(two), effects(three)
    assert narrow.difference == wide.difference == 20.0
    # The same spread of seeds with one more degree of freedom, at a third of the level.
    assert wide.error == pytest.approx(narrow.error * 4.8567 / 4.3027, rel=1e-3)
