"""Random playouts: the exact expectation of random play, and the parts that make the randomness."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from search_helpers import quick_jit
from toy_games import AgainNim, Corridor, Nim, start

import games_jax
import jaxsearch
from jaxsearch.random_play import _draw, _seeds, random_legal

GAME = games_jax.make("tic_tac_toe")

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


@functools.cache
def random_play(board: str, mover: str) -> float:
    """The mover's expected result when both sides choose uniformly at random."""
    other = "O" if mover == "X" else "X"
    if any(all(board[cell] == other for cell in line) for line in LINES):
        return -1.0
    empty = [cell for cell in range(9) if board[cell] == "."]
    if not empty:
        return 0.0
    after = [board[:cell] + mover + board[cell + 1 :] for cell in empty]
    return -sum(random_play(b, other) for b in after) / len(after)


def states_of(boards):
    text = ["/".join(b[i : i + 3] for i in (0, 3, 6)) + f" {m}" for b, m in boards]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(GAME.from_string, text))


# The empty board, endings of both colours, a win in one, a drawn fill-in, finished games.
BOARDS = [
    (".........", "X"),
    ("XX.OO....", "X"),
    ("XX.OO...X", "O"),
    ("XOXXOO.X.", "O"),
    ("X.OOX.X.O", "X"),
    ("XOXOOX.X.", "O"),
    ("OO.X.X.XO", "X"),
    ("XXXOO....", "O"),
    ("XOXXOOOXX", "O"),
]


@pytest.mark.parametrize("k", [1, 8])
def test_mean_is_that_of_random_play(k):
    batch, copies = len(BOARDS), 4096 // k
    states = jax.tree.map(lambda leaf: jnp.repeat(leaf, copies), states_of(BOARDS))
    evaluate = quick_jit(jaxsearch.playouts(GAME, k=k))
    logits, value = evaluate(None, jax.random.key(0), states)
    assert logits.shape == (batch * copies, 9) and not logits.any()
    value = np.asarray(value, np.float64).reshape(batch, copies)
    np.testing.assert_array_equal(value * k, np.round(value * k))  # a mean of k results
    for row, (board, mover) in zip(value, BOARDS):
        over = all(cell != "." for cell in board) or any(
            board[a] != "." and board[a] == board[b] == board[c] for a, b, c in LINES
        )
        expected = 0.0 if over else random_play(board, mover)
        # The variance of one result is at most 1 - mean^2.
        error = math.sqrt((1 - expected**2) / 4096)
        assert abs(row.mean() - expected) <= 5 * error, (board, mover)
    assert value[0].std() > 0, "playouts of one position differ"


def test_keys_matter():
    states = jax.tree.map(lambda leaf: jnp.repeat(leaf, 64), states_of(BOARDS[:1]))
    evaluate = quick_jit(jaxsearch.playouts(GAME))
    a, b, again = (evaluate(None, jax.random.key(seed), states)[1] for seed in (0, 1, 0))
    assert (a != b).any()
    np.testing.assert_array_equal(a, again)


@pytest.mark.parametrize("game", [Nim(5), AgainNim(6)])
def test_signs_follow_the_mover(game):
    """The value is the mover's at the start, whoever moves in between, and for both players."""

    @functools.cache
    def expected(stones):
        results = []
        for take in range(1, min(3, stones) + 1):
            left = stones - take
            passes = bool(game.passes_turn(np.int32(left)))
            results.append(1.0 if left == 0 else (-1 if passes else 1) * expected(left))
        return sum(results) / len(results)

    states = start(game, 8192)
    states = states._replace(player=jnp.arange(8192, dtype=jnp.int32) % 2)
    value = np.asarray(quick_jit(jaxsearch.playouts(game))(None, jax.random.key(0), states)[1])
    for player in (0, 1):
        assert abs(value[player::2].mean() - expected(game.stones)) < 5 / math.sqrt(4096)


def test_one_player_and_rewards_on_the_way():
    """Random walk: the end is reached with probability 1 / 4, else `small` is taken."""
    value = quick_jit(jaxsearch.playouts(Corridor(2, 0.25)))(
        None, jax.random.key(0), start(Corridor(2, 0.25), 8192)
    )[1]
    counts = {float(v): int(n) for v, n in zip(*np.unique(value, return_counts=True))}
    assert set(counts) == {0.25, 1.0}
    assert abs(counts[1.0] / 8192 - 0.25) < 5 * math.sqrt(0.25 * 0.75 / 8192)


