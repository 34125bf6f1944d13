"""All moves as first: by hand, and against a plain search by RAVE on Hex written another way."""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from search_helpers import quick_jit

import games_jax
import jaxsearch
from jaxsearch import RecurrentFnOutput, RootFnOutput, StepDetails, action_sets, selection


def by_hand(num_actions, discounts):
    """Three simulations that each go one level deeper, along action 0, 1, 2, of which only that is legal.

    Simulation `d` ends at depth `d`; its playout has the mover of the leaf play action 3, the other one 4,
    and is worth `d / 8` for the mover. The edge to depth `d` has `discounts[d - 1]`.
    """

    def recurrent_fn(params, key, action, depth):
        del params, key, action
        depth = depth + 1
        played = jnp.stack([jnp.arange(num_actions) == 3, jnp.arange(num_actions) == 4])
        step = RecurrentFnOutput(
            reward=jnp.zeros((1,)),
            discount=jnp.asarray(discounts)[depth - 1],
            prior_logits=jnp.where(jnp.arange(num_actions)[None] == depth[:, None], 0.0, -1e9),
            value=depth.astype(jnp.float32) / 8,
        )
        return step, depth, StepDetails(played=jnp.broadcast_to(played, (1, 2, num_actions)))

    root = RootFnOutput(
        prior_logits=jnp.where(jnp.arange(num_actions) == 0, 0.0, -1e9)[None],
        value=jnp.zeros((1,)),
        embedding=jnp.zeros((1,), jnp.int32),
    )
    tree = quick_jit(
        lambda root: jaxsearch.search(
            None,
            jax.random.key(0),
            root=root,
            recurrent_fn=recurrent_fn,
            num_simulations=3,
            rule=lambda row: row.visits,
            amaf=True,
        )
    )(root)
    return np.asarray(tree.amaf).reshape(4, 2, num_actions)


def entries(table):
    """`{action: (visits, value sum)}` of what was played at all."""
    return {int(a): (float(table[0, a]), float(table[1, a])) for a in np.flatnonzero(table[0])}


@pytest.mark.parametrize("num_actions", [5, 40])
def test_by_hand_with_alternating_movers(num_actions):
    """The mover of depth 0 moves at 2 too, and plays 3 in the playouts of even depth, else 4."""
    root, one, two, three = by_hand(num_actions, [-1.0, -1.0, -1.0])
    # Seen from the root, the simulations brought -1/8, 2/8 and -3/8. Action 2 came in the third.
    assert entries(root) == {
        0: (3, -2 / 8),
        2: (1, -3 / 8),
        3: (1, 2 / 8),  # depth 2
        4: (2, -4 / 8),  # depths 1 and 3
    }
    assert entries(one) == {1: (2, 1 / 8), 3: (2, 4 / 8), 4: (1, -2 / 8)}
    assert entries(two) == {2: (1, -3 / 8), 3: (1, 2 / 8), 4: (1, -3 / 8)}
    assert entries(three) == {3: (1, 3 / 8)}


def test_by_hand_when_the_mover_stays():
    """The edge to depth 2 does not change the mover, so that action 1 is the mover's of depth 2 as well."""
    root, one, two, _ = by_hand(5, [-1.0, 1.0, -1.0])
    assert entries(root) == {0: (3, -1 / 8 - 2 / 8 + 3 / 8), 3: (1, 3 / 8), 4: (2, -3 / 8)}
    assert entries(one) == {
        1: (2, 2 / 8 - 3 / 8),
        2: (1, -3 / 8),
        3: (2, 1 / 8 + 2 / 8),
        4: (1, -3 / 8),
    }
    assert entries(two) == {2: (1, -3 / 8), 3: (1, 2 / 8), 4: (1, -3 / 8)}


def test_one_player_and_the_end_of_a_game():
    """Behind the end nothing is played, whatever is reported."""
    root, one, two, three = by_hand(5, [0.5, 1.0, 0.0])
    # Values 1/8, 2/8, and nothing at the end; the first edge halves.
    assert entries(root) == {0: (3, 3 / 16), 1: (2, 1 / 8), 2: (1, 0.0), 3: (2, 3 / 16)}
    assert entries(one) == {1: (2, 2 / 8), 2: (1, 0.0), 3: (2, 3 / 8)}
    assert entries(two) == {2: (1, 0.0), 3: (1, 2 / 8)}
    assert entries(three) == {}


