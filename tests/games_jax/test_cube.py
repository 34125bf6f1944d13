import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import DATA, rules_cases
from hypothesis import given, settings
from hypothesis import strategies as st

import games_jax
from games_jax.cube import Cube2, Cube3, State, geometry, planes
from games_jax.game import num_bytes

FACELETS = rules_cases("rubik3", "facelets_URFDLB")
ORDERS = rules_cases("rubik3", "order")["orders"]["expect"]["order"]
CUBES = {2: Cube2(), 3: Cube3()}


@functools.partial(jax.jit, static_argnums=0)
def after(game, state, actions):
    """The state after each of `actions`, `[T]`, and the one before: leaves `[T + 1]`."""

    def turn(state, action):
        state = game.step(state, action)
        return state, state

    _, rest = jax.lax.scan(turn, state, actions)
    return jax.tree.map(lambda first, leaf: jnp.concatenate([first[None], leaf]), state, rest)


@pytest.mark.parametrize("name", FACELETS)
def test_rules_case(name):
    case = FACELETS[name]
    game = CUBES[3]
    state = game.from_string(" ".join(case["actions"]))
    assert game.to_string(state) == case["expect"]["facelets_URFDLB"]
    assert game.from_string(case["expect"]["facelets_URFDLB"]) == state


@pytest.mark.parametrize("moves", ORDERS)
def test_order_of_a_sequence(moves):
    """How often a sequence must be repeated until the cube is solved again."""
    cube = planes.to_device(planes.solved(edges=True))
    turns = planes.Turns(CUBES[3].turns)
    actions = jnp.asarray([CUBES[3].action_from_string(move) for move in moves.split()])

    @jax.jit
    def repeat(cube):
        return jax.lax.scan(lambda c, a: (turns.turn(c, a, jnp.zeros((), bool)), None), cube, actions)[0]

    start, count = cube, 0
    while count == 0 or cube != start:
        cube, count = repeat(cube), count + 1
    assert count == ORDERS[moves]


def test_a_sequence_and_its_inverse_solve_the_cube():
    game = CUBES[3]
    assert bool(game.is_solved(game.from_string("R R'")))
    sequence = "R U2 D' B D' F2 L"
    inverse = "L' F2 D B' D U2 R'"
    assert game.from_string(f"{sequence} {inverse}") == game.solved()
    assert game.from_string("R3 U1 F2'") == game.from_string("R’ U F2")


# Positions by depth: the whole 2x2x2, the beginning of the 3x3x3.

DEPTHS_3 = {"htm": [1, 18, 243, 3240, 43239], "qtm": [1, 12, 114, 1068, 10011]}
CUBE_2 = {
    "htm": rules_cases("rubik2", "new_positions")["positions_by_depth_HTM"]["expect"]["new_positions"],
    "qtm": rules_cases("rubik2", "new_positions")["positions_by_depth_QTM"]["expect"]["new_positions"],
}


@pytest.mark.parametrize("metric", ["htm", "qtm"])
def test_positions_of_the_3x3x3_by_depth(metric):
    turns = planes.Turns(Cube3(metric=metric).turns)
    turn = jax.jit(jax.vmap(jax.vmap(turns.turn, in_axes=(None, 0, None)), in_axes=(0, None, None)))
    width = 4096
    frontier = np.array([planes.solved(edges=True)], np.uint32)
    before, counts = frontier[:0], [1]
    for _ in DEPTHS_3[metric][1:]:
        found = []
        for start in range(0, len(frontier), width):
            part = np.resize(frontier[start : start + width], (width, 5))
            cubes = turn(planes.Planes(*part.T), np.arange(turns.number), jnp.zeros((), bool))
            found.append(np.unique(np.stack(cubes, axis=-1).reshape(-1, 5), axis=0))
        # Neighbours of a depth are one less, as many or one more away.
        old = np.concatenate([before, frontier])
        rows, first = np.unique(np.concatenate([old, *found]), axis=0, return_index=True)
        before, frontier = frontier, rows[first >= len(old)]
        counts.append(len(frontier))
    assert counts == DEPTHS_3[metric]


@functools.partial(jax.jit, static_argnums=0)
def index_of(game, state):
    """The number of a 2x2x2 position in the table of distances: `tests/data/cube2_distances.npz`."""
    cells = game.cells(state)
    places, twists = cells[:7], cells[7:]
    number = jnp.int32(0)
    for cubie in range(7):
        behind = sum((places[other] > places[cubie]).astype(jnp.int32) for other in range(cubie))
        weights = np.array([math.factorial(6 - place) for place in range(7)], np.int32)
        powers = np.array([3 ** (5 - place) if place < 6 else 0 for place in range(7)], np.int32)
        here = places[cubie] == np.arange(7)
        number += (
            729 * behind * jnp.where(here, weights, 0).sum()
            + twists[cubie] * jnp.where(here, powers, 0).sum()
        )
    return number


