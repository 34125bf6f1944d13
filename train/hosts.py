"""Several processes that make one run, as `jaxsearch train ... --distributed` on every host starts them.

All processes run the same program on the devices of all. The first one prints, writes metrics and decides
when to stop; all evaluate, each on a device of its own, so that none waits for another. With one process
everything here does nothing.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

__all__ = ["agree", "barrier", "count", "is_first", "is_lost", "local", "start"]


HEARTBEAT_SECONDS = 30
"""A process that is silent for so long is given up, and the others end."""


def start(coordinator: str | None = None, processes: int | None = None, process: int | None = None) -> None:
    """Joins the other processes; call before anything else of JAX.

    What is left out JAX finds in the environment: it knows SLURM, Open MPI, Kubernetes and cloud TPUs.

    Args:
        coordinator: HOST:PORT of the first process.
        processes: how many there are.
        process: which this one is, from 0.

    Raises:
        ValueError: the others cannot be found or joined.
    """
    try:
        jax.distributed.initialize(
            coordinator, processes, process, heartbeat_timeout_seconds=HEARTBEAT_SECONDS
        )
    except (ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"--distributed: the processes could not be joined ({reason}); where no SLURM, MPI or TPU "
            "environment says them, give --coordinator HOST:PORT, --processes N and --process I to each."
        ) from error


def count() -> int:
    """Processes of this run."""
    return jax.process_count()


def is_first() -> bool:
    """Whether this process prints and writes."""
    return jax.process_index() == 0


def is_lost(error: Exception) -> bool:
    """Whether an error says that another process no longer answers: what computations and barriers raise."""
    return count() > 1 and (isinstance(error, jax.errors.JaxRuntimeError) or "barrier" in str(error).lower())


def barrier(name: str) -> None:
    """Waits until all processes are here."""
    if count() > 1:
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices(name)


def agree(number: int) -> int:
    """The first process's number, in all processes."""
    if count() == 1:
        return number
    from jax.experimental import multihost_utils

    return int(multihost_utils.broadcast_one_to_all(np.int32(number)))


def local(tree: Any) -> Any:
    """Arrays that every device has, as this process's own."""
    if count() == 1:
        return tree
    return jax.tree.map(lambda array: array.addressable_data(0), tree)
