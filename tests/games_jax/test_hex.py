import functools
import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import DATA, rules_cases
from hypothesis import given, settings
from hypothesis import strategies as st

import games_jax
from games_jax import bits
from games_jax.game import num_bytes
from games_jax.hex import Hex, State, connection

CASES = rules_cases("hex", "terminal") | rules_cases("hex", "stones_second")
NEIGHBOURS = [(-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0)]


def chain(cells, seeds):
    """Every true cell of `[n, n]` that a path of true cells joins to a seed, one step at a time."""
    size = len(cells)
    found = {(r, c) for r, c in seeds if cells[r][c]}
    edge = list(found)
    while edge:
        row, column = edge.pop()
        for down, right in NEIGHBOURS:
            r, c = row + down, column + right
            if 0 <= r < size and 0 <= c < size and cells[r][c] and (r, c) not in found:
                found.add((r, c))
                edge.append((r, c))
    return found


def winner(first, second):
    """0, 1 or None, by plain search."""
    size = len(first)
    if any(r == size - 1 for r, _ in chain(first, [(0, c) for c in range(size)])):
        return 0
    return 1 if any(c == size - 1 for _, c in chain(second, [(r, 0) for r in range(size)])) else None


def cells_of(game, state):
    seen = np.asarray(game.observe(state, 0))
    return seen[..., 0], seen[..., 1]


@pytest.mark.parametrize("name", CASES)
def test_rules_case(name):
    case = CASES[name]
    setup, expect = case["setup"], case["expect"]
    game = Hex(size=setup["size"], swap=setup["swap"])
    state = game.from_string(" ".join(case["actions"]))
    if "terminal" in expect:
        assert bool(game.is_over(state)) == expect["terminal"]
        side = (expect["winner"] or "").partition("(")[0]
        assert game.rewards(state).tolist() == {"first": [1, -1], "second": [-1, 1], "": [0, 0]}[side]
        if expect["board"]:
            assert game.to_string(state)[:-2].split("/") == [row.strip() for row in expect["board"]]
    else:
        first, second = cells_of(game, state)
        names = [[game.action_to_string(c) for c in np.flatnonzero(cells)] for cells in (first, second)]
        assert names == [expect["stones_first"], expect["stones_second"]]
        assert ["first", "second"][int(game.current_player(state))] == expect["to_play"]
        legal = games_jax.legal_moves(game, state)
        assert ("swap" in legal) == expect["swap_legal"] and len(legal) == expect["empty_legal_count"]


def test_every_filled_board_has_the_winner_that_search_finds():
    """All 512 colourings of 3x3: one winner each, the first player's in half of them."""
    colourings = np.array(list(itertools.product([False, True], repeat=9))).reshape(-1, 3, 3)

    @jax.jit
    @jax.vmap
    def joined(first):
        boards = [bits.pack(b, np.arange(9).reshape(3, 3), words=1) for b in (first, ~first)]
        return [
            connection.is_joined(connection.to_rows(board, 3), jnp.asarray(sideways))
            for board, sideways in zip(boards, (False, True))
        ]

    first, second = map(np.asarray, joined(jnp.asarray(colourings)))
    assert (first != second).all() and first.sum() == 256
    assert first.tolist() == [winner(cells, ~cells) == 0 for cells in colourings]


@pytest.mark.parametrize("size", [4, 9, pytest.param(19, marks=pytest.mark.slow)])
def test_chains_are_those_of_a_plain_search(size):
    """Boards of all densities, and a spiral, which takes the most sweeps."""
    rng = np.random.default_rng(size)
    boards = rng.random((60, size, size)) < np.linspace(0.3, 0.8, 60)[:, None, None]
    boards[0] = spiral(size)

    positions, words = np.arange(size**2).reshape(size, size), connection.words(size)

    @jax.jit
    @jax.vmap
    def packed(cells):
        return connection.to_rows(bits.pack(cells, positions, words=words), size)

    @jax.jit
    @jax.vmap
    def reached(rows, seeds):
        chain = connection.connected_to(rows, seeds)
        return bits.unpack(connection.from_rows(chain, size), positions)

    rows = packed(jnp.asarray(boards))
    joined = jax.jit(jax.vmap(connection.is_joined))
    edges = (connection.top, connection.bottom, connection.left, connection.right)
    found = [np.asarray(reached(rows, jax.vmap(edge)(rows))) for edge in edges]
    ends = [np.asarray(joined(rows, jnp.full(60, sideways))) for sideways in (False, True)]
    line, last = range(size), size - 1
    seeds = [
        [(0, i) for i in line],
        [(last, i) for i in line],
        [(i, 0) for i in line],
        [(i, last) for i in line],
    ]
    for index, cells in enumerate(boards):
        chains = [chain(cells, cells_of_edge) for cells_of_edge in seeds]
        for planes, expected in zip(found, chains):
            assert set(map(tuple, np.argwhere(planes[index]).tolist())) == expected
        assert ends[0][index] == any(row == last for row, _ in chains[0])
        assert ends[1][index] == any(column == last for _, column in chains[2])
    assert ends[0].any() and not ends[0].all()


