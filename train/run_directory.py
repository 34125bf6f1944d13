"""A run's directory: what may start or go on in it, and what it says about where the run came from.

config.toml      the resolved config, every key
versions.json    for each start: program, libraries, devices, git commit
metrics.jsonl    one record per iteration and per evaluation
tensorboard/     the same for TensorBoard, if wanted
checkpoints/     the newest and the milestones
report.html, report.png
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import subprocess
from collections.abc import Iterator, Sequence
from importlib import metadata as package_metadata
from pathlib import Path
from typing import Any

from train import checkpoint, schema_toml
from train.schema import differences, quoted

__all__ = [
    "CHECKPOINTS",
    "CONFIG",
    "METRICS",
    "TENSORBOARD",
    "VERSIONS",
    "RunError",
    "check_directory",
    "locked",
    "record_start",
    "versions",
    "write_bytes",
    "write_text",
]

CONFIG, VERSIONS, METRICS = "config.toml", "versions.json", "metrics.jsonl"
CHECKPOINTS, TENSORBOARD, LOCK = "checkpoints", "tensorboard", "run.lock"


class RunError(RuntimeError):
    """A run that cannot start or go on, in one sentence."""


def check_directory(directory: Path, config: Any, *, resume: bool, may_change: Sequence[str] = ()) -> None:
    """Checks that a run of `config` may start, or go on, in `directory`; writes nothing.

    Args:
        directory: the run's directory, which need not exist.
        config: a `@settings` object.
        resume: whether to go on with the run that is there; where there is none, one starts.
        may_change: dotted keys that may differ from those of the run that is there.

    Raises:
        RunError: if the directory holds a run and `resume` is false, holds other things, or holds a run of
            another config.
    """
    if directory.exists() and not directory.is_dir():
        raise RunError(f"{directory} is a file; expected a directory for the run, give another with --dir.")
    if (directory / CONFIG).exists():
        if not resume:
            done = max(checkpoint.saved(directory / CHECKPOINTS), default=0)
            raise RunError(
                f"{directory} already holds a run ({done} iterations saved); go on with it by --resume, or "
                "choose another directory with --dir."
            )
        _check_config(directory, config, may_change)
    elif directory.is_dir() and any(path.name != LOCK for path in directory.iterdir()):
        raise RunError(
            f"{directory} is not empty and holds no run (no {CONFIG}); choose another directory with --dir."
        )


def record_start(directory: Path, config: Any) -> None:
    """Writes the resolved config, and adds this start to the list of versions.

    Raises:
        RunError: if the directory cannot be written.
    """
    try:
        write_text(directory / CONFIG, schema_toml.to_toml(config))
        _add_versions(directory / VERSIONS)
    except OSError as error:
        raise _unwritable(directory, error) from error


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Holds a run's directory, so that no two processes train in it; the system lets go of it on a kill.

    Raises:
        RunError: if another process holds it, or the directory cannot be made.
    """
    try:
        import fcntl
    except ImportError:  # Windows: no lock, as before
        directory.mkdir(parents=True, exist_ok=True)
        yield
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = open(directory / LOCK, "a")
    except OSError as error:
        raise _unwritable(directory, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunError(
                f"{directory} is in use: another process trains in it; stop that one or choose another "
                "directory with --dir."
            ) from None
        yield


def write_text(path: Path, text: str) -> None:
    """Writes a text file in one step, as `write_bytes` does."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file in one step: a reader, or a kill, sees the old content or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def versions() -> dict[str, Any]:
    """What this process runs on: program, Python, libraries, platform, devices, git commit if known."""
    import jax

    devices = jax.devices()
    return {
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "jaxsearch": checkpoint.program_version(),
        "git_commit": _git_commit(),
        "python": platform.python_version(),
        **{name: _version(name) for name in ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")},
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "backend": devices[0].platform,
        "devices": [device.device_kind for device in devices],
    }


def _check_config(directory: Path, config: Any, may_change: Sequence[str]) -> None:
    before = schema_toml.load(type(config), directory / CONFIG)
    changed = {key: pair for key, pair in differences(before, config).items() if key not in may_change}
    if changed:
        listed = ", ".join(
            f"{key} (was {_show(old)}, now {_show(new)})" for key, (old, new) in changed.items()
        )
        raise RunError(
            f"{directory} holds a run of another config: {listed}; only {', '.join(may_change)} may "
            "change. Resume with the old values, or choose another directory with --dir."
        )


def _unwritable(directory: Path, error: OSError) -> RunError:
    return RunError(
        f"{directory}: cannot write there ({error.strerror}); choose another directory with --dir."
    )


def _show(value: Any) -> str:
    return "absent" if value is None else quoted(value)


def _add_versions(path: Path) -> None:
    """One entry per start, so that a resumed run shows every program and machine that took part."""
    try:
        entries = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        entries = []
    write_text(path, json.dumps([*entries, versions()], indent=1) + "\n")


def _version(package: str) -> str | None:
    try:
        return package_metadata.version(package)
    except package_metadata.PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    """The commit of the checkout this file belongs to, with "+changes" if it differs; None elsewhere."""
    here = Path(__file__)

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", here.name)  # else an installed copy inside somebody's repository
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.SubprocessError):
        return None