def test_cut_after_max_steps():
    """A game not over yet counts as it stands: one ply from a win in one of five moves."""
    states = jax.tree.map(lambda leaf: jnp.repeat(leaf, 8192), states_of([("XX.OO....", "X")]))
    value = np.asarray(quick_jit(jaxsearch.playouts(GAME, max_steps=1))(None, jax.random.key(0), states)[1])
    assert set(np.unique(value)) == {0.0, 1.0}
    assert abs(value.mean() - 0.2) < 5 * math.sqrt(0.2 * 0.8 / 8192)


def test_bad_arguments():
    class Endless:
        num_players = 2
        num_actions = 3

    with pytest.raises(ValueError, match="k is 0; expected at least 1 playout"):
        jaxsearch.playouts(GAME, k=0)
    with pytest.raises(ValueError, match=r"no max_steps; give playouts\(max_steps=...\)"):
        jaxsearch.playouts(Endless())
    with pytest.raises(ValueError, match="max_steps is 0; expected at least 1"):
        jaxsearch.playouts(GAME, max_steps=0)


def test_random_legal_is_uniform():
    """Over many draws of each generator, on masks of every kind."""
    rng = np.random.default_rng(0)
    masks = np.concatenate([rng.random((20, 9)) < 0.5, np.eye(9, dtype=bool)[:3], np.ones((2, 9), bool)])
    masks = masks[masks.any(-1)]
    chains = 256
    legal = jnp.asarray(np.repeat(masks, chains, axis=0))
    seeds = _seeds(jax.random.key(0), len(legal))

    @quick_jit
    def draw(seeds):
        seeds, words = _draw(seeds)
        return seeds, random_legal(words, legal)

    counts, previous, pairs = np.zeros(masks.shape), None, np.zeros((9, 9))
    rows = np.repeat(np.arange(len(masks)), chains)
    for _ in range(40):
        seeds, action = draw(seeds)
        action = np.asarray(action)
        np.add.at(counts, (rows, action), 1)
        if previous is not None:  # of the last mask, where all nine are legal
            np.add.at(pairs, (previous[-chains:], action[-chains:]), 1)
        previous = action
    assert not counts[~masks].any()
    for count, mask in zip(counts, masks):
        if mask.sum() == 1:  # nothing to choose
            continue
        assert scipy.stats.chisquare(count[mask]).pvalue > 1e-5
    # One draw says nothing about the next.
    assert scipy.stats.chisquare(pairs.ravel()).pvalue > 1e-5


@given(seed=st.integers(0, 2**31), num_actions=st.sampled_from([1, 2, 31, 32, 33, 65, 362, 700]))
def test_random_legal_finds_the_action_drawn(seed, num_actions):
    """It is the legal action with as many legal ones before it as the number drawn, rounded down, says."""
    rng = np.random.default_rng(seed)
    legal = rng.random((16, num_actions)) < rng.choice([0.02, 0.5, 0.98])
    legal[np.arange(16), rng.integers(num_actions, size=16)] = True
    words = rng.integers(2**32, size=16, dtype=np.uint32)
    got = pick(jnp.asarray(words), jnp.asarray(legal))
    for word, row, action in zip(words, legal, got):
        choices = np.flatnonzero(row)
        assert action == choices[int(word >> 8) * len(choices) >> 24]


def test_random_legal_at_the_ends_of_the_interval():
    """The largest draw below 1 gives the last legal action; without a legal one the answer is 0."""
    words = jnp.array([0, 2**32 - 1], jnp.uint32)
    for count in (1, 3, 7, 64, 80, 362, 4672):
        legal = jnp.zeros((2, 5000), bool).at[:, 100 : 100 + count].set(True)
        np.testing.assert_array_equal(pick(words, legal), [100, 100 + count - 1])
    for num_actions in (1, 80, 5000):
        np.testing.assert_array_equal(pick(words, jnp.zeros((2, num_actions), bool)), 0)


def test_seeds_differ_between_games_and_keys():
    keys = [jax.random.key(seed) for seed in range(8)] + [jax.random.key(0, impl="rbg")]
    seeds = np.stack([_seeds(key, 4096) for key in keys])
    # Of 36,864 random words of 32 bits, 0.16 pairs are equal on average.
    assert len(np.unique(seeds)) >= seeds.size - 4
    ones = [(seeds >> bit & 1).mean() for bit in range(32)]
    np.testing.assert_allclose(ones, 0.5, atol=5 / math.sqrt(seeds.size) / 2)


