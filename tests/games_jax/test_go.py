import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import DATA
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from test_perft import perft

import games_jax
from games_jax import bits
from games_jax.conformance import play_random
from games_jax.game import num_bytes
from games_jax.go import Go, from_sgf_point, read_sgf, to_sgf_point, write_sgf
from games_jax.go import board as go

KO = {"simple": "simple", "positional_superko": "superko"}
CASES = {case["name"]: case for case in json.loads((DATA / "go_rules_cases.json").read_text())}
POSITIONS = [name for name, case in CASES.items() if "perft" not in case["expect"]]
SMALL = Go(size=5)


@functools.cache
def game_of(size, komi, ko, suicide):
    return Go(size=size, komi=komi, ko=KO[ko], suicide=suicide)


def play_case(case, count=None):
    setup = case["setup"]
    rules = setup["rules"]
    game = game_of(setup["size"], setup["komi"], rules["ko"], rules["suicide"])
    return game, game.from_string(" ".join(case["actions"][:count]))


def rows_of(game, state):
    return game.to_string(state).split()[0].split("/")


@pytest.mark.parametrize("name", POSITIONS)
def test_rules_case(name):
    case = CASES[name]
    game, state = play_case(case)
    expect = case["expect"]
    legal = games_jax.legal_moves(game, state)
    if "board" in expect:
        assert rows_of(game, state) == expect["board"]
    assert not set(expect.get("illegal", [])) & set(legal)
    assert set(expect.get("legal", [])) <= set(legal)
    if "to_play" in expect:
        assert "BW"[int(game.current_player(state))] == expect["to_play"]
    if "captured_last" in expect or "captured_count_last" in expect:
        before = rows_of(*play_case(case, -1))
        after, size = rows_of(game, state), game.size
        taken = [
            game.action_to_string(row * size + column)
            for row in range(size)
            for column in range(size)
            if before[row][column] != "." and after[row][column] == "."
        ]
        assert taken == expect.get("captured_last", taken)
        assert len(taken) == expect.get("captured_count_last", len(taken))
    if "result" in expect:
        assert bool(game.is_over(state)) == expect["terminal"]
        margin = float(game.score(state))
        sign = {"B": 1, "W": -1, "d": 0}[expect["result"][0]]
        assert margin == sign * float(expect["result"][2:] if sign else 0)
        assert game.rewards(state).tolist() == [sign, -sign]
        own, other = expect["area_black"], expect["area_white"]
        assert margin + game.komi == own - other
        assert game.render(state).endswith(f"(X {own:g}, O {other + game.komi:g})")


def test_send_two_return_one():
    """Simple ko allows the return; positional superko forbids it."""
    case = CASES["send_two_return_one_recapture"]
    for ko, expected in (("simple", "legal"), ("superko", "illegal")):
        game = Go(size=7, ko=ko)
        state = game.from_string(" ".join(case["actions"]))
        assert rows_of(game, state) == case["expect"]["board"]
        assert ("A4" in games_jax.legal_moves(game, state)) == (expected == "legal")


