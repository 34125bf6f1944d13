import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import DATA

import games_jax
from games_jax.chess import Chess, perft, rules
from games_jax.game import num_bytes
from games_jax.play import legal_numbers

CASES = json.loads((DATA / "chess_cases.json").read_text())
TRAPS = json.loads((DATA / "chess_traps.json").read_text())
# Few games, since each compiles its own step: the default, one with every long limit, one with short ones.
GAME = Chess()
LONG = Chess(repetition=5, move_rule=75)
SHORT = Chess(window=8, max_plies=40, history=3)
COUNT, HASH, SEE = jax.jit(GAME.num_legal), jax.jit(rules.key), jax.jit(GAME.observe)
# Perft sums to about 7 million moves; the rest is for `slow`.
MOST_MOVES = 300_000


def seen(case, game=GAME):
    """What the game says of a case, in the keys that the cases use."""
    states = [game.from_string(case["fen"])]
    for move in case["moves"]:
        # Play on after a draw: some cases repeat more often than the game allows.
        states.append(games_jax.play(game, states[-1], move))
    state = states[-1]
    ending = game.ending(state)
    legal = sorted(games_jax.legal_moves(game, state))
    return states, state, ending, legal


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "perft" not in case["expect"]])
def test_rules_case(name):
    case, expect = CASES[name], CASES[name]["expect"]
    game = LONG if "fivefold" in expect or "repetition" in name else GAME
    states, state, ending, legal = seen(case, game)
    keys = [HASH(state).tolist() for state in states]
    times = keys.count(keys[-1])
    if "legal_count" in expect:
        assert len(legal) == expect["legal_count"]
    if "legal_uci" in expect:
        assert legal == sorted(expect["legal_uci"])
    assert set(expect.get("legal_includes", [])) <= set(legal)
    assert not set(expect.get("legal_excludes", [])) & set(legal)
    if "in_check" in expect:
        assert bool(game.in_check(state)) == expect["in_check"]
    if "terminal" in expect:
        end = "insufficient material" if expect["terminal"] is True else expect["terminal"] or "running"
        assert ending == end
    if "insufficient_material" in expect:
        assert (ending == "insufficient material") == expect["insufficient_material"]
    if "halfmove_clock" in expect:
        assert game.to_fen(state).split()[4] == str(expect["halfmove_clock"])
    if "fen" in expect:
        assert game.to_fen(state) == expect["fen"]
    if "draw_fifty" in expect:
        assert (ending == "move rule") == expect["draw_fifty"]
    if "threefold" in expect:
        assert (times >= 3) == expect["threefold"]
    if "repetition_count_of_final_position" in expect:
        assert times == expect["repetition_count_of_final_position"]
    if "fivefold" in expect:
        assert ending == "repetition" and times == 5
    if "first_threefold_ply" in expect:
        state, plies = GAME.from_string(case["fen"]), 0
        for move in case["moves"]:
            if not bool(GAME.is_over(state)):
                state, plies = games_jax.play(GAME, state, move), plies + 1
        assert (GAME.ending(state), plies) == ("repetition", expect["first_threefold_ply"])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "perft" in case["expect"]])
def test_perft(name):
    state = GAME.from_string(CASES[name]["fen"])
    expected = {d: n for d, n in CASES[name]["expect"]["perft"].items() if n <= MOST_MOVES}
    assert {depth: perft(state, int(depth)) for depth in expected} == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "perft" in case["expect"]])
def test_perft_to_every_listed_depth(name):
    state = GAME.from_string(CASES[name]["fen"])
    expected = CASES[name]["expect"]["perft"]
    assert {depth: perft(state, int(depth)) for depth in expected} == expected


def test_perft_of_the_start():
    start = GAME.init(jax.random.key(0))
    assert [perft(start, depth) for depth in (1, 2, 3, 4)] == [20, 400, 8902, 197281]
    with pytest.raises(ValueError, match="depth is 0"):
        perft(start, 0)


