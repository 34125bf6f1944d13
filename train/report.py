"""The report of a run: one self-contained HTML file, and its plots as a PNG.

Made from what lies in the run directory, so it can be drawn again at any time, of a running run too.
"""

from __future__ import annotations

import html
import io
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from train.metrics import read_jsonl, scores_of
from train.progress import clock, compact, number, rating_text
from train.run_directory import CONFIG, METRICS, VERSIONS, write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["HTML", "PNG", "draw", "write_report"]

HTML, PNG = "report.html", "report.png"

Records = Sequence[Mapping[str, Any]]

_POINTS = 400  # of a curve; more are averaged
_SPEED_POINTS = 100
# Okabe and Ito's colours, told apart by the colour-blind.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "axes.titleweight": "bold",
    "font.family": "sans-serif",
    "font.size": 9,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "svg.fonttype": "none",  # text stays text: smaller, and it can be searched
    "svg.hashsalt": "jaxsearch",  # the same records draw the same file
}
# Fixed margins: letting matplotlib find them draws everything once more.
_MARGINS = {"left": 0.075, "right": 0.985, "bottom": 0.07, "top": 0.955, "hspace": 0.3, "wspace": 0.2}
_CSS = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222;
  max-width: 66rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem; margin-bottom: 0 } h2 { font-size: 1.1rem; margin-top: 2rem }