def distances(metric, most):
    """Distances of the 2x2x2's positions by number, found by breadth-first search; 255 where above `most`."""
    game, width = Cube2(metric=metric), 1 << 15

    @jax.jit
    @jax.vmap
    def expand(words):
        fresh = State((words[0], words[1] & np.uint32(0xFF)))  # the game forgets the moves made
        successors = jax.vmap(game.step, in_axes=(None, 0))(fresh, jnp.arange(game.num_actions))
        return jax.vmap(lambda state: index_of(game, state))(successors), jnp.stack(successors.words, axis=-1)

    start = np.array(
        [game.from_string(game.action_to_string(a)).words for a in range(game.num_actions)], np.uint32
    )
    found = np.full(3_674_160, 255, np.uint8)
    found[int(index_of(game, game.solved()))] = 0
    found[np.asarray(jax.vmap(lambda words: index_of(game, State((words[0], words[1]))))(start))] = 1
    frontier, depth = start, 1
    while len(frontier) and depth < most:
        depth, following = depth + 1, []
        for at in range(0, len(frontier), width):
            part = np.resize(frontier[at : at + width], (width, 2))
            numbers, words = (np.asarray(a) for a in expand(part))
            numbers, words = numbers.ravel(), words.reshape(-1, 2)
            new = np.flatnonzero(found[numbers] == 255)
            new = new[np.unique(numbers[new], return_index=True)[1]]
            found[numbers[new]] = depth
            following.append(words[new])
        frontier = np.concatenate(following)
    return found


ALL_POSITIONS = [("htm", 11), ("qtm", 14)]


@pytest.mark.parametrize(
    ("metric", "most"), [("htm", 7), *(pytest.param(*case, marks=pytest.mark.slow) for case in ALL_POSITIONS)]
)
def test_positions_of_the_2x2x2(metric, most):
    """All of them up to a depth, and to the last of 3,674,160."""
    found = distances(metric, most)
    assert np.bincount(found)[: most + 1].tolist() == CUBE_2[metric][: most + 1]
    assert (metric, most) not in ALL_POSITIONS or found.max() == most
    known = np.load(DATA / "cube2_distances.npz")
    assert np.array_equal(found[known["index"]], np.where(known[metric] <= most, known[metric], 255))


# Clockwise turns over the places URF UFL ULB UBR DFR DLF DRB: where each place's corner is from, its twist.
SOURCES = {"U": [3, 0, 1, 2, 4, 5, 6], "R": [4, 1, 2, 0, 6, 5, 3], "F": [1, 5, 2, 3, 0, 4, 6]}
TWISTS = {"U": [0] * 7, "R": [2, 0, 0, 1, 1, 0, 2], "F": [1, 2, 0, 0, 2, 1, 0]}


def test_turns_are_those_of_a_table_of_corners():
    game = CUBES[2]
    states = jax.jit(jax.vmap(game.init))(jax.random.split(jax.random.key(3), 300))
    cells = np.asarray(jax.jit(jax.vmap(game.cells))(states))
    turned = jax.jit(jax.vmap(jax.vmap(game.step, in_axes=(None, 0)), in_axes=(0, None)))(
        states, jnp.arange(9)
    )
    seen = np.asarray(jax.jit(jax.vmap(jax.vmap(game.cells)))(turned))
    for action, (face, count) in enumerate(game.turns):
        at = np.argsort(cells[:, :7], axis=-1)
        twists = np.take_along_axis(cells[:, 7:], at, axis=-1)
        for _ in range(count):
            at, twists = at[:, SOURCES[face]], (twists[:, SOURCES[face]] + TWISTS[face]) % 3
        assert np.array_equal(at, np.argsort(seen[:, action, :7], axis=-1))
        assert np.array_equal(twists, np.take_along_axis(seen[:, action, 7:], at, axis=-1))


# Scrambles


def sampled(game, count, seed=0):
    return jax.jit(jax.vmap(game.init))(jax.random.split(jax.random.key(seed), count))


@pytest.mark.parametrize("size", [2, 3])
def test_uniform_positions_can_be_solved_and_vary(size):
    """Facelets are read back with all that makes a cube impossible refused; orders and twists are uniform."""
    game = CUBES[size]
    states = sampled(game, 2000)
    for i in range(8):
        state = jax.tree.map(lambda leaf, i=i: leaf[i], states)
        assert game.from_string(game.to_string(state)) == state
    cells = np.asarray(jax.jit(jax.vmap(game.cells))(states))
    for cell, values in zip(cells.T, game.cell_values):
        counts = np.bincount(cell, minlength=values)
        expected = 2000 / values
        assert len(counts) == values and ((counts - expected) ** 2 / expected).sum() < 3 * values + 15
    assert not np.asarray(jax.vmap(game.is_over)(states)).any()