# A game that plays by itself


class OneByOne(Nim):
    """Nim that offers a playout of its own, which says what it was called with."""

    def playout(self, state, key):
        del key
        stones = state.stones.astype(jnp.float32)
        return jnp.stack([stones, -stones])


class ManyAtOnce(OneByOne):
    def playouts(self, states, keys):
        assert keys.shape == states.stones.shape
        stones = 0.25 * states.stones.astype(jnp.float32)
        return jnp.stack([stones, -stones], axis=-1)


@pytest.mark.parametrize(("game", "factor"), [(OneByOne(5), 1.0), (ManyAtOnce(5), 0.25)])
def test_own_playouts_are_used(game, factor):
    states = start(game, 6)._replace(
        stones=jnp.array([5, 5, 3, 3, 0, 0], jnp.int32), player=jnp.array([0, 1, 0, 1, 0, 1], jnp.int32)
    )
    value = quick_jit(jaxsearch.playouts(game, k=2))(None, jax.random.key(0), states)[1]
    np.testing.assert_array_equal(value, factor * np.array([5, -5, 3, -3, 0, 0]))
    stepwise = quick_jit(jaxsearch.playouts(game, max_steps=9))(None, jax.random.key(0), states)[1]
    assert set(np.abs(stepwise[:4]).tolist()) == {1.0}


def test_hex_by_itself_as_step_by_step():
    """Filling the board wins as often as playing on; the same number of games each way."""
    game = games_jax.make("hex(size=3)")
    states = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], 8192, axis=0), game.from_string("b2"))
    key = jax.random.key(0)
    own, step = (
        float(quick_jit(jaxsearch.playouts(game, max_steps=steps))(None, key, states)[1].mean())
        for steps in (None, game.max_steps)
    )
    assert abs(own - step) < 5 * math.sqrt(2 * (1 - own**2) / 8192)


# Playouts cut short


def heuristic(state):
    """Says the stones left, for whoever moves."""
    return 0.01 * state.stones.astype(jnp.float32)


@pytest.mark.parametrize("game", [Nim(5), AgainNim(6)])
@pytest.mark.parametrize("plies", [0, 1, 2, 9])
def test_cut_playouts_mean_what_is_expected(game, plies):
    def expected(stones, plies):
        """For the mover; by all ways to play."""
        if plies == 0:
            return 0.01 * stones
        results = []
        for take in range(1, min(3, stones) + 1):
            left = stones - take
            passes = bool(game.passes_turn(np.int32(left)))
            results.append(1.0 if left == 0 else (-1 if passes else 1) * expected(left, plies - 1))
        return sum(results) / len(results)

    states = start(game, 8192)
    states = states._replace(player=jnp.arange(8192, dtype=jnp.int32) % 2)
    evaluate = quick_jit(jaxsearch.cut_playouts(game, plies=plies, heuristic=heuristic))
    logits, value = evaluate(None, jax.random.key(0), states)
    assert logits.shape == (8192, 3) and not logits.any()
    for player in (0, 1):
        mean = np.asarray(value)[player::2].mean()
        assert abs(mean - expected(game.stones, plies)) <= (5 / math.sqrt(4096) if plies else 1e-6)


def test_cut_playouts_of_games_that_are_over_count_nothing_more():
    """What was gained before the state is no part of its value, nor is the heuristic asked."""
    game = Corridor(2, 0.25)
    states = start(game, 4)
    states = states._replace(over=jnp.array([True, True, False, False]), gained=jnp.full(4, 0.25))
    evaluate = jaxsearch.cut_playouts(game, plies=3, heuristic=lambda state: jnp.nan * state.gained)
    value = np.asarray(quick_jit(evaluate)(None, jax.random.key(0), states)[1])
    assert (value[:2] == 0).all() and np.isin(value[2:], [0.25, 1.0]).all()


def test_cut_playouts_bad_arguments():
    with pytest.raises(ValueError, match="plies is -1; expected 0 or more"):
        jaxsearch.cut_playouts(GAME, plies=-1, heuristic=heuristic)
    with pytest.raises(ValueError, match="k is 0; expected at least 1 playout"):
        jaxsearch.cut_playouts(GAME, plies=1, heuristic=heuristic, k=0)


pick = quick_jit(random_legal)
