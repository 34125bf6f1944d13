"""The run loop: 10 + 10 iterations are 20, however the first ten ended; stops, refusals, failures."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_run import SilentDisplay, ToyExperiment, config, evaluate

from train import checkpoint
from train.checkpoint import CheckpointError
from train.metrics import read_jsonl
from train.run import RunError, run
from train.run_directory import locked

TOY = Path(__file__).with_name("toy_run.py")
TIMES = ("seconds", "iteration_seconds", "evaluation_seconds", "games_per_second", "plies_per_second")
TIMES += ("idle_share",)


@pytest.fixture(scope="module")
def experiment():
    return ToyExperiment()


@pytest.fixture(scope="module")
def straight(experiment, tmp_path_factory):
    """Twenty iterations without a stop: the final state's bits, and what was logged but for times."""
    directory = tmp_path_factory.mktemp("straight") / "run"
    result = go(experiment, directory)
    assert (result.iteration, result.reason) == (20, "iterations")
    return bits(result.state), logged(directory)


def go(experiment, directory, *, evaluate=evaluate, resume=False, display=None, **changes):
    display = display or SilentDisplay()
    return run(
        config(**changes),
        directory,
        experiment=experiment,
        evaluate=evaluate,
        resume=resume,
        display=display,
    )


def bits(state):
    plain = jax.tree.map(
        lambda leaf: jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf,
        state,
    )
    return [(str(leaf.dtype), leaf.shape, np.asarray(leaf).tobytes()) for leaf in jax.tree.leaves(plain)]


def logged(directory):
    return [
        {key: value for key, value in record.items() if key not in TIMES}
        for record in read_jsonl(directory / "metrics.jsonl")
    ]


def test_ten_and_ten_are_twenty(experiment, straight, tmp_path):
    first = go(experiment, tmp_path / "run", iterations=10)
    assert first.iteration == 10
    # Not `first.seconds`, which count what followed the checkpoint too.
    before = checkpoint.read_metadata(checkpoint.find(tmp_path / "run")).seconds
    second = go(experiment, tmp_path / "run", iterations=20, resume=True)
    assert (bits(second.state), logged(tmp_path / "run")) == straight
    assert second.seconds > before > 0


def test_a_run_leaves_its_directory(experiment, tmp_path):
    result = go(experiment, tmp_path / "run", tensorboard=True, keep=2, milestone_every=10)
    directory = tmp_path / "run"
    assert list(checkpoint.saved(directory / "checkpoints")) == [10, 15, 20]
    assert result.evaluation is not None and result.evaluation["iteration"] == 20
    assert 'name = "toy"' in (directory / "config.toml").read_text()
    (start,) = json.loads((directory / "versions.json").read_text())
    assert start["jax"] == jax.__version__ and start["devices"] == [d.device_kind for d in jax.devices()]
    assert (directory / "report.png").stat().st_size and "size = 3" in (directory / "report.html").read_text()
    pytest.importorskip("tensorboardX")
    assert list((directory / "tensorboard").glob("events*"))
    records = read_jsonl(directory / "metrics.jsonl")
    assert [record["iteration"] for record in records if record["kind"] == "iteration"] == list(range(1, 21))
    assert [record["iteration"] for record in records if record["kind"] == "evaluation"] == [5, 10, 15, 20]
    for record in records:
        if record["kind"] == "iteration":
            assert record["games_per_second"] == pytest.approx(8 / record["iteration_seconds"])


def test_metrics_are_fetched_one_iteration_late(tmp_path):
    display = SilentDisplay()
    seen = []

    class Watched(ToyExperiment):
        def iterate(self, state):
            seen.append(len(display.records))
            return super().iterate(state)

    go(Watched(), tmp_path / "run", iterations=6, every=6, evaluation_every=0, evaluate=None, display=display)
    assert seen == [0, 0, 1, 2, 3, 4]  # iteration k starts when k - 2 are logged
    assert [record["iteration"] for record in display.records] == [1, 2, 3, 4, 5, 6]


def test_directories_that_are_refused(experiment, tmp_path):
    directory = tmp_path / "run"
    go(experiment, directory, iterations=5)
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}

    def refusal(directory=directory, **options):
        with pytest.raises(RunError) as error:
            go(experiment, directory, **options)
        assert "\n" not in str(error.value)
        return str(error.value)

    message = refusal(iterations=10)
    assert "already holds a run (5 iterations saved)" in message
    assert "--resume" in message and "--dir" in message
    message = refusal(iterations=10, resume=True, seed=4, every=7)
    assert "run.seed (was 0, now 4)" in message and "checkpoint.every (was 5, now 7)" in message
    assert "run.iterations (" not in message
    assert (
        "only run.iterations, run.minutes, run.time_table, mesh.data, mesh.population may change" in message
    )
    with locked(directory):
        assert "in use: another process trains in it" in refusal(iterations=10, resume=True)
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before

    (tmp_path / "file").write_text("mine")
    assert "is a file" in refusal(tmp_path / "file")
    assert "is not empty and holds no run" in refusal(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "run"]
    with pytest.raises(RunError, match="cannot write there"):
        go(experiment, tmp_path / "file" / "run")


def test_another_network_is_refused_on_resume(experiment, tmp_path):
    go(experiment, tmp_path / "run", iterations=5)
    with pytest.raises(CheckpointError, match="expected network options"):
        go(ToyExperiment(features=9), tmp_path / "run", iterations=10, resume=True)
    with pytest.raises(CheckpointError, match=r'expected game "tic_tac_toe", got "toy"'):
        go(ToyExperiment(game="tic_tac_toe"), tmp_path / "run", iterations=10, resume=True)


