"""Search tests run under JAX's strict rules, with every warning an error."""

import pathlib

import hypothesis
import jax
import pytest

# A first example compiles, so that a deadline would measure the compiler.
hypothesis.settings.register_profile("search", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.load_profile("search")

_HERE = pathlib.Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("error"))


@pytest.fixture(autouse=True)
def strict():
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        yield


@pytest.fixture
def lax():
    """For other libraries' code, which does not keep the strict rules."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield
