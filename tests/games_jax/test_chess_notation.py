import xml.etree.ElementTree as ET

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import games_jax
from games_jax.chess import Chess, actions, notation

GAME = Chess()
KIWIPETE = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def test_the_encoding_is_complete():
    """Each queen move, knight move and underpromotion that fits the board is one action, and back."""
    moves = {}
    for action in range(actions.NUM_ACTIONS):
        origin, target, promotion = actions.take_apart(action)
        if target >= 0 and not (promotion and origin // 8 != 1):
            assert actions.encode(origin, target, promotion) == action
            moves[origin, target, promotion] = action
    # 1,456 queen and 336 knight moves on an empty board; 22 pawn moves to the last row with 3 pieces each.
    assert len(moves) == 1456 + 336 + 22 * 3


def test_actions_by_hand():
    assert GAME.action_from_string("e2-N2") == 73 * 52 + 1
    state = GAME.init(jax.random.key(0))
    assert GAME.move_from_string(state, "e2e4") == GAME.action_from_string("e2-N2")
    after = games_jax.play(GAME, state, "e2e4")
    # Black sees his own side below: e7-e5 is e2-e4 to him.
    assert GAME.move_from_string(after, "e7e5") == GAME.action_from_string("e2-N2")
    assert GAME.move_to_string(after, GAME.action_from_string("e2-N2")) == "e7e5"
    assert GAME.move_to_string(after, GAME.action_from_string("b1-NNE")) == "b8c6"


@pytest.mark.parametrize("text", ["", "?!", "e9-N1", "e2-N8", "e2-NNE3", "a7-S=N", "e2-NEN", "e2-N", "e2e4"])
def test_bad_names_are_refused(text):
    with pytest.raises(ValueError, match="is not an action's name"):
        GAME.action_from_string(text)


@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1), st.integers(0, 40))
def test_round_trips_along_random_games(seed, plies):
    game = Chess(window=8, max_plies=40, history=3)
    rng = np.random.default_rng(seed)
    state, played = game.init(jax.random.key(0)), []
    for _ in range(plies):
        legal = np.flatnonzero(LEGAL(state))
        if not len(legal):
            break
        played.append(int(rng.choice(legal)))
        state = STEP(state, np.int32(played[-1]))
    assert same(game.from_string(game.to_string(state)), state)
    fen = game.to_fen(state)
    assert game.to_fen(game.from_string(fen)) == fen
    for action in np.flatnonzero(LEGAL(state))[:10].tolist():
        assert game.move_from_string(state, game.move_to_string(state, action)) == action
        assert game.move_from_string(state, game.san(state, action)) == action


LEGAL = jax.jit(Chess(window=8, max_plies=40, history=3).legal_actions)
STEP = jax.jit(Chess(window=8, max_plies=40, history=3).step)


@pytest.mark.parametrize(
    ("fen", "uci", "san"),
    [
        (KIWIPETE, "e1g1", "O-O"),
        (KIWIPETE, "e1c1", "O-O-O"),
        (KIWIPETE, "d5e6", "dxe6"),
        (KIWIPETE, "e5f7", "Nxf7"),
        (KIWIPETE, "c3b5", "Nb5"),
        ("7k/P7/8/8/8/8/8/K7 w - - 0 1", "a7a8q", "a8=Q+"),
        ("1r5k/P7/8/8/8/8/8/K7 w - - 0 1", "a7b8n", "axb8=N"),
        ("4k3/8/8/8/8/N7/8/N3K3 w - - 0 1", "a1c2", "N1c2"),
        ("4k3/8/8/8/8/8/8/N1N1K3 w - - 0 1", "a1b3", "Nab3"),
        ("8/8/k7/8/4Q2Q/8/8/K6Q w - - 0 1", "h4e1", "Qh4e1"),
        ("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1", "e5d6", "exd6"),
        ("4r1k1/3Q1ppp/8/8/8/8/5PPP/6K1 b - - 0 1", "e8e1", "Re1#"),
    ],
)
def test_san(fen, uci, san):
    state = GAME.from_string(fen)
    action = GAME.move_from_string(state, uci)
    assert (GAME.san(state, action), GAME.move_to_string(state, action)) == (san, uci)
    for written in (san, san.rstrip("+#") + "!?", san.replace("x", ""), san.replace("O", "0")):
        assert GAME.move_from_string(state, written) == action


@pytest.mark.parametrize(
    ("move", "words"),
    [
        ("", "is no move"),
        ("pass", "is no move"),
        ("Ke3", "illegal here. Legal now: .*e1d1"),
        ("e1e3", "'e1e3' is illegal here. Legal now"),
        ("a1h7", "no piece moves"),
        ("Nd5xz", "is no move"),
        ("N", "is no move"),
    ],
)
def test_bad_moves_are_refused(move, words):
    with pytest.raises(ValueError, match=words):
        games_jax.play(GAME, GAME.from_string(KIWIPETE), move)


