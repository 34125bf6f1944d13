"""Hex ply by ply against OpenSpiel's on several sizes and against pgx's with the swap."""

import jax.numpy as jnp
import numpy as np
import pytest
from games_record import length, record

GAMES = [
    ("hex(size=3, swap=True)", 500),
    ("hex(size=4)", 500),
    ("hex(size=11)", 200),
    *(
        pytest.param(name, 2000, marks=pytest.mark.slow)
        for name in ("hex(size=3, swap=True)", "hex(size=4)", "hex(size=7, swap=True)", "hex(size=11)")
    ),
]


@pytest.mark.parametrize(("name", "games"), GAMES)
def test_every_ply_against_open_spiel(name, games):
    pyspiel = pytest.importorskip("pyspiel")
    played, boards = record(name, games=games)
    size = round(boards.shape[-1] ** 0.5)
    spiel = pyspiel.load_game(f"hex(board_size={size},swap={'swap' in name})")
    for index in range(played.actions.shape[1]):
        state, plies = spiel.new_initial_state(), length(played, index)
        legal, movers, actions = [], [], played.actions[:plies, index].tolist()
        for action in actions:
            legal.append(state.legal_actions_mask())
            movers.append(state.current_player())
            state.apply_action(action)
        where = f"game {index}, moves {actions}"
        assert state.is_terminal() and played.over[:, index].tolist()[:plies] == [False] * plies, where
        assert np.array_equal(played.legal[:plies, index], np.array(legal, bool)), where
        assert played.player[:plies, index].tolist() == movers, where
        assert played.rewards[plies, index].tolist() == state.returns(), where
        assert not played.rewards[:plies, index].any(), where
        # A cell that is not empty changes hands at a swap only, so that the last board stands for all.
        letters = [".xo".index(cell.lower()) for cell in str(state) if cell.lower() in ".xo"]
        assert letters == boards[plies, index].tolist(), where
    assert set(played.rewards[-1, :, 0].tolist()) == {-1.0, 1.0}
    if "swap" in name:
        assert (played.actions[1] == size**2).sum() > 10


@pytest.mark.slow  # compiling pgx's game
def test_every_ply_against_pgx():
    pytest.importorskip("pgx")
    from test_pgx import pgx_games

    played, boards = record("hex(swap=True)", games=2000)
    legal, player, cells, over, rewards = pgx_games("hex", jnp.asarray(played.actions))
    running = ~played.over
    assert np.array_equal(legal, played.legal)
    assert np.array_equal(player[running], played.player[running])
    assert np.array_equal(cells, boards)
    assert np.array_equal(over, played.over)
    assert np.array_equal(rewards[-1], played.rewards[-1])