PERFTS = [
    ("perft_2x2_by_rule", "simple_ko_no_suicide", Go(size=2, max_steps=20), 10),
    ("perft_2x2_by_rule", "psk_no_suicide", Go(size=2, max_steps=20, ko="superko"), 9),
    ("perft_3x3_by_rule", "simple_ko_no_suicide", Go(size=3), 6),
    pytest.param(
        *("perft_3x3_by_rule", "psk_suicide(Tromp-Taylor)", Go(size=3, ko="superko", suicide=True), 6),
        marks=pytest.mark.slow,
    ),
    pytest.param("perft_3x3_by_rule", "psk_no_suicide", Go(size=3, ko="superko"), 7, marks=pytest.mark.slow),
    ("perft_7x7", None, Go(size=7), 3),
    pytest.param("perft_9x9", None, Go(size=9), 3, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("case", "variant", "game", "depth"), PERFTS)
def test_perft(case, variant, game, depth):
    expected = CASES[case]["expect"]["perft"]
    assert perft(game, depth) == (expected[variant] if variant else expected)[:depth]


def test_bytes_of_a_state():
    assert [num_bytes(Go(size=size)) for size in (5, 7, 9, 13, 19)] == [12, 20, 28, 60, 156]
    assert num_bytes(Go(size=9, ko="superko")) == 28 + 163 * 8


# Playouts


def test_playout_step_plays_what_playout_actions_allows():
    """From each of many positions the state after `playout_step` is that of `step` with an allowed action."""

    def ply(carry, key):
        states, bad = carry
        allowed = jax.vmap(SMALL.playout_actions)(states)
        all_after = jax.vmap(jax.vmap(SMALL.step, in_axes=(None, 0)), in_axes=(0, None))(
            states, jnp.arange(SMALL.num_actions)
        )
        after = jax.vmap(SMALL.playout_step)(states, jax.random.split(key, 128))
        same = jax.tree.map(lambda one, many: one[:, None] == many, after, all_after)
        same = functools.reduce(jnp.logical_and, jax.tree.leaves(same))
        over = jax.vmap(SMALL.is_over)(states)
        fine = jnp.where(over, same.all(-1), (same & allowed).any(-1))
        return (after, bad + jnp.sum(~fine)), allowed.sum(-1)

    start = jax.vmap(SMALL.init)(jax.random.split(jax.random.key(0), 128))
    keys = jax.random.split(jax.random.key(1), 50)
    run = jax.jit(lambda start: jax.lax.scan(ply, (start, jnp.int32(0)), keys))
    (_, bad), choices = run(start)
    assert int(bad) == 0
    assert (np.asarray(choices) == 1).any() and (np.asarray(choices) == 0).any()


# Black may not play the two eyes of White at the left; may take at A1; A5 is an eye of his own.
CHOICE = ".XOO./XXO.O/OOOO./.OXXX/OX... X"


def test_playout_moves_are_equally_likely():
    state = SMALL.from_string(CHOICE)
    allowed = np.asarray(SMALL.playout_actions(state))
    names = [SMALL.action_to_string(action) for action in np.flatnonzero(allowed)]
    assert names == ["E3", "A2", "C1", "D1", "E1"]
    draws = 6000
    step = jax.jit(jax.vmap(SMALL.playout_step, in_axes=(None, 0)))
    after = step(state, jax.random.split(jax.random.key(0), draws))
    look = jax.jit(jax.vmap(lambda state: SMALL.observe(state, 0)))
    seen = np.asarray(look(after))[..., 0].reshape(draws, -1)
    before = np.asarray(SMALL.observe(state, 0))[..., 0].ravel()
    counts = (seen & ~before).sum(axis=0)
    assert counts.sum() == draws and not counts[~allowed[:-1]].any()
    expected = draws / allowed.sum()
    chi_square = ((counts[allowed[:-1]] - expected) ** 2 / expected).sum()
    assert chi_square < 23.5  # one in 10,000 with four degrees of freedom


def test_playouts_of_the_published_corner():
    """The 7 x 7 position of the tutorial on tree search, and the moves its playouts may begin with."""
    position = json.loads((DATA / "go_mcts_position.json").read_text())
    game = Go(size=7, komi=position["komi"])
    points = [[game.action_from_string(name) for name in position[side]] for side in ("black", "white")]
    state = game.setup(*points)
    rows = [row.translate(str.maketrans("BW", "XO")) for row in position["rows_top_to_bottom"]]
    assert rows_of(game, state) == rows
    moves = np.flatnonzero(game.playout_actions(state))
    assert sorted(map(game.action_to_string, moves.tolist())) == position["playout_moves"]
    run = jax.jit(functools.partial(game.playouts, max_plies=147))
    won = []
    for move in (position["vital_point"], "pass"):
        after = games_jax.play(game, state, move)
        many = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, 192), after)
        won.append(float((run(many, jax.random.split(jax.random.key(0), 192))[:, 0] > 0).mean()))
    assert won[0] > won[1] + 0.2, won


def test_batched_playouts_are_those_one_by_one():
    keys = jax.random.split(jax.random.key(5), 256)
    starts = ["", CHOICE, "C3 pass pass", "C3 pass"]
    states = jax.tree.map(lambda *leaves: np.repeat(leaves, 64), *map(SMALL.from_string, starts))
    batched = np.asarray(jax.jit(SMALL.playouts)(states, keys))
    assert np.array_equal(batched, jax.jit(jax.vmap(SMALL.playout))(states, keys))
    assert set(batched[:, 0].tolist()) == {-1, 1} and not batched.sum(axis=1).any()
    assert batched[128:192, 0].tolist() == [1] * 64


