"""Checkpoints: the whole state of a run on disk, restored bit for bit, written so that a kill loses nothing.

A checkpoint is a directory `iteration_00000050/` with
    checkpoint.json   what it is: format, versions, game, network, iteration, config, every array's shape
    state/            all arrays of the state (Orbax), for resuming
    parameters/       the network's parameters once more (Orbax), for players, who need no replay buffer
It is written under another name and renamed when all of it is on disk, so a checkpoint that can be seen is
complete. Arrays are stored by dotted name: a renamed Python class does not make an old checkpoint unreadable.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Mapping
from importlib import metadata as package_metadata
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from train import hosts
from train.trees import named_leaves

__all__ = [
    "CheckpointError",
    "Identity",
    "Metadata",
    "find",
    "latest",
    "load_parameters",
    "prune",
    "read_metadata",
    "restore",
    "save",
    "saved",
]

FORMAT = 1
_METADATA, _STATE, _PARAMETERS = "checkpoint.json", "state", "parameters"
_ARRAYS = "arrays"  # Orbax's name for the one tree inside each of the two folders


class CheckpointError(ValueError):
    """A checkpoint that cannot be written, read or used here, in one sentence."""


@dataclasses.dataclass(frozen=True)
class Identity:
    """What a state belongs to; a checkpoint of another identity is refused.

    Attributes:
        game: the game's name with its parameters, `"othello(size=6)"`.
        game_version: its rules' version.
        network: the network's name.
        network_options: its options, JSON-ready.
    """

    game: str
    game_version: int
    network: str
    network_options: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Metadata:
    """What `checkpoint.json` says.

    Attributes:
        format: version of this layout.
        jaxsearch: version of the program that wrote it.
        iteration: iterations done.
        seconds: running time up to here, interruptions not counted.
        identity: game and network.
        config: the resolved config as nested plain values.
        state: shape and dtype of every array of the state, by name.
        parameters: the same for the parameters, with each array's path of keys.
    """

    format: int
    jaxsearch: str
    iteration: int
    seconds: float
    identity: Identity
    config: dict[str, Any]
    state: dict[str, Any]
    parameters: dict[str, Any]


def save(
    directory: str | Path,
    state: Any,
    parameters: Mapping[str, Any],
    *,
    identity: Identity,
    config: Mapping[str, Any],
    iteration: int,
    seconds: float,
) -> Path:
    """Writes a checkpoint into `directory` and returns its path, once it is safely on disk.

    Args:
        directory: where a run's checkpoints are.
        state: a pytree of arrays; typed keys and arrays without elements are fine.
        parameters: nested dicts of arrays.
        identity: what the state belongs to.
        config: the resolved config as nested plain values.
        iteration: iterations done, which names the checkpoint.
        seconds: running time so far.

    Raises:
        CheckpointError: if it cannot be written; earlier checkpoints are untouched.
    """
    path = Path(directory).absolute() / f"iteration_{iteration:08d}"
    partial = path.with_name(f".partial_{path.name}")
    metadata = Metadata(
        format=FORMAT,
        jaxsearch=program_version(),
        iteration=iteration,
        seconds=seconds,
        identity=identity,
        config=dict(config),
        state={name: _describe(leaf) for name, leaf in named_leaves(state).items()},
        parameters=_describe_parameters(parameters),
    )
    try:
        if hosts.is_first():
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
        hosts.barrier(f"{path.name} begun")
        _save_arrays(partial / _STATE, state)  # every process writes what its devices have
        _save_arrays(partial / _PARAMETERS, parameters)
        hosts.barrier(f"{path.name} written")
        if hosts.is_first():
            _write_synced(partial / _METADATA, json.dumps(dataclasses.asdict(metadata), indent=1))
            replaced = _set_aside(path)  # only there if the same iteration was saved before
            partial.rename(path)
            _sync_directory(path.parent)
            shutil.rmtree(replaced, ignore_errors=True)
        hosts.barrier(f"{path.name} done")
    except Exception as error:  # Orbax and TensorStore raise many kinds for one full disk
        shutil.rmtree(partial, ignore_errors=True)
        last = latest(directory)
        kept = f"the last good one is {last}" if last else "there is no earlier one"
        raise CheckpointError(
            f"{path}: the checkpoint could not be written ({_reason(error)}); {kept}. Free some space or fix "
            "the permissions, then resume."
        ) from error
    return path


def restore(path: str | Path, abstract: Any, *, identity: Identity) -> Any:
    """Reads a whole state back, bit for bit.

    Args:
        path: a checkpoint.
        abstract: a tree of `jax.ShapeDtypeStruct` as `jax.eval_shape` gives it; leaves that name a sharding
            get it, the others go to the default device.
        identity: what the state must belong to.

    Raises:
        CheckpointError: if there is no readable checkpoint, or it is of another game, game version,
            network or shapes; the message names what was expected and what came.
    """
    metadata = read_metadata(path)
    _check_identity(path, metadata.identity, identity)
    expected = {name: _describe(leaf) for name, leaf in named_leaves(abstract).items()}
    _check_arrays(path, metadata.state, expected)
    arrays = _load_arrays(Path(path) / _STATE, named_leaves(abstract))
    return jax.tree.unflatten(jax.tree.structure(abstract), [arrays[name] for name in expected])


def load_parameters(path: str | Path) -> tuple[dict[str, Any], Metadata]:
    """Reads only the parameters, as nested dicts of arrays on the default device, and the metadata.

    Args:
        path: a checkpoint, or a run directory, whose newest checkpoint is then taken.

    Raises:
        CheckpointError: if there is no readable checkpoint.
    """
    path = find(path)
    metadata = read_metadata(path)
    leaves = {
        name: jax.ShapeDtypeStruct(tuple(entry["shape"]), jnp.dtype(entry["dtype"]))
        for name, entry in metadata.parameters.items()
    }
    parameters: dict[str, Any] = {}
    for name, array in _load_arrays(path / _PARAMETERS, leaves).items():
        *parents, last = metadata.parameters[name]["path"]
        node = parameters
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = array
    return parameters, metadata


def read_metadata(path: str | Path) -> Metadata:
    """What a checkpoint says about itself.

    Raises:
        CheckpointError: if it is no checkpoint, is damaged, or was written by a later program.
    """
    try:
        content = json.loads((Path(path) / _METADATA).read_text())
    except FileNotFoundError:
        message = f"{path}: no checkpoint here; expected a directory with {_METADATA} in it."
        raise CheckpointError(message) from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: {_METADATA} cannot be read ({_reason(error)}).") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: {_METADATA} is damaged (no JSON object).")
    if content.get("format") != FORMAT:
        raise CheckpointError(
            f"{path}: expected checkpoint format {FORMAT}, got {content.get('format')}, written by jaxsearch "
            f"{content.get('jaxsearch', 'unknown')}; use that version to read it."
        )
    try:
        return Metadata(**{**content, "identity": Identity(**content["identity"])})
    except (TypeError, KeyError) as error:
        raise CheckpointError(f"{path}: {_METADATA} is damaged ({_reason(error)}).") from error


def saved(directory: str | Path) -> dict[int, Path]:
    """The complete checkpoints in `directory` by iteration, oldest first."""
    found = {}
    for path in Path(directory).glob("iteration_*"):
        match = re.fullmatch(r"iteration_(\d+)", path.name)
        if match and (path / _METADATA).is_file():
            found[int(match[1])] = path
    return dict(sorted(found.items()))


def latest(directory: str | Path) -> Path | None:
    """The newest complete checkpoint in `directory`, or None."""
    return next(reversed(saved(directory).values()), None)


def find(path: str | Path) -> Path:
    """The checkpoint that `path` means: itself, or the newest of a run directory.

    Raises:
        CheckpointError: if there is none.
    """
    path = Path(path)
    if (path / _METADATA).is_file():
        return path
    newest = latest(path / "checkpoints") or latest(path)
    if newest is None:
        problem = "holds no checkpoint" if path.is_dir() else "is no directory"
        raise CheckpointError(f"{path} {problem}; expected a checkpoint or a run directory with checkpoints.")
    return newest


def prune(directory: str | Path, *, keep: int, milestone_every: int = 0) -> None:
    """Deletes all checkpoints but the newest `keep` and those at multiples of `milestone_every`.

    Remains of saves that were killed go too.
    """
    if not hosts.is_first():
        return
    found = saved(directory)
    for iteration in list(found)[:-keep]:
        if not (milestone_every and iteration % milestone_every == 0):
            _set_aside(found[iteration])
    for left_over in Path(directory).glob(".partial_*"):
        shutil.rmtree(left_over, ignore_errors=True)


def program_version() -> str:
    """The installed version of jaxsearch, or "unknown" where it is not installed."""
    try:
        return package_metadata.version("jaxsearch")
    except package_metadata.PackageNotFoundError:
        return "unknown"


# Arrays


def _save_arrays(path: Path, tree: Any) -> None:
    from orbax.checkpoint import v1 as ocp  # takes a second to import

    arrays = {name: leaf for name, leaf in named_leaves(tree).items() if leaf.size}
    if arrays:  # Orbax takes neither an array nor a tree with nothing in it
        ocp.save(str(path), arrays, checkpointable_name=_ARRAYS)


def _load_arrays(path: Path, leaves: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays by name, shaped as `leaves` (ShapeDtypeStruct) say; the shapes must be those on disk."""
    from orbax.checkpoint import v1 as ocp

    device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    wanted = {
        name: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=getattr(leaf, "sharding", None) or device)
        for name, leaf in leaves.items()
        if leaf.size
    }
    try:
        arrays = ocp.load(str(path.absolute()), wanted, checkpointable_name=_ARRAYS) if wanted else {}
    except Exception as error:  # Orbax and TensorStore raise many kinds for one damaged file
        raise CheckpointError(
            f"{path.parent}: the checkpoint is damaged ({_reason(error)}); remove it to use an earlier one."
        ) from error
    return {
        name: arrays[name] if leaf.size else jnp.zeros(leaf.shape, leaf.dtype)
        for name, leaf in leaves.items()
    }


