"""A mobile network on the board: inverted bottlenecks, which spend little where convolutions spend most.

A block widens the planes by a 1x1 convolution, filters each by a 3x3 one of its own and narrows them again.
One block in the middle halves the board, or the first convolution does, which leaves a CPU a third of the
work.

Reference: Weil, Czech, Meuser and Kersting (2023), Know your Enemy, and its program, whose network is this
one with batch norm in place of layer norm; Czech, Korus and Kersting (2021), Improving AlphaZero using
Monte-Carlo graph search, for RISEv2; Sandler et al. (2018), MobileNetV2.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp

from games_jax.game import Game
from train.networks.convolution import Conv
from train.networks.heads import HeadOptions, Heads
from train.networks.network import NetworkOutput
from train.schema import ConfigError, setting, settings

_SLOPE = 0.2
_BORDER = ((0, 0), (1, 1), (1, 1), (0, 0))
_SHIFTS = [(row, column) for row in range(3) for column in range(3)]


@settings
class RiseOptions(HeadOptions):
    """Options of the network "rise"."""

    channels: int = setting(
        "Planes of the trunk before the board is halved; then twice as many.", default=64, minimum=1
    )
    expansion: int = setting("How many times wider a block is inside.", default=4, minimum=1)
    blocks: int = setting('Blocks before the board is halved; 0 with halve = "stem".', default=2, minimum=0)
    late_blocks: int = setting("Blocks after it.", default=1, minimum=0)
    policy_channels: int = setting("Planes that the policy head reads.", default=16, minimum=1)
    value_width: int = setting("Units of the value head's hidden layer.", default=256, minimum=1)
    halve: Literal["block", "stem"] = setting(
        'What halves the board: a block, as published, or "stem", the first convolution, after which nothing '
        "is computed on the whole board any more.",
        default="block",
    )
    norm: Literal["layer", "none"] = setting(
        '"layer" norms the channels of each cell; "none" has biases in place of norms, and blocks that '
        "begin as the identity. Norms take CPUs about as long as the convolutions, in gradients longer.",
        default="layer",
    )
    own_plane: int | None = setting(
        "The plane that shows where the player's own piece is. The network then sees the board with that "
        "cell in the middle, and its heads also read what is near it; none: the board as it lies, as "
        "published.",
        default=None,
        minimum=0,
    )
    reach: int = setting("Cells to each side of that middle that the network sees.", default=6, minimum=2)
    window: int = setting("Those of them that the heads read as they are.", default=3, minimum=0)
    own_width: int = setting("Units that summarise what is read there.", default=128, minimum=1)


class Depthwise(nn.Module):
    """A 3x3 convolution of each plane by itself.

    Written out as nine products: XLA's grouped convolution takes CPUs many times as long, its gradient more.
    """

    stride: int
    dtype: Any

    @nn.compact
    def __call__(self, planes: jax.Array) -> jax.Array:
        """`[B, H, W, C]`; every `stride`-th row and column of it."""
        scale = nn.initializers.variance_scaling(
            1.0, "fan_in", "truncated_normal", in_axis=(0, 1), out_axis=()
        )
        kernel = self.param("kernel", scale, (3, 3, planes.shape[-1])).astype(self.dtype)
        return _depthwise(planes, kernel, self.stride)


def _products(planes: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    """`[B, H, W, C]` by `[3, 3, C]`, the border padded with zeros."""
    height, width = planes.shape[1:3]
    padded = jnp.pad(planes, _BORDER)
    parts = [
        padded[:, row : row + height : stride, column : column + width : stride] * kernel[row, column]
        for row, column in _SHIFTS
    ]
    return functools.reduce(jnp.add, parts)


_depthwise = jax.custom_vjp(_products, nondiff_argnums=(2,))


def _forward(planes: jax.Array, kernel: jax.Array, stride: int) -> tuple[jax.Array, Any]:
    return _depthwise(planes, kernel, stride), (planes, kernel)


def _backward(stride: int, kept: tuple[jax.Array, jax.Array], gradient: jax.Array) -> Any:
    """The derived gradient's nine sums of shifted planes cost a CPU seven times the way forward; here two."""
    planes, kernel = kept
    if stride == 1:
        towards_planes = _products(gradient, kernel[::-1, ::-1], 1)
    else:
        (towards_planes,) = jax.vjp(lambda x: _products(x, kernel, stride), planes)[1](gradient)
    padded, (height, width) = jnp.pad(planes, _BORDER), planes.shape[1:3]
    sums = []
    for row, column in _SHIFTS:
        # Rows are added up term by term, which leaves little to reduce and copies no shifted plane.
        terms = [
            padded[:, row + stride * i, column : column + width : stride] * gradient[:, i]
            for i in range(-(-height // stride))
        ]
        sums.append(functools.reduce(jnp.add, terms))
    return towards_planes, jnp.sum(jnp.stack(sums), axis=(1, 2)).reshape(kernel.shape)


_depthwise.defvjp(_forward, _backward)


class Bias(nn.Module):
    """A number for each channel."""

    dtype: Any

    @nn.compact
    def __call__(self, planes: jax.Array) -> jax.Array:
        """`[B, H, W, C]`, plus `[C]`."""
        bias = self.param("bias", nn.initializers.zeros_init(), planes.shape[-1:])
        return planes + bias.astype(self.dtype)


def centred(observation: jax.Array, plane: int, reach: int) -> jax.Array:
    """The board around the piece that a plane shows, a square of `2 reach + 1` cells; zeros if it is gone.

    What is best to do depends on the neighbourhood, wherever on the board that is: who sees the board as it
    lies has to learn it for each cell anew.

    Args:
        observation: `[B, H, W, C]`.
        plane: has one piece at most.
        reach: cells to each side of it.

    Returns:
        `[B, 2 reach + 1, 2 reach + 1, C + 1]`; the last plane is 1 on the board and 0 off it.
    """
    own = observation[..., plane]
    present = own.any(axis=(1, 2))
    row, column = (jnp.argmax(own.any(axis=axis), axis=1) for axis in (2, 1))
    shown = jnp.concatenate([observation, jnp.ones_like(own)[..., None]], axis=-1)
    shown = jnp.pad(shown, ((0, 0), (reach, reach), (reach, reach), (0, 0)))
    square = jax.vmap(functools.partial(_square, 2 * reach + 1))(shown, row, column)
    return square * present[:, None, None, None].astype(square.dtype)


def _square(size: int, planes: jax.Array, row: jax.Array, column: jax.Array) -> jax.Array:
    """`size` x `size` cells of planes `[H, W, C]`, the first at row and column (int32 `[]`)."""
    return jax.lax.dynamic_slice(planes, (row, column, jnp.zeros_like(row)), (size, size, planes.shape[-1]))


def _middle(planes: jax.Array, reach: int) -> jax.Array:
    """The middle cell of `[B, H, W, C]` and `reach` cells to each side, flat `[B, F]`."""
    row, column = planes.shape[1] // 2, planes.shape[2] // 2
    cells = planes[:, row - reach : row + reach + 1, column - reach : column + reach + 1]
    return cells.reshape(len(planes), -1)


class Rise(nn.Module):
    """A stem, inverted bottlenecks with one stride, and two heads."""

    num_actions: int
    options: RiseOptions

    def norm(self, planes: jax.Array) -> jax.Array:
        """Over the channels of each cell; a bias if norms are off."""
        if self.options.norm == "layer":
            return nn.LayerNorm(dtype=self.options.dtype)(planes)
        return Bias(self.options.dtype)(planes)

    def conv(
        self, planes: jax.Array, channels: int, size: int, *, stride: int = 1, last: bool = False
    ) -> jax.Array:
        """A convolution and a norm; the `last` of a branch without norms begins at zero."""
        zero = last and self.options.norm == "none"
        start = nn.initializers.zeros_init() if zero else nn.initializers.lecun_normal()
        options: dict[str, Any] = {"use_bias": False, "dtype": self.options.dtype, "kernel_init": start}
        if size == 1:  # the same as a convolution, whose gradient takes CPUs half as long again
            return self.norm(nn.Dense(channels, **options)(planes))
        convolution = Conv(channels, (size, size), (stride, stride), padding=size // 2, **options)
        return self.norm(convolution(planes))

    def block(self, planes: jax.Array, channels: int, inner: int, *, stride: int = 1) -> jax.Array:
        """An inverted bottleneck; with stride 1 it adds to its input."""
        branch = nn.leaky_relu(self.conv(planes, inner, 1), _SLOPE)
        branch = nn.leaky_relu(self.norm(Depthwise(stride, self.options.dtype)(branch)), _SLOPE)
        branch = self.conv(branch, channels, 1, last=stride == 1)
        return planes + branch if stride == 1 else branch

    @nn.compact
    def __call__(self, observation: jax.Array) -> NetworkOutput:
        """Judges planes `[B, H, W, C]`."""
        options, batch = self.options, observation.shape[0]
        channels, late = options.channels, 2 * options.channels
        board = observation.astype(options.dtype)
        if options.own_plane is not None:
            board = centred(board, options.own_plane, options.reach)
        planes = board
        if options.halve == "stem":
            planes = nn.leaky_relu(self.conv(planes, late, 3, stride=2), _SLOPE)
        else:
            planes = nn.leaky_relu(self.conv(planes, channels, 3), _SLOPE)
            for _ in range(options.blocks):
                planes = self.block(planes, channels, options.expansion * channels)
            planes = self.block(planes, late, options.expansion * late, stride=2)
        for _ in range(options.late_blocks):
            planes = self.block(planes, late, options.expansion * late)
        policy = nn.leaky_relu(self.conv(planes, options.policy_channels, 1), _SLOPE).reshape(batch, -1)
        # One plane: a norm over the channels of each cell would leave nothing of it.
        value = nn.leaky_relu(Conv(1, (1, 1), dtype=options.dtype)(planes), _SLOPE).reshape(batch, -1)
        value = nn.leaky_relu(nn.Dense(options.value_width, dtype=options.dtype)(value), _SLOPE)
        if options.own_plane is not None:
            near = jnp.concatenate([_middle(board, options.window), _middle(planes, 1)], axis=-1)
            own = nn.leaky_relu(nn.Dense(options.own_width, dtype=options.dtype)(near), _SLOPE)
            policy, value = (jnp.concatenate([part, own], axis=-1) for part in (policy, value))
            both = nn.leaky_relu(nn.Dense(options.own_width, dtype=options.dtype)(policy), _SLOPE)
            policy = jnp.concatenate([policy, both], axis=-1)
        return Heads(self.num_actions, options, name="heads")(policy, value)


def rise(game: Game, options: RiseOptions) -> Rise:
    """The module for `game`.

    Raises:
        ConfigError: the observation is not a board of planes, there are blocks where none can be, or no
            such plane.
    """
    if len(game.observation_shape) != 3:
        raise ConfigError(
            f'The network "rise" reads a board of planes [H, W, C], but {game.name} has observations of '
            f'shape {game.observation_shape}; choose the network "mlp".'
        )
    if options.halve == "stem" and options.blocks:
        raise ConfigError(
            f'blocks = {options.blocks} before the board is halved, which halve = "stem" does first of all; '
            "expected blocks = 0 and all of them in late_blocks."
        )
    if options.own_plane is not None and options.window > options.reach:
        raise ConfigError(
            f"window = {options.window} is more than is seen; expected at most reach = {options.reach}."
        )
    planes = game.observation_shape[-1]
    if options.own_plane is not None and options.own_plane >= planes:
        raise ConfigError(
            f"own_plane = {options.own_plane} is out of range; expected 0 to {planes - 1}, the planes of "
            f"{game.name}."
        )
    return Rise(game.num_actions, options)
