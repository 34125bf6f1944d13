"""Convolutions whose gradients take CPUs no longer within a loop than outside.

XLA brings the dimensions of a convolution into the order that Eigen can compute, but on CPUs only in a
program's outermost computation. Within `lax.scan` and other loops, where learners take gradients, those that
JAX derives keep an order of their own and are computed one number at a time, in ten to sixty times as long
(jax 0.10). Here they are in Eigen's order to begin with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
from jax import lax

__all__ = ["Conv"]

_EIGEN = ("NHWC", "HWIO", "NHWC")
_Padding = tuple[tuple[int, int], ...]


def _convolution(
    planes: jax.Array,
    kernel: jax.Array,
    strides: tuple[int, ...],
    padding: _Padding,
    precision: Any,
    **dilation: Any,
) -> jax.Array:
    """`[B, H, W, C]` by `[h, w, C, D]`, `[B, H', W', D]`."""
    return lax.conv_general_dilated(
        planes, kernel, strides, padding, dimension_numbers=_EIGEN, precision=precision, **dilation
    )


_convolve = jax.custom_vjp(_convolution, nondiff_argnums=(2, 3, 4))


def _forward(planes: jax.Array, kernel: jax.Array, *how: Any) -> tuple[jax.Array, Any]:
    return _convolve(planes, kernel, *how), (planes, kernel)


def _backward(
    strides: tuple[int, ...], padding: _Padding, precision: Any, kept: Any, gradient: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Platforms other than CPUs order convolutions as they like wherever those are."""
    planes, kernel = kept
    paddings = _paddings(planes, kernel, gradient, strides, padding)

    def derived(planes: jax.Array, kernel: jax.Array, gradient: jax.Array) -> Any:
        def forward(planes: jax.Array, kernel: jax.Array) -> jax.Array:
            return _convolution(planes, kernel, strides, padding, precision)

        return jax.vjp(forward, planes, kernel)[1](gradient)

    def ordered(planes: jax.Array, kernel: jax.Array, gradient: jax.Array) -> Any:
        turned = kernel[::-1, ::-1].swapaxes(2, 3)
        by_planes = _convolution(gradient, turned, (1, 1), paddings[0], precision, lhs_dilation=strides)
        # What is summed over, the batch, stands where channels do, and the channels where the batch does.
        channels, windows = planes.transpose(3, 1, 2, 0), gradient.transpose(1, 2, 0, 3)
        by_kernel = _convolution(channels, windows, (1, 1), paddings[1], precision, rhs_dilation=strides)
        return by_planes, by_kernel.transpose(1, 2, 0, 3)

    return lax.platform_dependent(planes, kernel, gradient, cpu=ordered, default=derived)


_convolve.defvjp(_forward, _backward)


def _paddings(
    planes: jax.Array, kernel: jax.Array, gradient: jax.Array, strides: tuple[int, ...], padding: _Padding
) -> tuple[_Padding, _Padding]:
    """Of the gradient towards the planes, and of the planes towards the kernel; negative ones cut off."""
    towards_planes, towards_kernel = [], []
    for axis, (stride, (low, _)) in enumerate(zip(strides, padding, strict=True)):
        size, window = planes.shape[1 + axis], kernel.shape[axis]
        reach = stride * (gradient.shape[1 + axis] - 1)  # from the first window to the last
        towards_planes.append((window - 1 - low, size - 1 + low - reach))
        # Not the padding at the end: a stride may step over the last rows.
        towards_kernel.append((low, reach + window - size - low))
    return tuple(towards_planes), tuple(towards_kernel)


def _as_flax_calls_it(
    planes: jax.Array, kernel: jax.Array, strides: Sequence[int], padding: Any, **options: Any
) -> jax.Array:
    """`lax.conv_general_dilated` with the arguments of `nn.Conv`; ours where there is nothing unusual."""
    dilations = {*options["lhs_dilation"], *options["rhs_dilation"]}
    if planes.ndim != 4 or dilations != {1} or options["feature_group_count"] != 1:
        return lax.conv_general_dilated(planes, kernel, strides, padding, **options)
    if isinstance(padding, str):
        padding = lax.padtype_to_pads(planes.shape[1:3], kernel.shape[:2], strides, padding)
    pairs = tuple((int(low), int(high)) for low, high in padding)
    return _convolve(planes, kernel, tuple(strides), pairs, options["precision"])


class Conv(nn.Conv):
    """`nn.Conv` with those gradients: the same options, parameters, names and results.

    Not for forward-mode derivatives (`jax.jvp`), nor under `shard_map` with `check_vma=True`.
    """

    conv_general_dilated_cls: Any = lambda: _as_flax_calls_it
