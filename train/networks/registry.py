"""Networks by name: `make_network("patterns", game, embed=64)`."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax

from games_jax.game import Game
from train.networks.heads import HeadOptions
from train.networks.hexagonal import HexagonalOptions, hexagonal
from train.networks.hexagonal import observe as hexagonal_view
from train.networks.mlp import MlpOptions, mlp
from train.networks.network import Network, from_linen
from train.networks.patterns import PatternOptions, patterns
from train.networks.resnet import ResNetOptions, resnet
from train.networks.rise import RiseOptions, rise
from train.schema import ConfigError, from_dict, nearest, quoted, to_dict


class Entry(NamedTuple):
    """A kind of network.

    Attributes:
        options: the `@settings` class of its options.
        build: `build(game, options)` returns the linen module.
        view: `view(game, state)` is what it reads of a state, if not the game's observation.
    """

    options: type[HeadOptions]
    build: Callable[..., nn.Module]
    view: Callable[..., jax.Array] | None = None


NETWORKS: Mapping[str, Entry] = types.MappingProxyType(
    {
        "hexagonal": Entry(HexagonalOptions, hexagonal, hexagonal_view),
        "mlp": Entry(MlpOptions, mlp),
        "patterns": Entry(PatternOptions, patterns),
        "resnet": Entry(ResNetOptions, resnet),
        "rise": Entry(RiseOptions, rise),
    }
)


def names() -> tuple[str, ...]:
    """The networks that `make_network` knows."""
    return tuple(NETWORKS)


def make_network(name: str, game: Game, **options: Any) -> Network:
    """The network called `name` for `game`.

    Args:
        name: one of `names()`.
        game: supplies the observation shape, the number of actions and, if an option asks, the symmetries.
        **options: fields of the network's options class (`MlpOptions`, `PatternOptions`, `ResNetOptions`), in
            plain form: a `[network]` table of a config, or the options that a checkpoint recorded.

    Returns:
        The network, whose `options` hold the defaults too.

    Raises:
        ConfigError: (a ValueError) an unknown name or option, naming the valid ones and the nearest; a value
            of the wrong type or out of range; a network that cannot read this game.
    """
    if name not in NETWORKS:
        raise ConfigError(
            f"network.name = {quoted(name)} is not a known network{nearest(name, NETWORKS)}; expected one of "
            f"{', '.join(NETWORKS)}.",
            "network.name",
        )
    entry = NETWORKS[name]
    chosen = from_dict(entry.options, options, "network")
    module = entry.build(game, chosen)
    observe = functools.partial(entry.view, game) if entry.view else None
    return from_linen(name, to_dict(chosen), game, module, observe)
