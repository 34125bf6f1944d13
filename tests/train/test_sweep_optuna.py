import csv
import json
import sys

import pytest

from train import sweep_optuna
from train.cli import main
from train.config import ConfigError, load
from train.run_directory import RunError
from train.sweep_optuna import Range, objective, optimise, parse_space

CONFIG = "configs/tic_tac_toe.toml"
SPACE = ["learner.learning_rate=1e-4:1e-2:log", "selfplay.simulations=8:32", "search.c_puct=1:3"]


def test_spaces():
    config = load(CONFIG)
    assert parse_space([*SPACE, "learner.schedule=constant,cosine", "network.embed=8:32"], config) == {
        "learner.learning_rate": Range(1e-4, 1e-2, log=True),
        "selfplay.simulations": Range(8, 32),
        "search.c_puct": Range(1.0, 3.0),
        "learner.schedule": Range(choices=("constant", "cosine")),
        "network.embed": Range(8, 32),
    }
    assert isinstance(parse_space(SPACE, config)["search.c_puct"].low, float)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learner.learning_rate", "expected KEY=LOW:HIGH"),
        ("learner.learning_rate=1e-2:1e-3", "the second is greater"),
        ("learner.learning_rate=1e-3:1e-2:linear", "LOW:HIGH:log"),
        ("learner.learning_rate=a:b", "two numbers"),
        ("learner.value_target_mix=0:1:log", "begins above 0"),
        ("selfplay.simulations=0:10", "selfplay.simulations = 0 is out of range"),
        ("search.simulations=1:10", "expected selfplay.simulations"),
    ],
)
def test_spaces_that_cannot_be(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_space([text], load(CONFIG))


def test_the_objective_is_the_last_evaluation(tmp_path):
    path = tmp_path / "metrics.jsonl"
    lines = [
        {"kind": "evaluation", "iteration": 1, "elo": 10.0},
        {"kind": "iteration", "iteration": 2},
        {"kind": "evaluation", "iteration": 2, "elo": 30.0},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert objective(tmp_path) == 30.0
    scores = {"random": {"score": 0.5}, "uct:100": {"score": 0.25}}
    path.write_text(json.dumps({"kind": "evaluation", "iteration": 1, "opponents": scores}) + "\n")
    assert objective(tmp_path) == 0.375
    path.write_text(json.dumps(lines[1]) + "\n")
    with pytest.raises(RunError, match="no evaluation"):
        objective(tmp_path)


def test_without_optuna_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    config = load(CONFIG)
    with pytest.raises(RunError, match=r"pip install jaxsearch\[optuna\]"):
        optimise(tmp_path, config, {}, trials=1, seeds=1, retries=0, say=print)


class Runs:
    """Stands in for training: Elo is best at c_puct = 2; tells what was run, and may end otherwise."""

    def __init__(self):
        self.ran, self.statuses = [], {}

    def __call__(self, here, config, retries, say):
        self.ran.append((here.parent.name, here.name))
        if status := self.statuses.pop(len(self.ran), 0):
            return status
        (here / "run").mkdir(parents=True, exist_ok=True)
        elo = -((config.search.c_puct - 2) ** 2) + config.run.seed
        record = {"kind": "evaluation", "iteration": 1, "elo": elo}
        (here / "run" / "metrics.jsonl").write_text(json.dumps(record) + "\n")
        return 0


def test_a_study_goes_on_where_it_stopped(tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    runs = Runs()
    monkeypatch.setattr(sweep_optuna, "_run", runs)
    config = load(CONFIG)
    space = parse_space(["search.c_puct=0.5:5"], config)
    said: list[str] = []

    def go(trials, seeds=2):
        return optimise(
            tmp_path / "study", config, space, trials=trials, seeds=seeds, retries=0, say=said.append
        )

    runs.statuses = {4: sweep_optuna.INTERRUPTED}  # in the second trial's second run
    assert go(4) == sweep_optuna.INTERRUPTED
    runs.ran.clear()
    runs.statuses = {3: 1}  # the third trial crashes
    assert go(4) == 0
    # The second trial again, from its first run, which goes on from its own end; then the others.
    assert runs.ran == [("001", "0"), ("001", "1"), ("002", "0"), ("003", "0"), ("003", "1")]
    rows = list(csv.DictReader((tmp_path / "study" / "trials.csv").open()))
    assert [row["objective"] for row in rows].count("nan") == 1 and len(rows) == 4
    first = rows[0]
    assert float(first["objective"]) == pytest.approx(
        0.5 - (float(first["search.c_puct"]) - 2) ** 2, rel=1e-3
    )
    best = max(float(row["objective"]) for row in rows if row["objective"] != "nan")
    assert f"Best of 3: {best:.4g}" in said[-1]
    with pytest.raises(RunError, match="another study"):
        go(4, seeds=1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    with pytest.raises(RunError, match="holds no study"):
        optimise(tmp_path / "other", config, space, trials=1, seeds=1, retries=0, say=print)


def test_options_that_do_not_go_together(capsys):
    assert main(["sweep", CONFIG, "--optuna", "3"]) == 2
    assert "go together" in capsys.readouterr().err
    command = ["sweep", CONFIG, "--optuna", "3", "--space", SPACE[0], "--workers", "2"]
    assert main(command) == 2
    assert "one trial after the other" in capsys.readouterr().err


@pytest.mark.slow  # trains in processes of their own
def test_trials_are_trained(tmp_path, capsys):
    pytest.importorskip("optuna")
    tiny = ["network.embed=8", "network.hidden=[8]", "selfplay.games=8", "selfplay.plies_per_iteration=4"]
    tiny += ["learner.batch_size=16", "learner.steps_per_iteration=1", "run.iterations=3"]
    tiny += ["run.tensorboard=false", "evaluation.games=8", 'evaluation.opponents=["random"]']
    folder = tmp_path / "study"
    command = ["sweep", CONFIG, "--optuna", "2", "--space", *SPACE, "--dir", str(folder), "--set", *tiny]
    assert main(command) == 0
    assert "Best of 2" in capsys.readouterr().out
    assert main(command) == 0  # nothing is left to do
    assert (folder / "trials" / "001" / "0" / "run" / "report.html").exists()
    assert len((folder / "trials.csv").read_text().splitlines()) == 3
