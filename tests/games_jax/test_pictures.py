"""Boards as text and as SVG."""

import xml.etree.ElementTree as ET

import pytest

import games_jax

SVG = "{http://www.w3.org/2000/svg}"
POSITIONS = [
    ("tic_tac_toe", "b2a1c3"),
    ("connect_four", "4453"),
    ("othello", "f5d6c3"),
    ("othello(size=6)", ""),
    ("go(size=5)", "C3 D3 C4 D4"),
    ("hex(size=4, swap=True)", "c2 swap b2"),
    ("chess", "1. e4 e5 2. Qh5 Ke7"),
    ("cube2", "R U F"),
    ("cube3", "R U F"),
]


@pytest.mark.parametrize(("name", "position"), POSITIONS)
def test_svg_is_well_formed_and_shows_every_stone(name, position):
    game = games_jax.make(name)
    state = game.from_string(position)
    root = ET.fromstring(game.to_svg(state))
    assert root.tag == f"{SVG}svg" and root.get("viewBox")
    words = [element.text for element in root.iter(f"{SVG}text")]
    assert game.render(state).splitlines()[-1] in words
    rows = game.to_string(state).split()[0]
    stones = rows.count("X") + rows.count("O")
    circles = len(list(root.iter(f"{SVG}circle")))
    if name == "tic_tac_toe":
        crosses = [e for e in root.iter(f"{SVG}line") if e.get("stroke-width") == "5"]
        assert (len(crosses), circles) == (2 * rows.count("X"), rows.count("O"))
    elif name == "connect_four":
        assert circles == 42
        for letter, colour in (("X", "#e4572e"), ("O", "#f6c945")):
            assert rows.count(letter) == sum(e.get("fill") == colour for e in root.iter(f"{SVG}circle"))
    elif name.startswith("othello"):
        dots = len(games_jax.legal_moves(game, state))
        assert circles == stones + dots
    elif name.startswith("hex"):
        assert circles == stones == 2
    elif name.startswith("go"):
        assert circles == stones + 1  # and the point in the middle
    elif name == "chess":
        pieces = len(list(root.iter(f"{SVG}path")))
        assert pieces == sum(letter.isalpha() for letter in rows) == 32
    else:
        faces = [e.get("fill") for e in root.iter(f"{SVG}rect")][7:]
        assert len(faces) == len(rows) and len(set(faces)) == 6


def test_text_has_coordinates_round_the_board():
    lines = games_jax.make("othello").render(games_jax.make("othello").from_string("")).splitlines()
    assert lines[0] == lines[-2] == "  a b c d e f g h"
    assert lines[4] == "4 . . . O X . . . 4"
    assert lines[-1] == "X to move (X 2, O 2)"


RESULTS = [
    ("tic_tac_toe", "a1b1a2b2a3", "X has won"),
    ("tic_tac_toe", "b2a1c3", "O to move"),
    ("othello", "e6f4e3f6g5d6e7f5c5", "X has won (X 13, O 0)"),
    ("connect_four", "1122334", "X has won"),
    ("go(size=5)", "C3 pass pass", "X has won (X 25, O 7.5)"),
    ("hex(size=2)", "a1 b1 a2", "X has won (X joins top and bottom, O left and right)"),
    ("chess", "f3 e5 g4 Qh4", "Black has won by checkmate"),
    ("cube2", "R R'", "solved"),
]


@pytest.mark.parametrize(("name", "position", "status"), RESULTS)
def test_last_line_is_the_state_of_the_game(name, position, status):
    game = games_jax.make(name)
    assert game.render(game.from_string(position)).splitlines()[-1] == status