p.lead { color: #555; margin-top: .2rem } svg { width: 100%; height: auto }
table { border-collapse: collapse } th, td { padding: .2rem 1.2rem .2rem 0; border-bottom: 1px solid #ddd }
th { text-align: left; font-weight: 600 } 
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
pre { background: #f6f6f6; padding: .8rem 1rem; overflow-x: auto; font-size: 13px }
"""


def write_report(directory: str | Path) -> Path:
    """Writes `report.html` and `report.png` into a run directory and returns the path of the first.

    Raises:
        OSError: if a file cannot be read or written.
        ValueError: if the metrics are damaged.
    """
    directory = Path(directory)
    records = read_jsonl(directory / METRICS)
    figure = draw(records)
    write_bytes(directory / PNG, _saved(figure, "png", dpi=130))
    svg = _saved(figure, "svg").decode()
    svg = svg[svg.index("<svg") :]  # without the XML prologue, which has no place inside HTML
    config = (directory / CONFIG).read_text(encoding="utf-8") if (directory / CONFIG).exists() else ""
    starts = json.loads((directory / VERSIONS).read_text()) if (directory / VERSIONS).exists() else []
    page = _page(directory.name, svg, records, config, starts)
    write_bytes(directory / HTML, page.encode())
    return directory / HTML


def draw(records: Records) -> Figure:
    """The four plots of a run: losses, rating, scores, speed.

    Args:
        records: what `metrics.jsonl` holds.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    iterations = [record for record in records if record.get("kind") == "iteration"]
    evaluations = [record for record in records if record.get("kind") == "evaluation"]
    time = _time_axis(records)
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(10.5, 6.8))
        FigureCanvasAgg(figure)  # off any screen
        (losses, rating), (speed, scores) = figure.subplots(2, 2, gridspec_kw=_MARGINS)
        _draw_losses(losses, iterations)
        _draw_rating(rating, evaluations, time)
        _draw_speed(speed, iterations, time)
        _draw_scores(scores, evaluations, time)
    return figure


# Plots

TimeAxis = tuple[str, float]


def _time_axis(records: Records) -> TimeAxis:
    """Label of the time axes and its unit in seconds."""
    longest = max((record.get("seconds", 0.0) for record in records), default=0.0)
    for unit, seconds in (("hours", 3600.0), ("minutes", 60.0)):
        if longest >= 3 * seconds:
            return f"running time ({unit})", seconds
    return "running time (seconds)", 1.0


def _draw_losses(axes: Axes, records: Records) -> None:
    axes.set(title="Losses", xlabel="iteration", ylabel="loss")
    names = [name for name in (records[-1] if records else {}) if name.endswith("loss")]
    for name, colour in zip(names, _COLOURS):
        x, y = _curve(records, lambda record: record["iteration"], name)
        axes.plot(x, y, color=colour, label=name.replace("_", " "))
    _legend_or_note(axes, bool(names), "no iterations yet")


def _draw_rating(axes: Axes, records: Records, time: TimeAxis) -> None:
    axes.set(title="Rating", xlabel=time[0], ylabel="Elo (95 % interval)")
    rated = [record for record in records if record.get("elo") is not None]
    _plot_with_band(axes, rated, time, ("elo", "elo_low", "elo_high"), _COLOURS[0], None)
    _legend_or_note(axes, bool(rated), "no rating yet")


def _draw_scores(axes: Axes, records: Records, time: TimeAxis) -> None:
    alone = any(record.get("alone") for record in records)
    axes.set(
        title="Games won alone" if alone else "Score against",
        xlabel=time[0],
        ylabel="share of games (95 % interval)" if alone else "points per game (95 % interval)",
        ylim=(-0.03, 1.03),
    )
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    # Earlier selves come and go; an opponent that is met once makes no curve.
    met: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        for name, match in scores_of(record).items():
            if match.get("score") is not None:
                met.setdefault(name, []).append({"seconds": record["seconds"], **match})
    lasting = {name: matches for name, matches in met.items() if len(matches) > 1 or len(records) == 1}
    for (name, matches), colour in zip(lasting.items(), _COLOURS):
        _plot_with_band(axes, matches, time, ("score", "low", "high"), colour, name)
    _legend_or_note(axes, bool(lasting), "no evaluation yet")


def _draw_speed(axes: Axes, records: Records, time: TimeAxis) -> None:
    axes.set(title="Self-play speed", xlabel=time[0], ylabel="games per second")

    def at(record: Mapping[str, Any]) -> float:
        return record["seconds"] / time[1]

    counted = [record for record in records if record.get("games") is not None]
    x, games = _curve(counted, at, "games", points=_SPEED_POINTS)
    _, seconds = _curve(counted, at, "iteration_seconds", points=_SPEED_POINTS)
    if len(x):
        axes.plot(x, games / seconds, color=_COLOURS[2])
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axes.set_ylim(bottom=0)
    _legend_or_note(axes, bool(len(x)), "no games counted")


def _curve(
    records: Records, at: Callable[[Any], float], name: str, points: int = _POINTS
) -> tuple[np.ndarray, np.ndarray]:
    """x and y `[<= points]` of a metric, averaged over neighbours where there are more records."""
    values = np.array(
        [(at(record), record[name]) for record in records if record.get(name) is not None], float
    )
    parts = np.array_split(values.reshape(-1, 2), min(points, max(1, len(values))))
    means = np.array([part.mean(axis=0) for part in parts if len(part)]).reshape(-1, 2)
    return means[:, 0], means[:, 1]


def _plot_with_band(
    axes: Axes, records: Records, time: TimeAxis, names: tuple[str, str, str], colour: str, label: str | None
) -> None:
    value, low, high = names
    x = [record["seconds"] / time[1] for record in records]
    axes.plot(x, [record[value] for record in records], "o-", markersize=3, color=colour, label=label)
    banded = [
        (at, record[low], record[high])
        for at, record in zip(x, records)
        if record.get(low) is not None and record.get(high) is not None
    ]
    if len(banded) == 1:
        at, bottom, top = banded[0]
        axes.vlines(at, bottom, top, color=colour, alpha=0.5)
    elif banded:
        at, bottom, top = (list(column) for column in zip(*banded))
        axes.fill_between(at, bottom, top, color=colour, alpha=0.15, linewidth=0)


def _legend_or_note(axes: Axes, any_data: bool, note: str) -> None:
    if not any_data:
        axes.text(0.5, 0.5, note, transform=axes.transAxes, ha="center", va="center", color="#888")
    elif axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize="small")


def _saved(figure: Figure, kind: str, **options: Any) -> bytes:
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(buffer, format=kind, metadata=metadata, **options)
    return buffer.getvalue()


# The page


def _page(name: str, svg: str, records: Records, config: str, starts: Sequence[Mapping[str, Any]]) -> str:
    iterations = [record for record in records if record.get("kind") == "iteration"]
    evaluations = [record for record in records if record.get("kind") == "evaluation"]
    bare = "\n".join(line for line in config.splitlines() if line and not line.startswith("#"))
    bare = bare.replace("\n[", "\n\n[")
    versions = "\n".join(
        ", ".join(f"{key} {_flat(value)}" for key, value in start.items()) for start in starts
    )
    parts = [
        f"<h1>{html.escape(name)}</h1>",
        f'<p class="lead">{html.escape(_lead(iterations, evaluations))}</p>',
        f'<div role="img" aria-label="Losses, rating, speed and scores of the run">{svg}</div>',
        "<h2>Last iteration</h2>",
        _iteration_table(iterations),
        *_evaluation_parts(evaluations),
        "<h2>Config</h2>",
        f"<pre>{html.escape(bare)}</pre>",
        "<h2>Versions</h2>",
        f"<pre>{html.escape(versions)}</pre>",
    ]
    head = f'<meta charset="utf-8"><title>{html.escape(name)}</title><style>{_CSS}</style>'
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{body}\n</body>\n</html>\n'


def _lead(iterations: Records, evaluations: Records) -> str:
    if not iterations:
        return "No iterations yet."
    last = iterations[-1]
    parts = [f"{last['iteration']:,} iterations in {clock(last['seconds'])}"]
    rated = [record for record in evaluations if record.get("elo") is not None]
    if rated:
        parts.append(f"{rating_text(rated[-1])} at iteration {rated[-1]['iteration']:,}")
    return "; ".join(parts) + "."


def _iteration_table(iterations: Records) -> str:
    if not iterations:
        return "<p>None yet.</p>"
    last = iterations[-1]
    rows = [[name.replace("_", " "), number(last[name])] for name in last if name.endswith("loss")]
    for name in (name for name in last if name.endswith("_per_second")):
        speeds = [record[name] for record in iterations if record.get(name) is not None]
        if speeds:
            rows.append(
                [f"{name.removesuffix('_per_second')} per second, median", compact(statistics.median(speeds))]
            )
    return _table(["metric", "value"], rows)


def _evaluation_parts(evaluations: Records) -> list[str]:
    if not evaluations:
        return []
    last = evaluations[-1]
    parts = [f"<h2>Last evaluation (iteration {last['iteration']:,})</h2>"]
    rows = []
    for name, match in scores_of(last).items():
        interval = f"{match['low']:.1%} to {match['high']:.1%}" if match.get("low") is not None else "-"
        counts = [_flat(match.get(key, "-")) for key in ("games", "wins", "draws", "losses")]
        score = f"{match['score']:.1%}" if match.get("score") is not None else "-"
        rows.append([name, *counts, score, interval])
    if rows:
        columns = [
            "player" if last.get("alone") else "opponent",
            "games",
            "won",
            "drawn",
            "lost",
            "score",
            "95 % interval",
        ]
        parts.append(_table(columns, rows))
    known = {"iteration", "seconds", "evaluation_seconds"}
    others = [
        [key.replace("_", " "), number(value)]
        for key, value in last.items()
        if key not in known and isinstance(value, int | float)
    ]
    return [*parts, _table(["measure", "value"], others)] if others else parts


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(tag: str, cells: Sequence[str]) -> str:
        kinds = ["", *([' class="number"'] * (len(cells) - 1))]
        return "".join(f"<{tag}{kind}>{html.escape(cell)}</{tag}>" for kind, cell in zip(kinds, cells))

    body = "\n".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f"<table>\n<tr>{line('th', columns)}</tr>\n{body}\n</table>"


def _flat(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
