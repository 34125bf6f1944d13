import types
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
from games_jax.conformance import check

jumanji = pytest.importorskip("jumanji")
adapter = pytest.importorskip("games_jax.adapters.jumanji")
Minesweeper = jumanji.environments.Minesweeper
UniformSamplingGenerator = pytest.importorskip(
    "jumanji.environments.logic.minesweeper.generator"
).UniformSamplingGenerator


@pytest.mark.slow  # jumanji takes long to compile
@pytest.mark.filterwarnings("ignore")
def test_environment_conforms():
    small = UniformSamplingGenerator(num_rows=3, num_cols=3, num_mines=2)
    game = adapter.from_jumanji(Minesweeper(generator=small), max_steps=9)
    assert (game.name, game.num_actions, game.num_players) == ("jumanji:Minesweeper", 9, 1)
    check(game, games=8, exclusive_planes=False, zero_sum=False, rewards_at_end_only=False)


@pytest.mark.filterwarnings("ignore")
def test_time_limit_is_the_longest_game():
    game = adapter.from_jumanji(jumanji.environments.RubiksCube(time_limit=6))
    assert (game.name, game.num_actions, game.max_steps) == ("jumanji:RubiksCube", 18, 6)


@pytest.mark.filterwarnings("ignore")
def test_masks_chance_and_rewards_of_2048():
    env = jumanji.make("Game2048-v1")
    game = adapter.from_jumanji(env, has_chance=True, max_steps=2000)
    state = game.init(jax.random.key(1))
    step = jax.jit(game.step)
    action = jnp.argmax(game.legal_actions(state)).astype(jnp.int32)
    boards = {step(state, action, jax.random.key(k)).observation.board.tobytes() for k in range(20)}
    assert len(boards) > 5  # chance is in the key, not in the state
    total = 0.0
    for ply in range(2000):
        if bool(game.is_over(state)):
            break
        legal = np.flatnonzero(game.legal_actions(state))
        state = step(state, jnp.int32(legal[ply % len(legal)]), jax.random.key(ply))
        total += float(game.rewards(state)[0])
    assert bool(game.is_over(state)) and total > 100
    assert not np.asarray(game.legal_actions(state)).any()
    again = step(state, jnp.int32(0), jax.random.key(0))
    assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(state)))
    with pytest.raises(ValueError, match="has chance; moves alone do not name a position"):
        game.from_string("0")


@pytest.mark.filterwarnings("ignore")
def test_actions_of_several_numbers_are_flattened():
    """Minesweeper: a row and a column; jumanji's mask in the same order."""
    env = jumanji.make("Minesweeper-v0")
    game = adapter.from_jumanji(env, max_steps=100, observe=lambda observation: observation.board)
    assert game.num_actions == 100 and game.observation_shape == (10, 10)
    state = games_jax.play(game, game.init(jax.random.key(0)), 23)
    assert int(state.observation.board[2, 3]) >= 0 and not bool(game.legal_actions(state)[23])
    assert np.array_equal(game.observe(state, jnp.int32(0)), state.observation.board)


class Step(NamedTuple):
    reward: jax.Array
    observation: jax.Array


def fake(values, reward=(), **facts):
    """As much of an environment as the adapter looks at."""
    spec = types.SimpleNamespace(num_values=values)
    start = jnp.zeros(()), Step(jnp.zeros(reward), jnp.zeros(2))
    return types.SimpleNamespace(action_spec=spec, reset=lambda key: start, **facts)


def test_bad_environments():
    with pytest.raises(ValueError, match="can last is not known; pass max_steps="):
        adapter.from_jumanji(fake(3))
    with pytest.raises(ValueError, match="only discrete ones make a game"):
        adapter.from_jumanji(fake(None, time_limit=5))
    with pytest.raises(ValueError, match=r"rewards of shape \(2,\); only environments of a single agent"):
        adapter.from_jumanji(fake(3, (2,), time_limit=5))
    with pytest.raises(ValueError, match="has no key; leave has_chance out"):
        adapter.from_jumanji(fake(3, time_limit=5), has_chance=True)
    with pytest.raises(ValueError, match="'9' is not an action; give a number from 0 to 2"):
        adapter.from_jumanji(fake(3, time_limit=5)).action_from_string("9")