# A search by RAVE as a textbook writes it, on Hex


class Board:
    """Hex by flood fill; `cells` holds 0, 1 for the players and -1."""

    def __init__(self, size, cells=None, mover=0):
        self.size, self.mover = size, mover
        self.cells = [-1] * size * size if cells is None else cells

    def after(self, cell):
        cells = self.cells.copy()
        cells[cell] = self.mover
        return Board(self.size, cells, 1 - self.mover)

    def empty(self):
        return [cell for cell, owner in enumerate(self.cells) if owner < 0]

    def has_won(self, player):
        n = self.size
        edge = [i if player == 0 else n * i for i in range(n)]
        waiting = [cell for cell in edge if self.cells[cell] == player]
        seen = set(waiting)
        while waiting:
            row, column = divmod(waiting.pop(), n)
            if (row if player == 0 else column) == n - 1:
                return True
            for dr, dc in ((0, 1), (0, -1), (1, 0), (-1, 0), (-1, 1), (1, -1)):
                r, c = row + dr, column + dc
                if 0 <= r < n and 0 <= c < n and self.cells[r * n + c] == player and r * n + c not in seen:
                    seen.add(r * n + c)
                    waiting.append(r * n + c)
        return False


def rank(cell, stones):
    """The order in which the playout of a position with so many stones fills its cells: lowest first."""
    return (cell * 37 + stones * 101 + cell * cell * stones * 13) % 251 * 1000 + cell


def fill(board):
    """The result for the mover of a playout without chance, the mover's cells and the other one's."""
    order = sorted(board.empty(), key=lambda cell: rank(cell, len(board.cells) - len(board.empty())))
    cells = board.cells.copy()
    for i, cell in enumerate(order):
        cells[cell] = board.mover if i % 2 == 0 else 1 - board.mover
    won = Board(board.size, cells).has_won(board.mover)
    return (1 if won else -1), set(order[::2]), set(order[1::2])


def fill_evaluator(game):
    """The same for `jaxsearch`."""
    n = game.size**2

    def evaluate(params, key, states):
        del params, key
        mover = jax.vmap(game.current_player)(states)
        planes = jax.vmap(game.observe)(states, mover)
        empty = ~(planes[..., 0] | planes[..., 1]).reshape(-1, n)
        stones = n - jnp.sum(empty, axis=-1, dtype=jnp.int32)[:, None]
        cells = jnp.arange(n, dtype=jnp.int32)[None]
        place = jnp.argsort(jnp.argsort(jnp.where(empty, rank(cells, stones), 1 << 30), axis=-1), axis=-1)
        first = mover[:, None]
        owner = jnp.where(place % 2 == 0, first, 1 - first)
        played = jnp.stack([empty & (owner == player) for player in (0, 1)], axis=1)

        def play(state, cell_of):
            return jax.lax.fori_loop(0, n, lambda i, s: game.step(s, cell_of[i]), state)

        # The real game stops at the win, which later stones do not undo.
        order = jnp.argsort(place, axis=-1).astype(jnp.int32)
        end = jax.vmap(play)(states, order)
        rewards = jax.vmap(game.rewards)(end)
        return jnp.zeros((len(mover), n)), jaxsearch.environment.of_player(rewards, mover), played

    return evaluate


@dataclasses.dataclass
class Node:
    board: Board
    over: bool
    visits: np.ndarray
    sums: np.ndarray
    later_visits: np.ndarray
    later_sums: np.ndarray
    children: dict


def score(node, c, c_rave):
    """UCT-RAVE in float64, the untried and never seen first."""
    total = 1 + node.visits.sum()
    seen = max(node.later_visits.sum(), 1)
    scores = []
    for n, w, later_n, later_w in zip(node.visits, node.sums, node.later_visits, node.later_sums):
        beta = math.sqrt(c_rave / (3 * total + c_rave)) if n else 1.0
        own = w / n + 2 * c * math.sqrt(math.log(total) / n) if n else 1e9
        if later_n:
            later = later_w / later_n + 2 * c * math.sqrt(math.log(seen) / later_n)
            scores.append(beta * later + (1 - beta) * own if n else later)
        else:
            scores.append(own)
    return scores


