import json
import subprocess
import sys

import numpy as np
import pytest

from train import sweep
from train.cli import main
from train.config import ConfigError, load
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
    grid = ["learner.learning_rate=1e-3,3e-3", "selfplay.simulations=8,16", "selfplay.games=32,64"]
    plan = sweep.make_plan(load(CONFIG, ["run.seed=5"]), grid, 3)
    assert [dict(job.settings) for job in plan.jobs] == [{"selfplay.games": 32}, {"selfplay.games": 64}]
    for job in plan.jobs:
        assert len(job.members) == 2 * 2 * 3
        assert {settings["run.seed"] for settings in job.members.values()} == {5, 6, 7}
    names = [name for job in plan.jobs for name in job.members]
    assert len(set(names)) == 24
    assert names[0] == "learning_rate=0.001 simulations=8 games=32 seed=5"


def test_what_is_packed_depends_on_the_search():
    grid = ["selfplay.search=puct,regularised", "search.c_puct=1.0,2.0"]
    plan = sweep.make_plan(load(CONFIG), grid, 2)
    assert [(dict(job.settings), len(job.members)) for job in plan.jobs] == [
        ({"selfplay.search": "puct"}, 4),
        ({"selfplay.search": "regularised", "search.c_puct": 1.0}, 2),
        ({"selfplay.search": "regularised", "search.c_puct": 2.0}, 2),
    ]
    (job,) = sweep.make_plan(
        load(CONFIG, ["selfplay.search=gumbel"]),
        ["search.considered_actions=4,8", "search.gumbel_scale=0.5,1.0"],
        1,
    ).jobs
    assert len(job.members) == 4


def test_the_grid_may_be_given_in_parts(tmp_path, monkeypatch, capsys):
    """`--grid A --grid B` is `--grid A B`, in any order with other options."""
    monkeypatch.setattr(sweep, "launch_local", lambda directory, **_: [])
    grids = ["learner.learning_rate=1e-3,3e-4", "selfplay.simulations=16,32,64"]
    plans = []
    for number, words in enumerate((["--grid", *grids], ["--grid", grids[0], "--grid", grids[1]])):
        folder = tmp_path / str(number)
        assert main(["sweep", CONFIG, *words, "--seeds", "3", "--dir", str(folder)]) == 0
        plans.append(sweep.read_plan(folder))
    assert plans[0] == plans[1] and [len(job.members) for job in plans[0].jobs] == [18]
    capsys.readouterr()
    assert main(["sweep", CONFIG, "--grid", "search.simulations=16,32", "--dir", str(tmp_path / "no")]) == 2
    assert "expected selfplay.simulations" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("learner.learning_rate", "expected KEY=VALUE"),
        ("learner.lerning_rate=1", "learning_rate"),
        ("learner.learning_rate=0", "learning_rate"),
        ("run.seed=1,2", "--seeds"),
        ("game.size=4,6", "one game"),
        ("rate=1", "section.key"),
        (
            "train.learning_rate=1e-3",
            "train.learning_rate is not a known key; expected learner.learning_rate",
        ),
        ("search.gumbel_scale=0,1", 'does nothing where selfplay.search = "puct"'),
    ],
)
def test_grids_that_cannot_be(grid, message):
    with pytest.raises(ConfigError, match=message):
        sweep.make_plan(load(CONFIG), [grid], 1)


