"""Searches of games of three players, against max^n by exhaustive search."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from search_helpers import quick_jit
from toy_games import AgainNim, Nim, start

import games_jax
import jaxsearch
from jaxsearch.environment import make_recurrent_fn, make_root_fn


class Row(NamedTuple):
    left: jax.Array  # int32 []
    player: jax.Array  # int32 []
    got: jax.Array  # float32 [3], by the last step


@dataclasses.dataclass(frozen=True)
class Coins:
    """Three players take 1, 2 or 3 coins from a row.

    Every step pays: `WORTH` to the mover, and half of that to the next player. Who takes two coins has the
    turn skip a player, so that the order of moves is not fixed.
    """

    coins: int
    num_players = 3
    num_actions = 3

    @property
    def max_steps(self) -> int:
        return self.coins

    def init(self, key: jax.Array) -> Row:
        del key
        return Row(jnp.int32(self.coins), jnp.int32(0), jnp.zeros((3,)))

    def step(self, state: Row, action: jax.Array) -> Row:
        over = self.is_over(state)
        left = state.left - action - 1
        paid = jnp.asarray(WORTH)[left, state.player]
        got = jnp.where(jnp.arange(3) == state.player, paid, 0.0)
        got = got + jnp.where(jnp.arange(3) == (state.player + 1) % 3, paid / 2, 0.0)
        player = (state.player + jnp.where(action == 1, 2, 1)) % 3
        new = Row(left, player, got)
        return jax.tree.map(lambda a, b: jnp.where(over, a, b), state, new)

    def legal_actions(self, state: Row) -> jax.Array:
        return jnp.arange(1, 4) <= state.left

    def current_player(self, state: Row) -> jax.Array:
        return state.player

    def rewards(self, state: Row) -> jax.Array:
        return state.got

    def is_over(self, state: Row) -> jax.Array:
        return state.left == 0


WORTH = np.random.default_rng(1869).integers(-21, 22, (12, 3)).astype(np.float32) / 64
"""What a step pays, by coins left and mover: between -1/3 and 1/3, and exact in float32.

The seed is one for which every best move is better by 1/8 than the next: between equal moves max^n may choose
as it likes, and what the others get depends on it.
"""


@functools.cache
def solve(left: int, player: int) -> tuple[float, ...]:
    """What each player gets by max^n."""
    if left == 0:
        return (0.0, 0.0, 0.0)
    return max((result(left, player, take) for take in range(1, min(3, left) + 1)), key=lambda r: r[player])


def result(left: int, player: int, take: int) -> tuple[float, ...]:
    paid = float(WORTH[left - take, player])
    got = [0.0, 0.0, 0.0]
    got[player] += paid
    got[(player + 1) % 3] += paid / 2
    later = solve(left - take, (player + (2 if take == 2 else 1)) % 3)
    return tuple(a + b for a, b in zip(got, later))


def positions(coins):
    """Every number of coins with every player to move."""
    count = coins * 3
    return Row(
        jnp.arange(count, dtype=jnp.int32) // 3 + 1,
        jnp.arange(count, dtype=jnp.int32) % 3,
        jnp.zeros((count, 3)),
    )


def test_search_finds_the_moves_of_max_n():
    """From every position: the best move, and a value that is the mover's."""
    game, coins = Coins(8), 8
    search = quick_jit(jaxsearch.uct(game, simulations=2000, c=0.5, evaluator=jaxsearch.uniform(game)))
    out = search(jax.random.key(0), positions(coins))
    for i in range(coins * 3):
        left, player = i // 3 + 1, i % 3
        best = solve(left, player)
        moves = {take - 1: result(left, player, take)[player] for take in range(1, min(3, left) + 1)}
        assert moves[int(out.action[i])] == pytest.approx(best[player]), (left, player, moves)
        assert float(out.qvalues[i, out.action[i]]) == pytest.approx(best[player], abs=0.12)


def expectation(left: int, player: int) -> np.ndarray:
    """What each player gets on average if all play at random."""

    @functools.cache
    def at(left, player):
        if left == 0:
            return (0.0, 0.0, 0.0)
        ways = []
        for take in range(1, min(3, left) + 1):
            paid = float(WORTH[left - take, player])
            got = np.zeros(3)
            got[player] += paid
            got[(player + 1) % 3] += paid / 2
            ways.append(got + at(left - take, (player + (2 if take == 2 else 1)) % 3))
        return tuple(np.mean(ways, axis=0))

    return np.array(at(left, player))


