"""Pictures of what a search thinks: the board with visit shares, and bars beside it.

Dimensions: A actions, H x W cells.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Patch, Polygon, Rectangle

from games_jax.game import Game, lattice_of
from games_jax.play import write_move
from train.thoughts import Thoughts

SHOWN_BARS = 12
SHARE_COLOUR, PRIOR_COLOUR, PAPER = "#2a6f97", "#a9c7da", "#fbfaf7"
STONES = (("#d1495b", "#96303f"), ("#edae49", "#b07d25"))
"""Fill and edge of each player's stones."""


def check_picture_name(path: str | Path) -> None:
    """Raises ValueError if the suffix of `path` is none that can be drawn."""
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"A picture's name ends in .png, .svg or .pdf, got {str(path)!r}.")


def draw_thoughts(game: Game, state: Any, thoughts: Thoughts, path: str | Path, *, title: str) -> None:
    """Writes the picture to `path`; its suffix decides the format (.png, .svg or .pdf).

    Args:
        game: a game of two players on a board, or one without: then only the bars are drawn.
        state: one state.
        thoughts: what the search said of it.
        path: the file to write.
        title: what stands above.

    Raises:
        ValueError: if the suffix is none of these.
        OSError: if the file cannot be written.
    """
    check_picture_name(path)
    figure = Figure(figsize=(10, 5), dpi=150, facecolor=PAPER, layout="constrained")
    FigureCanvasAgg(figure)
    board_axes, bar_axes = figure.subplots(1, 2, width_ratios=(1, 1))
    figure.suptitle(title, fontsize=11)
    _draw_board(board_axes, game, state, thoughts)
    _draw_bars(bar_axes, game, state, thoughts)
    figure.savefig(path)


def _draw_board(axes: Axes, game: Game, state: Any, thoughts: Thoughts) -> None:
    """Stones from the observation's first two planes, and each move's share where it would be played."""
    axes.set_axis_off()
    planes = np.asarray(game.observe(state, jnp.int32(0)))
    places = _places(game, planes)
    if not places or game.num_players != 2:
        axes.text(0.5, 0.5, game.render(state), family="monospace", ha="center", va="center")
        return
    height, width, _ = game.observation_shape
    grid = (Hexagons if lattice_of(game) == "hexagonal" else Squares)(height, width)
    (left, right), (top, bottom) = grid.limits
    axes.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    for patch in grid.frame():
        axes.add_patch(patch)
    for cell in np.ndindex(height, width):
        axes.add_patch(grid.cell(*cell, facecolor="white", edgecolor="#c9c4b8", lw=0.8))
        for player, (fill, edge) in enumerate(STONES):
            if planes[*cell, player]:
                axes.add_patch(Circle(grid.centre(*cell), 0.38, facecolor=fill, edgecolor=edge, lw=1.2))
    most = max(float(thoughts.shares.max()), 1e-9)
    for action in thoughts.order:
        if action in places and thoughts.visits[action] > 0:
            share = float(thoughts.shares[action])
            size = 0.9 * np.sqrt(share / most)  # the area shows the share
            axes.add_patch(grid.cell(*places[action], size=size, facecolor=SHARE_COLOUR, alpha=0.35))
            if share >= 0.01:
                label = f"{write_move(game, state, action)}\n{share:.0%}"
                x, y = grid.centre(*places[action])
                axes.text(x, y, label, ha="center", va="center", fontsize=grid.font_size, color="#12303f")


