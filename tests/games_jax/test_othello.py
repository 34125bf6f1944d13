import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import rules_cases
from hypothesis import given, settings
from hypothesis import strategies as st

import games_jax
from games_jax.game import SymmetricGame

CASES = rules_cases("othello", "terminal") | rules_cases("othello", "legal") | rules_cases("othello", "board")


def game_of(case):
    return games_jax.make("othello", size=case["setup"]["size"])


def stones(game, state):
    seen = np.asarray(game.observe(state, 0))
    return seen[..., 0], seen[..., 1]


@pytest.mark.parametrize("name", CASES)
def test_rules_case(name):
    case = CASES[name]
    game, expect = game_of(case), case["expect"]
    state = game.from_string(" ".join(case["actions"]))
    rows, side = game.to_string(state).rsplit(" ", 1)
    first, second = stones(game, state)
    if "board" in expect:
        assert rows.split("/") == expect["board"]
    if "legal" in expect:
        assert games_jax.legal_moves(game, state) == expect["legal"]
    if "to_play" in expect:
        assert side == expect["to_play"]
    if "terminal" in expect:
        assert bool(game.is_over(state)) == expect["terminal"]
    if "discs" in expect:
        assert [first.sum(), second.sum()] == expect["discs"]
    if "winner" in expect:
        assert game.rewards(state).tolist() == {"X": [1, -1], "O": [-1, 1], None: [0, 0]}[expect["winner"]]
    if "flipped_by_last" in expect:
        before = game.from_string(" ".join(case["actions"][:-1]))
        mover = int(game.current_player(before))
        gained = int((first, second)[mover].sum()) - int(stones(game, before)[mover].sum())
        assert gained == 1 + expect["flipped_by_last"]


def test_transcripts_may_leave_passes_out():
    case = CASES["after_forced_pass_same_board_other_side"]
    game = game_of(case)
    written = [*case["actions"], "c3"]
    left_out = "".join(move for move in written if move != "pass")
    assert game.from_string(" ".join(written)) == game.from_string(left_out)


def test_a_pass_is_refused_where_a_disc_can_be_placed():
    game = games_jax.make("othello")
    with pytest.raises(ValueError, match=r"at move 1 .* 'pass' is illegal here. Legal now: d3, c4, f5, e6"):
        game.from_string("pass")


def test_start_and_its_symmetries():
    """Four of the eight symmetries keep the start; the others give its colour-swapped twin."""
    for size in (4, 6, 8):
        game = games_jax.make("othello", size=size)
        assert isinstance(game, SymmetricGame)
        start, transform = game.init(jax.random.key(0)), jax.jit(game.transform)
        same = []
        for k in range(8):
            turned = transform(start, jnp.int32(k))
            twin = turned._replace(own=turned.other, other=turned.own)
            assert (turned == start) != (twin == start)
            same.append(turned == start)
        assert sum(same) == 4 and same[0]


SMALL = games_jax.make("othello", size=6)


@jax.jit
def count(state):
    return SMALL.observe(state, 0)[..., :2].sum((0, 1)), SMALL.current_player(state)


STEP, LEGAL = jax.jit(SMALL.step), jax.jit(SMALL.legal_actions)


@settings(max_examples=20)
@given(st.lists(st.integers(0, 35), min_size=40, max_size=40))
def test_discs_only_change_hands(choices):
    """A placement adds one disc and turns at least one; nobody's discs vanish; a pass changes none."""
    state = SMALL.init(jax.random.key(0))
    for choice in choices:
        legal = np.flatnonzero(LEGAL(state))
        if not len(legal):
            break
        action = int(legal[choice % len(legal)])
        before, mover = jax.device_get(count(state))
        state = STEP(state, jnp.int32(action))
        after, next_mover = jax.device_get(count(state))
        gained, lost = int(after[mover] - before[mover]), int(before[1 - mover] - after[1 - mover])
        passed = action == SMALL.num_actions - 1
        assert (gained, lost) == (0, 0) if passed else (gained == lost + 1 and lost >= 1)
        assert next_mover == 1 - mover


BAD = [
    ("f5f5", "at move 2 of 'f5f5': move 'f5' is illegal here. Legal now: f4, d6, f6"),
    ("f5 z9", "'z9' is not a cell; give one from a1 to h8, or 'pass'"),
    ("f5 ??", "cannot read '??' in the moves"),
    ("......../........ X", "has 3 parts; expected 8 rows of 8 cells"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_position(text, message):
    with pytest.raises(ValueError, match=message.replace("?", "[?]")):
        games_jax.make("othello").from_string(text)


@pytest.mark.parametrize("size", [2, 5, 10, 6.0, "8", True])
def test_bad_size(size):
    with pytest.raises(ValueError, match="give one of 4, 6, 8"):
        games_jax.make("othello", size=size)
