"""Reports: self-contained, complete, the same from the same records, and drawn for any run however short."""

from __future__ import annotations

import html.parser
import json
import struct

import numpy as np
import pytest

from train.config import Config, GameConfig, RunConfig
from train.report import _curve, draw, write_report
from train.schema_toml import to_toml


def records_of(iterations):
    records = []
    for number in range(1, iterations + 1):
        common = {"iteration": number, "seconds": 60.0 * number}
        records.append(
            {
                "kind": "iteration",
                **common,
                "iteration_seconds": 50.0,
                "policy_loss": 1 + 1 / number,
                "value_loss": None if number == 3 else 0.5,
                "games": 100,
                "games_per_second": 2.0,
            }
        )
        if number % 5 == 0:
            matches = {
                "uct:100": {
                    "score": 0.75,
                    "low": 0.61,
                    "high": 0.88,
                    "games": 40,
                    "wins": 30,
                    "draws": 0,
                    "losses": 10,
                },
                f"iteration {number - 5} <self>": {"score": 0.5, "low": 0.4, "high": 0.6, "games": 40},
            }
            rating = {"elo": 10.0 * number, "elo_low": 9.0 * number, "elo_high": 12.0 * number}
            records.append({"kind": "evaluation", **common, **rating, "opponents": matches, "solved": 0.934})
    return records


def write_run(directory, records):
    directory.mkdir()
    config = Config(game=GameConfig(name="othello", parameters={"size": 6}), run=RunConfig(seed=12345))
    (directory / "config.toml").write_text(to_toml(config))
    (directory / "versions.json").write_text(json.dumps([{"jax": "0.0.1", "devices": ["cpu", "cpu"]}]))
    (directory / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


class Page(html.parser.HTMLParser):
    """Checks that tags close in order, and gathers text and whatever a browser would fetch."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.fetched, self.tags = [], "", [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)
        self.fetched += [value for name, value in attributes if name in ("src", "href", "xlink:href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)
        self.fetched += [value for name, value in attributes if name in ("src", "href", "xlink:href")]

    def handle_data(self, data):
        self.text += data


def test_report(tmp_path):
    directory = tmp_path / "a <run>"
    write_run(directory, records_of(20))
    path = write_report(directory)
    page = Page(path.read_text(encoding="utf-8"))
    assert page.open == []
    assert all(target.startswith("#") for target in page.fetched)  # nothing outside the file
    assert "svg" in page.tags and "script" not in page.tags
    for part in [
        "a <run>",
        "20 iterations in 20:00; Elo 200 (180 to 240) at iteration 20.",
        "seed = 12345",
        "size = 6",
        "jax 0.0.1, devices cpu, cpu",
        "Last evaluation (iteration 20)",
        "75.0%",
        "61.0% to 88.0%",
        "iteration 15 <self>",
        "solved",
        "0.934",
        "Elo (95 % interval)",
        "running time (minutes)",
        "games per second",
    ]:
        assert part in page.text, part
    assert "# " not in page.text.split("Config")[1].split("Versions")[0]  # the values, not the manual
    png = (directory / "report.png").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    assert width > 1000 and height > 600


def test_the_same_records_draw_the_same_file(tmp_path):
    write_run(tmp_path / "run", records_of(6))
    first = write_report(tmp_path / "run").read_bytes()
    assert write_report(tmp_path / "run").read_bytes() == first


@pytest.mark.parametrize("iterations", [0, 1, 5])
def test_short_runs(tmp_path, iterations):
    write_run(tmp_path / "run", records_of(iterations))
    page = Page(write_report(tmp_path / "run").read_text(encoding="utf-8"))
    assert ("No iterations yet." in page.text) == (iterations == 0)
    assert ("no evaluation yet" in page.text) == (iterations < 5)


def test_a_directory_with_nothing_in_it(tmp_path):
    assert "No iterations yet." in write_report(tmp_path).read_text(encoding="utf-8")


def test_lines_and_bands_hold_the_numbers():
    (losses, rating), (speed, scores) = np.array(draw(records_of(20)).axes).reshape(2, 2)
    policy, value = losses.get_lines()
    np.testing.assert_allclose(policy.get_ydata(), 1 + 1 / np.arange(1, 21))
    np.testing.assert_array_equal(
        value.get_xdata(), [1, 2, *range(4, 21)]
    )  # no point where there is no number
    np.testing.assert_allclose(rating.get_lines()[0].get_xydata(), [[5, 50], [10, 100], [15, 150], [20, 200]])
    band = rating.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == 45 and band[:, 1].max() == 240
    np.testing.assert_allclose(speed.get_lines()[0].get_ydata(), 100 / 50)
    assert [line.get_label() for line in scores.get_lines()] == ["uct:100"]  # selves met once draw no curve


def test_long_curves_are_averaged():
    records = [{"iteration": number, "loss": number % 2} for number in range(10_000)]
    x, y = _curve(records, lambda record: record["iteration"], "loss", points=100)
    assert len(x) == 100
    np.testing.assert_allclose(y, 0.5)
    np.testing.assert_allclose(x, 49.5 + 100 * np.arange(100))
