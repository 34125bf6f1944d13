"""Recorded games of the official Pommerman environment, where a directory with them is at hand.

The files hold whole games as arrays (states of all games in a row, bombs and flames as lists); a share is
in `tests/data/pommerman/`. `POMMERMAN_RECORDS` names the directory.
"""

import os
from pathlib import Path

import numpy as np
import pytest

FILES = ("micro", "random_ffa", "stress_ffa", "mixed_ffa", "fuzz_onestep", "simple_ffa")


def load(name: str) -> dict[str, np.ndarray]:
    """The arrays of one file; the test is skipped where there is none."""
    folder = os.environ.get("POMMERMAN_RECORDS")
    if not folder:
        pytest.skip("POMMERMAN_RECORDS names no directory of recorded games")
    with np.load(Path(folder) / f"{name}.npz") as file:
        return dict(file)


def planes_of(found: dict[str, np.ndarray]) -> np.ndarray:
    """All states as `games_jax.pommerman.Snapshot.as_planes`, uint8 `[S, 9, 11, 11]`."""
    count = len(found["board"])
    planes = np.zeros((count, 9, 11, 11), np.uint8)
    planes[:, 0], planes[:, 1] = found["board"], found["hidden"]
    of_bomb = np.repeat(np.arange(count), np.diff(found["bombs_offset"]))
    row, column, *facts = found["bombs"].astype(int).T
    for plane, fact in enumerate(facts, start=2):
        planes[of_bomb, plane, row, column] = fact
    of_flame = np.repeat(np.arange(count), np.diff(found["flames_offset"]))
    row, column, life = found["flames"].astype(int).T
    planes[of_flame, 6 + life, row, column] = 1
    return planes


def running(found: dict[str, np.ndarray]) -> np.ndarray:
    """The states that have a successor."""
    last = np.zeros(len(found["board"]), bool)
    last[found["episode_offset"][1:] - 1] = True
    return np.flatnonzero(~last)
