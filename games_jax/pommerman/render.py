"""A position as text and as an SVG picture, and a whole game as one animated picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from games_jax import svg
from games_jax.pommerman.state import AGENT, BOMB, EXTRA_BOMB, FLAMES, KICK, RIGID, WOOD, Snapshot

_TEXT = {
    0: ".",
    RIGID: "#",
    WOOD: "w",
    BOMB: "o",
    FLAMES: "*",
    EXTRA_BOMB: "e",
    EXTRA_BOMB + 1: "r",
    KICK: "k",
}
_AGENTS = "ABCD"
_COLOURS = ("#2563eb", "#dc2626", "#16a34a", "#d97706")
_FLOOR, _RIGID, _WOOD, _GRAIN = "#e7e5e4", "#57534e", "#c08a52", "#a06f3c"
_BOMB, _FUSE = "#1f2937", "#f59e0b"
_FLAMES = ("#fde68a", "#fbbf24", "#f97316")  # by steps left
_ITEM, _ITEM_LABELS = "#ede9fe", "ERK"
_ITEM_INK = "#6d28d9"


def text(shot: Snapshot, status: str) -> str:
    """The board, agents A to D in capitals (bombs under them do not show), and a status line."""
    rows = [" ".join(_letter(int(code)) for code in row) for row in shot.board]
    return "\n".join([*rows, status])


def _letter(code: int) -> str:
    return _AGENTS[code - AGENT] if code >= AGENT else _TEXT[code]


def svg_picture(shot: Snapshot, status: str) -> str:
    """The board with bombs (the number is the steps to go), flames, items and agents."""
    height, width = shot.board.shape
    return svg.picture(height, width, [*_ground(height, width), *_shapes(shot)], status)


def animation(shots: Sequence[Snapshot], statuses: Sequence[str], *, seconds_a_step: float = 0.25) -> str:
    """One SVG document that plays the positions in a loop.

    Raises:
        ValueError: no positions.
    """
    if not shots:
        raise ValueError("shots is empty; expected the positions of a game.")
    height, width = shots[0].board.shape
    count, total = len(shots), len(shots) * seconds_a_step
    frames = []
    for i, (shot, status) in enumerate(zip(shots, statuses, strict=True)):
        x, y = svg.MARGIN + width * svg.CELL / 2, svg.MARGIN + height * svg.CELL + 19
        values, times = ["hidden", "visible", "hidden"], [0, i / count, (i + 1) / count]
        if i == 0:
            values, times = values[1:], times[1:]
            times[0] = 0
        if i == count - 1:
            values, times = values[:-1], times[:-1]
        timing = (
            f"<animate attributeName='visibility' calcMode='discrete' dur='{total:g}s' "
            f"repeatCount='indefinite' values='{';'.join(values)}' "
            f"keyTimes='{';'.join(f'{time:.6g}' for time in times)}'/>"
        )
        drawn = "".join([*_shapes(shot), svg.label(x, y, status, size=14, fill="#374151")])
        frames.append(f"<g visibility='{'visible' if i == 0 else 'hidden'}'>{timing}{drawn}</g>")
    return svg.picture(height, width, [*_ground(height, width), *frames], "")


def _ground(height: int, width: int) -> list[str]:
    side = svg.CELL
    floor = svg.rectangle(svg.MARGIN, svg.MARGIN, width * side, height * side, _FLOOR, radius=4)
    lines = [
        svg.line(
            svg.MARGIN, svg.MARGIN + i * side, svg.MARGIN + width * side, svg.MARGIN + i * side, svg.LINE
        )
        for i in range(1, height)
    ]
    lines += [
        svg.line(
            svg.MARGIN + i * side, svg.MARGIN, svg.MARGIN + i * side, svg.MARGIN + height * side, svg.LINE
        )
        for i in range(1, width)
    ]
    return [floor, *lines]


def _shapes(shot: Snapshot) -> list[str]:
    shapes = []
    flames = {}
    for row, column, life in shot.flames:
        flames[row, column] = max(life, flames.get((row, column), 0))
    for row, column in np.ndindex(*shot.board.shape):
        code = int(shot.board[row, column])
        if code == RIGID:
            shapes.append(_block(row, column, _RIGID))
        elif code == WOOD:
            shapes += _wood(row, column)
        elif EXTRA_BOMB <= code <= KICK:
            shapes += _item(row, column, code - EXTRA_BOMB)
    for (row, column), life in flames.items():
        shapes.append(_block(row, column, _FLAMES[life], inset=2))
    under = {tuple(agent[:2]) for agent in shot.agents if agent[2]}
    for bomb in shot.bombs:
        shapes += _bomb(bomb, (bomb[0], bomb[1]) in under)
    for number, agent in enumerate(shot.agents):
        if agent[2]:
            shapes += _agent(int(agent[0]), int(agent[1]), number)
    return shapes


def _block(row: int, column: int, fill: str, *, inset: float = 1) -> str:
    x, y = svg.MARGIN + column * svg.CELL + inset, svg.MARGIN + row * svg.CELL + inset
    return svg.rectangle(x, y, svg.CELL - 2 * inset, svg.CELL - 2 * inset, fill, radius=4)


def _wood(row: int, column: int) -> list[str]:
    x, y = svg.centre(row, column)
    half = svg.CELL / 2 - 6
    grain = [svg.line(x - half, y + shift, x + half, y + shift, _GRAIN, width=2) for shift in (-8, 0, 8)]
    return [_block(row, column, _WOOD), *grain]


def _item(row: int, column: int, kind: int) -> list[str]:
    x, y = svg.centre(row, column)
    return [
        _block(row, column, _ITEM, inset=5),
        svg.label(x, y, _ITEM_LABELS[kind], size=16, fill=_ITEM_INK),
    ]


def _bomb(bomb: Sequence[int], under_agent: bool) -> list[str]:
    row, column, life, _, _, direction = (int(number) for number in bomb)
    x, y = svg.centre(row, column)
    if under_agent:
        return [svg.circle(x, y, svg.CELL * 0.47, _BOMB)]
    shapes = [svg.circle(x, y, svg.CELL * 0.36, _BOMB), svg.label(x, y, str(life), size=15, fill=_FUSE)]
    if direction:
        dx, dy = ((0, -1), (0, 1), (-1, 0), (1, 0))[direction - 1]
        reach = svg.CELL * 0.36, svg.CELL * 0.5
        ends = [(x + dx * far, y + dy * far) for far in reach]
        shapes.append(svg.line(*ends[0], *ends[1], _FUSE, width=4, cap="round"))
    return shapes


def _agent(row: int, column: int, number: int) -> list[str]:
    x, y = svg.centre(row, column)
    return [
        svg.circle(x, y, svg.CELL * 0.33, _COLOURS[number], stroke="#ffffff", width=2),
        svg.label(x, y, _AGENTS[number], size=15, fill="#ffffff"),
    ]
