"""Boards and positions as text: what the games' renderers and parsers share.

A position in text is its rows from the top, separated by `/` or newlines, then the side to move, all in the
letters of the board: `"X.O/.X./... O"`. `X` is the first player, `O` the second, `.` an empty cell.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

STONES = "XO"
_CELLS = ".XO"


def layout(rows: Sequence[str], columns: Sequence[str], row_labels: Sequence[str], status: str) -> str:
    """Rows of one-letter cells with coordinates round them and a status line below."""
    margin = max((len(label) for label in row_labels), default=0)
    pad = f"{'':{margin}} " if margin else ""
    header = pad + " ".join(columns)
    lines = [header]
    for label, row in zip(row_labels, rows, strict=True):
        prefix = f"{label:>{margin}} " if margin else ""
        suffix = f" {label}" if margin else ""
        lines.append(prefix + " ".join(row) + suffix)
    return "\n".join([*lines, header, status])


def status(*, over: bool, player: int, winner: int | None) -> str:
    """Who is to move, or how the game ended; for two-player games."""
    if not over:
        return f"{STONES[player]} to move"
    return "draw" if winner is None else f"{STONES[winner]} has won"


def cell_rows(first: np.ndarray, second: np.ndarray) -> list[str]:
    """The board `[H, W]` as rows of `.`, `X` (first player's stones) and `O` (second player's)."""
    codes = np.asarray(first, np.int8) + 2 * np.asarray(second, np.int8)
    return ["".join(_CELLS[code] for code in row) for row in codes]


def is_diagram(text: str) -> bool:
    """Whether the text is a board diagram rather than a list of moves.

    A diagram has `.` or `/`, which no move has, or nothing but the letters X and O: a full board. A letter
    alone tells nothing, since `o15` is a cell of a board with 15 columns.
    """
    return bool(re.search(r"[./]", text) or re.fullmatch(r"[xo\s]*[xo][xo\s]*", text.lower()))


def parse(text: str, height: int, width: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Reads a position.

    Args:
        text: rows from the top separated by `/` or newlines, then the side to move.

    Returns:
        Bool `[height, width]` stones of the first and of the second player, and the player to move (0 or 1).

    Raises:
        ValueError: a wrong number of rows, a row of another length, an unknown cell, no side to move.
    """
    tokens = [token for token in re.split(r"[/\s]+", text.strip()) if token]
    side = tokens[-1].upper()
    if len(tokens) != height + 1 or len(side) != 1 or side not in STONES:
        raise ValueError(
            f"position {text!r} has {len(tokens)} parts; expected {height} rows of {width} cells, then the "
            f"side to move, X or O, such as {_example(height, width)!r}."
        )
    rows = [token.upper() for token in tokens[:-1]]
    for number, row in enumerate(rows, start=1):
        wrong = sorted(set(row) - set(_CELLS))
        if wrong:
            raise ValueError(f"row {number} {row!r} holds {wrong[0]!r}; a cell is one of '.', 'X', 'O'.")
        if len(row) != width:
            raise ValueError(f"row {number} {row!r} has {len(row)} cells; expected {width}.")
    cells = np.array([list(row) for row in rows])
    return cells == "X", cells == "O", STONES.index(side)


def check_counts(text: str, first: np.ndarray, second: np.ndarray, player: int) -> None:
    """For games in which the sides take turns to add one stone: whether the counts fit the side to move.

    Raises:
        ValueError: they do not.
    """
    counts = int(first.sum()), int(second.sum())
    if counts[0] - counts[1] != player:
        raise ValueError(
            f"position {text!r} has {counts[0]} X and {counts[1]} O with {STONES[player]} to move; X moves "
            f"first, so X to move needs as many X as O, and O to move one X more."
        )


def dump(first: np.ndarray, second: np.ndarray, player: int) -> str:
    """The inverse of `parse`, on one line."""
    return "/".join(cell_rows(first, second)) + f" {STONES[player]}"


def _example(height: int, width: int) -> str:
    return "/".join(["." * width] * height) + " X"


def square(cell: int, width: int) -> str:
    """The name of a cell: column letter and row number, a1 at the top left."""
    row, column = divmod(cell, width)
    return f"{chr(ord('a') + column)}{row + 1}"


def parse_square(text: str, height: int, width: int) -> int:
    """The inverse of `square`.

    Raises:
        ValueError: not a cell of this board.
    """
    match = re.fullmatch(r"([a-z])([0-9]{1,2})", text.strip().lower())
    if match:
        row, column = int(match[2]) - 1, ord(match[1]) - ord("a")
        if 0 <= row < height and column < width:
            return row * width + column
    raise ValueError(f"{text!r} is not a cell; give one from a1 to {square(height * width - 1, width)}.")


def split_moves(text: str, words: str = "") -> list[str]:
    """Cuts a list of cell names, with or without spaces between them, into moves.

    Args:
        text: such as `"f5d6c3"` or `"f5 d6 c3"`.
        words: a regular expression of the moves that are no cells, such as `"pass"`.

    Raises:
        ValueError: what is left over is no move.
    """
    pattern = r"[a-z][0-9]{1,2}" + (f"|{words}" if words else "")
    moves = re.findall(pattern, text.lower())
    rest = re.sub(pattern, "", text.lower()).split()
    if rest:
        raise ValueError(f"cannot read {rest[0]!r} in the moves {text!r}; write cells such as 'c3 d2'.")
    return moves
