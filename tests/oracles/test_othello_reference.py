"""Othello on the sizes that no installed program plays, against the plain-Python reference."""

import numpy as np
import pytest
from games_record import length, record
from othello_reference import Othello


@pytest.mark.parametrize(
    ("size", "games"), [(6, 500), (4, 500), pytest.param(6, 2000, marks=pytest.mark.slow)]
)
def test_every_ply_of_random_games(size, games):
    played, boards = record(f"othello(size={size})", games=games)
    passes, double_passes = 0, 0
    for index in range(games):
        reference = Othello(size)
        plies = length(played, index)
        for ply in range(plies + 1):
            where = f"game {index}, ply {ply}, moves {played.actions[:ply, index].tolist()}"
            legal = reference.legal()
            assert legal == np.flatnonzero(played.legal[ply, index]).tolist(), where
            assert reference.board() == "".join(".XO"[cell] for cell in boards[ply, index]), where
            assert bool(played.over[ply, index]) == (not legal), where
            if legal:
                assert "XO".index(reference.mover) == played.player[ply, index], where
                action = int(played.actions[ply, index])
                passes += action == size**2
                reference.play(action)
        assert reference.returns() == played.rewards[plies, index].tolist(), where
        double_passes += "." in reference.board()
    assert passes > 50 and double_passes > games // 50
