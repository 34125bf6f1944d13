"""Go in text: GTP vertices, SGF points, and whole games as SGF."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

_COLUMNS = "ABCDEFGHJKLMNOPQRST"  # GTP has no column I
_LETTERS = "abcdefghijklmnopqrs"
PASS = "pass"


def columns(size: int) -> list[str]:
    """The names of the columns, from the left."""
    return list(_COLUMNS[:size])


def to_gtp(action: int, size: int) -> str:
    """An action as a GTP vertex: `"D4"`, rows counted from the bottom, or `"pass"`."""
    if action == size * size:
        return PASS
    row, column = divmod(action, size)
    return f"{_COLUMNS[column]}{size - row}"


def from_gtp(text: str, size: int) -> int:
    """The inverse of `to_gtp`; small letters will do.

    Raises:
        ValueError: no vertex of this board.
    """
    vertex = text.strip().upper()
    if vertex == PASS.upper():
        return size * size
    match = re.fullmatch(r"([A-HJ-T])([1-9][0-9]?)", vertex)
    if match:
        row, column = size - int(match[2]), _COLUMNS.index(match[1])
        if row >= 0 and column < size:
            return row * size + column
    last = f"{_COLUMNS[size - 1]}{size}"
    raise ValueError(
        f"{text!r} is not a point; give one from A1 to {last} (there is no column I), or 'pass'."
    )


def to_sgf_point(action: int, size: int) -> str:
    """An action as an SGF point: `"dd"`, column then row from the top left, or `""` for a pass."""
    if action == size * size:
        return ""
    row, column = divmod(action, size)
    return _LETTERS[column] + _LETTERS[row]


def from_sgf_point(text: str, size: int) -> int:
    """The inverse of `to_sgf_point`; `"tt"` is a pass as well, as in old files.

    Raises:
        ValueError: no point of this board.
    """
    point = text.strip()
    if point in ("", "tt"):
        return size * size
    if re.fullmatch(r"[a-s]{2}", point):
        column, row = _LETTERS.index(point[0]), _LETTERS.index(point[1])
        if max(row, column) < size:
            return row * size + column
    last = _LETTERS[size - 1] * 2
    raise ValueError(
        f"{text!r} is not an SGF point; give two letters from 'aa' to {last!r}, or '' for a pass."
    )


@dataclasses.dataclass(frozen=True)
class Record:
    """What an SGF text says of one game, its main line.

    Attributes:
        size: points on a side.
        komi: White's points, or None where the text does not say.
        black: actions of the points with Black's set-up stones.
        white: the same of White's.
        player: who plays first, 0 Black or 1 White, or None where the text does not say.
        moves: `(player, action)` of each move.
    """

    size: int
    komi: float | None
    black: tuple[int, ...]
    white: tuple[int, ...]
    player: int | None
    moves: tuple[tuple[int, int], ...]


_TOKEN = re.compile(r"\s*(?:([();])|([A-Za-z]+)((?:\s*\[(?:\\.|[^\]\\])*\])+))", re.DOTALL)
_VALUE = re.compile(r"\[((?:\\.|[^\]\\])*)\]", re.DOTALL)


def read_sgf(text: str) -> Record:
    """Reads the main line of the first game in an SGF text: the first of every set of variations.

    Raises:
        ValueError: the text is no SGF, is of another game, sets up stones after a move, or names a point
            off the board.
    """
    properties = _main_line(text)
    values = {name: found[0].strip() for name, found in reversed(properties)}
    if values.get("GM", "1") != "1":
        raise ValueError(f"the SGF text is of game {values['GM']}; expected 1, Go.")
    size = int(_number(values.get("SZ", "19").split(":")[0], "SZ"))
    if not 2 <= size <= 19 or (":" in values.get("SZ", "") and values["SZ"] != f"{size}:{size}"):
        raise ValueError(f"the SGF text has the size {values['SZ']!r}; expected a square of 2 to 19.")
    komi = _number(values["KM"], "KM") if "KM" in values else None
    stones: list[list[int]] = [[], []]
    moves: list[tuple[int, int]] = []
    player = None
    for name, found in properties:
        if name in ("AB", "AW", "AE"):
            if moves or name == "AE":
                raise ValueError(
                    f"the SGF text has {name} after a move; only stones set up at the start are read."
                )
            points = [point for value in found for point in _points(value, size)]
            stones["BW".index(name[1])] += points
        elif name == "PL":
            player = 0 if found[0].strip().upper().startswith("B") else 1
        elif name in ("B", "W"):
            moves.append(("BW".index(name), from_sgf_point(found[0], size)))
    return Record(size, komi, tuple(stones[0]), tuple(stones[1]), player, tuple(moves))


def write_sgf(
    moves: Sequence[tuple[int, int]],
    *,
    size: int,
    komi: float,
    black: Sequence[int] = (),
    white: Sequence[int] = (),
    player: int = 0,
    result: str | None = None,
) -> str:
    """One game as SGF.

    Args:
        moves: `(player, action)` of each move.
        size: points on a side.
        komi: White's points.
        black: actions of the points with Black's set-up stones.
        white: the same of White's.
        player: who plays first.
        result: as in `"B+3.5"`.

    Example:
        >>> write_sgf([(0, 40), (1, 81)], size=9, komi=7.5)
        '(;FF[4]GM[1]SZ[9]KM[7.5];B[ee];W[])'
    """
    head = f";FF[4]GM[1]SZ[{size}]KM[{komi:g}]"
    for name, points in (("AB", black), ("AW", white)):
        head += name + "".join(f"[{to_sgf_point(point, size)}]" for point in points) if len(points) else ""
    head += "PL[W]" if player else ""
    head += f"RE[{result}]" if result else ""
    line = "".join(f";{'BW'[who]}[{to_sgf_point(action, size)}]" for who, action in moves)
    return f"({head}{line})"


def _main_line(text: str) -> list[tuple[str, list[str]]]:
    """The properties of the main line in order, as `(name, values)`."""
    found: list[tuple[str, list[str]]] = []
    at, depth = 0, 0
    while True:
        match = _TOKEN.match(text, at)
        if match is None or (depth == 0 and match[1] != "("):
            raise ValueError(f"cannot read the SGF text at character {at}: {text[at : at + 20]!r}.")
        at = match.end()
        if match[1] == "(":
            depth += 1
        elif match[1] == ")":  # the first branch to end is the main line
            break
        elif match[2]:
            name = re.sub("[a-z]", "", match[2])  # old files write long names, of which the capitals count
            found.append((name, [re.sub(r"\\(.)", r"\1", value) for value in _VALUE.findall(match[3])]))
    return found


def _points(text: str, size: int) -> list[int]:
    """One point, or a rectangle of them: `"aa:cb"`."""
    corners = [divmod(from_sgf_point(corner, size), size) for corner in text.split(":")]
    (top, left), (bottom, right) = corners[0], corners[-1]
    if len(corners) > 2 or top == size:
        raise ValueError(f"{text!r} is not a point or rectangle of points in the SGF text.")
    rows, across = range(top, bottom + 1), range(left, right + 1)
    return [row * size + column for row in rows for column in across]


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"the SGF text has {name}[{text}]; expected a number.") from None
