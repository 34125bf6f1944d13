"""Shared drawing: small SVG pictures of boards, light, clean and scalable.

Units are user units; one cell is `CELL` of them. A picture has a `viewBox` and no fixed size beyond a default
width, so that it scales with its surroundings. The first player's stones are dark, the second player's light,
unless a game has colours of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

CELL = 40
MARGIN = 26
_FONT = "font-family='Helvetica, Arial, sans-serif'"
LABEL = "#6b7280"
BACKGROUND = "#fafaf9"
LINE = "#d6d3d1"


def rectangle(x: float, y: float, width: float, height: float, fill: str, *, radius: float = 0) -> str:
    """A filled rectangle."""
    corner = f" rx='{radius:g}'" if radius else ""
    return f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}'{corner} fill='{fill}'/>"


def circle(
    x: float, y: float, radius: float, fill: str, *, stroke: str | None = None, width: float = 1.5
) -> str:
    """A circle, with an outline if asked for."""
    outline = f" stroke='{stroke}' stroke-width='{width:g}'" if stroke else ""
    return f"<circle cx='{x:g}' cy='{y:g}' r='{radius:g}' fill='{fill}'{outline}/>"


def line(
    x1: float, y1: float, x2: float, y2: float, stroke: str, *, width: float = 1, cap: str = "butt"
) -> str:
    """A straight line."""
    return (
        f"<line x1='{x1:g}' y1='{y1:g}' x2='{x2:g}' y2='{y2:g}' "
        f"stroke='{stroke}' stroke-width='{width:g}' stroke-linecap='{cap}'/>"
    )


def label(x: float, y: float, text: str, *, size: float = 13, fill: str = LABEL) -> str:
    """Text centred on a point."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    return (
        f"<text x='{x:g}' y='{y:g}' {_FONT} font-size='{size:g}' fill='{fill}' "
        f"text-anchor='middle' dominant-baseline='central'>{escaped}</text>"
    )


def centre(row: int, column: int) -> tuple[float, float]:
    """The middle of a cell, row 0 at the top."""
    return MARGIN + (column + 0.5) * CELL, MARGIN + (row + 0.5) * CELL


def coordinates(columns: Sequence[str], rows: Sequence[str]) -> list[str]:
    """Labels above the columns and to the left of the rows."""
    top = [label(centre(0, c)[0], MARGIN / 2, text) for c, text in enumerate(columns)]
    left = [label(MARGIN / 2, centre(r, 0)[1], text) for r, text in enumerate(rows)]
    return top + left


def picture(height: int, width: int, shapes: Sequence[str], caption: str) -> str:
    """A whole SVG document for a board of `height` x `width` cells with a caption below."""
    total_width = 2 * MARGIN + width * CELL
    total_height = 2 * MARGIN + height * CELL + 8
    body = [
        rectangle(0, 0, total_width, total_height, BACKGROUND, radius=6),
        *shapes,
        label(total_width / 2, total_height - MARGIN / 2 - 2, caption, size=14, fill="#374151"),
    ]
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {total_width:g} {total_height:g}' "
        f"width='{total_width:g}' role='img' aria-label='{caption}'>\n" + "\n".join(body) + "\n</svg>\n"
    )
