import jax
import numpy as np
import pytest
from cases import rules_cases

import games_jax

GAME = games_jax.make("tic_tac_toe")


def test_the_last_cell_can_win():
    case = rules_cases("tic_tac_toe", "winner")["win_on_last_cell_not_draw"]
    state = games_jax.replay(GAME, case["actions"])
    assert bool(GAME.is_over(state)) and GAME.rewards(state).tolist() == [1, -1]


def test_each_line_wins():
    lines = ["a1b1c1", "a2b2c2", "a3b3c3", "a1a2a3", "b1b2b3", "c1c2c3", "a1b2c3", "c1b2a3"]
    for line in lines:
        won = {line[i : i + 2] for i in (0, 2, 4)}
        rest = [cell for cell in ("a1", "b1", "c1", "a2", "b2", "c2", "a3", "b3", "c3") if cell not in won]
        # Two cells of the other side that cannot come in the way, after those of the line.
        moves = [cell for pair in zip(sorted(won), rest) for cell in pair][:5]
        state = GAME.from_string(" ".join(moves))
        assert bool(GAME.is_over(state)), line
        assert not GAME.legal_actions(state).any()
        assert GAME.rewards(state).tolist() == [1, -1]


def test_moves_and_diagrams_name_the_same_position():
    state = GAME.from_string("b2a1c3")
    assert GAME.from_string("b2 a1 c3") == state == GAME.from_string("O../.X./..X O")
    assert GAME.to_string(state) == "O../.X./..X O"
    assert GAME.from_string("") == GAME.init(jax.random.key(0)) == GAME.from_string(".../.../... X")


BAD = [
    ("d1", "'d1' is not a cell; give one from a1 to c3"),
    ("a4", "'a4' is not a cell"),
    ("b2b2", "at move 2: move 'b2' is illegal here. Legal now: a1, b1, c1, a2, c2, a3, b3, c3"),
    ("b2!", "cannot read '!'"),
    ("a1a2b1b2c1c2", "at move 6: move 'c2' comes after the end"),
    ("XXX/OO./... X", "3 X and 2 O with X to move"),
    ("XXX/OOO/... X", "three in a row for the side to move"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_position(text, message):
    with pytest.raises(ValueError, match=message):
        GAME.from_string(text)


def test_observation_shows_own_other_and_empty_cells():
    state = GAME.from_string("b2 a1")
    seen = np.asarray(GAME.observe(state, 1)).reshape(9, 3)
    assert np.flatnonzero(seen[:, 0]).tolist() == [0]
    assert np.flatnonzero(seen[:, 1]).tolist() == [4]
    assert np.flatnonzero(seen[:, 2]).tolist() == [1, 2, 3, 5, 6, 7, 8]
