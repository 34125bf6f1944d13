"""Our games ply by ply against OpenSpiel's: legal moves, mover, board, end and returns."""

import numpy as np
import pytest
from games_record import length, record
from othello_reference import Othello

pyspiel = pytest.importorskip("pyspiel")

GAMES = {
    # OpenSpiel's board letters as ours: 0 empty, 1 first, 2 second player.
    "tic_tac_toe": (".xo", False),
    "connect_four": (".xo", False),
    "othello": ("-xo", True),
}


def spiel_board(state, letters, coordinates):
    lines = str(state).splitlines()
    if coordinates:  # a line about the mover and one of letters, then rows that start and end with a number
        lines = [line[1:-1] for line in lines if line[:1].isdigit()]
    return [letters.index(cell) for line in lines for cell in line if cell in letters]


@pytest.mark.parametrize("games", [250, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", GAMES)
def test_every_ply_of_random_games(name, games):
    letters, coordinates = GAMES[name]
    played, boards = record(name, games=2000)
    spiel = pyspiel.load_game(name)
    for index in range(games):
        state = spiel.new_initial_state()
        plies = length(played, index)
        for ply in range(plies + 1):
            where = f"game {index}, ply {ply}, moves {played.actions[:ply, index].tolist()}"
            assert state.is_terminal() == bool(played.over[ply, index]) == (ply == plies), where
            assert state.legal_actions() == np.flatnonzero(played.legal[ply, index]).tolist(), where
            assert spiel_board(state, letters, coordinates) == boards[ply, index].tolist(), where
            if ply < plies:
                assert state.current_player() == played.player[ply, index], where
                assert not played.rewards[ply, index].any(), where
                state.apply_action(int(played.actions[ply, index]))
        assert state.returns() == played.rewards[plies, index].tolist(), where


def test_othello_sample_holds_passes_and_double_passes():
    played, boards = record("othello", games=2000)
    running = ~played.over[:-1]
    passes = (played.actions == 64) & running
    ends = played.over.argmax(axis=0)
    empties = (boards[ends, np.arange(len(ends))] == 0).sum(axis=-1)
    assert passes.sum() > 500
    # Cells are left where neither side can move: two passes in a row under other rules.
    assert (empties > 0).sum() >= 10


def test_results_of_all_kinds_occur():
    for name in GAMES:
        played, _ = record(name, games=2000)
        results = played.rewards[-1, :, 0]
        assert {-1.0, 0.0, 1.0} == set(results.tolist()), name


def test_the_plain_reference_agrees_with_open_spiel():
    """Vouches for the reference that stands in where OpenSpiel has no such board."""
    played, _ = record("othello", games=2000)
    for index in range(100):
        state, reference = pyspiel.load_game("othello").new_initial_state(), Othello(8)
        for action in played.actions[: length(played, index), index].tolist():
            assert reference.legal() == state.legal_actions()
            state.apply_action(action)
            reference.play(action)
        assert reference.legal() == [] and reference.returns() == state.returns()