def spiral(size):
    """A path of stones from the upper left corner inwards, with one cell between its turns."""
    cells = np.zeros((size, size), bool)
    row, column, down, right = 0, 0, 0, 1
    cells[0, 0] = True
    for length in [size - 1, *(n for m in range(size - 1, 0, -2) for n in (m, m))]:
        for _ in range(length):
            row, column = row + down, column + right
            cells[row, column] = True
        down, right = right, -down
    return cells


def perft(game, depth, width=1024):
    """Move sequences by length; equal positions are kept once, with their count."""

    @jax.jit
    @jax.vmap
    def successors(state):
        after = jax.vmap(game.step, in_axes=(None, 0))(state, jnp.arange(game.num_actions))
        return game.legal_actions(state), after

    leaves, tree = jax.tree.flatten(game.init(jax.random.key(0)))
    states, counts = np.array([leaves]), np.array([1])
    sequences = []
    for _ in range(depth):
        found = []
        for start in range(0, len(states), width):
            part = np.zeros((width, states.shape[1]), np.uint32)
            part[: len(states) - start] = states[start : start + width]
            legal, after = successors(jax.tree.unflatten(tree, list(part.T)))
            legal = np.asarray(legal) & (np.arange(width) < len(states) - start)[:, None]
            state, action = np.nonzero(legal)
            words = np.stack([np.asarray(leaf)[state, action] for leaf in jax.tree.leaves(after)], axis=-1)
            found.append((words, counts[start + state]))
        words, counts = (np.concatenate(parts) for parts in zip(*found))
        sequences.append(int(counts.sum()))
        states, index = np.unique(words, axis=0, return_inverse=True)
        counts = np.bincount(index.ravel(), weights=counts).astype(np.int64)
    return sequences


@pytest.mark.parametrize(("size", "depth"), [(2, 4), (3, 9), (4, 4)])
def test_perft(size, depth):
    expect = rules_cases("hex", f"{size}x{size}")["perft"]["expect"][f"{size}x{size}"]
    assert perft(Hex(size=size), depth) == expect[:depth]


STEP = jax.jit(Hex.step, static_argnums=0)


@pytest.mark.parametrize("size", [2, 3])
def test_winning_openings_of_small_boards(size):
    """Solved by plain search over our positions: the first player wins after the listed first moves."""
    game = Hex(size=size)

    @functools.cache
    def first_wins(words):
        first, second, flags = words
        if flags & 2:
            return bool(flags & 1)  # the player to move has lost
        free = [cell for cell in range(size**2) if not (first | second) >> cell & 1]
        results = (first_wins(after(words, cell)) for cell in free)
        return all(results) if flags & 1 else any(results)

    def after(words, cell):
        first, second, flags = (np.uint32(word) for word in words)
        state = STEP(game, State((first,), (second,), flags), np.int32(cell))
        return tuple(int(leaf) for leaf in jax.tree.leaves(state))

    found = [game.action_to_string(c) for c in range(size**2) if first_wins(after((0, 0, 0), c))]
    cases = json.loads((DATA / "rules_cases.json").read_text())
    (case,) = [case for case in cases if case["name"] == "winning_openings_small_boards"]
    assert sorted(found) == sorted(case["expect"][f"{size}x{size}"])


SMALL = Hex(size=4, swap=True)


@jax.jit
def facts(state):
    return SMALL.legal_actions(state), SMALL.current_player(state), SMALL.rewards(state), SMALL.is_over(state)