class Squares:
    """Rows and columns of squares; a cell is one unit wide, and y grows downwards."""

    def __init__(self, height: int, width: int):
        self.height, self.width = height, width

    @property
    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Least and greatest x, least and greatest y."""
        return (-0.6, self.width - 0.4), (-1.1, self.height - 0.4)

    @property
    def font_size(self) -> float:
        """Of a label that fits a cell."""
        return min(7.0, 64 / max(self.height, self.width))

    def centre(self, row: int, column: int) -> tuple[float, float]:
        """The middle of a cell, x and y."""
        return column, row

    def frame(self) -> list[Patch]:
        """What lies under the cells."""
        return []

    def cell(self, row: int, column: int, *, size: float = 1.0, **style: Any) -> Patch:
        """The cell, or its shape in another size about the same centre."""
        x, y = self.centre(row, column)
        return Rectangle((x - size / 2, y - size / 2), size, size, **style)


class Hexagons(Squares):
    """Hexagons: each row is half a cell further right, and the first player joins top and bottom."""

    @property
    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Least and greatest x, least and greatest y."""
        x, y = self.centre(self.height - 1, self.width - 1)
        return (-1.0, x + 1.0), (-1.1, y + 1.1)

    @property
    def font_size(self) -> float:
        """Of a label that fits a cell."""
        return min(7.0, 48 / max(self.height, self.width))

    def centre(self, row: int, column: int) -> tuple[float, float]:
        """The middle of a cell, x and y."""
        return column + row / 2, row * np.sqrt(0.75)

    def frame(self) -> list[Patch]:
        """A band along each edge in the colour of the player who joins it."""
        last, end = self.height - 1, self.width - 1
        rows, columns = range(self.height), range(self.width)
        edges = [  # the player, the cells along the edge, and two corners of each, clockwise from the top
            (0, [(0, c) for c in columns], (5, 0), [(0, end)], (1,)),
            (0, [(last, c) for c in columns], (4, 3), [(last, end)], (2,)),
            (1, [(r, 0) for r in rows], (5, 4), [], ()),
            (1, [(r, end) for r in rows], (1, 2), [], ()),
        ]
        bands: list[Patch] = []
        for player, cells, corners, more, at in edges:
            points = [self._corners(*cell)[i] for cell in cells for i in corners]
            points += [self._corners(*cell)[i] for cell in more for i in at]
            bands.append(
                Polygon(
                    points, closed=False, fill=False, edgecolor=STONES[player][0], lw=6, joinstyle="round"
                )
            )
        return bands

    def cell(self, row: int, column: int, *, size: float = 1.0, **style: Any) -> Patch:
        """The cell, or its shape in another size about the same centre."""
        return Polygon(self._corners(row, column, size), **style)

    def _corners(self, row: int, column: int, size: float = 1.0) -> list[tuple[float, float]]:
        """Clockwise from the top."""
        x, y = self.centre(row, column)
        angles = np.pi * np.arange(6) / 3
        radius = size / np.sqrt(3)
        return [(x + radius * np.sin(angle), y - radius * np.cos(angle)) for angle in angles]


def _places(game: Game, planes: np.ndarray) -> dict[int, tuple[int, int]]:
    """The cell in which each action puts its stone, where that is known.

    Either actions number the cells row by row (a pass may follow), or the columns, into which stones fall.
    Where they do neither, as in chess, the planes are no stones either.
    """
    if planes.ndim != 3 or planes.shape[2] < 2:
        return {}
    height, width, _ = planes.shape
    if game.num_actions in (height * width, height * width + 1):
        return {a: divmod(a, width) for a in range(height * width)}
    if game.num_actions == width:
        filled = planes[..., :2].any(axis=2).sum(axis=0)
        return {a: (height - 1 - int(filled[a]), a) for a in range(width) if filled[a] < height}
    return {}


def _draw_bars(axes: Axes, game: Game, state: Any, thoughts: Thoughts) -> None:
    """Visit share and prior of the most visited moves, each with its value."""
    order = thoughts.order[:SHOWN_BARS]
    at = np.arange(len(order))
    axes.barh(at - 0.19, thoughts.shares[order], height=0.38, color=SHARE_COLOUR, label="share of visits")
    if thoughts.priors is not None:
        axes.barh(at + 0.19, thoughts.priors[order], height=0.38, color=PRIOR_COLOUR, label="prior")
    for y, action in zip(at, order):
        if thoughts.visits[action] > 0:
            share = float(thoughts.shares[action])
            axes.text(
                share + 0.01, y - 0.19, f"{float(thoughts.qvalues[action]):+.2f}", va="center", fontsize=8
            )
    axes.set_yticks(at, [write_move(game, state, action) for action in order])
    axes.invert_yaxis()
    axes.set(
        xlim=(0, 1.15 * max(axes.get_xlim()[1], 0.1)),
        xlabel="share; the number is the move's value for the mover",
        ylabel="move",
    )
    axes.set_facecolor(PAPER)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
