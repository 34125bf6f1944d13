"""The spelled-out arithmetic against numpy in double precision, over the ranges that each function states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsearch import arithmetic

RANDOM = np.random.default_rng(0)


def spread(low: float, high: float, count: int = 200_000) -> np.ndarray:
    """Numbers from `low` to `high`, equally many in each octave."""
    return np.exp(RANDOM.uniform(np.log(low), np.log(high), count)).astype(np.float32)


@pytest.mark.parametrize(
    ("ours", "exact", "numbers"),
    [
        (arithmetic.reciprocal, lambda x: 1 / x, spread(1e-30, 1e30)),
        (arithmetic.sqrt, np.sqrt, spread(1e-30, 1e30)),
        (arithmetic.exp, np.exp, RANDOM.uniform(-87, 0, 200_000).astype(np.float32)),
        (arithmetic.log, np.log, spread(1.0001, 1e30)),
        (arithmetic.log, np.log, spread(1.0001, 3)),
    ],
)
def test_error_is_small(ours, exact, numbers):
    expected = exact(numbers.astype(np.float64))
    error = np.abs(np.asarray(jax.jit(ours)(numbers), np.float64) - expected)
    scale = np.maximum(expected, 1) if ours is arithmetic.log else expected
    assert np.max(error / scale) < 2.5e-7


def test_quotients_of_means_are_exact():
    """A mean of equal returns is that return: else equal actions would differ by their visits.

    True where products are fused with sums, as optimised programs do, and tests otherwise are not.
    """
    counts = np.arange(1, 2001, dtype=np.float32)[:, None]
    returns = np.arange(-64, 65, dtype=np.float32)[None] / 64
    divide = jax.jit(arithmetic.divide, compiler_options={"xla_backend_optimization_level": 3})
    got = divide((counts * returns).ravel(), np.repeat(counts, 129))
    np.testing.assert_array_equal(got, np.tile(returns[0], 2000))


def test_special_points():
    powers = np.exp2(np.arange(-90, 90)).astype(np.float32)
    np.testing.assert_array_equal(jax.jit(arithmetic.reciprocal)(powers), 1 / powers)
    assert float(arithmetic.sqrt(jnp.float32(0))) == 0
    assert float(arithmetic.exp(jnp.float32(0))) == 1
    assert float(arithmetic.log(jnp.float32(1))) == 0
    assert 0 < float(arithmetic.exp(jnp.float32(-1e30))) < 1e-37
