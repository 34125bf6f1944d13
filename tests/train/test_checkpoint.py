"""Checkpoints: every bit comes back; what does not fit is refused; kills and full disks lose nothing."""

from __future__ import annotations

import contextlib
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
import optax
import pytest

from train import checkpoint
from train.checkpoint import CheckpointError, Identity

IDENTITY = Identity("othello(size=6)", 1, "mlp", {"widths": (64, 64)})


def bits(leaf) -> tuple[str, tuple[int, ...], bytes]:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return str(leaf.dtype), leaf.shape, np.asarray(jax.random.key_data(leaf)).tobytes()
    return str(leaf.dtype), leaf.shape, np.asarray(leaf).tobytes()


def assert_same_bits(a, b) -> None:
    assert jax.tree.structure(a) == jax.tree.structure(b)
    assert [bits(leaf) for leaf in jax.tree.leaves(a)] == [bits(leaf) for leaf in jax.tree.leaves(b)]


def parameters_of(seed: int) -> dict:
    kernel = jax.random.normal(jax.random.key(seed), (5, 3))
    return {"params": {"Dense_0": {"kernel": kernel, "bias": jnp.full(3, -0.0)}}, "scale": jnp.float32(seed)}


def state_of(seed: int = 0) -> dict:
    parameters = parameters_of(seed)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(1e-3, 9)))
    odd_floats = np.array([0x7FC01234, 0xFFC00001, 0x80000000, 0x7F800000, 1], np.uint32).view(np.float32)
    return {
        "parameters": parameters,
        "optimizer": optimizer.init(parameters),
        "key": jax.random.key(seed),
        "keys": jax.random.split(jax.random.key(seed, impl="rbg"), 4),
        "odd": jnp.asarray(odd_floats),
        "half": jnp.arange(6, dtype=jnp.bfloat16).reshape(2, 3),
        "flags": jnp.arange(10) % 3 == 0,
        "words": jnp.array([2**32 - 1, 0], jnp.uint32),
        "iteration": jnp.int32(seed),
        "nothing": jnp.zeros((0, 4), jnp.int8),
        "absent": None,
        "names.with/odd": {"a b": jnp.int8(-3)},
    }


def save(directory, state, iteration=1, identity=IDENTITY):
    return checkpoint.save(
        directory,
        state,
        state["parameters"],
        identity=identity,
        config={"run": {"seed": 3}},
        iteration=iteration,
        seconds=1.5,
    )


def abstract_of(state):
    return jax.eval_shape(lambda: state)


def test_every_bit_comes_back(tmp_path):
    state = state_of()
    path = save(tmp_path, state, iteration=50)
    assert_same_bits(checkpoint.restore(path, abstract_of(state), identity=IDENTITY), state)
    metadata = checkpoint.read_metadata(path)
    assert (metadata.iteration, metadata.seconds, metadata.config) == (50, 1.5, {"run": {"seed": 3}})


@pytest.mark.skipif(jax.device_count() < 2, reason="needs several devices")
def test_on_several_devices(tmp_path):
    mesh = jax.make_mesh((jax.device_count(),), ("games",))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("games"))
    games = jax.device_put(jnp.arange(4.0 * jax.device_count()), split)
    state = {"parameters": {"w": jnp.ones(3)}, "games": games}
    path = save(tmp_path, state)
    # What is asked for with a sharding gets it; what is not comes to one device, as for a player.
    restored = checkpoint.restore(
        path,
        {**abstract_of(state), "games": jax.ShapeDtypeStruct(games.shape, games.dtype, sharding=split)},
        identity=IDENTITY,
    )
    assert_same_bits(restored, state)
    assert restored["games"].sharding == split
    gathered = checkpoint.restore(
        path,
        {**abstract_of(state), "games": jax.ShapeDtypeStruct(games.shape, games.dtype)},
        identity=IDENTITY,
    )
    assert_same_bits(gathered, state)
    assert len(gathered["games"].sharding.device_set) == 1


