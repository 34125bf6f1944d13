"""Our games ply by ply against pgx's: legal moves, mover, board, end and rewards."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from games_record import record

import games_jax

pgx = pytest.importorskip("pgx")


def pgx_games(name, actions):
    """What pgx says of `actions` `[T, B]`: legal, mover, board, over and rewards, `[T + 1, B, ...]`."""
    game = games_jax.make(f"pgx:{name}")
    start = jax.vmap(game.init)(jax.random.split(jax.random.key(3), actions.shape[1]))

    def facts(states):
        seen = jax.vmap(game.observe, in_axes=(0, None))(states, 0)
        cells = seen[..., 0] + 2 * seen[..., 1].astype(jnp.int8)
        legal, player = jax.vmap(game.legal_actions)(states), jax.vmap(game.current_player)(states)
        over, rewards = jax.vmap(game.is_over)(states), jax.vmap(game.rewards)(states)
        return legal, player, cells.reshape(len(cells), -1), over, rewards

    def ply(states, action):
        states = jax.vmap(game.step)(states, action)
        return states, facts(states)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, rest = jax.jit(lambda s, a: jax.lax.scan(ply, s, a))(start, actions)
        first = jax.jit(facts)(start)
    return [np.concatenate([np.asarray(a)[None], np.asarray(b)]) for a, b in zip(first, rest)]


@pytest.mark.parametrize("games", [500, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four", "othello"])
def test_every_ply_of_random_games(name, games):
    played, boards = record(name, games=games)
    actions = played.actions
    if name == "othello":
        # Where neither side can move our game is over; pgx wants to see both of them pass.
        actions = np.where(played.over[:-1], 64, actions)
        actions = np.concatenate([actions, np.full_like(actions[:2], 64)])
    legal, player, cells, over, rewards = pgx_games(name, jnp.asarray(actions))
    plies = len(played.over)
    running = ~played.over
    assert np.array_equal(legal[:plies][running], played.legal[running])
    assert np.array_equal(player[:plies][running], played.player[running])
    assert np.array_equal(cells[:plies], boards)
    assert np.array_equal(rewards[-1], played.rewards[-1])
    assert over[-1].all()
    assert not over[:plies][running].any()
    ended = played.over & ~over[:plies]
    if name == "othello":
        left = (boards == 0).sum(axis=-1)
        assert ended.any() and (left[ended] > 0).all()
    else:
        assert not ended.any()
