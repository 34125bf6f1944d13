"""Go ply by ply against OpenSpiel and pgx: legal moves, mover, board, end and returns.

Both end a game when a board comes back: OpenSpiel as a draw, pgx as the mover's loss. Such a game is
compared up to there.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from games_record import length, record

import games_jax


def repeats(boards, ply):
    """Whether a stone brought the board `boards[ply]` of one game back."""
    placed = ply > 0 and not np.array_equal(boards[ply], boards[ply - 1])
    return placed and any(np.array_equal(boards[ply], boards[before]) for before in range(ply - 1))


def spiel_board(state, size):
    rows = [line.split()[1] for line in str(state).splitlines() if line[:2].strip().isdigit()]
    assert len(rows) == size
    return ["+XO".index(cell) for row in rows for cell in row]


SIZES = [
    (5, 7.5, 100),
    (9, 7.5, 30),
    pytest.param(5, 7.5, 2000, marks=pytest.mark.slow),
    pytest.param(2, 1, 200, marks=pytest.mark.slow),
    pytest.param(3, 4, 200, marks=pytest.mark.slow),
    pytest.param(7, 9, 900, marks=pytest.mark.slow),
    pytest.param(9, 6.5, 900, marks=pytest.mark.slow),
    pytest.param(13, 7.5, 200, marks=pytest.mark.slow),
    pytest.param(19, 7.5, 200, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("size", "komi", "games"), SIZES)
def test_every_ply_of_random_games_against_open_spiel(size, komi, games):
    pyspiel = pytest.importorskip("pyspiel")
    played, boards = record(f"go(size={size}, komi={komi})", games=games)
    spiel = pyspiel.load_game(f"go(board_size={size},komi={float(komi)})")
    actions = np.arange(size**2).reshape(size, size)[::-1].ravel().tolist() + [
        size**2
    ]  # rows from the bottom
    compared, results = 0, set()
    for index in range(games):
        state = spiel.new_initial_state()
        plies = length(played, index)
        for ply in range(plies + 1):
            where = f"game {index}, ply {ply}, moves {played.actions[:ply, index].tolist()}"
            if state.is_terminal() and repeats(boards[:, index], ply):
                break
            assert state.is_terminal() == bool(played.over[ply, index]) == (ply == plies), where
            if ply % 8 == 0 or ply == plies:  # writing and reading the text takes most of the time
                assert spiel_board(state, size) == boards[ply, index].tolist(), where
            if ply < plies:
                legal = sorted(actions[a] for a in np.flatnonzero(played.legal[ply, index]))
                assert state.legal_actions() == legal, where
                assert state.current_player() == played.player[ply, index], where
                state.apply_action(actions[played.actions[ply, index]])
        else:
            assert state.returns() == played.rewards[plies, index].tolist(), where
            compared += 1
            results.add(played.rewards[plies, index, 0].item())
    assert compared > 0.9 * games or size < 5
    assert results >= ({-1.0, 1.0} if komi % 1 else {-1.0, 0.0, 1.0})


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size", "games"), [("go_9x9", 9, 300), ("go_19x19", 19, 40)])
def test_every_ply_of_random_games_against_pgx(name, size, games):
    pgx = pytest.importorskip("pgx")
    played, boards = record(f"go(size={size}, komi=7.5)", games=games)
    env = pgx.make(name)
    start = jax.vmap(env.init)(jax.random.split(jax.random.key(0), games))
    first = np.asarray(start.current_player)  # pgx shuffles the players

    def ply(states, action):
        states = jax.vmap(env.step)(states, action)
        colours = jnp.sign(states._x.board)
        return states, (
            states.legal_action_mask,
            states.current_player,
            colours,
            states.terminated,
            states.rewards,
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        actions = jnp.asarray(played.actions)
        _, after = jax.jit(lambda s, a: jax.lax.scan(ply, s, a))(start, actions)
    legal, player, colours, over, rewards = (np.asarray(fact) for fact in after)
    cells = np.where(colours < 0, 2, colours)
    rewards = np.where((first == 0)[None, :, None], rewards, rewards[..., ::-1])
    repeated = 0
    for index in range(games):
        plies = length(played, index)
        for ply_number in range(1, plies + 1):
            where = f"game {index}, ply {ply_number}"
            now = ply_number - 1
            if over[now, index] and repeats(boards[:, index], ply_number):
                repeated += 1
                break
            assert np.array_equal(cells[now, index], boards[ply_number, index]), where
            assert over[now, index] == (ply_number == plies), where
            if ply_number < plies:
                assert np.array_equal(legal[now, index], played.legal[ply_number, index]), where
                assert (player[now, index] != first[index]) == played.player[ply_number, index], where
        else:
            assert rewards[plies - 1, index].tolist() == played.rewards[plies, index].tolist(), where
    assert repeated < 0.1 * games


def test_the_default_game_is_the_one_compared():
    assert games_jax.make("go(size=9, komi=7.5)") == games_jax.make("go")
