"""Matches: paired colours, openings, results that an independent program confirms."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pyspiel
import pytest

import games_jax
from train.arena import play_match
from train.openings import random_openings
from train.players import HostPlayer, Player, random_player

TIC_TAC_TOE = games_jax.make("tic_tac_toe")
CONNECT_FOUR = games_jax.make("connect_four")


@functools.cache
def first_legal(game) -> Player:
    """Plays the first legal action."""

    def act(key, states, params=None):
        return jnp.argmax(jax.vmap(game.legal_actions)(states), axis=1).astype(jnp.int32)

    return Player("first", act)


@functools.cache
def taker(game) -> Player:
    """Ends the game if it can, else plays at random."""
    noise = random_player(game)

    def act(key, states, params=None):
        def ends(state):
            after = jax.vmap(game.step, in_axes=(None, 0))(state, jnp.arange(game.num_actions))
            return jax.vmap(game.is_over)(after) & game.legal_actions(state)

        final = jax.vmap(ends)(states)
        return jnp.where(final.any(axis=1), jnp.argmax(final, axis=1), noise.act(key, states)).astype(
            jnp.int32
        )

    return Player("taker", act)


def outcome(name: str, moves) -> float:
    """Points of seat 0 in the finished game `moves`, by OpenSpiel."""
    state = pyspiel.load_game(name).new_initial_state()
    for move in moves:
        state.apply_action(int(move))
    assert state.is_terminal()
    return 0.5 * (1 + state.returns()[0])


def check_against_openspiel(name: str, result) -> None:
    for points, games in zip(result.points, result.moves):
        assert points[0] == outcome(name, games[0])
        assert points[1] == 1 - outcome(name, games[1])


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four"])
def test_openspiel_confirms_every_game(name):
    game = games_jax.make(name)
    result = play_match(game, taker(game), random_player(game), games=200, key=jax.random.key(0))
    check_against_openspiel(name, result)
    wins, draws, losses = result.wins_draws_losses()
    assert wins + draws + losses == result.games == 200
    by_seat = np.add(result.wins_draws_losses(0), result.wins_draws_losses(1))
    assert tuple(by_seat) == (wins, draws, losses)
    assert sum(result.wins_draws_losses(0)) == 100
    assert result.encounter.points == wins + draws / 2
    assert result.encounter.score > 0.6
    assert result.mean_length == pytest.approx(np.mean([len(m) for pair in result.moves for m in pair]))


def test_pairs_share_openings_and_openings_differ():
    result = play_match(CONNECT_FOUR, random_player(CONNECT_FOUR), taker(CONNECT_FOUR), games=120,
                        key=jax.random.key(1), opening_plies=3)  # fmt: skip
    openings = [tuple(games[0][:3]) for games in result.moves]
    assert openings == [tuple(games[1][:3]) for games in result.moves]
    assert len(set(openings)) == result.distinct_openings == 60
    assert result.distinct_games > 100


def test_identical_deterministic_players_score_half_and_repeat_themselves():
    player = first_legal(CONNECT_FOUR)
    result = play_match(CONNECT_FOUR, player, player, games=40, key=jax.random.key(2))
    assert all(games[0] == games[1] for games in result.moves)
    assert (result.points.sum(axis=1) == 1).all()
    assert result.distinct_games == 20


def test_the_second_named_players_score_is_the_rest():
    arguments = dict(games=60, key=jax.random.key(3))
    one = play_match(TIC_TAC_TOE, first_legal(TIC_TAC_TOE), taker(TIC_TAC_TOE), **arguments)
    host = HostPlayer("host", lambda state, rng: int(np.argmax(TIC_TAC_TOE.legal_actions(state))))
    other = play_match(TIC_TAC_TOE, host, host, **arguments)
    mirrored = play_match(TIC_TAC_TOE, first_legal(TIC_TAC_TOE), first_legal(TIC_TAC_TOE), **arguments)
    check_against_openspiel("tic_tac_toe", one)
    # The host's loop and the compiled one play the same games.
    assert other.moves == mirrored.moves
    np.testing.assert_array_equal(other.points, mirrored.points)


def test_host_player_meets_device_player():
    def choose(state, rng):
        return int(rng.choice(np.flatnonzero(TIC_TAC_TOE.legal_actions(state))))

    host = HostPlayer("host", choose)
    result = play_match(TIC_TAC_TOE, taker(TIC_TAC_TOE), host, games=30, key=jax.random.key(4))
    check_against_openspiel("tic_tac_toe", result)
    again = play_match(TIC_TAC_TOE, taker(TIC_TAC_TOE), host, games=30, key=jax.random.key(4))
    assert again.moves == result.moves  # everything follows from the key


def test_batches_do_not_change_what_is_played_by_deterministic_players():
    players = first_legal(CONNECT_FOUR), first_legal(CONNECT_FOUR)
    whole = play_match(CONNECT_FOUR, *players, games=50, key=jax.random.key(5))
    parts = play_match(CONNECT_FOUR, *players, games=50, key=jax.random.key(5), batch=16)
    assert whole.moves == parts.moves
    np.testing.assert_array_equal(whole.points, parts.points)


def test_parameters_are_arguments_of_one_compiled_program():
    traces = 0

    def act(key, states, params=None):
        nonlocal traces
        traces += 1
        legal = jax.vmap(TIC_TAC_TOE.legal_actions)(states)
        return jnp.argmax(jnp.where(legal, params, -jnp.inf), axis=1).astype(jnp.int32)

    results = []
    for seed in range(3):
        player = Player(f"weights {seed}", act, jax.random.normal(jax.random.key(seed), (9,)))
        results.append(play_match(TIC_TAC_TOE, player, taker(TIC_TAC_TOE), games=20, key=jax.random.key(0)))
        check_against_openspiel("tic_tac_toe", results[-1])
    first = traces
    assert first <= 2  # a while loop may be traced twice, never once per match
    assert results[0].moves != results[1].moves


class DoubleMove:
    """Players move twice in a row (0, 1, 1, 0, 0, 1, 1, ...); whoever plays the larger sum wins.

    Each of 8 moves adds 0, 1 or 2 to the mover's sum.
    """

    name, version, num_players, num_actions, max_steps, has_chance = "double_move", 1, 2, 3, 8, False
    observation_shape = (1, 1, 2)

    def init(self, key):
        return jnp.zeros(3, jnp.int32)  # moves made, the two sums

    def step(self, state, action):
        moved = state.at[1 + self.current_player(state)].add(action).at[0].add(1)
        return jnp.where(self.is_over(state), state, moved)

    def legal_actions(self, state):
        return jnp.broadcast_to(~self.is_over(state), (3,))

    def observe(self, state, player):
        return state.reshape(1, 1, 3)

    def current_player(self, state):
        return (state[0] + 1) // 2 % 2

    def rewards(self, state):
        sign = jnp.sign(state[1] - state[2]).astype(jnp.float32) * (state[0] == 8)
        return jnp.stack([sign, -sign])

    def is_over(self, state):
        return state[0] >= 8


@pytest.mark.parametrize("host", [False, True])
def test_players_that_move_twice_in_a_row(host):
    game = DoubleMove()
    if host:
        high, low = HostPlayer("high", lambda s, rng: 2), HostPlayer("low", lambda s, rng: 1)
    else:
        high, low = (
            Player(n, lambda key, states, params=None, v=v: jnp.full(states.shape[0], v))
            for n, v in (("high", 2), ("low", 1))
        )
    result = play_match(game, high, low, games=8, key=jax.random.key(0), opening_plies=0)
    assert (result.points == 1).all()
    seats = np.array([0, 1, 1, 0, 0, 1, 1, 0])
    for as_first, as_second in result.moves:
        assert as_first == tuple(np.where(seats == 0, 2, 1))
        assert as_second == tuple(np.where(seats == 1, 2, 1))


@pytest.mark.parametrize("action", [0, -1, 7])
def test_an_illegal_action_is_refused_with_the_players_name(action):
    bad = Player("stubborn", lambda key, states, params=None: jnp.full(states.own[0].shape[0], action))
    with pytest.raises(
        ValueError, match=r"stubborn chose an illegal action in \d+ of 20 games of connect_four"
    ):
        play_match(CONNECT_FOUR, random_player(CONNECT_FOUR), bad, games=20, key=jax.random.key(0))


@pytest.mark.parametrize("games", [0, 7, -2])
def test_an_odd_number_of_games_is_refused(games):
    player = first_legal(TIC_TAC_TOE)
    with pytest.raises(ValueError, match=f"even and at least 2, got {games}"):
        play_match(TIC_TAC_TOE, player, player, games=games, key=jax.random.key(0))


# Openings


@pytest.mark.parametrize("plies, distinct", [(0, 1), (1, 9), (2, 72)])
def test_small_games_give_all_their_openings_equally_often(plies, distinct):
    openings = random_openings(TIC_TAC_TOE, jax.random.key(0), count=2 * 72, plies=plies)
    assert openings.distinct == distinct
    counts = np.unique(openings.moves, axis=0, return_counts=True)[1] if plies else [144]
    assert len(counts) == distinct and set(counts) == {144 // distinct}


def test_openings_are_legal_open_and_cannot_be_ended_at_once():
    openings = random_openings(TIC_TAC_TOE, jax.random.key(0), count=200, plies=4)
    reference = pyspiel.load_game("tic_tac_toe")
    boards = set()
    for moves in openings.moves:
        state = reference.new_initial_state()
        for move in moves:
            state.apply_action(int(move))
        assert not state.is_terminal()
        assert not any(state.child(a).is_terminal() for a in state.legal_actions())
        boards.add(str(state))
    assert len(boards) == openings.distinct == 200


def test_openings_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="No opening of 9 random plies of tic_tac_toe"):
        random_openings(TIC_TAC_TOE, jax.random.key(0), count=1, plies=9)
    with pytest.raises(ValueError, match="plies=-1"):
        random_openings(TIC_TAC_TOE, jax.random.key(0), count=1, plies=-1)
    openings = random_openings(TIC_TAC_TOE, jax.random.key(0), count=3, plies=1)
    player = first_legal(TIC_TAC_TOE)
    with pytest.raises(ValueError, match="8 games need 4 openings, got 3"):
        play_match(TIC_TAC_TOE, player, player, games=8, key=jax.random.key(0), openings=openings)