def test_few_turns_lead_only_to_positions_so_far_away():
    """Two turns of different faces: as many positions as there are, each about as often as its ways."""
    game = Cube2(scramble=2)
    words = np.stack(sampled(game, 4000).words, axis=-1)
    positions, counts = np.unique(words, axis=0, return_counts=True)
    assert len(positions) == 54 and counts.min() > 40 and counts.max() < 120
    assert (
        len(np.unique(np.stack(sampled(Cube3(scramble=1, metric="qtm"), 500).words, axis=-1), axis=0)) == 12
    )
    mixed = np.unique(
        np.stack(sampled(Cube2(scramble=(1, 2)), 4000).words, axis=-1), axis=0, return_counts=True
    )
    assert len(mixed[0]) == 63  # 9 that are one turn away, 54 that are two


# The game


def test_rewards_and_end():
    game = Cube3(solved_reward=2.0, step_cost=0.5, max_steps=2)
    state = game.from_string("R U2")
    assert game.rewards(state).tolist() == [0] and not bool(game.is_over(state))
    assert bool(game.is_over(game.solved())) and game.rewards(game.solved()).tolist() == [0]
    once = games_jax.play(game, state, "U2")
    assert game.rewards(once).tolist() == [-0.5] and not bool(game.is_over(once))
    solved = games_jax.play(game, once, "R'")
    assert game.rewards(solved).tolist() == [1.5] and bool(game.is_over(solved))
    assert game.render(solved).splitlines()[-1] == "solved after 2 moves"
    given_up = games_jax.play(game, once, "R")
    assert game.rewards(given_up).tolist() == [-0.5] and bool(game.is_over(given_up))
    assert game.render(given_up).splitlines()[-1] == "given up after 2 moves"
    for over in (solved, given_up):
        assert game.step(over, jnp.int32(3)) == over and not np.asarray(game.legal_actions(over)).any()


@settings(max_examples=15)
@given(st.lists(st.integers(0, 17), min_size=12, max_size=12))
def test_every_position_of_a_game_is_a_cube(actions):
    """Facelets read back, nine stickers a colour, cells within their values, the moves counted."""
    game = CUBES[3]
    states = after(game, game.from_string("F R2 U' B L"), jnp.asarray(actions))
    for ply in (4, 12):
        state = jax.tree.map(lambda leaf, ply=ply: leaf[ply], states)
        text = game.to_string(state)
        assert game.from_string(text) == state
        letters = text.split()[0]
        assert all(letters.count(face) == 9 for face in "URFDLB") and letters[4::9] == "URFDLB"
        cells = np.asarray(game.cells(state))
        assert (cells >= 0).all() and (cells < np.array(game.cell_values)).all()
        assert sorted(cells[:8]) == list(range(8)) and sorted(cells[16:28]) == list(range(12))
        assert cells[8:16].sum() % 3 == 0 and cells[28:].sum() % 2 == 0


def test_cells_of_known_positions():
    """After U the corner URF is at UFL, not twisted; after F it is at DFR with its U sticker to the right."""
    for size in (2, 3):
        game = CUBES[size]
        corners = 7 if size == 2 else 8
        assert game.cells(game.solved()).tolist()[:corners] == list(range(corners))
        after_u, after_f = (np.asarray(game.cells(game.from_string(turn))) for turn in "UF")
        assert (after_u[0], after_u[corners]) == (geometry.CORNERS.index("UFL"), 0)
        assert (after_f[0], after_f[corners]) == (geometry.CORNERS.index("DFR"), "DFR".index("R"))
    edges = np.asarray(CUBES[3].cells(CUBES[3].from_string("F")))[16:]
    assert (edges[1], edges[13]) == (geometry.EDGES.index("FR"), "FR".index("R"))


@pytest.mark.parametrize(("game", "size"), [(Cube2(), 8), (Cube3(), 20)])
def test_bytes_of_a_state(game, size):
    assert num_bytes(game) == size


# Text and pictures


def test_unfolded_cube_in_colour():
    game = CUBES[3]
    state = game.from_string("R U R' U'")
    lines = game.render(state).splitlines()
    assert lines[:4] == ["      U U L", "      U U F", "      U U F", "B L L F F D R R U B R R"]
    assert lines[-1] == "18 moves possible, 0 made"
    svg = game.to_svg(state)
    assert svg.count("<rect") == 1 + 6 + 54
    assert all(svg.count(f"fill='{colour}'") >= 9 for colour in ("#d0382b", "#2f9e55", "#f5d13d", "#2f62c0"))