def test_playouts_of_three_players():
    """The mean of many is the expectation of random play, for each player."""
    game = Coins(6)
    states = jax.tree.map(lambda leaf: jnp.repeat(leaf, 2048, axis=0), positions(6))
    logits, value = quick_jit(jaxsearch.playouts(game))(None, jax.random.key(0), states)
    assert logits.shape == (18 * 2048, 3) and value.shape == (18 * 2048, 3)
    means = np.asarray(value).reshape(18, 2048, 3).mean(axis=1)
    for i in range(18):
        np.testing.assert_allclose(means[i], expectation(i // 3 + 1, i % 3), atol=0.04)
    several = quick_jit(jaxsearch.playouts(game, k=3))(None, jax.random.key(0), positions(6))[1]
    assert several.shape == (18, 3)
    cut = jaxsearch.cut_playouts(game, plies=0, heuristic=lambda state: jnp.array([0.25, 0.5, 1.0]))
    np.testing.assert_array_equal(
        cut(None, jax.random.key(0), positions(2))[1], np.tile([0.25, 0.5, 1.0], (6, 1))
    )


@pytest.mark.parametrize("game", [Nim(9), AgainNim(10)], ids=["in turns", "moving again"])
def test_two_players_by_either_bookkeeping(game):
    """Values for each of two opposed players grow the tree that one value with a sign grows."""

    def each(params, key, states):
        logits, value = jaxsearch.uniform(game)(params, key, states)
        value = value + jnp.sin(7.0 * states.stones.astype(jnp.float32))
        return logits, jnp.where(
            (states.player == 0)[:, None], jnp.stack([value, -value], -1), jnp.stack([-value, value], -1)
        )

    def one(params, key, states):
        logits, value = each(params, key, states)
        return logits, jnp.where(states.player == 0, value[:, 0], value[:, 1])

    def grow(evaluator):
        return jaxsearch.puct(game, evaluator, simulations=60, keep_tree=True)

    states = start(game, 2)._replace(player=jnp.array([0, 1], jnp.int32))
    a = quick_jit(grow(one))(jax.random.key(0), states)
    b = quick_jit(grow(each))(jax.random.key(0), states)
    assert b.tree.players is not None and a.tree.players is None
    for field in ("action", "visits", "value", "qvalues"):
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field))
    np.testing.assert_array_equal(a.tree.block(1), b.tree.block(1))
    np.testing.assert_array_equal(a.tree.children, b.tree.children)


def test_interests_that_are_not_opposed():
    """Two players who both gain by one move and both lose by the other take the first."""

    @dataclasses.dataclass(frozen=True)
    class Common(Coins):
        num_players = 2

        def rewards(self, state):
            return jnp.where(state.left == 0, jnp.where(state.player == 0, 1.0, -1.0), 0.0)[None].repeat(2)

        def step(self, state, action):
            over, left = self.is_over(state), state.left - action - 1
            new = Row(left, 1 - state.player, state.got)
            return jax.tree.map(lambda a, b: jnp.where(over, a, b), state, new)

    game = Common(4)

    @functools.cache
    def best(left, player):
        if left == 0:
            return 1 if player == 0 else -1
        return max(best(left - take, 1 - player) for take in range(1, min(3, left) + 1))

    def nothing(params, key, states):
        del params, key
        return jnp.zeros((len(states.left), 3)), jnp.zeros((len(states.left), 2))

    states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 2))
    states = states._replace(player=jnp.array([0, 1], jnp.int32))
    out = quick_jit(jaxsearch.uct(game, simulations=300, evaluator=nothing, c=0.3))(jax.random.key(0), states)
    assert best(4, 0) == best(4, 1) == 1
    for row, player in enumerate((0, 1)):
        assert best(3 - int(out.action[row]), 1 - player) == 1
    assert (out.value > 0.7).all()