def plain_rave(size, simulations, c, c_rave):
    """The nodes of a search of the empty board, in the order in which they were made."""
    nodes = []

    def make(board):
        zeros = np.zeros(size * size)
        over = board.has_won(1 - board.mover)
        node = Node(board, over, zeros, zeros.copy(), zeros.copy(), zeros.copy(), {})
        nodes.append(node)
        return node

    root = make(Board(size))
    for _ in range(simulations):
        node, path = root, []
        while True:
            scores = score(node, c, c_rave)
            action = max(node.board.empty(), key=lambda a, s=scores: (s[a], -a))
            path.append((node, action))
            if action not in node.children:
                node.children[action] = make(node.board.after(action))
                node = node.children[action]
                break
            node = node.children[action]
            if node.over:
                nodes.append(None)  # a simulation without a new node
                break
        if node.over:
            result, own, other = -1, set(), set()
        else:
            result, own, other = fill(node.board)
            if not node.visits.any():
                for a in own:
                    node.later_visits[a], node.later_sums[a] = 1, result
        for parent, action in reversed(path):
            result, own, other = -result, other | {action}, own
            parent.visits[action] += 1
            parent.sums[action] += result
            for a in own:
                parent.later_visits[a] += 1
                parent.later_sums[a] += result
    return nodes


@pytest.mark.parametrize("size, simulations", [(3, 120), (4, 150), (5, 80)])
def test_equals_a_plain_search_on_hex(size, simulations):
    """Node by node: visits, sums, and what was played later; 5x5 in the layout of many actions."""
    game, c, c_rave = games_jax.make("hex", size=size), 0.25, 100.0
    evaluate = fill_evaluator(game)
    start = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 1))

    def grow(states):
        return jaxsearch.search(
            None,
            jax.random.key(0),
            root=jaxsearch.make_root_fn(game, evaluate)(None, jax.random.key(0), states),
            recurrent_fn=jaxsearch.make_recurrent_fn(game, evaluate),
            num_simulations=simulations,
            rule=functools.partial(selection.rave, c=c, c_rave=c_rave),
            random_ties=False,
            amaf=True,
        )

    tree = quick_jit(grow)(start)
    actions = size * size
    rows = np.asarray(tree.rows)
    later = np.asarray(tree.amaf).reshape(-1, 2, actions)
    nodes = plain_rave(size, simulations, c, c_rave)
    assert len(nodes) == len(rows)
    for number, node in enumerate(nodes):
        if node is None or node.over:
            continue
        np.testing.assert_array_equal(rows[number, :actions], node.visits, err_msg=str(number))
        np.testing.assert_array_equal(rows[number, actions : 2 * actions], node.sums)
        np.testing.assert_array_equal(later[number, 0], node.later_visits, err_msg=str(number))
        np.testing.assert_array_equal(later[number, 1], node.later_sums)


# Playouts that say what was played


def hex_positions(game, count, plies):
    """Positions after random moves, some of them over."""
    states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), count))
    for ply in range(plies):
        legal = jax.vmap(game.legal_actions)(states)
        keys = jax.random.split(jax.random.key(ply), count)
        states = jax.vmap(game.step)(
            states, jax.vmap(lambda k, m: jax.random.categorical(k, jnp.where(m, 0.0, -jnp.inf)))(keys, legal)
        )
    return states


def members(words, game):
    """Sets of actions as bool `[..., A]`."""
    return np.asarray(action_sets.unpack(words, game.num_actions)) > 0


@pytest.mark.parametrize("num_actions", [1, 31, 32, 33, 82])
def test_action_sets(num_actions):
    rng = np.random.default_rng(num_actions)
    sets = rng.random((5, 2, num_actions)) < 0.5
    words = action_sets.pack(jnp.asarray(sets))
    assert words.shape == (5, 2, action_sets.num_words(num_actions)) and words.dtype == jnp.uint32
    np.testing.assert_array_equal(action_sets.unpack(words, num_actions), sets)
    every = jnp.arange(num_actions, dtype=jnp.int32)
    single = action_sets.unpack(action_sets.single(every, num_actions), num_actions)
    np.testing.assert_array_equal(single, np.eye(num_actions))


