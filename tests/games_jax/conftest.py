"""Our own games are held to JAX's strict promotion rules; other libraries' are not."""

import hypothesis
import jax
import pytest

# A first example compiles, so that a deadline would measure the compiler.
hypothesis.settings.register_profile("games", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("games")


@pytest.fixture
def strict():
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        yield
