import types

import pytest
import toy_run

from train import alphazero, time_table
from train.config import Config, RunConfig
from train.metrics import JsonlSink
from train.run import run
from train.schema import from_dict


def iteration(number, seconds):
    return {"kind": "iteration", "iteration": number, "seconds": 0.0, "iteration_seconds": seconds}


RECORDS = [
    iteration(1, 12.0),
    iteration(2, 2.0),
    {"kind": "evaluation", "iteration": 2, "seconds": 0.0, "evaluation_seconds": 5.0},
    iteration(3, 2.0),
    iteration(4, 1.0),
]


def test_rows_add_up():
    found = dict(time_table.rows(RECORDS, 25.0, {"search": 0.3, "learn": 0.1}))
    assert found == {
        "iterations": 7.0,
        "  search": pytest.approx(5.25),
        "  learn": pytest.approx(1.75),
        "compiling them": 10.0,
        "evaluations": 5.0,
        "saving and the rest": 3.0,
    }


def test_a_run_ends_with_the_table(tmp_path):
    display = toy_run.SilentDisplay()
    settings = toy_run.config()
    run(settings, tmp_path / "run", experiment=toy_run.ToyExperiment(), display=display)
    (start,) = [n for n, text in enumerate(display.messages) if text.startswith("Where ")]
    names = [text.split("  ")[1] for text in display.messages[start + 1 :]]
    assert names == ["iterations", "compiling them", "evaluations", "saving and the rest"]


def lines_of(folder, experiment, *, seconds, reason="iterations", **settings):
    sink = JsonlSink(folder / "metrics.jsonl")
    for record in RECORDS:
        sink.write(record)
    sink.close()
    result = types.SimpleNamespace(directory=folder, seconds=seconds, reason=reason, state=None)
    return time_table.lines(RunConfig(**settings), result, experiment)


def test_parts_are_timed_where_that_is_cheap(tmp_path, monkeypatch):
    small = {
        "game": {"name": "tic_tac_toe"},
        "network": {"name": "mlp"},
        "selfplay": {"games": 4, "plies_per_iteration": 2, "simulations": 2},
        "learner": {"batch_size": 8},
    }
    experiment = alphazero.setup(from_dict(Config, small))
    monkeypatch.setattr(
        "train.profile.parts", lambda *_, **__: {"search and moves": 3.0, "gradient steps": 1.0}
    )
    told = lines_of(tmp_path, experiment, seconds=300.0)
    assert len(told) == 1 + 4 + 2 and "search and moves" in told[2]
    assert len(lines_of(tmp_path, experiment, seconds=30.0)) == 1 + 4  # more than a tenth
    monkeypatch.setattr(time_table, "MOST_COMPILING", 9.0)
    assert len(lines_of(tmp_path, experiment, seconds=300.0)) == 1 + 4
    assert not lines_of(tmp_path, experiment, seconds=300.0, time_table=False)
    assert not lines_of(tmp_path, experiment, seconds=300.0, reason="interrupted")
