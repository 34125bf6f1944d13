import numpy as np
import pytest

from train import bench_games_more
from train.bench_games import bench_games, choose, rankings, table


@pytest.mark.parametrize("num_actions", [2, 7, 16, 65, 122, 300])
def test_the_highest_ranked_legal_action_is_chosen(num_actions):
    rng = np.random.default_rng(0)
    legal = rng.random((64, num_actions)) < 0.4
    legal[np.arange(64), rng.integers(num_actions, size=64)] = True
    (ranking,) = rankings(num_actions, steps=1, batch=64, seed=1)
    expected = [max(np.flatnonzero(row), key=lambda a, r=ranks: r[a]) for row, ranks in zip(legal, ranking)]
    assert np.asarray(choose(legal, ranking)).tolist() == expected


def test_the_choice_is_uniform_among_legal_actions():
    legal = np.zeros((8192, 65), bool)
    legal[:, [0, 9, 40, 64]] = True
    (ranking,) = rankings(65, steps=1, batch=8192, seed=2)
    chosen, counts = np.unique(choose(legal, ranking), return_counts=True)
    assert chosen.tolist() == [0, 9, 40, 64]
    # Four standard deviations of a binomial count with p = 1/4.
    assert np.abs(counts - 2048).max() < 4 * np.sqrt(8192 * 3 / 16)


def test_both_sides_play_the_same_games():
    pytest.importorskip("pgx")
    (row,) = bench_games(["connect_four"], batch=32, steps=64, repeats=2)
    assert row.pgx is not None
    assert row.ours.finished == row.pgx.finished > 32
    assert (row.ours.state_bytes, row.pgx.state_bytes) == (16, 285)
    assert len(row.ours.speed.rates) == 2
    assert "connect_four" in table([row])


def test_a_game_that_pgx_lacks_stands_alone():
    (row,) = bench_games(["othello(size=4)"], batch=8, steps=4, repeats=1)
    assert row.pgx is None
    assert row.game in table([row])


def test_playouts_perft_and_moves_stand_beside_their_peers():
    pytest.importorskip("pyspiel")
    pytest.importorskip("chess")
    lines = [
        bench_games_more.playout_line("hex(size=9)", batch=4, repeats=1),
        bench_games_more.perft_line(depth=2, repeats=1),
        bench_games_more.cube_line("cube2", batch=4, moves=3, repeats=1),
    ]
    assert [line.peer is None for line in lines] == [False, False, True]
    assert all(len(line.ours.rates) == 1 for line in lines)
    text = bench_games_more.table(lines)
    assert all(line.what in text and line.peer_name in text for line in lines)
