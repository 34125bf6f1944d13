"""A pre-activation residual network on the board: the default on accelerators.

Reference: He et al. 2016, "Identity Mappings in Deep Residual Networks"; heads after Silver et al. 2017,
"Mastering the game of Go without human knowledge", with layer or group norm in place of batch norm.
"""

from __future__ import annotations

from typing import Literal

import flax.linen as nn
import jax

from games_jax.game import Game
from train.networks.convolution import Conv
from train.networks.heads import HeadOptions, Heads
from train.networks.network import NetworkOutput
from train.schema import ConfigError, setting, settings

GROUP_CHANNELS = 8


@settings
class ResNetOptions(HeadOptions):
    """Options of the network "resnet"."""

    channels: int = setting("Planes of the trunk.", default=64, minimum=1)
    blocks: int = setting("Residual blocks of two 3x3 convolutions each.", default=6, minimum=0)
    norm: Literal["layer", "group"] = setting(
        f'"layer" normalises the channels of a cell; "group" {GROUP_CHANNELS} channels over the board.',
        default="layer",
    )
    head_channels: int = setting("Planes that each head reads.", default=8, minimum=1)
    value_width: int = setting("Units of the value head's hidden layer.", default=64, minimum=1)

    def check(self) -> None:
        """Group norm needs whole groups."""
        for name in ("channels", "head_channels"):
            if self.norm == "group" and getattr(self, name) % GROUP_CHANNELS:
                raise ConfigError(
                    f'{name} = {getattr(self, name)} does not go with norm = "group"; expected a multiple of '
                    f"{GROUP_CHANNELS}.",
                    name,
                )


class ResNet(nn.Module):
    """A stem convolution, residual blocks, and two heads."""

    num_actions: int
    options: ResNetOptions

    def conv(self, planes: jax.Array, channels: int, size: int) -> jax.Array:
        """A convolution without bias: the norm that follows each one brings its own."""
        return Conv(channels, (size, size), use_bias=False, dtype=self.options.dtype)(planes)

    def norm_relu(self, planes: jax.Array) -> jax.Array:
        """The norm that `options` names, and a relu."""
        if self.options.norm == "layer":
            return nn.relu(nn.LayerNorm(dtype=self.options.dtype)(planes))
        norm = nn.GroupNorm(num_groups=None, group_size=GROUP_CHANNELS, dtype=self.options.dtype)
        return nn.relu(norm(planes))

    @nn.compact
    def __call__(self, observation: jax.Array) -> NetworkOutput:
        """Judges planes `[B, H, W, C]`."""
        options, batch = self.options, observation.shape[0]
        planes = self.conv(observation.astype(options.dtype), options.channels, 3)
        for _ in range(options.blocks):
            branch = self.conv(self.norm_relu(planes), options.channels, 3)
            planes = planes + self.conv(self.norm_relu(branch), options.channels, 3)
        planes = self.norm_relu(planes)
        policy = self.norm_relu(self.conv(planes, options.head_channels, 1)).reshape(batch, -1)
        value = self.norm_relu(self.conv(planes, options.head_channels, 1)).reshape(batch, -1)
        value = nn.relu(nn.Dense(options.value_width, dtype=options.dtype)(value))
        return Heads(self.num_actions, options, name="heads")(policy, value)


def resnet(game: Game, options: ResNetOptions) -> ResNet:
    """The module for `game`.

    Raises:
        ConfigError: the observation is not a board of planes.
    """
    if len(game.observation_shape) != 3:
        raise ConfigError(
            f'The network "resnet" reads a board of planes [H, W, C], but {game.name} has observations of '
            f'shape {game.observation_shape}; choose the network "mlp".'
        )
    return ResNet(game.num_actions, options)
