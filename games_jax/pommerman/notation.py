"""Positions as text.

The board row by row from the top, then what it cannot show, on one line: `...../#w.E./ (and so on)
agents:1,1,1,1,2,0;9,1,1,0,2,0;... bombs:9,1,8,2,1,0 flames:3,4,2 step:17`.

Cells: `.` passage, `#` rigid, `w` wood, `e` `r` `k` open items (extra bomb, range, kick), `E` `R` `K` the
same hidden under wood or flames. Agents are `row,column,alive,ammo,blast,can_kick`, bombs
`row,column,life,blast,owner,direction` (0 none, 1 up, 2 down, 3 left, 4 right), flames `row,column,life`;
bombs, flames and step may be left out.
"""

from __future__ import annotations

import numpy as np

from games_jax.pommerman.state import (
    AGENT,
    EXTRA_BOMB,
    FLAMES,
    MOST_AMMO,
    MOST_BLAST,
    PASSAGE,
    RIGID,
    WOOD,
    Snapshot,
)

ACTIONS = ("stop", "up", "down", "left", "right", "bomb")
_CELLS = ".#w"
_ITEMS = "erk"
_WIDTHS = {"agents": 6, "bombs": 6, "flames": 3, "step": 1}


def parse_action(text: str) -> int:
    """The number of an action's name.

    Raises:
        ValueError: no such action.
    """
    name = text.strip().lower()
    if name not in ACTIONS:
        raise ValueError(f"{text!r} is no action; give one of {', '.join(ACTIONS)}.")
    return ACTIONS.index(name)


def write(shot: Snapshot) -> str:
    """The position on one line."""
    cells = np.full(shot.board.shape, ".", dtype="<U1")
    for code, letter in ((RIGID, "#"), (WOOD, "w")):
        cells[shot.board == code] = letter
    for i, letter in enumerate(_ITEMS):
        cells[shot.board == EXTRA_BOMB + i] = letter
        cells[shot.hidden == EXTRA_BOMB + i] = letter.upper()
    parts = ["/".join("".join(row) for row in cells)]
    for name, rows in (("agents", shot.agents), ("bombs", shot.bombs), ("flames", shot.flames)):
        if len(rows):
            parts.append(f"{name}:" + ";".join(",".join(str(int(number)) for number in row) for row in rows))
    return " ".join([*parts, f"step:{int(shot.steps)}"])


def read(text: str, size: int, num_agents: int) -> Snapshot:
    """The inverse of `write`.

    Raises:
        ValueError: what is wrong with the text.
    """
    rows, *fields = text.split() or [""]
    lines = rows.split("/")
    if len(lines) != size or any(len(line) != size for line in lines):
        raise ValueError(
            f"board {rows!r} has rows of {[len(line) for line in lines]} cells; expected {size} rows of "
            f"{size} cells, separated by '/'."
        )
    numbers = {"agents": [], "bombs": [], "flames": [], "step": [[0]]}
    for field in fields:
        name, _, body = field.partition(":")
        if name not in numbers:
            raise ValueError(f"{field!r} is unknown; expected one of agents:, bombs:, flames:, step:.")
        numbers[name] = [_numbers(part, _WIDTHS[name], field) for part in body.split(";")]
    _check(numbers, size, num_agents)
    burning = {(row, column) for row, column, _ in numbers["flames"]}
    board, hidden = np.zeros((2, size, size), np.uint8)
    for row, line in enumerate(lines):
        for column, letter in enumerate(line):
            board[row, column], hidden[row, column] = _cell(letter, (row, column) in burning)
    for row, column, *_ in numbers["bombs"]:
        _require_passage(board, row, column, "a bomb")
        board[row, column] = 3
    for row, column in burning:
        board[row, column] = FLAMES
    for i, (row, column, alive, *_) in enumerate(numbers["agents"]):
        if alive:
            if board[row, column] not in (PASSAGE, 3):
                raise ValueError(f"agent {i} is at ({row}, {column}), which is taken; give a free cell.")
            board[row, column] = AGENT + i
    return Snapshot(
        board, hidden, numbers["bombs"], numbers["flames"], numbers["agents"], numbers["step"][0][0]
    )


def _numbers(part: str, width: int, field: str) -> list[int]:
    words = part.split(",")
    if len(words) != width or not all(word.isdecimal() for word in words):
        raise ValueError(f"cannot read {part!r} in {field!r}; expected {width} whole numbers with commas.")
    return [int(word) for word in words]


def _check(numbers: dict[str, list[list[int]]], size: int, num_agents: int) -> None:
    if len(numbers["agents"]) != num_agents:
        raise ValueError(f"the position has {len(numbers['agents'])} agents; expected {num_agents}.")
    most = {
        "agents": (size - 1, size - 1, 1, MOST_AMMO, MOST_BLAST, 1),
        "bombs": (size - 1, size - 1, 9, MOST_BLAST, num_agents - 1, 4),
        "flames": (size - 1, size - 1, 2),
    }
    for name, limits in most.items():
        for row in numbers[name]:
            if any(number > limit for number, limit in zip(row, limits, strict=True)):
                raise ValueError(f"{name} {row} is out of range; the largest values are {list(limits)}.")
    for row in numbers["bombs"]:
        if row[2] < 1 or row[3] < 1:
            raise ValueError(f"bombs {row} has life or blast 0; expected 1 or more.")
    cells = [(row, column) for row, column, *_ in numbers["bombs"]]
    if len(set(cells)) < len(cells):
        raise ValueError("two bombs share a cell; give one bomb a cell.")


def _require_passage(board: np.ndarray, row: int, column: int, what: str) -> None:
    if board[row, column] != PASSAGE:
        raise ValueError(f"{what} is at ({row}, {column}), which is not a passage; give a passage.")


def _cell(letter: str, is_burning: bool) -> tuple[int, int]:
    """Board code and hidden code of one letter."""
    if letter in _CELLS:
        return (PASSAGE, RIGID, WOOD)[_CELLS.index(letter)], 0
    if letter in _ITEMS:
        return EXTRA_BOMB + _ITEMS.index(letter), 0
    if letter.lower() in _ITEMS:
        return (PASSAGE if is_burning else WOOD), EXTRA_BOMB + _ITEMS.index(letter.lower())
    raise ValueError(
        f"the board holds {letter!r}; a cell is one of {' '.join(_CELLS + _ITEMS + _ITEMS.upper())}."
    )
