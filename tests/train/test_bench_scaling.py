import dataclasses

import pytest

from train import bench_scaling
from train.bench_scaling import Row


def row(what, games, devices, rate, peak=None):
    return Row(what, games, 32, 32, devices, rate / 32, rate, rate / 8, 50.0, 10.0, 1e9, peak)


ROWS = [
    row("games", 64, 1, 500.0),
    row("games", 256, 1, 1000.0, 0.125),
    dataclasses.replace(row("simulations", 256, 1, 900.0), simulations=64),
    row("strong", 256, 2, 1600.0),
    row("weak", 512, 2, 1900.0),
]


def test_efficiency_is_against_one_device_with_as_many_games():
    assert bench_scaling.efficiency(ROWS) == {
        ("strong", 2): pytest.approx(0.8),
        ("weak", 2): pytest.approx(0.95),
    }


def test_the_table_and_its_files(tmp_path):
    lines = bench_scaling.table(ROWS).splitlines()
    assert len(lines) == 1 + len(ROWS)
    assert "12.5%" in lines[2] and lines[4].endswith("80%") and lines[5].endswith("95%")
    bench_scaling.write(ROWS, tmp_path)
    assert len((tmp_path / "scaling.csv").read_text().splitlines()) == 1 + len(ROWS)
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")
