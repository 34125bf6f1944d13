"""Views: the same game under other actions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
from games_jax.views import ByRank, Restricted


@functools.cache
def states(name, plies, **options):
    """Positions `[32]` of random games."""
    game = games_jax.make(name, **options)

    def play(key):
        def ply(state, key):
            legal = game.legal_actions(state)
            action = jax.random.categorical(key, jnp.where(legal, 0.0, -jnp.inf))
            return game.step(state, action.astype(jnp.int32)), None

        return jax.lax.scan(ply, game.init(key), jax.random.split(key, plies))[0]

    return game, jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(0), 32))


@pytest.mark.parametrize(("name", "plies", "width"), [("othello", 30, 65), ("connect_four", 12, 7)])
def test_ranks_are_the_legal_actions_in_order(name, plies, width):
    game, positions = states(name, plies)
    view = ByRank(game, width=width)
    legal = np.asarray(jax.vmap(game.legal_actions)(positions))
    ranks = np.asarray(jax.vmap(view.legal_actions)(positions))
    np.testing.assert_array_equal(ranks.sum(-1), legal.sum(-1))
    for rank in range(3):
        actions = np.asarray(jax.vmap(view.action_of, in_axes=(0, None))(positions, rank))
        after = jax.vmap(view.step, in_axes=(0, None))(positions, rank)
        for i in np.flatnonzero(ranks[:, rank]):
            assert actions[i] == np.flatnonzero(legal[i])[rank]
            one = game.step(jax.tree.map(lambda leaf, i=i: leaf[i], positions), jnp.int32(actions[i]))
            jax.tree.map(np.testing.assert_array_equal, one, jax.tree.map(lambda leaf, i=i: leaf[i], after))


def test_chess_moves_by_rank_are_all_moves():
    chess = games_jax.make("chess", repetition=0)
    view = ByRank(chess, width=218)
    state = chess.from_string("R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1")
    assert int(view.legal_actions(state).sum()) == 218
    ranks = jnp.arange(218, dtype=jnp.int32)
    actions = np.asarray(jax.jit(jax.vmap(view.action_of, in_axes=(None, 0)))(state, ranks))
    np.testing.assert_array_equal(np.sort(actions), np.flatnonzero(chess.legal_actions(state)))


def test_a_finished_game_stays():
    game, positions = states("connect_four", 42)
    view = ByRank(game, width=7)
    assert not np.asarray(jax.vmap(view.legal_actions)(positions)).any()
    after = jax.vmap(view.step)(positions, jnp.zeros(32, jnp.int32))
    jax.tree.map(np.testing.assert_array_equal, after, positions)


def test_restriction():
    go = games_jax.make("go", size=5)
    view = Restricted(go, allowed=go.playout_actions)
    # Black's eye at a5 (top left) may not be filled, though that is legal.
    state = go.from_string(".XO../XX.../...../...../..... X")
    legal, allowed = np.asarray(go.legal_actions(state)), np.asarray(view.legal_actions(state))
    assert legal[0] and not allowed[0]
    assert not (allowed & ~legal).any() and view.name == go.name


def test_bad_width():
    with pytest.raises(ValueError, match="width is 8; expected 1 to 7, the actions of connect_four"):
        ByRank(games_jax.make("connect_four"), width=8)
