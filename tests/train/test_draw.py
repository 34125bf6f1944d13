import re

import jax
import numpy as np
import pytest

import games_jax
from train import draw
from train.thoughts import Thoughts


@pytest.mark.parametrize(
    ("grid", "steps"),
    [
        (draw.Squares(5, 4), [(0, 1), (1, 0)]),
        (draw.Hexagons(5, 4), [(0, 1), (1, 0), (1, -1)]),
    ],
)
def test_neighbours_touch_and_no_other_cells_do(grid, steps):
    """Cells one unit wide: the centres of neighbours are one apart, and all others further."""
    cells = list(np.ndindex(grid.height, grid.width))
    for a in cells:
        for b in cells:
            step = (b[0] - a[0], b[1] - a[1])
            distance = np.hypot(*np.subtract(grid.centre(*a), grid.centre(*b)))
            near = step in steps or tuple(-i for i in step) in steps
            assert distance == pytest.approx(1) if near else a == b or distance > 1.1
    (left, right), (top, bottom) = grid.limits
    for x, y in (grid.centre(*cell) for cell in cells):
        assert left < x < right and top < y < bottom


def test_hex_is_drawn_with_hexagons_and_the_edges_of_both_players(tmp_path):
    game = games_jax.make("hex", size=3)
    state = game.init(jax.random.key(0))
    visits = np.array([9, 0, 0, 0, 5, 0, 0, 0, 1])
    thoughts = Thoughts(visits, None, np.zeros(9), 0.0, np.ones(9, bool), ())
    draw.draw_thoughts(game, state, thoughts, tmp_path / "a.svg", title="hex")
    picture = (tmp_path / "a.svg").read_text()
    paths = re.findall(r'<path d="([^"]*)"', picture, re.DOTALL)
    hexagons = [path for path in paths if path.count("L") in (5, 6) and path.count("z") == 1]
    assert len(hexagons) == 9 + 3  # the cells, and the shares of the three moves with visits
    assert all(picture.count(f"stroke: {fill}") == 2 for fill, _ in draw.STONES)
