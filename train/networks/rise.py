"""A mobile network on the board: inverted bottlenecks, which spend little where convolutions spend most.

A block widens the planes by a 1x1 convolution, filters each by a 3x3 one of its own and narrows them again.
One block in the middle halves the board.

Reference: Weil, Czech, Meuser and Kersting (2023), Know your Enemy, and its program, whose network is this
one with batch norm in place of layer norm; Czech, Korus and Kersting (2021), Improving AlphaZero using
Monte-Carlo graph search, for RISEv2; Sandler et al. (2018), MobileNetV2.
"""

from __future__ import annotations

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from games_jax.game import Game
from train.networks.heads import HeadOptions, Heads
from train.networks.network import NetworkOutput
from train.schema import ConfigError, setting, settings

_SLOPE = 0.2


@settings
class RiseOptions(HeadOptions):
    """Options of the network "rise"."""

    channels: int = setting(
        "Planes of the trunk before the board is halved; then twice as many.", default=64, minimum=1
    )
    expansion: int = setting("How many times wider a block is inside.", default=4, minimum=1)
    blocks: int = setting("Blocks before the board is halved.", default=2, minimum=0)
    late_blocks: int = setting("Blocks after it.", default=1, minimum=0)
    policy_channels: int = setting("Planes that the policy head reads.", default=16, minimum=1)
    value_width: int = setting("Units of the value head's hidden layer.", default=256, minimum=1)


class Depthwise(nn.Module):
    """A 3x3 convolution of each plane by itself.

    Written out as nine products: XLA's grouped convolution takes CPUs many times as long, its gradient more.
    """

    stride: int
    dtype: Any

    @nn.compact
    def __call__(self, planes: jax.Array) -> jax.Array:
        """`[B, H, W, C]`; every `stride`-th row and column of it."""
        height, width, channels = planes.shape[1:]
        scale = nn.initializers.variance_scaling(
            1.0, "fan_in", "truncated_normal", in_axis=(0, 1), out_axis=()
        )
        kernel = self.param("kernel", scale, (3, 3, channels)).astype(self.dtype)
        padded = jnp.pad(planes, ((0, 0), (1, 1), (1, 1), (0, 0)))
        shifts = [(row, column) for row in range(3) for column in range(3)]
        parts = [
            padded[:, row : row + height : self.stride, column : column + width : self.stride]
            * kernel[row, column]
            for row, column in shifts
        ]
        return functools.reduce(jnp.add, parts)


class Rise(nn.Module):
    """A stem, inverted bottlenecks with one stride, and two heads."""

    num_actions: int
    options: RiseOptions

    def conv(self, planes: jax.Array, channels: int, size: int) -> jax.Array:
        """A convolution and a norm over the channels of each cell."""
        planes = nn.Conv(channels, (size, size), use_bias=False, dtype=self.options.dtype)(planes)
        return nn.LayerNorm(dtype=self.options.dtype)(planes)

    def block(self, planes: jax.Array, channels: int, inner: int, *, stride: int = 1) -> jax.Array:
        """An inverted bottleneck; with stride 1 it adds to its input."""
        branch = nn.leaky_relu(self.conv(planes, inner, 1), _SLOPE)
        branch = Depthwise(stride, self.options.dtype)(branch)
        branch = nn.leaky_relu(nn.LayerNorm(dtype=self.options.dtype)(branch), _SLOPE)
        branch = self.conv(branch, channels, 1)
        return planes + branch if stride == 1 else branch

    @nn.compact
    def __call__(self, observation: jax.Array) -> NetworkOutput:
        """Judges planes `[B, H, W, C]`."""
        options, batch = self.options, observation.shape[0]
        channels, late = options.channels, 2 * options.channels
        planes = nn.leaky_relu(self.conv(observation.astype(options.dtype), channels, 3), _SLOPE)
        for _ in range(options.blocks):
            planes = self.block(planes, channels, options.expansion * channels)
        planes = self.block(planes, late, options.expansion * late, stride=2)
        for _ in range(options.late_blocks):
            planes = self.block(planes, late, options.expansion * late)
        policy = nn.leaky_relu(self.conv(planes, options.policy_channels, 1), _SLOPE).reshape(batch, -1)
        # One plane: a norm over the channels of each cell would leave nothing of it.
        value = nn.leaky_relu(nn.Conv(1, (1, 1), dtype=options.dtype)(planes), _SLOPE).reshape(batch, -1)
        value = nn.leaky_relu(nn.Dense(options.value_width, dtype=options.dtype)(value), _SLOPE)
        return Heads(self.num_actions, options, name="heads")(policy, value)


def rise(game: Game, options: RiseOptions) -> Rise:
    """The module for `game`.

    Raises:
        ConfigError: the observation is not a board of planes.
    """
    if len(game.observation_shape) != 3:
        raise ConfigError(
            f'The network "rise" reads a board of planes [H, W, C], but {game.name} has observations of '
            f'shape {game.observation_shape}; choose the network "mlp".'
        )
    return Rise(game.num_actions, options)