@pytest.mark.parametrize("swap", [False, True])
def test_moves_of_hex_playouts(swap):
    """They fill the board, in turns; and the winner is who has joined the edges then."""
    game = games_jax.make("hex", size=4, swap=swap)
    states = hex_positions(game, 64, 8)
    keys = jax.random.split(jax.random.key(7), 64)
    rewards, played = quick_jit(jax.vmap(game.playout_moves))(states, keys)
    np.testing.assert_array_equal(rewards, jax.vmap(game.playout)(states, keys))
    played, over = members(played, game), np.asarray(jax.vmap(game.is_over)(states))
    assert over.any() and not over.all()
    for i in range(64):
        state = jax.tree.map(lambda leaf, i=i: leaf[i], states)
        first, second = game._cells(state)
        empty = ~(first | second).reshape(-1)
        if over[i]:
            assert not played[i].any()
            continue
        np.testing.assert_array_equal(played[i, :, :16].sum(0), empty)
        mover = int(game.current_player(state))
        assert played[i, mover].sum() == -(-empty.sum() // 2)
        cells = np.where(first.reshape(-1) | played[i, 0, :16], 0, 1).tolist()
        assert Board(4, cells).has_won(0) == (rewards[i, 0] == 1)


def test_moves_of_a_swap():
    """After one stone, the second player swaps in one playout of sixteen; then the first one moves."""
    game = games_jax.make("hex", size=4, swap=True)
    state = game.from_string("b2")
    states = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], 8192, axis=0), state)
    _, played = quick_jit(jax.vmap(game.playout_moves))(states, jax.random.split(jax.random.key(0), 8192))
    played = members(played, game)
    swapped = played[:, 1, 16]
    assert not played[:, 0, 16].any()
    assert scipy.stats.binomtest(int(swapped.sum()), 8192, 1 / 16).pvalue > 1e-4
    cells = played[:, :, :16].sum(-1)
    assert (cells[swapped] == [8, 7]).all() and (cells[~swapped] == [7, 8]).all()


def test_moves_of_stepwise_playouts():
    """On tic-tac-toe the moves give the board on which the game ended."""
    game = games_jax.make("tic_tac_toe")
    lines = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
    states = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], 256, axis=0), game.from_string("b2 a1"))
    evaluate = quick_jit(jaxsearch.playouts(game, moves=True))
    _, value, played = evaluate(None, jax.random.key(0), states)
    for result, (x, o) in zip(np.asarray(value), members(played, game)):
        assert not x[[0, 4]].any() and not o[[0, 4]].any() and not (x & o).any()
        assert x.sum() - o.sum() in (0, 1)
        x, o = x | (np.arange(9) == 4), o | (np.arange(9) == 0)
        won = [any(side[list(line)].all() for line in lines) for side in (x, o)]
        assert result == won[0] - won[1] and (any(won) or (x | o).all())
    np.testing.assert_array_equal(value, jaxsearch.playouts(game)(None, jax.random.key(0), states)[1])


# Whole searches

GAME = games_jax.make("tic_tac_toe")


@functools.cache
def short_search():
    return quick_jit(
        jaxsearch.rave(GAME, simulations=40, evaluator=jaxsearch.uniform(GAME), c_rave=20.0, keep_tree=True)
    )


def starts(count):
    return jax.vmap(GAME.init)(jax.random.split(jax.random.key(0), count))


