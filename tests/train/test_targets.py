"""Returns and the replay buffer against the whole history of games, added up in plain Python."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from train import replay
from train.selfplay import Trajectory
from train.targets import mix, returns_of


def history(seed: int, plies: int, games: int, players: int = 2) -> Trajectory:
    """Random plies: any mover, rewards at any ply, ends at random; the state is the ply's number."""
    rng = np.random.default_rng(seed)
    numbers = np.arange(plies)[:, None] * games + np.arange(games)
    return Trajectory(
        states={"number": jnp.asarray(numbers, jnp.int32)},
        movers=jnp.asarray(rng.integers(0, players, (plies, games)), jnp.int32),
        weights=jnp.asarray(rng.random((plies, games, 3)), jnp.float32),
        root_values=jnp.asarray(rng.random((plies, games)), jnp.float32),
        rewards=jnp.asarray(rng.integers(-3, 4, (plies, games, players)), jnp.float32),
        over=jnp.asarray(rng.random((plies, games)) < 0.25),
        lengths=jnp.ones((plies, games), jnp.int32),
    )


def true_returns(whole: Trajectory) -> tuple[np.ndarray, np.ndarray]:
    """For each ply: its mover's rewards up to the end of the game, and the ply at which that end came."""
    plies, games = whole.over.shape
    returns, ends = np.zeros((plies, games)), np.full((plies, games), plies)
    for game in range(games):
        for ply in range(plies):
            mover = int(whole.movers[ply, game])
            for later in range(ply, plies):
                returns[ply, game] += float(whole.rewards[later, game, mover])
                if whole.over[later, game]:
                    ends[ply, game] = later
                    break
    return returns, ends


def part(whole: Trajectory, start: int, stop: int) -> Trajectory:
    return jax.tree.map(lambda leaf: leaf[start:stop], whole)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), shape=st.sampled_from([(1, 2), (12, 1), (12, 3)]))
def test_returns_add_up_to_the_end_of_the_game(seed, shape):
    plies, players = shape
    whole = history(seed, plies, 4, players)
    expected, ends = true_returns(whole)
    returns = jax.jit(returns_of)(whole)
    np.testing.assert_array_equal(returns.mine, expected)
    np.testing.assert_array_equal(returns.known, ends < plies)


@pytest.mark.parametrize("seed", range(3))
def test_replay_fills_values_in_as_games_end(seed):
    block, blocks, games, rows = 4, 9, 5, 20
    whole = history(seed, block * blocks, games)
    expected, ends = true_returns(whole)
    buffer = replay.new_replay(
        {"number": jnp.zeros(games, jnp.int32)}, 3, capacity=rows * games + 7, plies=block
    )
    assert buffer.pending.shape == (rows, games)
    for index in range(blocks):
        piece = part(whole, index * block, (index + 1) * block)
        buffer = replay.insert(buffer, piece, returns_of(piece))
        now = (index + 1) * block
        assert int(buffer.filled) == min(now, rows)
        for ply in range(max(0, now - rows), now):
            row = ply % rows
            np.testing.assert_array_equal(buffer.states["number"][row], whole.states["number"][ply])
            np.testing.assert_array_equal(buffer.weights[row], whole.weights[ply])
            done = ends[ply] < now
            np.testing.assert_array_equal(~buffer.pending[row], done)
            np.testing.assert_array_equal(buffer.returns[row][done], expected[ply][done])


def test_sample_draws_only_what_was_inserted():
    whole = history(0, 8, 5)
    buffer = replay.new_replay({"number": jnp.zeros(5, jnp.int32)}, 3, capacity=100, plies=4)
    piece = part(whole, 0, 4)
    buffer = replay.insert(buffer, piece, returns_of(piece))
    batch = replay.sample(buffer, jax.random.key(0), 500)
    assert set(np.asarray(batch.states["number"])) == set(range(20))
    rows, columns = np.divmod(np.asarray(batch.states["number"]), 5)
    np.testing.assert_array_equal(batch.returns, np.asarray(buffer.returns)[rows, columns])
    np.testing.assert_array_equal(batch.usable, ~np.asarray(buffer.pending)[rows, columns])


def test_mix_is_a_weighted_mean():
    np.testing.assert_allclose(mix(jnp.float32(1.0), jnp.float32(-0.5), 0.25), 0.625)