def test_players_read_parameters_alone(tmp_path):
    save(tmp_path / "checkpoints", state_of(1), iteration=1)
    path = save(tmp_path / "checkpoints", state_of(2), iteration=10)
    for given in (path, tmp_path / "checkpoints", tmp_path):
        parameters, metadata = checkpoint.load_parameters(given)
        assert_same_bits(parameters, parameters_of(2))
        assert metadata.identity.game == "othello(size=6)"
    for file in (path / "state").rglob("*"):  # the state is not needed
        if file.is_file():
            file.unlink()
    assert_same_bits(checkpoint.load_parameters(path)[0], parameters_of(2))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"game": "hex(size=6)"}, 'expected game "hex(size=6)", got "othello(size=6)"'),
        ({"game_version": 2}, "expected game version 2, got 1"),
        ({"network": "resnet"}, 'expected network "resnet", got "mlp"'),
        (
            {"network_options": {"widths": (64,)}},
            'expected network options {"widths": [64]}, got {"widths": [64, 64]}',
        ),
    ],
)
def test_of_something_else(tmp_path, change, said):
    state = state_of()
    path = save(tmp_path, state)
    with pytest.raises(CheckpointError) as error:
        checkpoint.restore(path, abstract_of(state), identity=dataclasses.replace(IDENTITY, **change))
    assert str(error.value) == f"{path}: the checkpoint does not fit: {said}."


def test_of_other_shapes(tmp_path):
    state = state_of()
    path = save(tmp_path, state)

    def refusal(other):
        with pytest.raises(CheckpointError) as error:
            checkpoint.restore(path, abstract_of(other), identity=IDENTITY)
        return str(error.value)

    other = {**state, "parameters": {**state["parameters"], "scale": jnp.zeros(3)}}
    assert "expected parameters.scale as float32[3], got float32[]" in refusal(other)
    # Orbax would cast this one without a word.
    assert "expected iteration as float32[], got int32[]" in refusal({**state, "iteration": jnp.float32(0)})
    assert "expected key as key<rbg>[], got key<fry>[]" in refusal(
        {**state, "key": jax.random.key(0, impl="rbg")}
    )
    assert "expected more as float32[], got absent" in refusal({**state, "more": jnp.float32(0)})
    assert "expected iteration as absent, got int32[]" in refusal({**state, "iteration": None})
    wide = {**state, "half": jnp.zeros((2, 4), jnp.bfloat16), "odd": jnp.zeros(6)}
    assert "expected half as bfloat16[2, 4], got bfloat16[2, 3] (2 arrays differ)" in refusal(wide)


def test_what_is_no_checkpoint(tmp_path):
    abstract = abstract_of(state_of())
    with pytest.raises(CheckpointError, match="no checkpoint here; expected a directory"):
        checkpoint.restore(tmp_path / "nowhere", abstract, identity=IDENTITY)
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        checkpoint.load_parameters(tmp_path)
    with pytest.raises(CheckpointError, match="is no directory"):
        checkpoint.load_parameters(tmp_path / "nowhere")

    path = save(tmp_path, state_of())
    file = path / "checkpoint.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "format": 99, "jaxsearch": "9.9"}))
    with pytest.raises(
        CheckpointError, match=r"expected checkpoint format 1, got 99, written by jaxsearch 9\.9"
    ):
        checkpoint.read_metadata(path)
    for damaged in ('{"format": 1', "[]", '{"format": 1, "iteration": 3}'):
        file.write_text(damaged)
        with pytest.raises(CheckpointError, match=r"checkpoint\.json (cannot be read|is damaged)"):
            checkpoint.read_metadata(path)


def test_damaged_arrays(tmp_path):
    state = state_of()
    path = save(tmp_path, state)
    data = max((path / "state").rglob("*"), key=lambda file: file.stat().st_size if file.is_file() else 0)
    data.write_bytes(data.read_bytes()[:40])
    with pytest.raises(
        CheckpointError, match=r"the checkpoint is damaged \(.+\); remove it to use an earlier one"
    ):
        checkpoint.restore(path, abstract_of(state), identity=IDENTITY)


def test_saving_the_same_iteration_again_replaces_it(tmp_path):
    save(tmp_path, state_of(1), iteration=5)
    path = save(tmp_path, state_of(2), iteration=5)
    assert_same_bits(checkpoint.restore(path, abstract_of(state_of()), identity=IDENTITY), state_of(2))
    assert [entry.name for entry in tmp_path.iterdir()] == ["iteration_00000005"]


def test_parameters_must_be_nested_dicts(tmp_path):
    state = {"parameters": {"layers": [jnp.zeros(2)]}}
    with pytest.raises(TypeError, match=r"nested dicts with string keys; layers\.0"):
        save(tmp_path, state)


