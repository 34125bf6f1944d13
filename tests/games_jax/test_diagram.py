"""Which texts are boards and which are moves."""

import jax
import pytest

import games_jax
from games_jax import diagram

BOARDS = ["../.. X", ".X", "XO/OX X", "XO\nOX\nO", "xo ox x", "/", "X", " o "]
MOVES = ["", " ", "o15", "O16", "o15 n14 o1", "o1o2", "a1 x9", "pass", "swap o3", "4453", "f5d6c3", "xy"]


@pytest.mark.parametrize("text", BOARDS)
def test_a_board_has_dots_or_slashes_or_stones_alone(text):
    assert diagram.is_diagram(text)


@pytest.mark.parametrize("text", MOVES)
def test_moves_are_no_board(text):
    assert not diagram.is_diagram(text)


@pytest.mark.parametrize("size", range(15, 20))
def test_no_cell_of_a_large_board_is_a_board(size):
    """15 columns and more have a column O: whatever the row, alone, in capitals, next to another cell."""
    for cell in range(size**2):
        name = diagram.square(cell, size)
        for text in (name, name.upper(), f"{name} o{size}", f"o1{name}"):
            assert not diagram.is_diagram(text), text


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four", "othello", "hex(size=4)", "go(size=4)"])
def test_a_board_with_a_wrong_letter_is_told_from_moves(name):
    game = games_jax.make(name)
    rows, side = game.to_string(game.init(jax.random.key(0))).split()
    with pytest.raises(ValueError, match=r"row 1 .* holds 'Q'; a cell is one of"):
        game.from_string(f"Q{rows[1:]} {side}")