def test_a_directory_keeps_one_sweep(tmp_path):
    one = sweep.make_plan(load(CONFIG), ["search.c_puct=1.0,2.0"], 2)
    sweep.write_plan(tmp_path / "sweep", one)
    sweep.write_plan(tmp_path / "sweep", one)
    assert sweep.read_plan(tmp_path / "sweep") == one
    other = sweep.make_plan(load(CONFIG), ["search.c_puct=1.0"], 2)
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
    command += ["selfplay.simulations=4,6", "learner.batch_size=16,32", "--set", *TINY]
    assert main([*command, "--retries", "0"]) == 0
    capsys.readouterr()
    assert main(command) == 0
    assert "2 of 2 jobs are done already" in capsys.readouterr().out
    assert main(["sweep", "report", str(folder), "--plies", "1"]) == 0
    text = capsys.readouterr().out
    assert "| learner.batch_size |" in text and "| selfplay.simulations |" in text
    assert (folder / "report.png").read_bytes().startswith(b"\x89PNG")
    assert len((folder / "members.csv").read_text().splitlines()) == 1 + 8
    assert len(json.loads((folder / "matches.json").read_text()).popitem()[1]) == 8 * 7 // 2


@pytest.mark.slow
def test_a_job_that_crashes_is_given_up_and_reported(tmp_path):
    plan = sweep.make_plan(load(CONFIG, TINY), ["search.c_puct=1.0,2.0"], 1)
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


def test_resources(tmp_path, monkeypatch, capsys):
    """They reach the launcher, as numbers."""
    got = {}
    monkeypatch.setattr(sweep, "launch_ray", lambda directory, **options: got.update(options) or [])
    command = ["sweep", CONFIG, "--grid", "search.c_puct=1.0", "--dir", str(tmp_path / "a"), "--resources"]
    assert main([*command, "num_gpus=1", "--launcher", "ray"]) == 0
    assert got["num_gpus"] == 1 and got["retries"] == 2
    assert main([*command, "num_gpus", "--launcher", "ray"]) == 2
    assert "expected KEY=VALUE" in capsys.readouterr().err
    assert main([*command, "num_gpus=1"]) == 2
    assert "--resources is for" in capsys.readouterr().err


def test_jobs_see_the_devices_of_a_cpu(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "1")
    code = "import jax, sys; sys.exit(len(jax.devices()))"
    seen = []

    def launch(directory, **_):
        seen.append(subprocess.run([sys.executable, "-c", code]).returncode)
        return []

    monkeypatch.setattr(sweep, "launch_local", launch)
    command = ["sweep", CONFIG, "--grid", "search.c_puct=1.0", "--dir", str(tmp_path / "a")]
    assert main([*command, "--cpu-devices", "3"]) == 0
    assert seen == [3]


def test_without_ray_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RunError, match=r"pip install jaxsearch\[ray\]"):
        sweep.launch_ray(tmp_path, retries=0, say=print)


@pytest.mark.slow  # starts Ray on this machine, and trains in processes
@pytest.mark.timeout(900)
def test_jobs_as_tasks_of_ray(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # 15 by default: no turn on a busy machine
    folder = tmp_path / "sweep"
    plan = sweep.make_plan(load(CONFIG, TINY), ["learner.batch_size=16,32"], 1)
    sweep.write_plan(folder, plan)
    in_the_way = folder / "jobs" / "001" / "run"
    in_the_way.mkdir(parents=True)
    (in_the_way / "other").write_text("")
    said: list[str] = []
    assert sweep.launch_ray(folder, retries=1, say=said.append, num_cpus=1) == [1]
    assert "2 jobs handed to Ray" in said[0] and "job 0: done" in said
    assert any("job 1: given up" in line and "ended with status" in line for line in said)
    (in_the_way / "other").unlink()
    said.clear()
    assert sweep.launch_ray(folder, retries=0, say=said.append, num_cpus=1) == []
    assert said == ["1 jobs handed to Ray", "job 1: done"]


def test_more_values_need_a_larger_difference():
    two = [result(value, seed, elo + 4 * seed) for value, elo in ((1, 10.0), (2, -10.0)) for seed in (0, 1)]
    three = [*two, result(3, 0, 0.0), result(3, 1, 4.0)]
    (narrow,), (wide,) = effects(two), effects(three)
    assert narrow.difference == wide.difference == 20.0
    # The same spread of seeds with one more degree of freedom, at a third of the level.
    assert wide.error == pytest.approx(narrow.error * 4.8567 / 4.3027, rel=1e-3)