# Draws


@pytest.mark.parametrize("game", [GAME, SHORT, LONG], ids=lambda game: game.name)
def test_knights_out_and_back(game):
    moves = "g1f3 g8f6 f3g1 f6g8".split()
    state, plies = game.init(jax.random.key(0)), 0
    while not bool(game.is_over(state)) and plies < 20:
        state, plies = games_jax.play(game, state, moves[plies % 4]), plies + 1
    assert plies == {3: 8, 5: 16}[game.repetition]
    assert game.ending(state) == "repetition"
    assert np.asarray(game.rewards(state)).tolist() == [0, 0]


def test_a_window_forgets_what_is_older():
    """The position comes back after 8 and 16 plies; eight are remembered."""
    tour = "g1f3 g8f6 f3g5 f6g4 g5h3 g4h6 h3g1 h6g8 " * 2
    assert GAME.ending(GAME.from_string(tour)) == "repetition"
    assert SHORT.ending(SHORT.from_string(tour)) == "running"


def test_mate_on_the_hundredth_quiet_ply_wins():
    state = GAME.from_string("7k/5Q2/6K1/8/8/8/8/8 w - - 99 80")
    mated = games_jax.play(GAME, state, "Qg7#")
    assert GAME.ending(mated) == "checkmate" and np.asarray(GAME.rewards(mated)).tolist() == [1, -1]
    assert GAME.ending(games_jax.play(GAME, state, "Qf6")) == "move rule"
    assert LONG.ending(games_jax.play(LONG, LONG.from_string(GAME.to_fen(state)), "Qf6")) == "running"


def test_the_longest_game():
    state = SHORT.from_string("4r1k1/3Q1ppp/8/8/8/8/5PPP/6K1 b - - 0 20")
    assert SHORT.ending(games_jax.play(SHORT, state, "Re2")) == "length"
    assert SHORT.ending(games_jax.play(SHORT, state, "Re1")) == "checkmate"


@pytest.mark.parametrize(
    ("fen", "move", "square"),
    [
        ("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1", "e2e4", "-"),  # nobody there to take it
        ("4k3/8/8/8/5p2/8/4P3/4K3 w - - 0 1", "e2e4", "e3"),
        ("8/8/8/8/R1p3k1/8/3P4/K7 w - - 0 1", "d2d4", "-"),  # the king would stand on the rook's rank
        ("4k3/8/8/8/3p4/8/2P5/3RK3 w - - 0 1", "c2c4", "c3"),
        ("3k4/8/8/8/3p4/8/2P5/3RK3 w - - 0 1", "c2c4", "-"),  # pinned
    ],
)
def test_a_capture_in_passing_is_noted_only_where_it_is_legal(fen, move, square):
    assert GAME.to_fen(games_jax.play(GAME, GAME.from_string(fen), move)).split()[3] == square


# The same facts in other ways


def test_random_actions_are_uniform():
    start = GAME.init(jax.random.key(0))
    draws = jax.random.bits(jax.random.key(1), (8000,), jnp.uint32)
    actions = jax.jit(jax.vmap(GAME.random_action, in_axes=(None, 0)))(start, draws)
    chosen, counts = np.unique(actions, return_counts=True)
    assert chosen.tolist() == legal_numbers(GAME, start)
    # Four standard deviations of a binomial count with p = 1/20.
    assert np.abs(counts - 400).max() < 4 * np.sqrt(400 * 19 / 20)


