"""Division, roots, exponentials and logarithms spelled out in cheap operations, for selection rules.

XLA (CPU, jax 0.10 to 0.12) never computes a division, a root, an exponential or a logarithm twice: one whose
result is read twice becomes a kernel of its own. A selection rule over a few actions reads nearly all of its
quotients twice, so that a rule of two hundred operations fell into twenty kernels, each with memory traffic
between. Multiplications, shifts and sums it does copy and then merges, and the whole rule is one loop: half
the time for Gumbel MuZero's rule at seven actions.

Arrays `[R, A]`, the wide rows, are reduced in kernels of their own whatever a rule does; there a quotient is
better kept than computed again, and `divide` and `reciprocal` are the plain ones.

Each function is within 2.5e-7 of the exact result, relatively, on the range it states, and gives equal
results for equal arguments. A quotient is correctly rounded where products are fused with sums, as XLA does.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["divide", "exp", "log", "reciprocal", "sqrt"]

_LOG2_HIGH, _LOG2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)  # their sum is ln 2
_LOG2_E = np.float32(1.44269504)
_EXP_TERMS = (1.9875691e-4, 1.3981999e-3, 8.3334519e-3, 4.1665796e-2, 1.6666665e-1, 0.5)
_LOWEST_EXP = np.float32(-87.0)


def reciprocal(x: jax.Array) -> jax.Array:
    """`1 / x` for float32 `x` in 1e-30..1e30."""
    if x.ndim > 1:
        return 1.0 / x
    # Subtracting the bits negates the exponent; each Newton step then doubles the right digits.
    y = _from_bits(np.int32(0x7EF311C7) - _to_bits(x))
    for _ in range(3):
        y = y + y * (1.0 - x * y)  # so and not y * (2 - x y): powers of two come out exact
    return y


def divide(x: jax.Array, y: jax.Array) -> jax.Array:
    """`x / y` for float32 `y` in 1e-30..1e30."""
    if y.ndim > 1:
        return x / y
    inverse = reciprocal(y)
    quotient = x * inverse
    return quotient + inverse * (x - quotient * y)


def sqrt(x: jax.Array) -> jax.Array:
    """The square root of float32 `x` in 1e-30..1e30, and 0 of 0."""
    y = _from_bits(np.int32(0x5F375A86) - (_to_bits(x) >> 1))
    for _ in range(3):
        y = y * (1.5 - 0.5 * x * y * y)
    return x * y


def exp(x: jax.Array) -> jax.Array:
    """The exponential of float32 `x` in -87..0; below that range, of -87."""
    x = jnp.maximum(x, _LOWEST_EXP)
    power = jnp.floor(x * _LOG2_E + 0.5)
    rest = (x - power * _LOG2_HIGH) - power * _LOG2_LOW
    series = jnp.full_like(rest, _EXP_TERMS[0])
    for term in _EXP_TERMS[1:]:
        series = series * rest + np.float32(term)
    series = series * rest * rest + rest + 1.0
    return series * _from_bits((power.astype(jnp.int32) + 127) << 23)


def log(x: jax.Array) -> jax.Array:
    """The logarithm of float32 `x` in 1..1e30; the error is 2.5e-7 at most, or that share of the result."""
    # x = 2^power * m with m in [0.71, 1.42), and log m = 2 artanh((m - 1) / (m + 1)).
    shifted = _to_bits(x) - np.int32(0x3F3504F3)
    power = (shifted >> 23).astype(jnp.float32)
    m = _from_bits((shifted & np.int32(0x007FFFFF)) + np.int32(0x3F3504F3))
    s = divide(m - 1.0, m + 1.0)
    t = s * s
    series = s * (2.0 + t * (2 / 3 + t * (2 / 5 + t * (2 / 7 + t * (2 / 9)))))
    return power * _LOG2_HIGH + (power * _LOG2_LOW + series)


def _to_bits(x: jax.Array) -> jax.Array:
    return jax.lax.bitcast_convert_type(x, jnp.int32)


def _from_bits(x: jax.Array) -> jax.Array:
    return jax.lax.bitcast_convert_type(x, jnp.float32)