def test_rerooted_statistics_are_those_of_the_subtree():
    out = short_search()(jax.random.key(0), starts(3))
    kept = jaxsearch.reroot(out.tree, out.action, capacity=41)
    child = np.asarray(out.tree.children_index)[np.arange(3), 0, out.action]
    old, new = (np.asarray(tree.amaf).reshape(41, 3, -1) for tree in (out.tree, kept))
    assert new[0].any(-1).all()
    for tree in range(3):
        np.testing.assert_array_equal(new[0, tree], old[child[tree], tree])
    states = jax.vmap(GAME.step)(starts(3), out.action)
    again = short_search()(jax.random.key(1), states, tree=kept)
    before = np.asarray(kept.summary().visit_counts)
    np.testing.assert_array_equal(np.asarray(again.visits).sum(-1), before.sum(-1) + 40)
    later = np.asarray(again.tree.amaf)[:3, :9]
    assert (later >= new[0, :, :9]).all() and (later >= np.asarray(again.visits)).all()


def test_a_tree_with_a_smaller_budget():
    """It stops, and the other one is what it is without budgets."""
    out = short_search()(jax.random.key(0), starts(3), budgets=jnp.array([20, 40, 40]))
    full = short_search()(jax.random.key(0), starts(3))
    visits = np.asarray(out.visits)
    np.testing.assert_array_equal(visits.sum(-1), [20, 40, 40])
    np.testing.assert_array_equal(out.tree.amaf[1::3], full.tree.amaf[1::3])
    later = np.asarray(out.tree.amaf)[:3, :9]
    assert (later >= visits).all() and (later.max(-1) <= visits.sum(-1)).all()


def test_errors():
    game = games_jax.make("hex", size=3)
    states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 1))
    with pytest.raises(ValueError, match="k is 2; expected 1, because moves=True"):
        jaxsearch.playouts(game, k=2, moves=True)

    def without(states):
        return jaxsearch.search(
            None,
            jax.random.key(0),
            root=RootFnOutput(prior_logits=jnp.zeros((1, 9)), value=jnp.zeros((1,)), embedding=states),
            recurrent_fn=jaxsearch.make_recurrent_fn(game, jaxsearch.uniform(game)),
            num_simulations=2,
            rule=selection.rave,
        )

    with pytest.raises(ValueError, match="this search keeps none"):
        jax.eval_shape(without, states)

    def wrong(params, key, states):
        del params, key, states
        return jnp.zeros((1, 9)), jnp.zeros((1,)), jnp.zeros((1, 2, 5), bool)

    with pytest.raises(ValueError, match=r"of shape \(1, 2, 5\); expected \(1, P, 9\), or \(1, P, 1\) in"):
        jax.eval_shape(jaxsearch.rave(game, simulations=2, evaluator=wrong), jax.random.key(0), states)


@pytest.mark.slow
def test_rave_beats_plain_uct_on_hex():
    """9x9, every opening with both colours, 1,000 simulations: at least 95 of 100 games."""
    game = games_jax.make("hex", size=9)
    assert (
        share_won(game, jaxsearch.rave(game, simulations=1000), jaxsearch.uct(game, simulations=1000)) >= 0.95
    )


@pytest.mark.slow
def test_twice_the_simulations_win_more():
    """9x9, every opening with both colours: 56 to 72 of 100 games (seen with other programs)."""
    game = games_jax.make("hex", size=9)
    share = share_won(game, jaxsearch.rave(game, simulations=2000), jaxsearch.rave(game, simulations=1000))
    assert 0.56 <= share <= 0.72


def share_won(game, player, opponent):
    """The share of games that `player` wins, all openings, with both colours."""
    n = game.num_actions
    opened = jax.vmap(game.init)(jax.random.split(jax.random.key(0), n))
    opened = jax.vmap(game.step)(opened, jnp.arange(n, dtype=jnp.int32))
    player, opponent, step = jax.jit(player), jax.jit(opponent), jax.jit(jax.vmap(game.step))
    sides = [opened, opened]  # in the first, the player is to move after the opening
    for ply in range(n - 1):
        keys = jax.random.split(jax.random.key(ply))
        sides = [
            step(states, (player if side == ply % 2 else opponent)(keys[side], states).action)
            for side, states in enumerate(sides)
        ]
        if all(bool(jax.vmap(game.is_over)(states).all()) for states in sides):
            break
    rewards = [np.asarray(jax.vmap(game.rewards)(states)) for states in sides]
    return ((rewards[0][:, 1] > 0).sum() + (rewards[1][:, 0] > 0).sum()) / (2 * n)