@settings(max_examples=20)
@given(st.lists(st.integers(0, 16), min_size=17, max_size=17))
def test_rules_are_those_of_a_plain_board(choices):
    """Plays on plain sets of cells beside the words, with the swap among the moves."""
    state = SMALL.init(jax.random.key(0))
    boards = np.zeros((2, 4, 4), bool)
    player = 0
    for ply, choice in enumerate(choices):
        legal, mover, rewards, over = jax.device_get(facts(state))
        won = winner(*boards)
        assert over == (won is not None) and rewards.tolist() == {None: [0, 0], 0: [1, -1], 1: [-1, 1]}[won]
        if over:
            assert not legal.any() and STEP(SMALL, state, jnp.int32(choice)) == state
            break
        expected = [*np.flatnonzero(~boards.any(axis=0)), *[16] * (ply == 1)]
        assert np.flatnonzero(legal).tolist() == expected and mover == player
        action = int(expected[choice % len(expected)])
        if action == 16:
            boards = boards[::-1].transpose(0, 2, 1).copy()
        else:
            boards[player].ravel()[action] = True
        state = STEP(SMALL, state, jnp.int32(action))
        player = 1 - player
    seen = SMALL.observe(state, jnp.int32(1))
    assert (np.asarray(seen[..., 0]) == boards[1]).all() and (np.asarray(seen[..., 1]) == boards[0]).all()


def test_observation_tells_which_edges_the_player_joins():
    game = Hex(size=3)
    seen = [np.asarray(game.observe(game.from_string("b2 a1"), player)).sum((0, 1)) for player in (0, 1)]
    assert [planes.tolist() for planes in seen] == [[1, 1, 7, 0], [1, 1, 0, 7]]


def test_edge_planes():
    """Dummy stones round the board, and the stones that real stones join to each edge."""
    game = Hex(size=3)
    planes = np.asarray(game.edge_planes(game.from_string("b1 a3 b2 c3 c1 a2")))
    assert planes.shape == (7, 7, 6)
    inside = planes[2:5, 2:5].astype(int)
    rows = [["".join(map(str, row)) for row in inside[..., plane]] for plane in range(6)]
    assert rows[0] == ["011", "010", "000"] and rows[1] == ["000", "100", "101"]
    assert rows[2] == rows[0] and rows[3] == ["000"] * 3
    assert rows[4] == ["000", "100", "100"] and rows[5] == ["000", "000", "001"]
    outside = planes.copy()
    outside[2:5, 2:5] = False
    above = np.zeros((7, 7), bool)
    above[:2] = True
    edges = [above | above[::-1], above.T | above.T[:, ::-1], above, above[::-1], above.T, above.T[:, ::-1]]
    for plane, expected in enumerate(edges):
        assert (outside[..., plane] == expected).all(), plane
    assert game.edge_planes(game.init(jax.random.key(0)), padding=1).shape == (5, 5, 6)


def shares_won(game, position, games=20_000):
    state = game.from_string(position)
    keys = jax.random.split(jax.random.key(7), games)
    rewards = np.asarray(jax.jit(jax.vmap(game.playout, in_axes=(None, 0)))(state, keys))
    assert (np.abs(rewards) == 1).all() and (rewards.sum(axis=-1) == 0).all()
    return (rewards[:, 0] == 1).mean()


def exact_share(game, state):
    """The first player's share of wins in uniformly random play, over the whole tree."""
    if bool(game.is_over(state)):
        return float(game.rewards(state)[0] == 1)
    legal = np.flatnonzero(game.legal_actions(state))
    return float(np.mean([exact_share(game, STEP(game, state, jnp.int32(action))) for action in legal]))


POSITIONS = [
    (Hex(size=2), ""),
    (Hex(size=2, swap=True), "a1"),
    (Hex(size=2, swap=True), "b1"),
    (Hex(size=3), "b2 a1 a2 c2 b3"),
]


@pytest.mark.parametrize(("game", "position"), POSITIONS)
def test_playouts_win_as_often_as_random_play(game, position):
    exact = exact_share(game, game.from_string(position))
    assert shares_won(game, position) == pytest.approx(exact, abs=4 * 0.5 / 20_000**0.5)


def test_playout_of_a_finished_game_is_its_result():
    game = Hex(size=3)
    assert shares_won(game, "b1 a1 b2 a2 b3", games=8) == 1


