"""A run of two processes on this machine."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from train import checkpoint
from train.cli import main
from train.metrics import read_jsonl

SETTINGS = [
    "game.name=tic_tac_toe",
    "network.name=mlp",
    "network.width=8",
    "network.depth=1",
    "selfplay.games=8",
    "selfplay.plies_per_iteration=2",
    "selfplay.simulations=4",
    "replay.capacity=256",
    "learner.batch_size=16",
    "learner.steps_per_iteration=1",
    "evaluation.every=0",
    "mesh.data=0",
    "run.tensorboard=false",
]


def start(config, folder, *extra):
    """Both processes of a run on `folder`."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listening.getsockname()[1]}"
    code = "import sys; from train.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "train", str(config), "--dir", str(folder), "--distributed"]
    command += ["--coordinator", address, "--processes", "2", *extra, "--set", *SETTINGS]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    return [
        subprocess.Popen(
            [*command, "--process", str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for number in range(2)
    ]


@pytest.mark.slow  # four processes compile a training program
def test_two_processes_train_save_and_go_on_after_one_is_killed(tmp_path):
    config, folder = tmp_path / "config.toml", tmp_path / "run"
    config.write_text("")
    endless = ["run.iterations=1000000", "checkpoint.every=5"]
    processes = start(config, folder, "--set", *endless)
    deadline = time.monotonic() + 300
    while not list(folder.glob("checkpoints/iteration_*5")) and time.monotonic() < deadline:
        assert all(process.poll() is None for process in processes), processes[0].communicate()
        time.sleep(0.5)
    processes[1].send_signal(signal.SIGKILL)
    out, errors = processes[0].communicate(timeout=120)
    assert processes[0].returncode not in (0, None)
    # Ours with the way out, unless JAX, which watches too, has ended the process before.
    ours = "another process of this run is lost" in errors and "--resume" in errors
    assert ours or "another task died" in errors, errors[-2000:]
    silent, _ = processes[1].communicate()
    assert "iteration" in out and "iteration" not in silent  # only the first prints

    last = max(int(path.name[-8:]) for path in folder.glob("checkpoints/iteration_*"))
    processes = start(config, folder, "--resume", "--set", f"run.iterations={last + 3}", "checkpoint.every=5")
    for process in processes:
        out, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors[-2000:]
    records = [r for r in read_jsonl(folder / "metrics.jsonl") if r["kind"] == "iteration"]
    assert [record["iteration"] for record in records] == list(range(1, last + 4))
    newest = checkpoint.latest(folder / "checkpoints")
    assert newest is not None and checkpoint.read_metadata(newest).iteration == last + 3


def test_addresses_without_distributed_are_a_mistake(capsys):
    assert main(["train", "configs/tic_tac_toe.toml", "--process", "1"]) == 2
    assert "go with --distributed" in capsys.readouterr().err
