"""Proven results against exhaustive search: on every position of tic-tac-toe, and on Nim."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exhaustive import legal_moves, plies_to_end, reachable, solve, states
from search_helpers import quick_jit
from toy_games import Nim

import games_jax
import jaxsearch
from jaxsearch.solver import root_proof

GAME = games_jax.make("tic_tac_toe")
ALIVE = [position for position in reachable() if legal_moves(*position)]
LATE = [position for position in ALIVE if len(legal_moves(*position)) <= 3]


def search_with_proof(search):
    def run(key, positions):
        out = search(key, positions)
        return out, root_proof(out.tree)

    return quick_jit(run)


def test_what_is_proven_is_true():
    """On all 4,520 positions; and late ones, whose trees fit into the search, are all proven."""
    search = jaxsearch.puct(GAME, jaxsearch.uniform(GAME), simulations=64, solver=True, keep_tree=True)
    out, proof = search_with_proof(search)(jax.random.key(0), states(ALIVE))
    proven = np.asarray(proof.proven)
    truth = np.array([solve(*position) for position in ALIVE])
    np.testing.assert_array_equal(np.asarray(proof.value)[proven], truth[proven])
    np.testing.assert_array_equal(np.asarray(out.value)[proven], truth[proven])
    is_late = np.array([position in set(LATE) for position in ALIVE])
    assert proven[is_late].all()
    assert 0.3 < proven.mean() < 1

    for i, (own, other) in enumerate(ALIVE):
        moves = [move for move in range(9) if proof.lost[i, move]]
        assert all(solve(other, own | 1 << move) == 1 for move in moves), "a move proven to lose does not"
    played = [solve(other, own | 1 << int(a)) for (own, other), a in zip(ALIVE, out.action, strict=True)]
    np.testing.assert_array_equal(-np.array(played)[proven], truth[proven])


@pytest.mark.parametrize("kind", ["puct", "uct"])
def test_distance_and_target(kind):
    """With all of the tree seen, the shortest win is played and taught, and the longest loss."""
    evaluator = jaxsearch.uniform(GAME)
    options = {"simulations": 100, "solver": True, "keep_tree": True}
    if kind == "puct":
        search = jaxsearch.puct(GAME, evaluator, **options)
    else:
        search = jaxsearch.uct(GAME, evaluator=evaluator, **options)
    out, proof = search_with_proof(search)(jax.random.key(0), states(LATE))
    assert proof.proven.all()
    for i, (own, other) in enumerate(LATE):
        distance = plies_to_end(own, other)
        # A win is proven by one line, which need not be the shortest; a loss by all of them.
        assert int(proof.distance[i]) >= distance if solve(own, other) > 0 else True
        after = (other, own | 1 << int(out.action[i]))
        assert -solve(*after) == solve(own, other)
        if distance == 1:
            assert plies_to_end(*after) == 0 and int(proof.distance[i]) == 1
        weights = np.asarray(out.weights[i])
        best = np.asarray(proof.best[i], np.float32)
        np.testing.assert_allclose(weights, best / best.sum(), atol=1e-6)


def test_search_stops_when_all_roots_are_proven():
    search = jaxsearch.puct(GAME, jaxsearch.uniform(GAME), simulations=2000, solver=True, keep_tree=True)
    out, proof = search_with_proof(search)(jax.random.key(0), states(LATE[:64]))
    assert proof.proven.all()
    assert out.visits.sum(-1).max() < 100


@pytest.mark.parametrize("stones", [1, 4, 7, 8, 11])
def test_nim(stones):
    """Lost where the stones are a multiple of four; a solver needs no evaluator to know."""
    game = Nim(stones)
    position = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 1))
    search = jaxsearch.uct(game, simulations=600, solver=True, keep_tree=True)
    out, proof = search_with_proof(search)(jax.random.key(1), position)
    assert proof.proven[0]
    assert proof.value[0] == (-1 if stones % 4 == 0 else 1)
    if stones % 4:
        assert int(out.action[0]) == stones % 4 - 1


def test_solver_plays_better_at_equal_simulations():
    """Few simulations: the share of positions in which the result is kept rises."""
    kept = {}
    for solver in (False, True):
        search = jaxsearch.puct(GAME, jaxsearch.uniform(GAME), simulations=24, solver=solver)
        action = np.asarray(quick_jit(search)(jax.random.key(0), states(ALIVE)).action)
        kept[solver] = np.mean(
            [-solve(o, m | 1 << int(a)) == solve(m, o) for (m, o), a in zip(ALIVE, action, strict=True)]
        )
    assert kept[True] > kept[False]


def test_trees_do_not_disturb_each_other():
    """Proofs run in loops over the whole batch, and some trees stop early."""
    search = quick_jit(
        jaxsearch.puct(GAME, jaxsearch.playouts(GAME), simulations=40, solver=True, keep_tree=True)
    )
    first = search(jax.random.key(0), states(ALIVE[:40])).visits
    mixed = search(jax.random.key(0), states([*ALIVE[:20], *LATE[:20]])).visits
    np.testing.assert_array_equal(first[:20], mixed[:20])


def test_a_tree_without_proofs_says_so():
    search = jaxsearch.puct(GAME, jaxsearch.uniform(GAME), simulations=4, keep_tree=True)
    tree = search(jax.random.key(0), states(LATE[:2])).tree
    with pytest.raises(ValueError, match="prove=True"):
        root_proof(tree)
    assert tree.proofs is None and jnp.all(tree.children_visits >= 0)


def test_proofs_are_kept_when_a_tree_is_gone_on_with():
    """From a middle game, move after move: what is proven stays true, and more becomes proven."""
    middle = [position for position in ALIVE if len(legal_moves(*position)) == 6][:50]
    search = quick_jit(
        jaxsearch.puct(GAME, jaxsearch.uniform(GAME), simulations=30, solver=True, keep_tree=True)
    )
    positions, tree, known = states(middle), None, []
    for ply in range(4):
        out = search(jax.random.key(ply), positions, tree=tree)
        proof = root_proof(out.tree)
        known.append(np.asarray(proof.proven))
        boards = zip(np.asarray(positions.own), np.asarray(positions.other), strict=True)
        for i, (own, other) in enumerate(boards):
            if known[-1][i] and legal_moves(int(own), int(other)):
                assert float(proof.value[i]) == solve(int(own), int(other))
        tree = jaxsearch.reroot(out.tree, out.action, capacity=60)
        positions = jax.vmap(GAME.step)(positions, out.action)
    assert not known[0].all() and known[3].all()