def test_playout_of_a_finished_game_is_its_result():
    state = SMALL.from_string("C3 pass pass")
    assert SMALL.playout(state, jax.random.key(0)).tolist() == SMALL.rewards(state).tolist() == [1, -1]
    assert SMALL.playout_step(state, jax.random.key(0)) == state


# Notation


def test_moves_diagrams_and_sgf_name_the_same_position():
    moves = SMALL.from_string("B3 E3 C4 D4 C2 D2 D3 C3")
    text = "...../..XO./.XO.O/..XO./..... X ko=D3 ply=8"
    assert SMALL.to_string(moves) == text
    assert SMALL.from_string(text) == SMALL.from_string(text.replace("/", "\n")) == moves
    sgf = "(;GM[1]FF[4]SZ[5]KM[7.5]PB[a\\]b];B[bc];W[ec](;B[cb];W[db];B[cd];W[dd];B[dc];W[cc])(;B[aa]))"
    assert SMALL.from_string(sgf) == moves
    game, state = Go.from_sgf(sgf)
    assert (game, state) == (SMALL, moves)
    assert SMALL.from_string("") == SMALL.init(jax.random.key(0))


def test_column_letters_are_no_diagram():
    game = Go(size=19)
    state = game.from_string("O16")
    assert game.to_string(state).split("/")[3] == "." * 13 + "X" + "." * 5
    assert game.action_to_string(game.action_from_string("j1")) == "J1"


def test_sgf_points_and_texts_round_trip():
    for size in (5, 19):
        names = [to_sgf_point(action, size) for action in range(size**2 + 1)]
        assert [from_sgf_point(name, size) for name in names] == list(range(size**2 + 1))
    assert to_sgf_point(3, 9) == "da" and from_sgf_point("tt", 9) == 81
    text = write_sgf([(1, 7), (0, 81)], size=9, komi=0.5, black=[0, 2], white=[4], player=1, result="B+2.5")
    record = read_sgf(text)
    assert text == "(;FF[4]GM[1]SZ[9]KM[0.5]AB[aa][ca]AW[ea]PL[W]RE[B+2.5];W[ha];B[])"
    assert (record.black, record.white, record.player) == ((0, 2), (4,), 1)
    assert record.moves == ((1, 7), (0, 81)) and (record.size, record.komi) == (9, 0.5)
    assert read_sgf("(;SZ[9]AddBlack[aa:bb])").black == (0, 1, 9, 10)


def test_superko_positions_read_back():
    game = Go(size=2, ko="superko")
    state = game.from_string("A1 B1 pass A2")
    again = game.from_string(game.to_string(state))
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), state, again))