@pytest.mark.slow
def test_a_walk_ends_as_the_game_does_step_by_step():
    """Playouts look at the end of a game one turn later than steps; the same draws lead to the same end."""
    texts = (
        "7k/8/8/8/8/8/R7/K7 w - - 0 5",
        "6k1/2Q5/8/6K1/8/8/8/8 w - - 97 8",
        "4k3/8/8/8/8/8/PP6/4K3 w - - 0 1",
    )
    starts = [SHORT.from_string(text) for text in texts]
    states = jax.tree.map(lambda *leaves: jnp.repeat(jnp.stack(leaves), 64, axis=0), *starts)
    draws = jax.random.bits(jax.random.key(3), (41, 192), jnp.uint32)
    one_step = jax.jit(jax.vmap(lambda state, draw: SHORT.step(state, SHORT.random_action(state, draw))))

    @jax.jit
    @jax.vmap
    def one_turn(walk, draw):
        after = walk.on(draw, SHORT._limits)
        return jax.tree.map(lambda new, old: jnp.where(walk.ending != rules.RUNNING, old, new), after, walk)

    walks = jax.vmap(rules.Walk.begin)(states)
    for draw in draws:
        states, walks = one_step(states, draw), one_turn(walks, draw)
    endings = np.asarray(rules.ending(states.flags))
    assert np.asarray(walks.ending).tolist() == endings.tolist()
    assert np.asarray(walks.ply).tolist() == np.asarray(states.ply).tolist()
    reached = {rules.ENDINGS[code] for code in endings}
    assert reached >= {"repetition", "length", "insufficient material", "move rule"}


@pytest.mark.slow
def test_playouts():
    """A finished game has its result; where White mates in one or is mated at once, some games end so."""
    playout = jax.jit(jax.vmap(GAME.playout, in_axes=(None, 0)))
    keys = jax.random.split(jax.random.key(2), 64)
    mated = GAME.from_string("f3 e5 g4 Qh4")
    assert np.asarray(playout(mated, keys)).tolist() == [[-1, 1]] * 64
    results = np.asarray(playout(GAME.from_string("7k/5Q2/6K1/8/8/8/8/8 w - - 98 80"), keys))
    assert set(results[:, 0].tolist()) == {0, 1} and not results.sum(axis=1).any()


def test_material():
    assert float(GAME.material(GAME.init(jax.random.key(0)))) == 0
    state = GAME.from_string("4r1k1/3n1ppp/8/8/8/8/5PPP/3Q2K1 w - - 0 1")
    assert float(GAME.material(state)) == 9 - 8
    assert float(GAME.material(games_jax.play(GAME, state, "h3"))) == 8 - 9


def test_hash_ignores_the_clocks_and_knows_the_rest():
    def key(fen):
        return HASH(GAME.from_string(fen)).tolist()

    base = "r3k2r/8/8/3pP3/8/8/8/R3K2R {} {} {} {} {}"
    same = [key(base.format("w", "KQkq", "d6", clock, 9)) for clock in (0, 7)]
    others = [
        key(base.format("w", "KQkq", "-", 0, 9)),
        key(base.format("w", "KQk", "d6", 0, 9)),
        key(base.format("b", "KQkq", "-", 0, 9)),
    ]
    assert same[0] == same[1]
    assert len({tuple(k) for k in [same[0], *others]}) == 4


def test_a_position_and_its_mirror_with_colours_swapped_look_alike():
    """The mover's view is all that the network sees, but for whose colour it is."""
    fen = "r1bqk2r/ppp2ppp/2n2n2/2bpp3/4P3/2PP1N2/PP3PPP/RNBQKB1R w KQkq d6 3 6"
    board, _, rights, _, clock, number = fen.split()
    mirror = "/".join(row.swapcase() for row in reversed(board.split("/")))
    white, black = GAME.from_string(fen), GAME.from_string(f"{mirror} b {rights} d3 {clock} {number}")
    numbers = [legal_numbers(GAME, state) for state in (white, black)]
    assert numbers[0] == numbers[1]
    a, b = np.asarray(SEE(white, 0)), np.asarray(SEE(black, 1))
    colour = 12 + 1 + 4
    assert np.array_equal(np.delete(a, colour, axis=-1), np.delete(b, colour, axis=-1))
    assert not a[..., colour].any() and b[..., colour].all()


