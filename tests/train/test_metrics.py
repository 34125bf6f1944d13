"""Metrics files: nothing lost to a torn line, nothing twice after a resumption; the screen's texts."""

from __future__ import annotations

import io
import json
import re
import struct

import jax.numpy as jnp
import numpy as np
import pytest

from train.metrics import JsonlSink, TensorBoardSink, plain, read_jsonl, tensorboard_sink, truncate_jsonl
from train.progress import Progress, clock, compact, make_display, rating_text


def iteration(number, **metrics):
    return {
        "kind": "iteration",
        "iteration": number,
        "seconds": 2.0 * number,
        "iteration_seconds": 2.0,
        **metrics,
    }


EVALUATION = {
    "kind": "evaluation",
    "iteration": 2,
    "seconds": 4.0,
    "elo": 812.4,
    "elo_low": 760.0,
    "elo_high": 870.0,
    "opponents": {"uct:100": {"score": 0.75, "low": 0.6, "high": 0.9, "games": 20}},
}


def test_plain():
    value = {"a": np.float32(0.5), "b": jnp.int32(3), "c": [np.nan, float("inf"), True, None, "x"], 4: (1,)}
    assert plain(value) == {"a": 0.5, "b": 3, "c": [None, None, True, None, "x"], "4": [1]}
    assert plain(jnp.bfloat16(1.5)) == 1.5
    assert plain(np.arange(4).reshape(2, 2)) == [[0, 1], [2, 3]]
    json.dumps(plain(value), allow_nan=False)
    with pytest.raises(TypeError, match="must be a number, a text or a container of these, got object"):
        plain({"a": object()})


def test_lines_are_there_as_soon_as_they_are_written(tmp_path):
    path = tmp_path / "metrics.jsonl"
    sink = JsonlSink(path)
    for number in range(1, 4):
        sink.write(iteration(number))
        assert [record["iteration"] for record in read_jsonl(path)] == list(range(1, number + 1))
    sink.close()
    sink = JsonlSink(path)  # opening again appends
    sink.write(EVALUATION)
    sink.close()
    assert read_jsonl(path)[-1] == EVALUATION


@pytest.mark.parametrize(
    "torn", ["", '{"kind": "iterat', '{"kind": "iteration", "iteration": 4}', "\x00\xff", "7"]
)
def test_resuming_drops_what_comes_again(tmp_path, torn):
    path = tmp_path / "metrics.jsonl"
    records = [iteration(1), iteration(2), EVALUATION, iteration(3)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records) + torn, encoding="latin-1")
    assert truncate_jsonl(path, 2) == records[:3]
    sink = JsonlSink(path)
    sink.write(iteration(3))
    sink.close()
    assert read_jsonl(path) == [*records[:3], iteration(3)]
    assert [entry.name for entry in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_a_damaged_line_inside_the_file_is_an_error(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"kind": "iteration", "iteration": 1}\nrubbish\n{}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 2: expected a JSON object"):
        read_jsonl(path)
    assert read_jsonl(tmp_path / "none.jsonl") == []


def events(path):
    """The events of a TensorBoard file: records of length, checksum, data, checksum."""
    from tensorboardX.proto import event_pb2

    content = path.read_bytes()
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        yield event_pb2.Event.FromString(content[12 : 12 + length])  # type: ignore[attr-defined]
        content = content[16 + length :]


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboardX")
    sink = TensorBoardSink(tmp_path, purge_after=1)
    sink.write(iteration(2, value_loss=0.5, missing=None))
    sink.write(EVALUATION)
    sink.close()
    assert tensorboard_sink(tmp_path / "other") is not None
    (file,) = tmp_path.glob("events*")
    scalars = {
        (value.tag, event.step): value.simple_value for event in events(file) for value in event.summary.value
    }
    assert scalars[("iteration/value_loss", 2)] == 0.5
    assert scalars[("evaluation/elo", 2)] == pytest.approx(812.4)
    assert scalars[("evaluation/score_uct_100", 2)] == 0.75
    assert not any("missing" in tag for tag, _ in scalars)
    starts = [event for event in events(file) if event.session_log.status == 1]
    assert [event.step for event in starts] == [2]  # what an earlier file says of step 2 and later is void


def test_progress():
    progress = Progress(iterations=100, minutes=None)
    assert progress.seconds_left() is None and progress.rates() == {}
    progress.update({**iteration(1), "iteration_seconds": 30.0, "seconds": 30.0})
    assert progress.seconds_left() == 99 * 30
    for number in range(2, 11):  # 2 seconds each, and an evaluation of 9 seconds
        record = {**iteration(number, games=10, games_per_second=5.0), "seconds": 28.0 + 2 * number + 9}
        progress.update(record)
    assert progress.seconds_left() == pytest.approx(90 * (27 / 9))
    assert progress.rates() == {"games": pytest.approx(90 / (30 + 18))}
    assert progress.fraction == pytest.approx(0.10)
    limited = Progress(iterations=10**6, minutes=1.0)
    limited.update(iteration(15))
    assert limited.seconds_left() == 30.0 and limited.fraction == 0.5


@pytest.mark.parametrize(
    ("function", "value", "text"),
    [
        (compact, 0, "0.00"),
        (compact, 9.876, "9.88"),
        (compact, 412.3, "412"),
        (compact, 38_512, "38.5k"),
        (compact, 1_204_000, "1.20M"),
        (clock, 5, "0:05"),
        (clock, 3725, "1:02:05"),
        (rating_text, EVALUATION, "Elo 812 (760 to 870)"),
        (rating_text, {"elo": 3.2}, "Elo 3"),
        (rating_text, {}, ""),
    ],
)
def test_texts(function, value, text):
    assert function(value) == text


def test_plain_display():
    stream = io.StringIO()
    display = make_display(name="toy", iterations=200, minutes=None, device="cpu", stream=stream)
    for number in range(1, 7):
        metrics = {"value_loss": 0.25, "games": 10, "games_per_second": 5.0}
        display.write({**iteration(number, **metrics), "seconds": float(number)})
        if number == 2:
            display.write(EVALUATION)
    display.message("said")
    display.close()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "toy on cpu"
    assert "  evaluation at iteration 2: Elo 812 (760 to 870)  uct:100 75%" in lines
    steps = [line for line in lines if line.startswith("iteration")]
    assert [line.split()[1] for line in steps] == ["1/200", "2/200", "4/200", "6/200"]
    assert "value loss 0.25" in steps[-1] and "5.00 games/s" in steps[-1] and "Elo 812" in steps[-1]
    assert lines[-1] == "said"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_live_display(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    display = make_display(name="toy [run]", iterations=200, minutes=None, device="2 x chip", stream=stream)
    display.write(
        iteration(3, policy_loss=1.5, value_loss=None, simulations=64_000, simulations_per_second=32e3)
    )
    display.write(EVALUATION)
    display.message("[said]")
    display.close()
    written = stream.getvalue()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written)
    last = shown[shown.rindex("toy [run]") :]
    for part in [
        "3 of 200",
        "32.0k",
        "policy loss 1.5",
        "value loss nan",
        "Elo 812 (760 to 870)",
        "2 x chip",
    ]:
        assert part in last, part
    assert "[said]" in shown
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")  # the cursor is back