def test_resuming_where_there_is_nothing_starts(experiment, straight, tmp_path):
    result = go(experiment, tmp_path / "run", resume=True)
    assert (bits(result.state), logged(tmp_path / "run")) == straight


def test_resuming_a_finished_run_changes_nothing(experiment, straight, tmp_path):
    go(experiment, tmp_path / "run")
    result = go(experiment, tmp_path / "run", resume=True)
    assert result.reason == "iterations"
    assert (bits(result.state), logged(tmp_path / "run")) == straight
    assert len(json.loads((tmp_path / "run" / "versions.json").read_text())) == 2


def test_the_time_limit(experiment, tmp_path):
    result = go(experiment, tmp_path / "run", minutes=1e-9)
    assert (result.iteration, result.reason) == (0, "minutes")
    result = go(experiment, tmp_path / "run", iterations=5, minutes=60.0, resume=True)
    assert (result.iteration, result.reason) == (5, "iterations")
    assert result.evaluation is not None
    spent = result.evaluation["seconds"]  # which counts
    result = go(experiment, tmp_path / "run", iterations=10, minutes=spent / 60, resume=True)
    assert (result.iteration, result.reason) == (5, "minutes")


def test_an_evaluation_that_failed_is_made_up_for(experiment, straight, tmp_path):
    def fail_at_ten(state, iteration):
        if iteration == 10:
            raise ZeroDivisionError
        return evaluate(state, iteration)

    with pytest.raises(ZeroDivisionError):
        go(experiment, tmp_path / "run", evaluate=fail_at_ten)
    result = go(experiment, tmp_path / "run", resume=True)
    assert (bits(result.state), logged(tmp_path / "run")) == straight


@pytest.mark.parametrize("poison_at", [7, 10])
def test_nan_stops_and_keeps_the_last_good_checkpoint(experiment, straight, tmp_path, poison_at):
    directory = tmp_path / "run"
    with pytest.raises(RunError) as error:
        go(ToyExperiment(poison_at=poison_at), directory)
    message = str(error.value)
    # A poisoned 7 shows in the loss of 8; a poisoned 10 is found when it is to be saved.
    where = {
        7: "Iteration 8: NaN or infinity in metric value_loss, tensor parameters",
        10: "Iteration 10: NaN",
    }
    assert message.startswith(where[poison_at])
    assert "tensor parameters.dense.bias" in message and "\n" not in message
    assert list(checkpoint.saved(directory / "checkpoints")) == [5]
    assert f"The last good checkpoint is {directory / 'checkpoints' / 'iteration_00000005'}" in message
    result = go(experiment, directory, resume=True)
    assert (bits(result.state), logged(directory)) == straight


def test_a_full_disk(straight, tmp_path):
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    directory = tmp_path / "run"

    def fill_the_disk(state, iteration):
        if iteration == 5:  # from here on no file may be longer than the log is now
            size = (directory / "metrics.jsonl").stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        return evaluate(state, iteration)

    experiment = ToyExperiment()
    jax.block_until_ready(experiment.iterate(experiment.init(0)))  # compiled, and cached, before
    try:
        with pytest.raises(RunError) as error:
            go(experiment, directory, evaluate=fill_the_disk)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "metrics could not be written (File too large); training stopped" in str(error.value)
    assert "iteration_00000005. Free some space" in str(error.value)
    result = go(experiment, directory, resume=True)
    assert (bits(result.state), logged(directory)) == straight


def start(directory, *options):
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, str(TOY), str(directory), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )


def wait_for_iteration(process, directory, number):
    deadline = time.monotonic() + 120
    while not any(record["iteration"] >= number for record in read_jsonl(directory / "metrics.jsonl")):
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop(experiment, straight, tmp_path, number):
    directory = tmp_path / "run"
    process = start(directory, "--sleep", "0.2")
    wait_for_iteration(process, directory, 6)
    process.send_signal(number)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert "Stopping after this iteration, saving first; Ctrl-C again leaves at once." in output
    done = max(checkpoint.saved(directory / "checkpoints"))
    assert 6 <= done < 20
    assert f"Stopped and saved after {done} iterations" in output
    assert f"Resume with: jaxsearch train {directory}/config.toml --dir {directory} --resume" in output
    assert max(record["iteration"] for record in read_jsonl(directory / "metrics.jsonl")) == done
    result = go(experiment, directory, resume=True)
    assert (bits(result.state), logged(directory)) == straight


def test_the_second_ctrl_c_leaves_at_once(tmp_path):
    process = start(tmp_path / "run", "--sleep", "1000")  # one iteration that does not end
    while not (tmp_path / "run" / "metrics.jsonl").exists():
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.5)  # from opening the log into the iteration
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert any("Stopping after this iteration" in line for line in process.stdout)
    time.sleep(0.5)  # two signals within 0.3 s count as one
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Left at once." in output


def test_kill_and_resume(experiment, straight, tmp_path):
    directory = tmp_path / "run"
    process = start(directory, "--sleep", "0.1")
    wait_for_iteration(process, directory, 8)
    process.kill()
    process.communicate()
    result = go(experiment, directory, resume=True)
    assert (bits(result.state), logged(directory)) == straight


def test_states_differ_by_seed(experiment, straight, tmp_path):
    """Guards the comparisons above: they can tell runs apart."""
    result = go(experiment, tmp_path / "run", seed=1)
    assert bits(result.state) != straight[0] and logged(tmp_path / "run") != straight[1]
    assert dataclasses.is_dataclass(result)
