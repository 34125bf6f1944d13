"""A random model for numpy and JAX alike, a plain search of it, and what a finished tree must satisfy."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsearch import RecurrentFnOutput, RootFnOutput, Tree
from jaxsearch.rows import UNROLL

NUM_STATES = 5003
"""States of the random model: few enough for a table, and prime, so that the hash below spreads."""

quick_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
"""Compiles twice as fast, runs slower; XLA's own passes are the same."""


class Model(NamedTuple):
    """What each state of a random model holds: `[M, A]` and `[M]`."""

    logits: np.ndarray
    value: np.ndarray
    reward: np.ndarray
    discount: np.ndarray


def random_model(
    seed: int, num_actions: int, *, discounts=(-1.0, -1.0, 0.9, 0.0), illegal: float = 0.0
) -> Model:
    """A model in which the edges into a state carry one of `discounts`, and a share of actions is illegal."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(NUM_STATES, num_actions))
    barred = rng.random((NUM_STATES, num_actions)) < illegal
    barred[np.arange(NUM_STATES), rng.integers(num_actions, size=NUM_STATES)] = False
    return Model(
        logits=np.where(barred, np.finfo(np.float32).min, logits).astype(np.float32),
        value=rng.uniform(-1, 1, NUM_STATES).astype(np.float32),
        reward=rng.uniform(-0.1, 0.1, NUM_STATES).astype(np.float32),
        discount=rng.choice(discounts, NUM_STATES).astype(np.float32),
    )


def successor(state, action):
    """The state after `action`: uint32 arithmetic, the same in numpy and JAX."""
    return state * np.uint32(1664525) + action.astype(np.uint32) * np.uint32(1013904223) + np.uint32(12345)


def recurrent_fn(model: Model, key: jax.Array, action: jax.Array, state: jax.Array):
    del key
    state = successor(state, action)
    index = (state % np.uint32(NUM_STATES)).astype(jnp.int32)
    model = Model(*map(jnp.asarray, model))
    step = RecurrentFnOutput(
        reward=model.reward[index],
        discount=model.discount[index],
        prior_logits=model.logits[index],
        value=model.value[index],
    )
    return step, state


def random_roots(model: Model, seed: int, batch: int) -> RootFnOutput:
    """Roots at random states of the model."""
    state = np.random.default_rng(seed).integers(2**32, size=batch, dtype=np.uint32)
    index = state % NUM_STATES
    return RootFnOutput(
        prior_logits=jnp.asarray(model.logits[index]),
        value=jnp.asarray(model.value[index]),
        embedding=jnp.asarray(state),
    )


def random_invalid(seed: int, batch: int, num_actions: int, share: float = 0.3) -> np.ndarray:
    """Actions barred at the root, never all of them."""
    rng = np.random.default_rng(seed)
    barred = rng.random((batch, num_actions)) < share
    barred[np.arange(batch), rng.integers(num_actions, size=batch)] = False
    return barred


# A search as a textbook writes it: one tree, objects, float64


@dataclasses.dataclass
class Node:
    """A node of the plain search; `returns` and `visits` are of its actions, for its mover."""

    state: np.uint32
    value: float
    reward: float
    discount: float
    priors: np.ndarray
    visits: np.ndarray
    returns: np.ndarray
    children: dict[int, Node]


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.where(logits > -1e8, np.exp(logits.astype(np.float64) - logits.max()), 0.0)
    return weights / weights.sum()


def plain_search(
    model: Model,
    state: np.uint32,
    score: Callable[[Node], np.ndarray],
    *,
    simulations: int,
    max_depth: int,
    invalid: np.ndarray,
) -> Node:
    """The root after `simulations` descents, each of which takes the legal action of highest `score`."""

    def make(state, *, root=False) -> Node:
        index = int(state % NUM_STATES)
        logits = np.where(invalid, -np.inf, model.logits[index]) if root else model.logits[index]
        zeros = np.zeros(len(logits))
        reward, discount = float(model.reward[index]), float(model.discount[index])
        return Node(
            state, float(model.value[index]), reward, discount, softmax(logits), zeros, zeros.copy(), {}
        )

    root = make(state, root=True)
    for _ in range(simulations):
        node, path = root, []
        while True:
            action = int(np.argmax(np.where(node.priors > 0, score(node), -np.inf)))
            path.append((node, action))
            if action not in node.children:
                with np.errstate(over="ignore"):
                    node.children[action] = make(successor(node.state, np.uint32(action)))
                node = node.children[action]
                break
            node = node.children[action]
            if node.discount == 0 or len(path) == max_depth:
                break
        back = node.value
        for parent, action in reversed(path):
            child = parent.children[action]
            back = child.reward + child.discount * back
            parent.visits[action] += 1
            parent.returns[action] += back
    return root


def same_tree(node: Node, tree: Tree, batch: int, index: int = 0) -> bool:
    """Whether the visits of a plain search and those of row `batch` of ours agree at every node."""
    visits, children = np.asarray(tree.children_visits), np.asarray(tree.children_index)
    waiting = [(node, index)]
    while waiting:
        node, index = waiting.pop()
        if not np.array_equal(node.visits, visits[batch, index]):
            return False
        waiting += [(child, children[batch, index, action]) for action, child in node.children.items()]
    return True


# What every finished tree satisfies


class Edge(NamedTuple):
    batch: int
    depth: int  # edges from the root to the child, this one included
    node: int
    action: int
    child: int


def edges(tree: Tree) -> Iterator[Edge]:
    """Every edge that leads to a node."""
    children = np.asarray(tree.children_index)
    for batch in range(tree.num_trees):
        waiting = [(0, 1)]
        while waiting:
            node, depth = waiting.pop()
            for action in np.flatnonzero(children[batch, node] >= 0).tolist():
                child = int(children[batch, node, action])
                yield Edge(batch, depth, node, action, child)
                waiting.append((child, depth + 1))


def check_tree(tree: Tree, *, simulations: int, max_depth: int | None = None) -> None:
    """Recomputes every visit count and value sum from below, and checks the tree's shape.

    Holds for evaluators that give the same answer each time.
    """
    visits, sums, priors = (np.asarray(tree.block(k), np.float64) for k in range(3))
    value, reward, discount = (np.asarray(tree.column(k), np.float64) for k in range(3))
    if tree.num_actions > UNROLL:  # wide rows keep their totals
        np.testing.assert_array_equal(tree.column(3), visits.sum(-1))
        np.testing.assert_allclose(tree.column(4), sums.sum(-1), atol=1e-4)
    max_depth = simulations if max_depth is None else max_depth
    assert tree.num_nodes == simulations + 1
    np.testing.assert_array_equal(visits[:, 0].sum(-1), simulations)
    seen = set()
    with_child = np.zeros(visits.shape, bool)
    for batch, depth, node, action, child in edges(tree):
        assert node < child, "a child is made after its parent"
        assert (batch, child) not in seen, "a node has one parent"
        seen.add((batch, child))
        with_child[batch, node, action] = True
        assert depth <= max_depth
        assert priors[batch, node, action] > 0, "an edge holds an illegal action"
        n, r, d = visits[batch, node, action], reward[batch, child], discount[batch, child]
        below = visits[batch, child].sum()
        if d == 0 or depth == max_depth:
            assert below == 0, "nothing is searched below"
            expected = n * (r + d * value[batch, child])
        else:
            assert n == 1 + below
            expected = n * r + d * (value[batch, child] + sums[batch, child].sum())
        assert math.isclose(sums[batch, node, action], expected, rel_tol=1e-4, abs_tol=1e-4)
    np.testing.assert_array_equal(visits > 0, with_child)