def test_prune(tmp_path):
    for iteration in range(1, 8):
        (tmp_path / f"iteration_{iteration:08d}").mkdir()
        (tmp_path / f"iteration_{iteration:08d}" / "checkpoint.json").write_text("{}")
    (tmp_path / ".partial_iteration_00000009").mkdir()
    (tmp_path / "iteration_00000010").mkdir()  # nothing in it: not one of ours
    checkpoint.prune(tmp_path, keep=2, milestone_every=3)
    assert list(checkpoint.saved(tmp_path)) == [3, 6, 7]
    assert not list(tmp_path.glob(".partial_*"))
    checkpoint.prune(tmp_path, keep=1)
    assert list(checkpoint.saved(tmp_path)) == [7]


@contextlib.contextmanager
def largest_file(size: int):
    """Writes beyond `size` bytes of a file fail, as on a full disk."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path):
    def big(seed):
        return {**state_of(seed), "replay": jax.random.normal(jax.random.key(seed), (100_000,))}

    good = save(tmp_path, big(1), iteration=1)
    state = big(2)
    with largest_file(100_000), pytest.raises(CheckpointError) as error:
        save(tmp_path, state, iteration=2)
    message = str(error.value)
    assert "iteration_00000002: the checkpoint could not be written (" in message
    assert f"the last good one is {good}" in message and "\n" not in message
    assert [entry.name for entry in tmp_path.iterdir()] == ["iteration_00000001"]
    assert_same_bits(checkpoint.restore(good, abstract_of(state), identity=IDENTITY), big(1))
    save(tmp_path, state, iteration=2)  # and with space again it works
    assert list(checkpoint.saved(tmp_path)) == [1, 2]


SAVE_FOREVER = """
import sys
from pathlib import Path
import jax
from train import checkpoint
from train.checkpoint import Identity
parameters = {"a": jax.numpy.zeros(3)}
for iteration in range(1, 10_000):
    state = {"replay": jax.random.normal(jax.random.key(iteration), (1_000_000,)), "parameters": parameters}
    checkpoint.save(sys.argv[1], state, parameters, identity=Identity("g", 1, "n", {}), config={},
                    iteration=iteration, seconds=0.0)
    checkpoint.prune(sys.argv[1], keep=2)
"""


def test_kill_in_the_middle_of_a_save(tmp_path):
    killed_inside = 0
    for attempt in range(2):
        directory = tmp_path / str(attempt)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen([sys.executable, "-c", SAVE_FOREVER, str(directory)], env=environment)
        try:
            # Wait until a save is under way beside a finished one, a little further into it at each attempt.
            deadline = time.monotonic() + 120
            while not (checkpoint.latest(directory) and list(directory.glob(".partial_iteration*/state"))):
                assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.03 * attempt)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        killed_inside += bool(list(directory.glob(".partial_iteration*")))
        path = checkpoint.latest(directory)
        assert path is not None
        iteration = checkpoint.read_metadata(path).iteration
        replay = jax.random.normal(jax.random.key(iteration), (1_000_000,))
        state = {"replay": replay, "parameters": {"a": jnp.zeros(3)}}
        restored = checkpoint.restore(path, abstract_of(state), identity=Identity("g", 1, "n", {}))
        assert_same_bits(restored, state)
        checkpoint.prune(directory, keep=2)
        assert not list(directory.glob(".partial_*"))
    assert killed_inside, "no attempt hit a save; the test shows nothing"


def test_no_parameters(tmp_path):
    path = save(tmp_path, {"parameters": {}, "nothing": jnp.zeros((2, 0))})
    assert checkpoint.load_parameters(path)[0] == {}
    restored = checkpoint.restore(
        path, {"parameters": {}, "nothing": jax.ShapeDtypeStruct((2, 0), "float32")}, identity=IDENTITY
    )
    assert restored["nothing"].shape == (2, 0)


def test_paths_may_be_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state = state_of()
    save("run/checkpoints", state)
    path = checkpoint.latest("run/checkpoints")
    assert path is not None and path == Path("run/checkpoints/iteration_00000001")
    assert_same_bits(checkpoint.restore(path, abstract_of(state), identity=IDENTITY), state)