BAD = [
    ("Z9", "'Z9' is not a point; give one from A1 to E5"),
    ("I3", "no column I"),
    ("A6", "'A6' is not a point"),
    ("C3 C3", "at move 2: move 'C3' is illegal here. Legal now: A5"),
    ("A2 pass B1 A1", "at move 4: move 'A1' is illegal here"),
    ("pass pass C3", "at move 3: move 'C3' comes after the end"),
    ("...../..... X", "has 3 parts; expected 5 rows"),
    ("OX.../X..../...../...../..... X", "the group at A5 has no liberty"),
    ("...../...../...../...../..... X ko=A1 kp=3", "unknown field 'kp'"),
    ("X..../...../...../...../..... X ko=A5", "ko=A5 is not an empty point"),
    ("...../...../...../...../..... X passes=3", "passes=3 .* from 0 to 2"),
    ("...../...../...../...../..... X ply=x", "ply=x .* from 0 to 50"),
    ("(;SZ[9]KM[7.5];B[aa])", "size 9 and komi 7.5, the game of size 5"),
    ("(;SZ[5]KM[7];B[aa])", "komi 7, the game of size 5 and komi 7.5"),
    ("(;SZ[5];B[aa];B[bb])", "move 2 of the SGF text is by the player who is not to move"),
    ("(;SZ[5];B[aa];W[aa])", "at move 2 of the SGF text: move 'A5' is illegal"),
    ("(;SZ[5];B[zz])", "'zz' is not an SGF point"),
    ("(;SZ[5:7])", "a square of 2 to 19"),
    ("(;SZ[a])", r"SZ\[a\]; expected a number"),
    ("(;GM[2])", "of game 2; expected 1"),
    ("(;SZ[5];B[aa];AW[bb])", "AW after a move"),
    ("(;SZ[5];B", "cannot read the SGF text at character 8"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_position(text, message):
    with pytest.raises(ValueError, match=message):
        SMALL.from_string(text)


BAD_OPTIONS = [
    ({"size": 1}, "no size 1; give a whole number from 2 to 19"),
    ({"size": 9.0}, "no size 9.0"),
    ({"komi": 7.3}, "no komi 7.3; give a number of halves"),
    ({"komi": "7"}, "no komi '7'"),
    ({"ko": "psk"}, "no ko rule 'psk'; give 'simple' or 'superko'"),
    ({"suicide": 1}, "suicide is 1; give True or False"),
    ({"max_steps": -1}, "max_steps is -1"),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS)
def test_bad_option(options, message):
    with pytest.raises(ValueError, match=message):
        games_jax.make("go", **options)


BAD_SETUPS = [
    (([25], []), {}, "point 25 is off the board; give 0 to 24"),
    (([3], [3]), {}, "point D5 has two stones"),
    (([], []), {"player": 2}, "player is 2; give 0 for Black or 1 for White"),
    (([1, 5], [0]), {}, "the group at A5 has no liberty"),
]


@pytest.mark.parametrize(("stones", "options", "message"), BAD_SETUPS)
def test_bad_setup(stones, options, message):
    with pytest.raises(ValueError, match=message):
        SMALL.setup(*stones, **options)


def test_names_say_what_differs_from_the_defaults():
    assert Go().name == Go(max_steps=162).name == "go"
    given = Go(size=7, komi=9, ko="superko", suicide=True, max_steps=60)
    assert given.name == "go(size=7, komi=9.0, ko='superko', suicide=True, max_steps=60)"
    assert games_jax.make(given.name) == given


# Properties


@functools.cache
def played():
    return play_random(SMALL, games=64, seed=3)


@settings(max_examples=20)
@given(st.integers(0, 63), st.integers(0, 49))
def test_every_group_has_a_liberty(index, ply):
    state = jax.tree.map(lambda leaf: jnp.asarray(leaf[ply, index]), played().states)
    rows = rows_of(SMALL, state)
    cells = {(r, c): rows[r][c] for r in range(5) for c in range(5)}
    for point, colour in cells.items():
        group, edge = {point}, [point]
        while edge:
            r, c = edge.pop()
            near = [(r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)]
            more = [p for p in near if cells.get(p) == colour and p not in group]
            group |= set(more)
            edge += more
        around = {
            cells.get((r + dr, c + dc)) for r, c in group for dr, dc in ((1, 0), (-1, 0), (0, 1), (0, -1))
        }
        assert colour == "." or "." in around


@pytest.mark.parametrize("size", [6, 9, 17])
def test_fills_reach_all_that_is_linked_and_no_more(size):
    """Random sets of points and one that winds through the whole board, against labels of connected parts."""
    form = go.layout(size)
    rng = np.random.default_rng(size)
    sets = rng.random((64, size, size)) < rng.uniform(0.3, 0.8, (64, 1, 1))
    sets[0] = True
    sets[0, 1::4, :-1] = sets[0, 3::4, 1:] = False
    seeds = sets & (rng.random(sets.shape) < 0.03)
    seeds[0] = False
    seeds[0, 0, 0] = True
    pack = functools.partial(bits.pack, positions=form.positions, words=form.words, width=form.width)

    def filled(cells, seed):
        points = pack(cells)
        (found,) = go.fill([pack(seed)], go.links(form, points), form)
        return bits.unpack(found, form.positions, width=form.width)

    found = jax.jit(jax.vmap(filled))(*(jnp.asarray(x).reshape(64, -1) for x in (sets, seeds)))
    for cells, seed, reached in zip(sets, seeds, np.asarray(found)):
        labels, _ = ndimage.label(cells)
        assert np.array_equal(reached.reshape(size, size), cells & np.isin(labels, labels[seed])), cells
