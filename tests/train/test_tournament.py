"""Tournaments: every opening once with each colour, all pairs, and Hex against its solved openings."""

import functools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
from train.hex_openings import hold_openings, load_winning, play_openings, value_signs
from train.networks import make_network
from train.players import HostPlayer, Player, random_player
from train.ratings import rate
from train.tournament import every_opening, round_robin

DATA = Path(__file__).parents[1] / "data" / "hex_openings.json"
HEX = games_jax.make("hex", size=3)


def first_legal(key, states, params=None):
    del key, params
    return jnp.argmax(jax.vmap(HEX.legal_actions)(states), axis=1).astype(jnp.int32)


@functools.cache
def wins(stones, mover):
    """Whether the mover wins; `stones` are the moves as a tuple of (cell, seat), sorted."""
    state = replay(stones)
    if bool(HEX.is_over(state)):
        return False
    taken = {cell for cell, _ in stones}
    return any(
        not wins(tuple(sorted((*stones, (cell, mover)))), 1 - mover) for cell in range(9) if cell not in taken
    )


@functools.cache
def replay(stones):
    """A state with these stones, the seats in turn."""
    by_seat = [[cell for cell, seat in stones if seat == s] for s in (0, 1)]
    state = HEX.init(jax.random.key(0))
    for number in range(len(stones)):
        state = STEP(state, jnp.int32(by_seat[number % 2][number // 2]))
    return state


STEP = jax.jit(HEX.step)


def perfect_move(state, rng):
    del rng
    cells = [np.flatnonzero(bits(board)) for board in (state.first, state.second)]
    stones = tuple(sorted((int(cell), seat) for seat in (0, 1) for cell in cells[seat]))
    mover = len(stones) % 2
    free = [cell for cell in range(9) if cell not in {c for c, _ in stones}]
    good = [c for c in free if not wins(tuple(sorted((*stones, (c, mover)))), 1 - mover)]
    return (good or free)[0]


def bits(board):
    return (int(np.asarray(board[0])) >> np.arange(9)) & 1


class TestOpenings:
    @pytest.mark.parametrize(("name", "count"), [("hex(size=4)", 16), ("tic_tac_toe", 9), ("othello", 4)])
    def test_all_first_moves_once(self, name, count):
        openings = every_opening(games_jax.make(name))
        assert openings.distinct == count == len({tuple(moves) for moves in openings.moves.tolist()})
        assert openings.returns.shape == (count, 2)

    def test_lines_of_two_plies(self):
        openings = every_opening(HEX, plies=2)
        assert sorted(map(tuple, openings.moves.tolist())) == [
            (first, second) for first in range(9) for second in range(9) if first != second
        ]
        states = openings.states
        for row in (0, 17, 71):
            state = HEX.init(jax.random.key(0))
            for move in openings.moves[row]:
                state = HEX.step(state, jnp.int32(move))
            assert all(
                np.array_equal(x[row], y) for x, y in zip(jax.tree.leaves(states), jax.tree.leaves(state))
            )

    def test_what_has_no_such_openings(self):
        with pytest.raises(ValueError, match="at least one ply"):
            every_opening(HEX, plies=0)
        with pytest.raises(ValueError, match="leaves the game open"):
            every_opening(games_jax.make("hex", size=2), plies=5)

    def test_the_states_are_those_after_the_moves(self):
        openings = every_opening(HEX)
        legal = np.asarray(jax.vmap(HEX.legal_actions)(openings.states))
        np.testing.assert_array_equal(~legal, np.eye(9, dtype=bool))
        assert not np.any(jax.vmap(HEX.is_over)(openings.states))


class TestRoundRobin:
    def test_all_pairs_meet_in_every_opening_with_both_colours(self):
        players = [random_player(HEX), Player("first", first_legal), Player("again", first_legal)]
        results = list(round_robin(HEX, players, key=jax.random.key(0)))
        assert [(r.first, r.second) for r in results] == [
            ("random", "first"),
            ("random", "again"),
            ("first", "again"),
        ]
        assert all(result.games == 18 for result in results)
        for seat in (0, 1):
            assert sorted(moves[seat][0] for moves in results[0].moves) == list(range(9))
        # Two players who play alike win and lose the same openings.
        assert results[2].encounter.score == 0.5
        assert {rating.name for rating in rate(r.encounter for r in results)} == {"random", "first", "again"}

    def test_a_group_may_grow(self):
        """Known pairs are left out, and the games of a pair do not depend on who else plays."""
        pair = [random_player(HEX), Player("first", first_legal)]
        alone = list(round_robin(HEX, pair, key=jax.random.key(3)))
        grown = [pair[0], Player("new", first_legal), pair[1]]
        results = list(round_robin(HEX, grown, key=jax.random.key(3)))
        assert results[1].moves == alone[0].moves
        left = list(round_robin(HEX, grown, key=jax.random.key(3), known=[alone[0].encounter]))
        assert [(r.first, r.second) for r in left] == [("random", "new"), ("new", "first")]

    def test_names_must_differ(self):
        with pytest.raises(ValueError, match="different names, got random, random"):
            next(round_robin(HEX, [random_player(HEX)] * 2, key=jax.random.key(0)))


class TestSolvedOpenings:
    def test_winning_moves_of_a_size(self):
        winning = load_winning(DATA, HEX)
        names = {HEX.action_to_string(int(cell)) for cell in np.flatnonzero(winning)}
        assert names == set(json.loads(DATA.read_text())["winning"]["3x3"])

    def test_what_cannot_be_compared(self, tmp_path):
        with pytest.raises(ValueError, match="without swap"):
            load_winning(DATA, games_jax.make("hex", size=3, swap=True))
        with pytest.raises(ValueError, match="no openings of 11x11"):
            load_winning(DATA, games_jax.make("hex", size=11))
        with pytest.raises(ValueError, match="no file of solved Hex openings"):
            load_winning(tmp_path / "none.json", HEX)

    def test_perfect_play_holds_every_opening_and_random_play_does_not(self):
        winning = load_winning(DATA, HEX)
        perfect = HostPlayer("perfect", perfect_move)
        result = play_openings(HEX, perfect, random_player(HEX), repeats=2, key=jax.random.key(0))
        held = hold_openings(result, winning)
        assert held.shape == (2, 9) and held.all()
        against = play_openings(HEX, random_player(HEX), perfect, repeats=2, key=jax.random.key(0))
        assert not hold_openings(against, winning).all()

    def test_signs_of_a_network_that_always_sees_a_win(self):
        """The second player is to move, so a value above 0 is right where the first does not win."""
        winning = load_winning(DATA, HEX)
        network = make_network("mlp", HEX, width=8, depth=1, value_head="wdl")
        variables = network.init(jax.random.key(0))
        out = network.apply(
            variables, jax.vmap(HEX.observe)(every_opening(HEX).states, jnp.ones(9, jnp.int32))
        )
        signs = value_signs(HEX, network, variables, winning)
        np.testing.assert_array_equal(signs, (np.asarray(out.value) > 0) != winning)
