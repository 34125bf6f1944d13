"""Chance nodes: a dice game against its expectimax value, worked out in plain Python."""

import functools

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest
from search_helpers import quick_jit
from toy_games import Nim

import jaxsearch

FACES, CHANCES = (0, 2, 6), (1 / 2, 1 / 3, 1 / 6)  # a face of 0 loses everything
ROUNDS, GOAL = 2, 20
STOP, ROLL = 0, 1
SUMS = np.arange(0, 15)  # the batch: what was collected before


@functools.cache
def expectimax(collected: int, rounds: int) -> tuple[float, float]:
    """The values of stopping, which brings the sum, and of rolling the die once more."""
    stop = collected / GOAL
    if rounds == 0:
        return stop, -1.0
    outcomes = [0.0 if face == 0 else max(expectimax(collected + face, rounds - 1)) for face in FACES]
    return stop, float(np.dot(CHANCES, outcomes))


def decision(params, key, action, state):
    """The player's half of a move; the afterstate remembers what was chosen."""
    del params, key
    chances = jnp.log(jnp.array(CHANCES))[None]
    # Stopping has one outcome, the last: branching is nature's own, not the player's.
    certain = jnp.array([[-jnp.inf, -jnp.inf, 0.0]])
    logits = jnp.where((action == ROLL)[:, None], chances, certain)
    value = (state["sum"] / GOAL).astype(jnp.float32)  # a guess
    after = {**state, "roll": action == ROLL}
    return mctx.DecisionRecurrentFnOutput(chance_logits=logits, afterstate_value=value), after


def chance(params, key, outcome, after):
    """Nature's half: the face adds to the sum or ends the game, and so does stopping."""
    del params, key
    face = jnp.array(FACES)[outcome]
    lost = after["roll"] & (face == 0)
    collected = jnp.where(after["roll"], after["sum"] + face, after["sum"])
    over = lost | ~after["roll"]
    rounds = after["rounds"] - after["roll"]
    state = {"sum": collected, "rounds": rounds, "roll": jnp.zeros_like(after["roll"])}
    logits = jnp.stack([jnp.zeros(face.shape), jnp.where(rounds > 0, 0.0, -1e9)], axis=-1)
    reward = jnp.where(over & ~lost, collected / GOAL, 0.0).astype(jnp.float32)
    output = mctx.ChanceRecurrentFnOutput(
        action_logits=logits,
        value=jnp.where(over, jnp.nan, collected / GOAL).astype(jnp.float32),  # not looked at where over
        reward=reward,
        discount=jnp.where(over, 0.0, 1.0),
    )
    return output, state


@functools.cache
def searched(simulations=1500):
    root = jaxsearch.RootFnOutput(
        prior_logits=jnp.zeros((len(SUMS), 2)),
        value=jnp.asarray(SUMS / GOAL, jnp.float32),
        embedding={
            "sum": jnp.asarray(SUMS, jnp.int32),
            "rounds": jnp.full(len(SUMS), ROUNDS, jnp.int32),
            "roll": jnp.zeros(len(SUMS), bool),
        },
    )

    @quick_jit
    def run(key):
        # On a fixed scale: rescaled to what was seen, a first throw that fails would decide for good.
        scale = functools.partial(mctx.qtransform_by_min_max, min_value=0.0, max_value=1.0)
        options = {"dirichlet_fraction": 0.0, "temperature": 0.0, "qtransform": scale}
        out = jaxsearch.stochastic_muzero_policy(None, key, root, decision, chance, simulations, **options)
        summary = out.search_tree.summary()
        tree = out.search_tree
        return out.action, summary.qvalues, summary.visit_counts, tree.parents, tree.node_visits, tree

    return run(jax.random.key(0))


def test_values_are_expectimax_values(lax):
    """Both moves' values, and the better one played wherever they differ by more than a hair."""
    action, q, visits, *_ = searched()
    truth = np.array([expectimax(int(collected), ROUNDS) for collected in SUMS])
    assert (truth.argmax(-1) == ROLL).any() and (truth.argmax(-1) == STOP).any()
    clear = np.abs(truth[:, 0] - truth[:, 1]) > 0.02
    np.testing.assert_array_equal(np.asarray(action)[clear], truth.argmax(-1)[clear])
    np.testing.assert_allclose(q[:, STOP], truth[:, STOP], atol=1e-5)
    often = np.asarray(visits)[:, ROLL] > 300
    assert often.sum() > 3
    np.testing.assert_allclose(np.asarray(q)[often, ROLL], truth[often, ROLL], atol=0.03)


def test_outcomes_are_visited_as_often_as_they_come(lax):
    """Three outcomes below two moves; the visits of each stay within two of their share."""
    *_, tree = searched()
    children = np.asarray(tree.children_index)[:, 0]
    parents, visits = np.asarray(tree.parents), np.asarray(tree.node_visits)
    for row in range(len(SUMS)):
        node = children[row, ROLL]
        below = visits[row][parents[row] == node]
        total = visits[row, node] - 1  # one visit made the node itself
        assert len(below) == len(FACES) and total > 30
        np.testing.assert_allclose(np.sort(below), np.sort(CHANCES) * total, atol=2)
        stopped = children[row, STOP]
        assert (parents[row] == stopped).sum() == 1, "an impossible outcome was searched"


def test_a_game_that_draws_as_it_steps_is_refused():
    class Dice(Nim):
        name, has_chance = "dice", True

    with pytest.raises(ValueError, match="without chance, and dice draws in its steps; search it with stoch"):
        jaxsearch.puct(Dice(3), jaxsearch.uniform(Dice(3)), simulations=4)
