import importlib.util

import jax
import pytest

import games_jax
from train import bench_search, bench_uct
from train.cli import main


def test_one_position_is_timed_search_by_search():
    game = games_jax.make("tic_tac_toe")
    searches = {"one": lambda key, states, params: jax.vmap(game.legal_actions)(states)}
    (row,) = bench_search.time_single(searches, game, None, simulations=8, repeats=2)
    assert len(row.side.rates) == 2 and min(row.side.rates) > 0
    seconds = float(str(row).split()[2])
    assert seconds == pytest.approx(8 / row.side.median, abs=1e-3)


def test_the_cases_cover_9_82_and_4672_actions():
    games = {name: games_jax.make(name) for name in bench_search.ACTION_SIZES}
    assert [game.num_actions for game in games.values()] == [9, 82, 4672]
    for name, sizes in bench_search.ACTION_SIZES.items():
        assert [trees for trees, _ in sizes] == [1, 64, 1024]
        # mctx holds six numbers an action; more than 4 GB would not fit many machines.
        actions = games[name].num_actions
        assert all(24 * actions * trees * (n + 1) < 4e9 for trees, n in sizes)


def test_rows_belong_to_the_search_bench(capsys):
    assert main(["bench", "games", "--rows", "leaves"]) == 2
    assert "--rows is for `bench search`" in capsys.readouterr().err


@pytest.mark.skipif(jax.default_backend() == "tpu", reason="there is one")
def test_a_device_that_is_not_there(capsys):
    assert main(["bench", "search", "--device", "tpu"]) == 2
    assert "finds no tpu here, only" in capsys.readouterr().err


def test_every_choice_of_rows_has_a_table():
    from train.cli import bench

    assert tuple(bench_search.ROWS) == bench.SEARCH_ROWS


@pytest.mark.parametrize("search", ["uct", "rave"])
def test_playouts_are_timed_beside_openspiel(search):
    row = bench_uct.time_game("hex(size=9)", search, trees=2, simulations=4, repeats=2)
    assert len(row.ours.rates) == 2 and min(row.ours.rates) > 0
    if importlib.util.find_spec("pyspiel") is None or search == "rave":
        assert row.peer is None
        return
    assert row.peer is not None
    rate, ratio = (float(str(row).split()[k]) for k in (4, 8))
    assert rate == pytest.approx(row.ours.median / 1e3, rel=0.01, abs=0.5)
    assert ratio == pytest.approx(row.ours.median / row.peer.median, abs=0.06)
