import gzip
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import DATA, rules_cases
from hypothesis import given
from hypothesis import strategies as st

import games_jax
from games_jax import bits, connect_four

GAME = games_jax.make("connect_four")
CASES = rules_cases("connect_four", "terminal")
columns = st.lists(st.integers(0, 6), max_size=60)


def lines_of_four(cells):
    """Every straight run of four cells with the same stone in `cells` `[6, 7]`, by looking at each."""
    found = []
    for row in range(6):
        for column in range(7):
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                ends = row + 3 * down, column + 3 * right
                if ends[0] < 6 and 0 <= ends[1] < 7:
                    line = {cells[row + i * down, column + i * right] for i in range(4)}
                    found += line if len(line) == 1 and line != {0} else []
    return found


@pytest.mark.parametrize("name", CASES)
def test_rules_case(name):
    case = CASES[name]
    expect = case["expect"]
    state = GAME.from_string("".join(case["actions"]))
    assert bool(GAME.is_over(state)) == expect["terminal"]
    legal = [c + 1 for c in np.flatnonzero(GAME.legal_actions(state))]
    assert legal == expect["legal_columns"]
    won = {"first": [1, -1], "second": [-1, 1], "draw": [0, 0], None: [0, 0]}[expect["winner"]]
    assert GAME.rewards(state).tolist() == won


@jax.jit
def facts(state):
    return {
        "seen": GAME.observe(state, 0),
        "legal": GAME.legal_actions(state),
        "over": GAME.is_over(state),
        "player": GAME.current_player(state),
        "rewards": GAME.rewards(state),
    }


@given(columns)
def test_rules_are_those_of_a_plain_board(moves):
    """Plays on a plain array beside the bitboard, and looks at every line of four there."""
    step = jax.jit(GAME.step)
    cells, state = np.zeros((6, 7), int), GAME.init(jax.random.key(0))
    for column in moves:
        empty = np.flatnonzero(cells[:, column] == 0)
        if not len(empty):
            continue
        player = int(np.count_nonzero(cells)) % 2
        cells[empty[-1], column] = player + 1
        state = step(state, jnp.int32(column))
        found = {key: np.asarray(value) for key, value in facts(state).items()}
        won = bool(lines_of_four(cells))
        over = won or bool(cells.all())
        heights = np.count_nonzero(cells, axis=0)
        landing = [] if over else [(5 - h, c) for c, h in enumerate(heights) if h < 6]
        assert (found["seen"][..., 0] + 2 * found["seen"][..., 1] == cells).all()
        assert np.argwhere(found["seen"][..., 2].T)[:, ::-1].tolist() == [list(cell) for cell in landing]
        assert np.flatnonzero(found["legal"]).tolist() == [c for _, c in landing]
        assert found["over"] == over
        assert found["rewards"][player] == won and found["rewards"].sum() == 0
        if over:
            break
        assert found["player"] == 1 - player


def test_bit_layout_is_that_of_the_solved_positions():
    """`cur` and `mask` of the solver's records: bit 7 * column + row."""
    with gzip.open(DATA / "connect_four_solved.json.gz") as file:
        positions = json.load(file)["positions"][:20]
    for position in positions:
        state = GAME.from_string("".join(str(int(c) + 1) for c in position["moves"]))
        own, other = (bits.to_int(board, width=28) for board in (state.own, state.other))
        assert own == int(position["cur"])
        assert own | other == int(position["mask"])
        assert int(GAME.current_player(state)) == position["to_move"]


def test_spaces_in_a_move_string_do_not_matter():
    assert GAME.from_string(" 44 5\n3 ") == GAME.from_string("4453")


def test_a_won_game_reads_back_from_its_diagram():
    state = GAME.from_string("1122334")
    assert GAME.to_string(state) == "......./......./......./......./OOO..../XXXX... O"
    assert GAME.from_string(GAME.to_string(state)) == state
    lines = "\n".join([".......", ".......", ".......", ".......", "ooo....", "xxxx...", "o"])
    assert GAME.from_string(lines) == state


BAD = [
    ("8", "'8' is not a column; give a number from 1 to 7"),
    ("4z", "at move 2: 'z' is not a column"),
    ("1111111", "at move 7: move '1' is illegal here. Legal now: 2, 3, 4, 5, 6, 7"),
    ("11223344", "at move 8: move '4' comes after the end of the game"),
    ("......./....... X", "has 3 parts; expected 6 rows of 7 cells"),
    ("......./......./......./......./......./.......", "the side to move, X or O"),
    ("......./......./......./......./......./...... X", "row 6 '......' has 6 cells; expected 7"),
    ("......./......./......./......./......./..Z.... X", "row 6 '..Z....' holds 'Z'"),
    ("......./......./......./......./......./X...... X", "1 X and 0 O with X to move"),
    ("......./......./......./......./X....../....... O", "row 5, column 1 .* stone above an empty cell"),
    ("......./......./......./......./OOO..../XXXXO.. X", "four in a row for X, who is to move"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_position(text, message):
    with pytest.raises(ValueError, match=message):
        GAME.from_string(text)


def test_a_full_board_without_four_is_a_draw():
    moves = "".join(CASES["full_board_draw"]["actions"])
    state = GAME.from_string(moves)
    assert len(moves) == GAME.max_steps and bool(GAME.is_over(state))
    assert GAME.render(state).splitlines()[-1] == "draw"
    assert not bool(GAME.is_over(GAME.from_string(moves[:-1])))


def test_state_is_four_words():
    state = connect_four.ConnectFour().init(jax.random.key(0))
    assert [leaf.dtype for leaf in jax.tree.leaves(state)] == [jnp.uint32] * 4
