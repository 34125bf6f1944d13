"""Bad input to a search: one sentence that says what came and what was expected."""

import functools

import jax
import jax.numpy as jnp
import pytest
from search_helpers import random_model, random_roots, recurrent_fn

import jaxsearch
from jaxsearch import selection

BATCH = 4
MODEL = random_model(0, 3)


def call(root=None, **changes):
    arguments = {
        "root": random_roots(MODEL, 0, BATCH) if root is None else root,
        "recurrent_fn": recurrent_fn,
        "num_simulations": 4,
        "rule": selection.puct,
    } | changes
    return jaxsearch.search(MODEL, jax.random.key(0), **arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_simulations": 0}, r"num_simulations is 0; expected 1 to"),
        ({"num_simulations": 1 << 24}, r"num_simulations is 16777216; expected 1 to"),
        ({"max_depth": 0}, r"max_depth is 0; expected at least 1"),
        (
            {"invalid_actions": jnp.zeros((BATCH, 4))},
            r"invalid_actions has shape \(4, 4\); expected \(4, 3\)",
        ),
        ({"rule": functools.partial(selection.puct, first_play="best")}, r"first_play is 'best'; expected"),
    ],
)
def test_bad_arguments(changes, message):
    with pytest.raises(ValueError, match=message):
        call(**changes)


def test_indices_are_32_bit():
    root = random_roots(MODEL, 0, 16)
    with pytest.raises(ValueError, match=r"hold 3758096384 numbers; .* search fewer trees at once"):
        jax.eval_shape(lambda: call(root, num_simulations=(1 << 24) - 1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prior_logits": jnp.zeros(3)}, r"root.prior_logits has shape \(3,\); expected \[B, A\]"),
        ({"value": jnp.zeros((BATCH, 1))}, r"root.value has shape \(4, 1\); expected \(4,\)"),
        (
            {"embedding": jnp.zeros((3, 2))},
            r"leaf of root.embedding has shape \(3, 2\); expected a leading .* 4",
        ),
    ],
)
def test_bad_roots(changes, message):
    with pytest.raises(ValueError, match=message):
        call(random_roots(MODEL, 0, BATCH).replace(**changes))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda step, state: (step.replace(value=step.value[:, None]), state), r"value of shape \(4, 1\)"),
        (
            lambda step, state: (step.replace(prior_logits=step.prior_logits[:, :2]), state),
            r"prior_logits of shape",
        ),
        (lambda step, state: (step, state.astype(jnp.float32)), r"float32\[B\].*uint32\[B\]"),
        (lambda step, state: (step, (state, state)), r"returned a state of PyTreeDef"),
    ],
)
def test_bad_models(change, message):
    """A state of another type would be stored as bits and read back as nonsense, without a word."""

    def bad(*arguments):
        return change(*recurrent_fn(*arguments))

    with pytest.raises(ValueError, match=message):
        call(recurrent_fn=bad)
