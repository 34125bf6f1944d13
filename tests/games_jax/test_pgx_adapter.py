import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
from games_jax.conformance import check, play_random
from games_jax.game import num_bytes

pgx = pytest.importorskip("pgx")
adapter = pytest.importorskip("games_jax.adapters.pgx")


CONFORMING = [
    ("connect_four", True),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in [("tic_tac_toe", True), ("hex", False)]),
]


@pytest.mark.parametrize(("name", "planes"), CONFORMING)
def test_environment_conforms(name, planes):
    check(games_jax.make(f"pgx:{name}"), exclusive_planes=planes, games=8)


def test_player_0_moves_first_whatever_pgx_drew():
    """pgx starts with player 1 in half of its games; the adapter counts from the one who moves."""
    game = games_jax.make("pgx:connect_four")
    start = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 64))
    assert set(np.asarray(start.first).tolist()) == {0, 1}
    assert not jax.vmap(game.current_player)(start).any()
    played = play_random(game, games=64, seed=1)
    ours = games_jax.make("connect_four")
    for index in range(4):
        plies = int(played.over[:, index].argmax())
        state = games_jax.replay(ours, played.actions[:plies, index].tolist())
        assert ours.rewards(state).tolist() == played.rewards[plies, index].tolist()
        # pgx shows what the one who moves sees, ours whoever asks.
        seen = game.observe(jax.tree.map(lambda x, i=index: jnp.asarray(x[-1, i]), played.states), 0)
        assert (np.asarray(seen) == np.asarray(ours.observe(state, 0))[..., :2]).all()


def test_the_observation_is_left_out_of_the_state():
    env = pgx.make("connect_four")
    full = sum(leaf.nbytes for leaf in jax.tree.leaves(env.init(jax.random.key(0))))
    assert num_bytes(adapter.from_pgx(env)) == full - 6 * 7 * 2 + 4


def test_games_with_chance_say_so():
    game = adapter.from_pgx(pgx.make("2048"), max_steps=10_000)
    assert game.has_chance and game.num_players == 1
    state = game.init(jax.random.key(0))
    action = jnp.argmax(game.legal_actions(state))
    assert not bool(game.is_over(game.step(state, action, jax.random.key(1))))
    with pytest.raises(ValueError, match="has chance"):
        game.from_string("0 1")


def test_bad_input():
    with pytest.raises(ValueError, match="pgx has no environment 'hexx'; it has 2048, "):
        games_jax.make("pgx:hexx")
    with pytest.raises(
        ValueError, match="how long a game of pgx '2048' can last is not known; pass max_steps="
    ):
        adapter.from_pgx(pgx.make("2048"))
    game = games_jax.make("pgx:tic_tac_toe")
    with pytest.raises(ValueError, match="'9' is not an action; give a number from 0 to 8"):
        game.action_from_string("9")
    with pytest.raises(ValueError, match="at move 2: move '4' is illegal here"):
        game.from_string("4 4")