def test_notation_of_both_metrics():
    assert [CUBES[2].action_to_string(a) for a in range(9)] == [
        "U",
        "U2",
        "U'",
        "R",
        "R2",
        "R'",
        "F",
        "F2",
        "F'",
    ]
    quarter = Cube3(metric="qtm")
    assert [quarter.action_to_string(a) for a in range(4)] == ["U", "U'", "R", "R'"]
    assert quarter.from_string("R2") == CUBES[3].from_string("R2")
    with pytest.raises(ValueError, match="'R2' is not a move; give one of U, U', R, R', F, F', D"):
        quarter.action_from_string("R2")


SOLVED_2, SOLVED_3 = "".join(f * 4 for f in "URFDLB"), "".join(f * 9 for f in "URFDLB")
BAD = [
    (
        3,
        "R Q",
        "at move 2 of 'R Q': 'Q' is not a turn; give a face, one of U R F D L B, alone or with 2 or '",
    ),
    (3, "(R U)2", "is not a turn"),
    (2, "R L", "'L' is not a turn; give a face, one of U R F, .* The corner DBL stays where it is"),
    (2, SOLVED_3, "is not a cube of size 2; give 24 facelets"),
    (3, SOLVED_3[:-1], "is not a cube of size 3; give 54 facelets"),
    (3, SOLVED_3.replace("B", "X"), "is not a cube of size 3"),
    (3, f"{SOLVED_3} x", "after them the moves made"),
    (3, f"{SOLVED_3} 51", "has 51 moves made; a game has at most 50"),
    (3, SOLVED_3[9:] + SOLVED_3[:9], "has the centres RFDLBU; turn the whole cube until they are URFDLB"),
    (3, "R" + SOLVED_3[1:], "shows RLB at ULB; no cubie has these colours so"),
    (2, "UUUURRRRFFFFDDDDLLLLBBBB"[::-1], "DBL"),
]


@pytest.mark.parametrize(("size", "text", "message"), BAD)
def test_bad_text(size, text, message):
    with pytest.raises(ValueError, match=message.replace("(R U)", r"\(R U\)")):
        CUBES[size].from_string(text)


def exchanged(*cycles):
    """A solved 3x3x3 with the colours of facelets moved along cycles of cell numbers."""
    cells = list(SOLVED_3)
    for cycle in cycles:
        letters = [cells[i] for i in cycle]
        for i, letter in zip(cycle, letters[1:] + letters[:1]):
            cells[i] = letter
    return "".join(cells)


URF, UFL = (8, 9, 20), (6, 18, 38)
UR, UF = (5, 10), (7, 19)
IMPOSSIBLE = [
    ([URF], "one twisted corner too many"),
    ([UR], "one flipped edge too many"),
    ([(8, 6), (9, 18), (20, 38)], "two cubies exchanged"),
    ([(5, 7), (10, 19)], "two cubies exchanged"),
]


@pytest.mark.parametrize(("cycles", "message"), IMPOSSIBLE)
def test_impossible_cube(cycles, message):
    with pytest.raises(ValueError, match=f"{message}.*turning faces cannot solve it"):
        CUBES[3].from_string(exchanged(*cycles))


def test_possible_cubes():
    """Two twists against each other; a corner and an edge exchange together."""
    for cycles in ([URF, UFL[::-1]], [UR, UF], [(8, 6), (9, 18), (20, 38), (5, 7), (10, 19)]):
        state = CUBES[3].from_string(exchanged(*cycles))
        assert not bool(CUBES[3].is_solved(state))


BAD_OPTIONS = [
    ({"metric": "stm"}, "there is no metric 'stm'; give 'htm' or 'qtm'"),
    ({"scramble": 0}, "scramble is 0; give a number of turns from 1"),
    ({"scramble": (3, 2)}, r"scramble is \(3, 2\)"),
    ({"scramble": (1, 2, 3)}, r"scramble is \(1, 2, 3\)"),
    ({"scramble": 1.5}, "scramble is 1.5"),
    ({"max_steps": 0}, "max_steps is 0; give a whole number from 1 to 4095"),
    ({"max_steps": 4096}, "max_steps is 4096"),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS)
def test_bad_option(options, message):
    with pytest.raises(ValueError, match=message):
        games_jax.make("cube3", **options)


def test_names():
    game = Cube3(metric="qtm", scramble=(1, 9), step_cost=0.1)
    assert game.name == "cube3(metric='qtm', scramble=(1, 9), step_cost=0.1)"
    assert games_jax.make(game.name) == game and games_jax.make("cube2") == Cube2()
