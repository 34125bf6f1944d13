"""Othello in plain Python, written from the rules alone, for boards of any even size.

The board is a list of cells with a border; "X" moves first. Nothing here is shared with games_jax.
"""

from __future__ import annotations


class Othello:
    def __init__(self, size: int):
        self.size = size
        self.width = size + 2
        self.cells = ["#"] * self.width**2
        self.inside = [self.at(row, column) for row in range(size) for column in range(size)]
        for place in self.inside:
            self.cells[place] = "."
        half = size // 2
        self.cells[self.at(half - 1, half - 1)] = self.cells[self.at(half, half)] = "O"
        self.cells[self.at(half - 1, half)] = self.cells[self.at(half, half - 1)] = "X"
        self.mover, self.other = "X", "O"
        self.steps = [dr * self.width + dc for dr in (-1, 0, 1) for dc in (-1, 0, 1) if (dr, dc) != (0, 0)]

    def at(self, row: int, column: int) -> int:
        return (row + 1) * self.width + column + 1

    def turned(self, place: int, mover: str, other: str) -> list[int]:
        """The discs that `mover` would turn by placing one on an empty cell."""
        found = []
        for step in self.steps:
            run, here = [], place + step
            while self.cells[here] == other:
                run.append(here)
                here += step
            if self.cells[here] == mover:
                found += run
        return found

    def placements(self, mover: str, other: str) -> list[int]:
        """Action numbers of the cells where `mover` may place a disc."""
        return [
            action
            for action, place in enumerate(self.inside)
            if self.cells[place] == "." and self.turned(place, mover, other)
        ]

    def legal(self) -> list[int]:
        """Action numbers; the last action, pass, where only the opponent can place; none at the end."""
        own = self.placements(self.mover, self.other)
        if own or not self.placements(self.other, self.mover):
            return own
        return [self.size**2]

    def play(self, action: int) -> None:
        if action < self.size**2:
            place = self.inside[action]
            for turned in [place, *self.turned(place, self.mover, self.other)]:
                self.cells[turned] = self.mover
        self.mover, self.other = self.other, self.mover

    def board(self) -> str:
        return "".join(self.cells[place] for place in self.inside)

    def returns(self) -> list[int]:
        black, white = self.board().count("X"), self.board().count("O")
        sign = (black > white) - (black < white)
        return [sign, -sign]
