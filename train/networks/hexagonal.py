"""Expert Iteration's network for Hex: hexagonal convolutions on a padded board, a pair of heads per colour.

Reference: Anthony, Tian and Barber (2017), https://arxiv.org/abs/1705.08439, appendix D, with layer norm in
place of its normalisation.
"""

from __future__ import annotations

from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from games_jax.game import Game
from games_jax.hex import Hex
from train.networks.convolution import Conv
from train.networks.heads import SMALL_INIT, HeadOptions, value_from_logits
from train.networks.network import NetworkOutput
from train.schema import ConfigError, setting, settings

PADDING = 2
"""Rows of dummy stones on each side; two of the convolutions lose one row of them each."""

# In (row, column) layout a cell's neighbours are all of the square around it but two opposite corners.
_HEXAGON = np.array([[0, 1, 1], [1, 1, 1], [1, 1, 0]], np.float32)[:, :, None, None]


@settings
class HexagonalOptions(HeadOptions):
    """Options of the network "hexagonal"; the defaults are the paper's."""

    channels: int = setting("Filters of each convolution.", default=64, minimum=1)
    layers: int = setting(
        "Convolutions before the five that bring the board to its size and end the trunk; 8 makes the "
        "paper's 13.",
        default=8,
        minimum=0,
    )
    value_head: Literal["wdl"] = setting(
        "A game of Hex is not drawn: each colour has one logit of winning.", default="wdl"
    )


class Hexagonal(nn.Module):
    """The trunk, and for each colour to move a policy and a value."""

    num_actions: int
    options: HexagonalOptions

    def layer(self, planes: jax.Array, size: int, padding: str = "SAME") -> jax.Array:
        """A convolution of one cell or of a cell and its six neighbours, layer norm, ELU."""
        options = self.options
        mask = np.broadcast_to(_HEXAGON, (3, 3, planes.shape[-1], options.channels)) if size == 3 else None
        conv = Conv(
            options.channels, (size, size), padding=padding, use_bias=False, mask=mask, dtype=options.dtype
        )
        return nn.elu(nn.LayerNorm(dtype=options.dtype)(conv(planes)))

    @nn.compact
    def __call__(self, observation: jax.Array) -> NetworkOutput:
        """Judges planes `[B, n + 4, n + 4, 7]`: see `observe`."""
        dtype, batch = self.options.dtype, observation.shape[0]
        planes = observation.astype(dtype)
        mover = planes[:, 0, 0, 6:].astype(jnp.float32)
        planes = planes[..., :6]
        for _ in range(self.options.layers):
            planes = self.layer(planes, 3)
        for _ in range(PADDING):
            planes = self.layer(planes, 3, "VALID")
        for size in (1, 3, 1):
            planes = self.layer(planes, size)
        features = planes.reshape(batch, -1)

        def heads(outputs: int, name: str) -> jax.Array:
            """What the head of the colour to move says, float32 `[B, outputs]`."""
            both = nn.Dense(2 * outputs, kernel_init=SMALL_INIT, dtype=dtype, name=name)(features)
            first, second = jnp.split(both.astype(jnp.float32), 2, axis=-1)
            return jnp.where(mover > 0, second, first)

        logit = heads(1, "value")[:, 0]
        # (win, draw, loss), with draws impossible.
        value_logits = jnp.stack([logit, jnp.full_like(logit, -1e9), jnp.zeros_like(logit)], axis=-1)
        return NetworkOutput(heads(self.num_actions, "policy"), value_from_logits(value_logits), value_logits)


def hexagonal(game: Game, options: HexagonalOptions) -> Hexagonal:
    """The module for `game`.

    Raises:
        ConfigError: the game is not Hex.
    """
    if not isinstance(game, Hex):
        raise ConfigError(f'The network "hexagonal" plays hex, not {game.name}; choose "resnet".')
    return Hexagonal(game.num_actions, options)


def observe(game: Hex, state: Any) -> jax.Array:
    """What the network reads of a state: bool `[n + 4, n + 4, 7]`.

    The six planes of `Hex.edge_planes`, in absolute colours, and one that is set if the second player moves.
    """
    planes = game.edge_planes(state, padding=PADDING)
    second = jnp.broadcast_to(game.current_player(state) == 1, planes.shape[:2])
    return jnp.concatenate([planes, second[..., None]], axis=-1)