def test_random_subsets_are_uniform():
    """Each of the 20 subsets of 3 out of 6 cells, in 8,000 draws: chi square with 19 degrees of freedom."""
    from games_jax.hex.playout import random_subset

    cells = (jnp.uint32(0b1011_0001), jnp.uint32(0b11))
    keys = jax.random.split(jax.random.key(0), 8000)
    low, high = jax.jit(jax.vmap(lambda key: random_subset(key, cells, jnp.int32(3))))(keys)
    found = np.asarray(low).astype(np.int64) | (np.asarray(high).astype(np.int64) << 32)
    values, counts = np.unique(found, return_counts=True)
    assert len(values) == 20 and all(v.bit_count() == 3 for v in values.tolist())
    assert ((counts - 400) ** 2 / 400).sum() < 44  # 0.999 quantile
    for count in (0, 6):
        low, high = random_subset(jax.random.key(1), cells, jnp.int32(count))
        assert bits.equal((low, high), bits.where(jnp.asarray(count == 6), cells, bits.zeros(2)))


def test_swap_is_legal_at_the_second_ply_only():
    game = Hex(size=3, swap=True)
    openings = ("", "a1", "a1 swap", "a1 b1")
    legal = ["swap" in games_jax.legal_moves(game, game.from_string(moves)) for moves in openings]
    assert legal == [False, True, False, False]
    assert game.action_from_string(" Swap-Pieces ") == 9
    assert game.to_string(game.from_string("c1 swap")) == ".../.../O.. X"


def test_half_turn_is_the_only_symmetry():
    game = Hex(size=3, swap=True)
    assert len(game.symmetries) == 2
    state = game.transform(game.from_string("a1 c1 b1"), jnp.int32(1))
    assert game.to_string(state) == ".../.../OXX O"


def test_board_with_columns_up_to_s_reads_back():
    """Column o is no stone, and rows have two digits."""
    game = Hex(size=15)
    state = game.from_string("o15 n14 o1")
    assert games_jax.legal_moves(game, state)[:2] == ["a1", "b1"]
    assert game.from_string(game.to_string(state)) == state
    assert game.from_string("\n".join(game.to_string(state).replace("/", " ").split())) == state


@pytest.mark.parametrize(
    ("game", "size"), [(Hex(), 36), (Hex(size=9), 28), (Hex(size=5), 12), (Hex(size=19), 100)]
)
def test_bytes_of_a_state(game, size):
    assert num_bytes(game) == size


def test_text_and_picture():
    game = Hex(size=3)
    state = game.from_string("b2 a1")
    assert game.render(state).splitlines() == [
        " a b c",
        "1 O . . 1",
        " 2 . X . 2",
        "  3 . . . 3",
        "     a b c",
        "X to move (X joins top and bottom, O left and right)",
    ]
    svg = game.to_svg(state)
    assert svg.count("<polygon") == 9 and svg.count("<circle") == 2 and svg.count("<polyline") == 4


BAD_MOVES = [
    ("a1 a1", "at move 2: move 'a1' is illegal here. Legal now: b1, c1, a2"),
    ("d1", "'d1' is not a cell; give one from a1 to c3, or 'swap'."),
    ("swap", "at move 1: move 'swap' is illegal here"),
    ("a1 ??", r"cannot read '\?\?' in the moves"),
    ("b1 a1 b2 a2 b3 a3", "at move 6: move 'a3' comes after the end"),
    (".../... X", "has 3 parts; expected 3 rows of 3 cells"),
    ("X../X../... X", "2 X and 0 O with X to move"),
    (".X./.X./.X. X", "3 X and 0 O with X to move"),
]


@pytest.mark.parametrize(("text", "message"), BAD_MOVES)
def test_bad_position(text, message):
    with pytest.raises(ValueError, match=message):
        Hex(size=3, swap=True).from_string(text)


def test_a_chain_of_the_player_to_move_is_refused():
    with pytest.raises(
        ValueError, match="has a winning chain of X, who is to move; only the player who moved"
    ):
        Hex(size=3).from_string("OXO/OX./.X. X")
    with pytest.raises(ValueError, match="has 1 X and 2 O with X to move"):
        Hex(size=3).from_string("OXO/.../... X")
    assert bool(Hex(size=3, swap=True).is_over(Hex(size=3, swap=True).from_string("OXO/.../... X"))) is False


@pytest.mark.parametrize("size", [1, 20, 5.0, "11", True])
def test_bad_size(size):
    with pytest.raises(ValueError, match=r"hex has no size .*; give a whole number from 2 to 19"):
        Hex(size=size)


def test_bad_swap():
    with pytest.raises(ValueError, match="hex takes swap=True or swap=False, not 1"):
        Hex(swap=1)  # type: ignore[arg-type]


def test_names():
    assert Hex().name == "hex" and Hex(size=5).name == "hex(size=5)"
    assert Hex(swap=True).name == "hex(swap=True)" and Hex(size=5, swap=True).name == "hex(size=5, swap=True)"
