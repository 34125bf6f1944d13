"""Algorithms by name: `run.algorithm` of a config says which one learns. Nothing here imports jax."""

from __future__ import annotations

import importlib
import tomllib
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from train import schema_toml
from train.schema import ConfigError, nearest, quoted

__all__ = ["ALGORITHMS", "DEFAULT", "Algorithm", "load", "setup"]

DEFAULT = "alphazero"


class Algorithm(NamedTuple):
    """Where an algorithm is found; imported when it is needed, for the second module imports jax.

    Attributes:
        config: module and name of its `@settings` class, which has the sections `run`, `evaluation`,
            `search` and `checkpoint`.
        setup: module and name of `setup(config)`, which returns a `train.run.Experiment` that also has the
            attributes `game` and `network`.
    """

    config: str
    setup: str


ALGORITHMS: Mapping[str, Algorithm] = types.MappingProxyType(
    {
        "alphazero": Algorithm("train.config:Config", "train.alphazero:setup"),
        "expert_iteration": Algorithm("train.exit_config:ExItConfig", "train.expert_iteration:setup"),
        "ppo": Algorithm("train.policy_gradient_config:PPOConfig", "train.ppo:setup"),
        "reinforce": Algorithm("train.policy_gradient_config:ReinforceConfig", "train.reinforce:setup"),
        "td_ntuple": Algorithm("train.td_config:TDConfig", "train.td_ntuple:setup"),
    }
)


def load(path: str | Path, overrides: Sequence[str] = ()) -> Any:
    """Reads a config file as the settings of its algorithm; `overrides` as in `train.config.load`.

    Raises:
        ConfigError: as `train.config.load`, or an unknown algorithm.
    """
    name = _name(path, overrides)
    if name not in ALGORITHMS:
        hint = nearest(str(name), ALGORITHMS)
        raise ConfigError(
            f"{path}: run.algorithm = {quoted(name)} is not a known algorithm{hint}; "
            f"expected one of {', '.join(ALGORITHMS)}.",
            "run.algorithm",
        )
    return schema_toml.load(_find(ALGORITHMS[name].config), path, overrides)


def setup(config: Any) -> Any:
    """The experiment of a config that `load` has read.

    Raises:
        ConfigError: something that does not exist, or values that do not go together.
    """
    return _find(ALGORITHMS[config.run.algorithm].setup)(config)


def _name(path: str | Path, overrides: Sequence[str]) -> Any:
    """What a file and the overrides say of `run.algorithm`; what cannot be read is reported by `load`."""
    try:
        with open(path, "rb") as file:
            run = tomllib.load(file).get("run")
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        run = None
    name = run.get("algorithm", DEFAULT) if isinstance(run, dict) else DEFAULT
    for override in overrides:
        key, _, value = override.partition("=")
        if key.strip() == "run.algorithm":
            name = value.strip().strip("\"'")
    return name


def _find(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
