"""What CONTRIBUTING.md promises: a game of one's own is one short file, and nothing is registered."""

from pathlib import Path

import jax
import jax.numpy as jnp
import nim
import pytest

import games_jax
import jaxsearch
from games_jax import conformance


def test_it_is_short_and_unknown_to_the_registry():
    assert len(Path(nim.__file__).read_text().splitlines()) < 60
    with pytest.raises(ValueError, match="unknown game 'nim'"):
        games_jax.make("nim")


def test_it_keeps_the_contract():
    conformance.check(nim.Nim(), games=8)


def test_search_leaves_a_multiple_of_four():
    left = jnp.array([7, 6, 5, 3, 2, 1])
    states = nim.State(left, mover=jnp.array([0, 1, 0, 1, 0, 1]))
    out = jax.jit(jaxsearch.uct(nim.Nim(), simulations=400))(jax.random.key(0), states)
    assert out.action.tolist() == [2, 1, 0, 2, 1, 0]
