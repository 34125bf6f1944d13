"""Moves from outside: checked, refused with a sentence, or answered by the loss of the game."""

import jax
import jax.numpy as jnp
import pytest

import games_jax

GAME = games_jax.make("connect_four")


def test_moves_by_number_and_by_name():
    start = GAME.init(jax.random.key(0))
    assert games_jax.play(GAME, start, 3) == games_jax.play(GAME, start, "4")
    assert games_jax.check_action(GAME, start, "4") == 3
    assert games_jax.replay(GAME, [3, "4", 4]) == GAME.from_string("445")
    assert games_jax.replay(GAME, ["1"], start=GAME.from_string("445")) == GAME.from_string("4451")


def test_legal_moves_in_the_games_notation():
    assert games_jax.legal_moves(GAME, GAME.from_string("111111")) == ["2", "3", "4", "5", "6", "7"]
    assert games_jax.legal_moves(GAME, GAME.from_string("1122334")) == []


BAD = [
    ("", 7, "action 7 is out of range; connect_four has actions 0 to 6. Legal now: 1, 2, 3, 4, 5, 6, 7"),
    ("", -1, "action -1 is out of range"),
    ("", "9", "'9' is not a column"),
    ("111111", 0, "move '1' is illegal here. Legal now: 2, 3, 4, 5, 6, 7"),
    ("1122334", "5", "move '5' comes after the end of the game"),
]


@pytest.mark.parametrize(("position", "action", "message"), BAD)
def test_refused_move(position, action, message):
    state = GAME.from_string(position)
    for function in (games_jax.check_action, games_jax.play):
        with pytest.raises(ValueError, match=message):
            function(GAME, state, action)


def test_a_long_list_of_legal_moves_is_cut():
    pytest.importorskip("pgx")
    game = games_jax.make("pgx:hex")
    with pytest.raises(ValueError, match="39, 40 and 81 more"):
        games_jax.play(game, game.from_string("5"), 999)


@pytest.mark.parametrize("action", [0, -1, 7, 100])
def test_checked_game_is_lost_by_an_illegal_action(action):
    """Column 1 is full; the second player moves: -1 for them, +1 for the first."""
    game = games_jax.checked(GAME)
    before = game.from_string("1111112")
    assert int(game.current_player(before)) == 1 and not bool(game.is_over(before))
    after = game.step(before, jnp.int32(action))
    assert game.rewards(after).tolist() == [1, -1]
    assert bool(game.is_over(after)) and not game.legal_actions(after).any()
    assert after.inner == before.inner
    assert game.step(after, jnp.int32(3)) == after
    assert "player 1 made an illegal move" in game.render(after)


def test_checked_game_plays_as_the_game_itself():
    game = games_jax.checked(GAME)
    state = game.init(jax.random.key(0))
    for column in (0, 0, 1, 1, 2, 2, 3):
        state = game.step(state, jnp.int32(column))
    assert state.inner == GAME.from_string("1122334")
    assert game.rewards(state).tolist() == [1, -1]
    assert game.step(state, jnp.int32(9)) == state
