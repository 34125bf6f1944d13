"""What a network is to the rest of the house: a record of two pure functions, made by name.

Dimensions: B positions judged at once, A actions, H x W cells, C observation planes.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from games_jax.game import Game
from jaxsearch.types import Evaluator

Variables = Mapping[str, Any]
"""A plain nested dict of float32 arrays, `{"params": ...}`."""


class NetworkOutput(NamedTuple):
    """What a network says of B positions, each from its mover's point of view.

    Attributes:
        policy_logits: float32 `[B, A]`; illegal actions are not masked.
        value: float32 `[B]` in [-1, 1].
        value_logits: float32 `[B, 3]` over (win, draw, loss) with `value_head="wdl"`, else None. Then
            `value = p(win) - p(loss)`.
    """

    policy_logits: jax.Array
    value: jax.Array
    value_logits: jax.Array | None


@dataclasses.dataclass(frozen=True, eq=False)
class Network:
    """A policy-value network as two pure functions.

    Attributes:
        name: what `make_network` calls it; a checkpoint records it.
        options: every option with its value in plain (JSON) form, defaults too; a checkpoint records them.
        observation_shape: `(H, W, C)` of the observations it reads.
        num_actions: A.
        init: `init(key) -> variables`; consumes the key.
        apply: `apply(variables, observation [B, H, W, C]) -> NetworkOutput`. Row i of the output depends
            on row i of the input alone, and it can be `vmap`ped over a population of variables.
        evaluator: judges states for a network that does not read observations; None for all others.
        observe: `observe(state)` shows a state, as its mover, to a network that does not read the game's own
            observations; None for all others.
    """

    name: str
    options: Mapping[str, Any]
    observation_shape: tuple[int, ...]
    num_actions: int
    init: Callable[[jax.Array], Variables]
    apply: Callable[[Variables, jax.Array], NetworkOutput]
    evaluator: Evaluator | None = None
    observe: Callable[[Any], jax.Array] | None = None


def from_linen(
    name: str,
    options: Mapping[str, Any],
    game: Game,
    module: nn.Module,
    observe: Callable[[Any], jax.Array] | None = None,
) -> Network:
    """The network of a Flax linen module that maps planes `[B, H, W, C]` to a `NetworkOutput`.

    The module must have no state besides its parameters (no batch statistics) and draw no random numbers
    in `__call__`. With `observe` it reads what that shows of a state in place of the game's observation.
    """
    shape = tuple(game.observation_shape)
    if observe is not None:
        shape = jax.eval_shape(lambda key: observe(game.init(key)), jax.random.key(0)).shape

    def init(key: jax.Array) -> Variables:
        return module.init(key, jnp.zeros((1, *shape), bool))

    def apply(variables: Variables, observation: jax.Array) -> NetworkOutput:
        return typing.cast(NetworkOutput, module.apply(variables, observation))

    return Network(name, dict(options), shape, game.num_actions, init, apply, observe=observe)


def show(network: Network, game: Game, state: Any) -> jax.Array:
    """What `network` reads of one state, as its mover sees it: `[H, W, C]`."""
    if network.observe is not None:
        return network.observe(state)
    return game.observe(state, game.current_player(state))


def evaluator(network: Network, game: Game) -> Evaluator:
    """The evaluator that shows each state to `network` as its mover sees it.

    Args:
        network: a network made for `game`.
        game: supplies `observe` and `current_player`.

    Returns:
        `evaluate(variables, key, states [B]) -> (prior logits [B, A], values [B])`; `key` is not used.
        Nothing is masked: search ignores illegal actions and finished games.

    Raises:
        ValueError: `network` was made for another observation shape or number of actions.
    """
    shown = game.observation_shape if network.observe is None else network.observation_shape
    expected = (tuple(shown), game.num_actions)
    came = (tuple(network.observation_shape), network.num_actions)
    if came != expected:
        raise ValueError(
            f"The network {network.name!r} reads observations {came[0]} and has {came[1]} actions, but "
            f"{game.name} has observations {expected[0]} and {expected[1]} actions: make the network for "
            "this game."
        )
    if network.evaluator is not None:
        return network.evaluator

    def evaluate(params: Variables, key: jax.Array, states: Any) -> tuple[jax.Array, jax.Array]:
        del key
        observation = jax.vmap(lambda state: show(network, game, state))(states)
        output = network.apply(params, observation)
        return output.policy_logits, output.value

    return evaluate


def num_parameters(variables: Variables) -> int:
    """How many numbers `variables` (arrays or their shapes) hold."""
    return sum(leaf.size for leaf in jax.tree.leaves(variables))