def test_ambiguous_san_is_refused():
    state = GAME.from_string("4k3/8/8/8/8/8/8/N1N1K3 w - - 0 1")
    with pytest.raises(ValueError, match="may mean a1b3, c1b3"):
        GAME.move_from_string(state, "Nb3")


@pytest.mark.parametrize(
    ("fen", "words"),
    [
        ("8/8/8 w - - 0 1", "has 3 rows"),
        (notation.START + " 9", "has 7 fields"),
        ("rnbqkbnr/pppppppp/9/8/8/8/PPPPPPPP/RNBQKBNR w - -", "holds '9'"),
        ("rnbqkbnr/ppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w - -", "has 7 squares"),
        ("8/8/8/8/8/8/8/K7 w - -", "0 kings for Black"),
        ("k7/8/8/8/8/8/8/KK6 w - -", "2 kings for White"),
        ("k6P/8/8/8/8/8/8/K7 w - -", "pawn on rank 1 or 8"),
        ("k7/8/8/8/8/8/8/K7 x - -", "side to move is 'x'"),
        ("k7/8/8/8/8/8/8/K7 w X -", "castling rights are 'X'"),
        ("k7/8/8/8/8/8/8/K7 w - e4", "en passant square is 'e4'"),
        ("k7/8/8/8/8/8/8/K7 w - - x 1", "clock and move number"),
        ("k7/8/8/8/8/8/8/K7 w - - 0 400", "ends at 512"),
        ("k7/7p/8/8/8/8/8/K7 w - - 101 90", "has clock 101"),
        ("k7/Q7/8/8/8/8/8/K7 w - -", "king in check whose side is not to move"),
        (notation.START + " seen 12", "16 hexadecimal digits"),
    ],
)
def test_bad_positions_are_refused(fen, words):
    with pytest.raises(ValueError, match=words):
        GAME.from_string(fen)


def test_short_and_careless_fens():
    assert GAME.to_fen(GAME.from_string("4k3/8/8/8/8/8/4P3/4K3 w - -")).endswith("w - - 0 1")
    # Rights without a rook, and a square that no pawn passed, are dropped.
    fen = "4k3/8/8/8/8/8/8/4K2R w KQkq d6 0 1"
    assert GAME.to_fen(GAME.from_string(fen)) == "4k3/8/8/8/8/8/8/4K2R w K - 0 1"


def test_moves_in_many_forms():
    expected = GAME.from_string("e2e4 e7e5 g1f3")
    for text in (
        "1. e4 e5 2. Nf3",
        "1.e4 e5 2.Nf3 *",
        "startpos moves e2e4 e7e5 g1f3",
        f"{notation.START} moves e4 e5 Nf3",
        "e2-N2 e2-N2 g1-NNW",
        "e2-e4 e7-e5 Ng1-f3",
    ):
        assert same(GAME.from_string(text), expected), text
    with pytest.raises(ValueError, match=r"at move 3 of .* illegal"):
        GAME.from_string("e4 e5 Ke3")
    with pytest.raises(ValueError, match="comes after the end"):
        GAME.from_string("f3 e5 g4 Qh4 a3")


PGN = """[Event "Casual"]
[White "A"]
[Black "B"]
[Result "0-1"]

1. f3 {a weakening} e5 (1... d5 2. e4 (2. d4 e6) dxe4) 2. g4?? $4 ; oh dear
Qh4# 0-1
"""


def test_pgn_in_and_out():
    start, played = GAME.from_pgn(PGN)
    assert same(start, GAME.init(jax.random.key(0)))
    text = GAME.to_pgn(played, tags={"White": "A", "Black": "B"})
    assert text.endswith("\n\n1. f3 e5 2. g4 Qh4# 0-1\n") and '[White "A"]' in text
    assert GAME.from_pgn(text)[1] == played


def test_pgn_from_a_position():
    start = GAME.from_string("4r1k1/3Q1ppp/8/8/8/8/5PPP/6K1 b - - 0 1")
    move = GAME.move_from_string(start, "Re1")
    text = GAME.to_pgn([move], start=start)
    assert "1... Re1# 0-1" in text and '[FEN "4r1k1' in text
    again, played = GAME.from_pgn(text)
    assert played == [move] and same(again, start)
    with pytest.raises(ValueError, match="at ply 2 of the game"):
        GAME.from_pgn("1. e4 Qh4")
    with pytest.raises(ValueError, match="has no partner"):
        GAME.from_pgn("1. e4 (1. d4")


def test_pictures():
    state = GAME.from_string("rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3")
    root = ET.fromstring(GAME.to_svg(state))
    paths = [element for element in root.iter("{http://www.w3.org/2000/svg}path")]
    assert len(paths) == 32
    assert GAME.render(state).splitlines()[-1] == "Black has won by checkmate"
    assert GAME.render(GAME.from_string("e4 e5 Qh5 Nc6 Qxf7")).endswith("Black to move, in check")
    assert GAME.render(GAME.from_string("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1")).endswith("draw: stalemate")
