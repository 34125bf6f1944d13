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
from matplotlib.patches import Circle, Rectangle

from games_jax.game import Game
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
    shape = game.observation_shape
    planes = np.asarray(game.observe(state, jnp.int32(0)))
    places = _places(game, planes)
    if not places or game.num_players != 2:
        axes.text(0.5, 0.5, game.render(state), family="monospace", ha="center", va="center")
        return
    height, width, _ = shape
    axes.set(xlim=(-0.6, width - 0.4), ylim=(height - 0.4, -1.1), aspect="equal")
    for row, column in np.ndindex(height, width):
        axes.add_patch(
            Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor="white", edgecolor="#c9c4b8", lw=0.8)
        )
        for player, (fill, edge) in enumerate(STONES):
            if planes[row, column, player]:
                axes.add_patch(Circle((column, row), 0.38, facecolor=fill, edgecolor=edge, lw=1.2))
    top = max(float(thoughts.shares.max()), 1e-9)
    for action in thoughts.order:
        if action in places and thoughts.visits[action] > 0:
            row, column = places[action]
            share = float(thoughts.shares[action])
            size = 0.9 * np.sqrt(share / top)  # the area of the square shows the share
            axes.add_patch(
                Rectangle((column - size / 2, row - size / 2), size, size, facecolor=SHARE_COLOUR, alpha=0.35)
            )
            if share >= 0.01:
                label = f"{write_move(game, state, action)}\n{share:.0%}"
                axes.text(column, row, label, ha="center", va="center", fontsize=7, color="#12303f")


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
