"""Many devices: which has what, and how a run is spread over them.

Games, their positions in the buffer and the batches learnt from are spread along one axis of a mesh,
"data"; network and optimiser are on every device. An iteration runs under one `jax.shard_map`: every device
plays its own games, so that no device waits for another's deepest tree, draws its share of each batch from
its own games' columns, and the parts of a gradient are added up, which is all that devices tell each other.

Members of a population are divided along a second axis, "population": they tell each other nothing.

Every game has random numbers of its own (`jaxsearch.keys`), so that a run's games do not depend on how many
devices there are; gradients are the same up to the order of the sum.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from train.config import Config, ConfigError

__all__ = [
    "DATA",
    "POPULATION",
    "WHOLE",
    "Slice",
    "check_divisible",
    "check_members",
    "make_mesh",
    "place",
    "spread_over",
]

DATA = "data"
"""The axis of the mesh along which games are spread."""

POPULATION = "population"
"""The axis along which members of a population are."""


@dataclasses.dataclass(frozen=True)
class Slice:
    """One device's part of what is spread over `devices` along `axis`; inside `shard_map`.

    Attributes:
        axis: name of the mesh's axis; None where nothing is spread.
        devices: how many parts there are.
    """

    axis: str | None = None
    devices: int = 1

    def whole(self, length: int) -> int:
        """The length of the whole of which this device has `length`."""
        return self.devices * length

    def start(self, length: int) -> jax.Array | int:
        """Where this device's part of `length` entries begins, int32 `[]`."""
        if self.axis is None:
            return 0
        return jax.lax.axis_index(self.axis) * np.int32(length // self.devices)

    def of(self, array: jax.Array | np.ndarray) -> jax.Array:
        """This device's part of an array that every device has worked out."""
        array = jnp.asarray(array)
        if self.axis is None:
            return array
        length = array.shape[0]
        return jax.lax.dynamic_slice_in_dim(array, self.start(length), length // self.devices)

    def total(self, parts: Any) -> Any:
        """The sum over the devices, of every array of a tree."""
        return parts if self.axis is None else jax.lax.psum(parts, self.axis)


WHOLE = Slice()
"""Nothing is spread."""


def make_mesh(devices: int, population: int = 1) -> Mesh:
    """A mesh of the first devices: `population` groups of `devices` each, or of all there are for 0.

    Raises:
        ConfigError: there are not so many.
    """
    found = jax.devices()
    count = population * (devices or max(len(found) // population, 1))
    told = f"mesh.data = {devices} devices" if devices or population == 1 else "mesh.data = 0"
    if population > 1:
        told += f" times mesh.population = {population}"
    if count > len(found):
        raise ConfigError(
            f"{told}; JAX finds {len(found)} ({found[0].platform}). On a CPU, "
            f"--cpu-devices {count} makes so many of it.",
            "mesh.data",
        )
    if jax.process_count() > 1 and count != len(found):
        raise ConfigError(
            f"{told}, and the {jax.process_count()} processes have {len(found)}; "
            "expected 0, for all of them.",
            "mesh.data",
        )
    grid = np.array(found[:count]).reshape(population, -1)
    return Mesh(grid[0], (DATA,)) if population == 1 else Mesh(grid, (POPULATION, DATA))


def check_divisible(config: Config, devices: int) -> None:
    """Every device must get as many games and as many positions of a batch as the others.

    Raises:
        ConfigError: it would not.
    """
    for key, value in (
        ("selfplay.games", config.selfplay.games),
        ("learner.batch_size", config.learner.batch_size),
    ):
        if value % devices:
            raise ConfigError(
                f"{key} = {value} cannot be spread evenly over mesh.data = {devices} devices; expected a "
                f"multiple of {devices}.",
                key,
            )


def check_members(members: int, devices: int) -> None:
    """Every device must get as many members of a population as the others.

    Raises:
        ConfigError: it would not.
    """
    if members % devices:
        raise ConfigError(
            f"{members} members cannot be divided evenly among mesh.population = {devices} devices; expected "
            f"a multiple of {devices} members, or another mesh.population.",
            "mesh.population",
        )


def spread_over(specs: Any, tree: Any) -> Any:
    """A spec for every array of `tree`, from `specs`, which may have one for a whole branch."""
    is_spec = lambda leaf: isinstance(leaf, PartitionSpec)  # noqa: E731
    return jax.tree.map(
        lambda spec, branch: jax.tree.map(lambda _: spec, branch), specs, tree, is_leaf=is_spec
    )


def place(mesh: Mesh, specs: Any) -> Any:
    """The shardings of a tree of `PartitionSpec`."""
    return jax.tree.map(
        lambda spec: NamedSharding(mesh, spec), specs, is_leaf=lambda leaf: isinstance(leaf, PartitionSpec)
    )
