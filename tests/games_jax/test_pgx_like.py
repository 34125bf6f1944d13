import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
from games_jax.adapters.pgx_like import to_pgx
from games_jax.cube import Cube2


def run(env, state, actions):
    """All states of a batch of games, leaves `[T + 1, B, ...]`."""

    def ply(state, action):
        state = jax.vmap(env.step)(state, action)
        return state, state

    _, rest = jax.lax.scan(ply, state, actions)
    return jax.tree.map(lambda first, leaf: jnp.concatenate([first[None], leaf]), state, rest)


def test_same_answers_as_pgx_also_to_illegal_and_late_actions():
    """500 games of uniformly random actions, of which some are illegal and some come after the end."""
    pgx = pytest.importorskip("pgx")
    actions = jnp.asarray(np.random.default_rng(0).integers(0, 9, (12, 500)), jnp.int32)
    theirs_env, ours_env = pgx.make("tic_tac_toe"), to_pgx(games_jax.make("tic_tac_toe"))
    keys = jax.random.split(jax.random.key(0), 500)
    first = jax.vmap(theirs_env.init)(keys)
    theirs = jax.jit(lambda s: run(theirs_env, s, actions))(first)
    ours = jax.jit(lambda s: run(ours_env, s, actions))(jax.vmap(ours_env.init)(keys))
    assert np.array_equal(ours.terminated, theirs.terminated)
    assert np.array_equal(ours.truncated, theirs.truncated)
    assert np.array_equal(ours.legal_action_mask, theirs.legal_action_mask)
    # pgx numbers the players by a draw; seat 0 is ours who moves first.
    seats = (np.arange(2) + np.asarray(first.current_player)[:, None]) % 2
    rewards = np.take_along_axis(np.asarray(theirs.rewards), seats[None], axis=-1)
    assert np.array_equal(ours.rewards, rewards)
    running = ~np.asarray(ours.terminated)
    player = (np.asarray(theirs.current_player) - np.asarray(first.current_player)) % 2
    assert np.array_equal(np.asarray(ours.current_player)[running], player[running])
    assert np.array_equal(
        np.asarray(ours.observation)[running][..., :2].reshape(-1, 9, 2),
        np.asarray(theirs.observation)[running].reshape(-1, 9, 2),
    )
    illegal = (np.asarray(ours.rewards).sum(axis=-1) == 0) & (
        np.abs(np.asarray(ours.rewards)).sum(axis=-1) == 2
    )
    assert illegal.sum() == 500


def test_works_with_the_auto_reset_of_pgx():
    wrappers = pytest.importorskip("pgx.experimental.wrappers")
    env = to_pgx(games_jax.make("tic_tac_toe"))
    step = jax.jit(wrappers.auto_reset(env.step, env.init))
    state, ends = env.init(jax.random.key(0)), 0
    for ply in range(12):
        action = int(jnp.argmax(state.legal_action_mask))
        state = step(state, action, jax.random.key(ply))
        ends += int(state.terminated)
    assert ends == 1


def test_facts_and_pictures(tmp_path):
    env = to_pgx(Cube2())
    assert (env.id, env.version, env.num_players, env.num_actions) == ("cube2", "v1", 1, 9)
    assert env.observation_shape == (6, 4, 6)
    state = env.init(jax.random.key(0))
    assert state.env_id == "cube2" and np.array_equal(env.observe(state), state.observation)
    assert np.array_equal(env.observe(state, 0), state.observation)
    state.save_svg(tmp_path / "cube.svg")
    assert (tmp_path / "cube.svg").read_text() == state.to_svg()
    assert "<svg" in state.to_svg()


def test_a_game_with_chance_wants_a_key():
    pytest.importorskip("pgx")
    import pgx

    from games_jax.adapters.pgx import from_pgx

    env = to_pgx(from_pgx(pgx.make("2048"), max_steps=100))
    state = env.init(jax.random.key(0))
    with pytest.raises(ValueError, match="has chance; give step a key as its third argument"):
        env.step(state, jnp.int32(0))
    action = jnp.argmax(state.legal_action_mask)
    assert not bool(env.step(state, action, jax.random.key(1)).terminated)