def _describe(leaf: Any) -> dict[str, Any]:
    return {"shape": list(leaf.shape), "dtype": str(leaf.dtype)}


def _describe_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    described = {}
    paths = jax.tree_util.tree_leaves_with_path(parameters)
    for (path, leaf), name in zip(paths, named_leaves(parameters)):
        keys = [getattr(key, "key", None) for key in path]
        if not all(isinstance(key, str) for key in keys):
            raise TypeError(f"Parameters must be nested dicts with string keys; {name} lies elsewhere.")
        described[name] = {**_describe(leaf), "path": keys}
    return described


# Checks


def _check_identity(path: str | Path, found: Identity, expected: Identity) -> None:
    wanted = json.loads(json.dumps(dataclasses.asdict(expected)))  # tuples as JSON has them
    for name, come in dataclasses.asdict(found).items():
        if come != wanted[name]:
            raise CheckpointError(
                f"{path}: the checkpoint does not fit: expected {name.replace('_', ' ')} "
                f"{json.dumps(wanted[name])}, got {json.dumps(come)}."
            )


def _check_arrays(path: str | Path, found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    wrong = [name for name in {**expected, **found} if found.get(name) != expected.get(name)]
    if wrong:
        first = wrong[0]
        more = f" ({len(wrong)} arrays differ)" if len(wrong) > 1 else ""
        raise CheckpointError(
            f"{path}: the checkpoint does not fit: expected {first} as {_shape(expected.get(first))}, got "
            f"{_shape(found.get(first))}{more}. Use the config it was made with."
        )


def _shape(entry: Mapping[str, Any] | None) -> str:
    return f"{entry['dtype']}{entry['shape']}" if entry else "absent"


# Files


def _write_synced(path: Path, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    """Makes a rename last through a power cut, where the system lets directories be synced."""
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _set_aside(path: Path) -> Path:
    """Renames a checkpoint about to be deleted, so that no half of it is ever taken for a whole one."""
    doomed = path.with_name(f".partial_removed_{path.name}")
    shutil.rmtree(doomed, ignore_errors=True)
    if path.exists():
        path.rename(doomed)
    return doomed


def _reason(error: BaseException) -> str:
    """The error's first line, without the pages that TensorStore adds."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = (str(error) or type(error).__name__).strip().splitlines()[0]
    return text if len(text) <= 200 else text[:197] + "..."
