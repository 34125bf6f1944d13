"""A network of one's own: any Flax module, linen or nnx, as a `Network` record."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from typing import Any

import flax.nnx as nnx
import jax

from games_jax.game import Game
from train.networks.network import Network, NetworkOutput, Variables, from_linen

__all__ = ["from_linen", "from_nnx"]


def _name(path: tuple[Any, ...]) -> str:
    # nnx numbers the items of lists with ints, which no checkpoint format keeps as dict keys.
    return ".".join(map(str, path))


def from_nnx(
    name: str, options: Mapping[str, Any], game: Game, build: Callable[[nnx.Rngs], nnx.Module]
) -> Network:
    """The network of a Flax nnx module that maps planes `[B, H, W, C]` to a `NetworkOutput`.

    Args:
        name: what a checkpoint records, with `options`.
        options: whatever the module was configured by.
        game: supplies the observation shape and the number of actions.
        build: `build(rngs) -> module`. Called once here to read the structure, and once per `init`. All of
            the module's state must be `nnx.Param`: batch statistics or dropout would be carried state.

    Returns:
        The network; its variables are `{"params": {"layers.0.kernel": array, ...}}`.

    Raises:
        ValueError: the module has state besides its parameters.

    Example:
        ```
        class Linear(nnx.Module):
            def __init__(self, rngs):
                self.policy = nnx.Linear(42 * 3, 7, rngs=rngs)
            def __call__(self, observation):
                flat = observation.reshape(len(observation), -1).astype(jnp.float32)
                return NetworkOutput(self.policy(flat), jnp.zeros(len(flat)), None)

        network = from_nnx("linear", {}, game, Linear)
        ```
    """
    # Shapes only: the structure is needed before there is a key, and without touching a device.
    abstract = nnx.eval_shape(lambda: build(nnx.Rngs(0)))
    graph, parameters, rest = nnx.split(abstract, nnx.Param, ...)
    flat = list(nnx.to_flat_state(parameters))
    if others := [_name(path) for path, _ in nnx.to_flat_state(rest)]:
        raise ValueError(
            f"The nnx module of the network {name!r} has state besides its parameters ({', '.join(others)}): "
            "use layers without batch statistics or dropout."
        )

    def init(key: jax.Array) -> Variables:
        state = nnx.state(build(nnx.Rngs(key)), nnx.Param)
        return {"params": {_name(path): leaf[...] for path, leaf in nnx.to_flat_state(state)}}

    def apply(variables: Variables, observation: jax.Array) -> NetworkOutput:
        leaves = [(path, leaf.replace(variables["params"][_name(path)])) for path, leaf in flat]
        module = nnx.merge(graph, nnx.from_flat_state(leaves))
        return typing.cast(Callable[[jax.Array], NetworkOutput], module)(observation)

    return Network(name, dict(options), tuple(game.observation_shape), game.num_actions, init, apply)
