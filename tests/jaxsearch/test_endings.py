"""Passes, draws by repetition, games without an end, proven results: where searches of others went wrong."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exhaustive import legal_moves, reachable, states
from search_helpers import edges, quick_jit

import games_jax
import jaxsearch
from jaxsearch.solver import root_proof

OXO = games_jax.make("tic_tac_toe")
OPEN = [position for position in reachable() if legal_moves(*position)]

# Othello: a pass is a move of its own, and two of them end the game


OTHELLO = games_jax.make("othello", size=4)


class Position(NamedTuple):
    """One state and what the game says of it, on the host."""

    state: object
    player: int
    moves: list[int]
    rewards: np.ndarray

    @property
    def passes(self) -> bool:
        return self.moves == [OTHELLO.num_actions - 1]


@functools.cache
def _step():
    def facts(state, action):
        state = OTHELLO.step(state, action)
        return state, OTHELLO.current_player(state), OTHELLO.legal_actions(state), OTHELLO.rewards(state)

    return quick_jit(facts)


def after(position: Position, move: int) -> Position:
    state, player, legal, rewards = jax.device_get(_step()(position.state, np.int32(move)))
    return Position(state, int(player), np.flatnonzero(legal).tolist(), rewards)


def solve(position: Position) -> tuple[int, set[int], int]:
    """The value for the mover, the moves that reach it, and the passes met, by exhaustive search."""
    results, passes = {}, int(position.passes)
    for move in position.moves:
        child = after(position, move)
        if child.moves:
            value, _, below = solve(child)
            passes += below
            results[move] = value if child.player == position.player else -value
        else:
            results[move] = int(child.rewards[position.player])
    best = max(results.values())
    return best, {move for move, result in results.items() if result == best}, passes


@functools.cache
def late_positions(count=40):
    """Positions of random games six plies before their end, in whose trees somebody must pass."""
    rng, found = np.random.default_rng(0), []
    start = Position(OTHELLO.init(jax.random.key(0)), 0, [1, 4, 11, 14], np.zeros(2))
    start = start._replace(moves=np.flatnonzero(OTHELLO.legal_actions(start.state)).tolist())
    while len(found) < count:
        game = [start]
        while game[-1].moves:
            game.append(after(game[-1], int(rng.choice(game[-1].moves))))
        position = game[-6]
        value, best, passes = solve(position)
        if passes and len(best) < len(position.moves):
            found.append((position, value, best))
    return found


@pytest.mark.parametrize("solver", [False, True])
def test_passes_in_othello(solver):
    """Against exhaustive search: the move that keeps the result, and its value, for both players."""
    found = late_positions()
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(position.state for position, *_ in found))
    options = {"simulations": 400 if solver else 1200, "solver": solver, "keep_tree": solver}
    search = jaxsearch.puct(OTHELLO, jaxsearch.uniform(OTHELLO), **options)
    out = quick_jit(search)(jax.random.key(0), batch)
    assert {position.player for position, *_ in found} == {0, 1}
    for row, (_, value, best) in enumerate(found):
        assert int(out.action[row]) in best
        assert solver or value == 0 or np.sign(out.qvalues[row, out.action[row]]) == value
    if solver:
        truth = np.array([value for _, value, _ in found])
        proven = np.asarray(root_proof(out.tree).proven)
        assert proven.mean() > 0.8
        np.testing.assert_array_equal(np.asarray(out.value)[proven], truth[proven])


# Proven results are played


@pytest.mark.parametrize("simulations", [12, 64])
def test_proven_wins_are_played_and_proven_losses_are_not(simulations):
    """On all positions: what is proven won is played, and no losing move while there is another.

    After few simulations the move that proved to lose may be the most visited one. After more, a win at once
    is always taken.
    """
    search = jaxsearch.puct(OXO, jaxsearch.uniform(OXO), simulations=simulations, solver=True, keep_tree=True)

    def run(key, positions):
        out = search(key, positions)
        return out.action, out.visits, root_proof(out.tree)

    action, visits, proof = jax.tree.map(np.asarray, quick_jit(run)(jax.random.key(0), states(OPEN)))
    wins = tempted = 0
    for row, (own, other) in enumerate(OPEN):
        moves = legal_moves(own, other)
        at_once = {move for move in moves if _won(own | 1 << move)}
        wins += bool(at_once)
        assert simulations < 64 or not at_once or int(action[row]) in at_once
        if not proof.lost[row, moves].all():
            tempted += proof.lost[row, visits[row].argmax()]
            assert not proof.lost[row, action[row]]
        if proof.proven[row]:
            assert proof.best[row, action[row]]
    assert wins > 1000
    assert simulations == 64 or tempted > 0


def _won(board: int) -> bool:
    lines = (0o7, 0o70, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124)
    return any(board & line == line for line in lines)


# Games that go round in circles


class Ring(NamedTuple):
    place: jax.Array
    player: jax.Array


class RoundTheRing:
    """Two players walk one token by one or two places round a ring of six, for ever."""

    num_players, num_actions = 2, 2

    def init(self, key):
        del key
        return Ring(jnp.int32(0), jnp.int32(0))

    def step(self, state, action):
        return Ring((state.place + action + 1) % 6, 1 - state.player)

    def legal_actions(self, state):
        return jnp.full((2,), True) & (state.place >= 0)

    def current_player(self, state):
        return state.player

    def rewards(self, state):
        return jnp.zeros((2,)) * state.place.astype(jnp.float32)

    def is_over(self, state):
        return state.place < 0


def by_place(params, key, positions):
    """The mover likes the places far round the ring."""
    del params, key
    return jnp.zeros((*positions.place.shape, 2)), positions.place.astype(jnp.float32) / 5 - 0.5


RING = RoundTheRing()
ON_RING = {
    "uct": functools.partial(jaxsearch.uct, RING, evaluator=by_place),
    "puct, 4 leaves": functools.partial(jaxsearch.puct, RING, by_place, leaves=4),
    "gumbel": functools.partial(jaxsearch.gumbel, RING, by_place),
}


@pytest.mark.parametrize("kind", ON_RING)
def test_a_game_without_an_end_is_searched_to_the_depth_asked_for(kind):
    """All simulations are made, none goes deeper, and a cut counts as the evaluator says."""
    search = ON_RING[kind](simulations=64, max_depth=5, keep_tree=True)
    out = quick_jit(search)(jax.random.key(0), jax.vmap(RING.init)(jax.random.split(jax.random.key(0), 3)))
    np.testing.assert_array_equal(out.visits.sum(-1), 64)
    assert np.isfinite(out.qvalues).all() and (np.abs(out.value) <= 0.5).all()
    assert max(edge.depth for edge in edges(out.tree)) == 5


def test_playouts_of_a_game_without_an_end_ask_for_a_limit():
    with pytest.raises(ValueError, match=r"states no max_steps; give playouts\(max_steps=...\)"):
        jaxsearch.playouts(RING)
    states = jax.vmap(RING.init)(jax.random.split(jax.random.key(0), 3))
    _, values = jaxsearch.playouts(RING, max_steps=20)(None, jax.random.key(0), states)
    np.testing.assert_array_equal(values, 0)


# Draws that depend on the past


class Shuffle(NamedTuple):
    """Attributes: player 0's and player 1's place, how often each position came, who moves, how it ended."""

    places: jax.Array  # int32 [2]
    seen: jax.Array  # int8 [8], by place, place and mover
    player: jax.Array  # int32 []
    ending: jax.Array  # int32 []: 0 running, 1 drawn by repetition, 2 given up by player 0, 3 by player 1


class ShuffleGame:
    """Each player puts a token on place 0 or 1, or gives up (2); a position come three times is a draw."""

    num_players, num_actions = 2, 3

    def init(self, key):
        del key
        state = Shuffle(jnp.zeros(2, jnp.int32), jnp.zeros(8, jnp.int8), jnp.int32(0), jnp.int32(0))
        return state._replace(seen=state.seen.at[0].set(1))

    def step(self, state, action):
        gives_up = action == 2
        places = jnp.where(jnp.arange(2) == state.player, action, state.places)
        places = jnp.where(gives_up, state.places, places)
        player = 1 - state.player
        here = places[0] * 4 + places[1] * 2 + player
        seen = state.seen.at[here].add(jnp.where(gives_up, 0, 1).astype(jnp.int8))
        ending = jnp.where(gives_up, 2 + state.player, jnp.where(seen[here] >= 3, 1, 0))
        new = Shuffle(places, seen, player, ending)
        return jax.tree.map(lambda a, b: jnp.where(self.is_over(state), a, b), state, new)

    def legal_actions(self, state):
        return jnp.full((3,), ~self.is_over(state))

    def current_player(self, state):
        return state.player

    def rewards(self, state):
        first = jnp.where(state.ending == 2, -1.0, jnp.where(state.ending == 3, 1.0, 0.0))
        return jnp.stack([first, -first])

    def is_over(self, state):
        return state.ending > 0


def test_draws_by_repetition_are_true_in_a_tree_gone_on_with():
    """After each move, whatever is kept: a node is an end if and only if the real game would end there."""
    game = ShuffleGame()
    search = quick_jit(jaxsearch.puct(game, jaxsearch.uniform(game), simulations=60, keep_tree=True))
    position = jax.tree.map(lambda leaf: leaf[None], game.init(jax.random.key(0)))
    step, go_on = quick_jit(game.step), quick_jit(functools.partial(jaxsearch.reroot, capacity=80))
    every_state = quick_jit(lambda tree: jax.vmap(lambda n: tree.node_states(n[None]))(nodes(tree)))
    tree, drawn = None, 0
    for ply, move in enumerate([1, 0, 0, 0, 1, 0]):
        tree = search(jax.random.key(ply), position, tree=tree).tree
        kept = jax.device_get(every_state(tree))
        real = {0: jax.tree.map(lambda leaf: leaf[0], position)}
        marks = np.asarray(tree.children.reshape(tree.num_nodes, game.num_actions))
        for edge in edges(tree):
            state = real[edge.child] = jax.device_get(step(real[edge.node], np.int32(edge.action)))
            assert all(np.array_equal(a[edge.child, 0], b) for a, b in zip(kept, state, strict=True))
            assert (marks[edge.node, edge.action] < -1) == (state.ending > 0)
            drawn += int(state.ending) == 1
        tree = go_on(tree, jnp.array([move], jnp.int32))
        position = jax.tree.map(lambda leaf: leaf[None], step(real[0], np.int32(move)))
        assert int(position.ending[0]) == 0
    assert drawn > 20


def nodes(tree):
    return jnp.arange(tree.num_nodes, dtype=jnp.int32)