@pytest.mark.slow
def test_several_leaves_at_once():
    game, states = Coins(7), positions(7)
    search = jaxsearch.puct(game, jaxsearch.uniform(game), simulations=300, leaves=4, virtual_loss=0.2)
    out = quick_jit(search)(jax.random.key(0), states)
    good = []
    for i, take in enumerate((np.asarray(out.action) + 1).tolist()):
        left, player = i // 3 + 1, i % 3
        good.append(result(left, player, take)[player] == pytest.approx(solve(left, player)[player]))
    assert np.mean(good) > 0.9


def test_flat_monte_carlo():
    """After one step without playouts: what it pays the mover."""
    game, states = Coins(7), positions(7)
    search = jaxsearch.flat_monte_carlo(game, simulations=3, evaluator=jaxsearch.uniform(game))
    means = quick_jit(search)(jax.random.key(0), states)
    for i in range(6, 21):
        left, player = i // 3 + 1, i % 3
        paid = [float(WORTH[left - take, player]) for take in (1, 2, 3)]
        np.testing.assert_allclose(means.qvalues[i], paid, atol=1e-6)


def test_going_on_with_a_tree():
    game, states = Coins(7), positions(7)
    search = jaxsearch.uct(game, simulations=20, evaluator=jaxsearch.uniform(game), keep_tree=True)
    first = quick_jit(search)(jax.random.key(0), states)
    kept = jaxsearch.reroot(first.tree, first.action, capacity=21)
    after = jax.vmap(game.step)(states, first.action)
    again = quick_jit(search)(jax.random.key(1), after, tree=kept)
    going = ~np.asarray(jax.vmap(game.is_over)(after))
    before = np.asarray(kept.summary().visit_counts).sum(-1)
    np.testing.assert_array_equal(np.asarray(again.visits).sum(-1)[going], 20 + before[going])
    movers = np.asarray(again.tree.players.movers)[:21]
    np.testing.assert_array_equal(movers[going], np.asarray(after.player)[going])


def test_what_is_refused():
    game, states = Coins(3), positions(1)
    uniform = jaxsearch.uniform(game)
    key = jax.random.key(0)

    def run(search):
        return jax.eval_shape(search, key, states)

    with pytest.raises(ValueError, match="gumbel searches games of one or two players"):
        jaxsearch.gumbel(game, uniform, simulations=4)
    with pytest.raises(ValueError, match="neither amaf nor prove"):
        run(jaxsearch.uct(game, simulations=4, solver=True))
    with pytest.raises(ValueError, match="neither amaf nor prove"):
        run(jaxsearch.rave(game, simulations=4))
    with pytest.raises(
        ValueError, match=r"values of shape \(3,\) for a game of 3 players; expected \[B, 3\]"
    ):
        run(
            jaxsearch.uct(game, simulations=4, evaluator=lambda p, k, s: (jnp.zeros((3, 3)), jnp.zeros((3,))))
        )
    with pytest.raises(ValueError, match="successor_values is for games of one or two players"):
        jaxsearch.successor_values(game, lambda params, states: states.left)
    root = make_root_fn(game, uniform)(None, key, states)
    step = make_recurrent_fn(game, uniform)
    options = {"recurrent_fn": step, "num_simulations": 2, "rule": jaxsearch.selection.uct}
    with pytest.raises(ValueError, match=r"expected \(3,\), or \(3, P\) with movers"):
        jaxsearch.search(None, key, root=root, **options)
    with pytest.raises(ValueError, match="not who moves"):
        jax.eval_shape(
            lambda root: jaxsearch.search(
                None,
                key,
                root=root,
                movers=states.player,
                **{**options, "recurrent_fn": lambda *inputs: step(*inputs)[:2]},
            ),
            root,
        )
    tree = jax.eval_shape(jaxsearch.uct(game, simulations=4, keep_tree=True), key, states).tree
    with pytest.raises(AttributeError, match="keeps values of each player"):
        _ = tree.node_values


def test_games_of_two_players_keep_no_table():
    game = games_jax.make("tic_tac_toe")
    tree = jax.eval_shape(
        jaxsearch.uct(game, simulations=4, keep_tree=True),
        jax.random.key(0),
        jax.vmap(game.init)(jax.random.split(jax.random.key(0), 2)),
    ).tree
    assert tree.players is None and tree.amaf is None
