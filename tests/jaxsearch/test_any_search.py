"""One suite for every search, whatever its evaluator says: on all 4,520 open positions of tic-tac-toe."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exhaustive import legal_moves, reachable, states
from search_helpers import quick_jit

import games_jax
import jaxsearch

GAME = games_jax.make("tic_tac_toe")
OPEN = [position for position in reachable() if legal_moves(*position)]
LEGAL = np.array([[move in legal_moves(*position) for move in range(9)] for position in OPEN])
SIMULATIONS = 8
ENTRIES = 509  # of the evaluator's tables; prime, so that positions spread


class Judge(NamedTuple):
    """What the evaluator says, so that one compiled search serves every kind of evaluator.

    Attributes:
        logits: `[M, 9]`, priors by a hash of the position.
        value: `[M]`, values likewise.
        on_legal: `[]`, added to the logits of legal moves.
        at_ends: `[]`, said of everything where the game is over.
    """

    logits: jax.Array
    value: jax.Array
    on_legal: jax.Array
    at_ends: jax.Array


def evaluate(judge: Judge, key, positions):
    del key
    entry = ((positions.own * np.uint32(512) + positions.other) % np.uint32(ENTRIES)).astype(jnp.int32)
    legal = jax.vmap(GAME.legal_actions)(positions)
    over = jax.vmap(GAME.is_over)(positions)
    logits = judge.logits[entry]
    logits = logits + jnp.where(legal, judge.on_legal, jnp.zeros_like(judge.on_legal))
    return jnp.where(over[:, None], judge.at_ends, logits), jnp.where(over, judge.at_ends, judge.value[entry])


def judge(seed=0, *, logits=None, on_legal=0.0, at_ends=0.0) -> Judge:
    rng = np.random.default_rng(seed)
    some = 3 * rng.normal(size=(ENTRIES, 9)) if logits is None else logits
    parts = (some, rng.uniform(-1, 1, ENTRIES), on_legal, at_ends)
    return Judge(*(jnp.asarray(part, jnp.float32) for part in parts))


SEARCHES = {
    "puct": lambda **o: jaxsearch.puct(
        GAME,
        evaluate,
        dirichlet_fraction=0.25,
        forced_playouts=2.0,
        root_temperature=1.2,
        temperature=1.0,
        **o,
    ),
    "puct with proofs": lambda **o: jaxsearch.puct(GAME, evaluate, solver=True, stop_early=True, **o),
    "puct, 4 leaves": lambda **o: jaxsearch.puct(GAME, evaluate, leaves=4, **o),
    "gumbel": lambda **o: jaxsearch.gumbel(GAME, evaluate, **o),
    "gumbel, parallel": lambda **o: jaxsearch.gumbel(GAME, evaluate, parallel=True, max_considered=4, **o),
}
every_search = pytest.mark.parametrize("kind", SEARCHES)


@functools.cache
def compiled(kind):
    search = SEARCHES[kind](simulations=SIMULATIONS, keep_tree=True)

    def run(key, positions, judge):
        out = search(key, positions, judge)
        finite = jnp.all(jnp.isfinite(out.tree.rows))
        return out._replace(tree=None), finite, out.tree.rows.dtype.type(0)

    return quick_jit(run)


def look(kind, judge, seed=0):
    """What a search says of all positions, after the checks that hold for every answer."""
    out, finite, zero = compiled(kind)(jax.random.key(seed), states(OPEN), judge)
    assert finite and zero.dtype == jnp.float32
    out = jax.tree.map(np.asarray, out)
    rows = np.arange(len(OPEN))
    assert LEGAL[rows, out.action].all(), "an illegal move is played"
    assert not out.visits[~LEGAL].any() and not out.weights[~LEGAL].any()
    assert all(np.isfinite(leaf).all() for leaf in (out.value, out.weights, out.qvalues))
    assert (np.abs(out.value) <= 1 + 1e-6).all() and (np.abs(out.qvalues) <= 1 + 1e-6).all()
    np.testing.assert_allclose(out.weights.sum(-1), 1, atol=1e-5)
    assert (out.visits.sum(-1) >= 1).all()
    return out


@every_search
def test_finished_games_bring_their_result_alone(kind):
    """NaN from the network where a game is over changes nothing."""
    clean, poisoned = (look(kind, judge(at_ends=said)) for said in (0.0, np.nan))
    jax.tree.map(np.testing.assert_array_equal, clean, poisoned)


@every_search
def test_priors_on_illegal_moves_only_count_as_uniform(kind):
    masked, uniform = (
        look(kind, judge(logits=np.zeros((ENTRIES, 9)), on_legal=said)) for said in (-np.inf, 0.0)
    )
    jax.tree.map(np.testing.assert_array_equal, masked, uniform)


@every_search
def test_certain_priors(kind):
    """One move has all of the prior, legal or not: as a logit far above, or as -inf for the others."""
    certain = np.eye(9)[np.random.default_rng(1).integers(9, size=ENTRIES)] > 0
    for rest, top in ((-np.inf, 0.0), (-3e38, 3e38)):
        look(kind, judge(logits=np.where(certain, top, rest)))


@every_search
def test_the_only_legal_move(kind):
    out = look(kind, judge())
    forced = LEGAL.sum(-1) == 1
    assert forced.sum() > 100
    np.testing.assert_array_equal(out.action[forced], LEGAL[forced].argmax(-1))
    np.testing.assert_allclose(out.weights[forced], LEGAL[forced], atol=1e-6)


@pytest.mark.parametrize("kind", ["puct", "gumbel, parallel"])
def test_a_bfloat16_network_keeps_float32_statistics(kind):
    """The answer is that of the same numbers given as float32; the tree is checked in `look`."""
    half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), judge(2))
    wide = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), half)
    narrow, same = look(kind, half), look(kind, wide)
    assert [leaf.dtype for leaf in narrow[:5]] == ["int32", "int32", "float32", "float32", "float32"]
    np.testing.assert_array_equal(narrow.visits, same.visits)
    np.testing.assert_allclose(narrow.value, same.value, atol=1e-6)


@pytest.mark.parametrize("kind", ["puct", "gumbel"])
def test_a_hundred_thousand_answers_are_legal(kind):
    """Half of them by each search, each time from other tables; in a third all moves may be ruled out."""
    rounds = -(-50_000 // len(OPEN))
    for seed in range(rounds):
        some = judge(seed)
        if seed % 3 == 0:
            shut = np.random.default_rng(seed).random((ENTRIES, 9)) < 0.7
            some = some._replace(logits=jnp.where(shut, -jnp.inf, some.logits))
        look(kind, some, seed)


def test_depth_is_counted_past_256_for_a_bfloat16_network():
    """bfloat16 has no number between 256 and 258: a depth kept in it would never reach `max_depth`."""
    depth, simulations = 300, 320
    zeros = jnp.zeros((1,), jnp.bfloat16)

    def step(params, key, action, state):
        del params, key, action
        output = jaxsearch.RecurrentFnOutput(
            reward=zeros, discount=zeros + 1, prior_logits=jnp.zeros((1, 1), jnp.bfloat16), value=zeros
        )
        return output, state + 1

    root = jaxsearch.RootFnOutput(
        prior_logits=jnp.zeros((1, 1), jnp.bfloat16), value=zeros, embedding=jnp.zeros((1,), jnp.int32)
    )
    run = quick_jit(
        lambda key: jaxsearch.muzero_policy(None, key, root, step, simulations, max_depth=depth).search_tree
    )
    tree = run(jax.random.key(0))
    np.testing.assert_array_equal(tree.depths[: depth + 1], np.arange(depth + 1))
    assert int(tree.depths.max()) == depth
    np.testing.assert_array_equal(tree.summary().visit_counts, simulations)