def test_observation():
    game, see = SHORT, jax.jit(SHORT.observe)
    start = game.init(jax.random.key(0))
    state = game.from_string("e4 Nf6 e5 d5")
    planes = np.asarray(see(state, 0))
    assert planes.shape == game.observation_shape == (8, 8, 47)
    own_pawns = [(row, column) for row, column in np.argwhere(planes[..., 0]).tolist()]
    assert (3, 4) in own_pawns and len(own_pawns) == 8
    # The boards before: a ply ago (d7-d5 not made yet) and two (e4-e5 neither).
    before = [see(game.from_string(moves), 0) for moves in ("e4 Nf6 e5", "e4 Nf6")]
    for age, earlier in enumerate(before, start=1):
        assert np.array_equal(planes[..., 12 * age : 12 * age + 12], np.asarray(earlier)[..., :12])
    facts = planes[..., 36:]
    assert np.argwhere(facts[..., 0]).tolist() == [[2, 3]]  # d6
    assert facts[..., 1:5].all() and not facts[..., 5:].any()
    # Nothing came before the start; Black sees it from the other side.
    assert not np.asarray(see(start, 0))[..., 12:36].any()
    black = np.asarray(see(state, 1))
    assert np.array_equal(black[..., :6], planes[::-1, :, 6:12])
    assert np.argwhere(black[..., 36]).tolist() == [[5, 3]]


def test_repetition_and_clock_are_seen():
    state = GAME.from_string("Nf3 Nf6 Ng1 Ng8")
    assert np.asarray(SEE(state, 0))[..., 12 + 6].all()
    late = GAME.from_string("4k3/8/8/8/8/8/3R4/4K3 w - - 80 80")
    assert np.asarray(SEE(late, 0))[0, 0, -4:].tolist() == [True, True, True, False]


# States of other forms


def test_adopt():
    small = Chess(repetition=0)
    games = (small, Chess(window=8), GAME, Chess(history=8))
    assert [num_bytes(game) for game in games] == [40, 104, 832, 1056]
    moves = "e4 e5 Nf3 Nf6 Ng1 Ng8 Nf3 Nf6 Ng1"
    state = GAME.from_string(moves)
    assert small.to_fen(small.adopt(state)) == GAME.to_fen(state)
    for game in (SHORT, GAME):
        adopted = game.adopt(state)
        assert game.ending(games_jax.play(game, adopted, "Ng8")) == "repetition"
    same = GAME.adopt(state)
    assert all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(same), jax.tree.leaves(state)))


# Parameters


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"repetition": 2}, "no repetition 2"),
        ({"window": 0}, "no window 0"),
        ({"window": 99}, "no window 99"),
        ({"window": 8, "repetition": 0}, "window without repetition"),
        ({"move_rule": 60}, "no move_rule 60"),
        ({"max_plies": 0}, "no max_plies 0"),
        ({"history": 0}, "no history 0"),
    ],
)
def test_bad_parameters_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        Chess(**options)


# Positions that searches are tested on


@pytest.mark.parametrize("level", [1, 3, 5, 7])
def test_trap_positions_load_and_their_moves_are_legal(level):
    for trap in TRAPS:
        if trap["level"] == level:
            state = GAME.from_string(trap["fen"])
            legal = legal_numbers(GAME, state)
            assert len(legal) == trap["legal"]
            for move in [*trap["traps"], *trap["safe"], trap["best"]]:
                assert GAME.move_from_string(state, move) in legal, (trap["fen"], move)


def test_the_queen_takes_a_knight_and_is_mated():
    state = GAME.from_string("4r1k1/3n1ppp/8/8/8/8/5PPP/3Q2K1 w - - 0 1")
    assert int(COUNT(state)) == 26
    taken = games_jax.play(GAME, state, "Qxd7")
    assert int(COUNT(taken)) == 20
    mated = games_jax.play(GAME, taken, "Re1#")
    assert GAME.ending(mated) == "checkmate" and np.asarray(GAME.rewards(mated)).tolist() == [-1, 1]
