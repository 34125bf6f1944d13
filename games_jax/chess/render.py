"""A chess position as text and as a picture."""

from __future__ import annotations

from games_jax import diagram, svg
from games_jax.chess import notation, rules

_COLUMNS, _ROWS = list("abcdefgh"), [str(8 - row) for row in range(8)]
_LIGHT, _DARK = "#f0e2c8", "#b98d63"
_WHITE, _BLACK = ("#fdfcf9", "#2b2622"), ("#3b3430", "#15110f")  # fill and outline
_STANDS = "M10 35 L30 35 L28 31 L12 31 Z "
# Outlines in a square of 40 units.
_SHAPES = {
    "p": _STANDS + "M14 31 C15 26 17 24 17.5 20 L22.5 20 C23 24 25 26 26 31 Z M20 20 m-5 -4 a5 5 0 1 1 10 0 "
    "a5 5 0 1 1 -10 0 Z",
    "r": _STANDS + "M13 31 L14 15 L26 15 L27 31 Z M11 15 L11 7 L15 7 L15 10 L18 10 L18 7 L22 7 L22 10 L25 10 "
    "L25 7 L29 7 L29 15 Z",
    "n": _STANDS + "M12 31 C12 24 18 22 19 18 L13 21 L10 18 L16 10 L17 5 L20 9 C27 10 29 18 28 31 Z",
    "b": _STANDS + "M15 31 L16 26 L24 26 L25 31 Z M20 26 C10 24 12 15 20 8 C28 15 30 24 20 26 Z "
    "M20 8 m-2 -2 a2 2 0 1 1 4 0 a2 2 0 1 1 -4 0 Z",
    "q": _STANDS + "M12 31 L8 13 L14 20 L15 9 L20 18 L25 9 L26 20 L32 13 L28 31 Z",
    "k": _STANDS + "M12 31 C4 22 12 13 20 19 C28 13 36 22 28 31 Z M18.5 17 L18.5 12 L15 12 L15 9 L18.5 9 "
    "L18.5 5 L21.5 5 L21.5 9 L25 9 L25 12 L21.5 12 L21.5 17 Z",
}


def status(state: rules.State, in_check: bool) -> str:
    """Who is to move, or how the game ended."""
    mover, other = ("White", "Black") if int(state.ply) % 2 == 0 else ("Black", "White")
    ending = int(rules.ending(state.flags))
    if ending == rules.CHECKMATE:
        return f"{other} has won by checkmate"
    if ending != rules.RUNNING:
        return f"draw: {rules.ENDINGS[ending]}"
    return f"{mover} to move" + (", in check" if in_check else "")


def text(state: rules.State, in_check: bool) -> str:
    """The board in letters, White's in capitals."""
    letters = notation.letters_of(state.pieces, int(state.ply) & 1)
    rows = [letters[at : at + 8] for at in range(0, 64, 8)]
    return diagram.layout(rows, _COLUMNS, _ROWS, status(state, in_check))


def picture(state: rules.State, in_check: bool) -> str:
    """The board as an SVG, White below; a king in check stands on red."""
    letters = notation.letters_of(state.pieces, int(state.ply) & 1)
    king = "kK"[int(state.ply) % 2 == 0]
    shapes = svg.coordinates(_COLUMNS, _ROWS)
    for square, letter in enumerate(letters):
        row, column = divmod(square, 8)
        x, y = svg.MARGIN + column * svg.CELL, svg.MARGIN + row * svg.CELL
        fill = _DARK if (row + column) % 2 else _LIGHT
        if in_check and letter == king:
            fill = "#d9674f"
        shapes.append(svg.rectangle(x, y, svg.CELL, svg.CELL, fill))
        if letter != ".":
            inside, outline = _WHITE if letter.isupper() else _BLACK
            shapes.append(
                f"<path transform='translate({x:g} {y:g})' d='{_SHAPES[letter.lower()]}' fill='{inside}' "
                f"stroke='{outline}' stroke-width='1.4' stroke-linejoin='round'/>"
            )
    return svg.picture(8, 8, shapes, status(state, in_check))
