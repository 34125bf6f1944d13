"""The 2x2x2 cube against the truth: distances, positions by number, and how players solve them."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
from train import solved_cube
from train.players import Player, random_player

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("metric", ["htm", pytest.param("qtm", marks=pytest.mark.slow)])
def test_distances_are_the_known_ones(metric):
    known = np.load(DATA / "cube2_distances.npz")
    found = solved_cube.distances(metric)
    np.testing.assert_array_equal(found[known["index"]], known[metric])
    counts = {
        "htm": [1, 9, 54, 321, 1847, 9992, 50136, 227536, 870072, 1887748, 623800, 2644],
        "qtm": [1, 6, 27, 120, 534, 2256, 8969, 33058, 114149, 360508, 930588, 1350852, 782536, 90280, 276],
    }
    assert np.bincount(found).tolist() == counts[metric]


def test_numbers_and_positions_go_together():
    """A player who always turns to a nearer position solves every cube in its distance."""
    game = games_jax.make("cube2")
    distance = solved_cube.distances("htm")
    numbers = np.concatenate(
        [np.random.default_rng(0).integers(1, len(distance), 30), np.flatnonzero(distance == 11)[:4]]
    )
    states = solved_cube.positions(game, numbers)
    table = jnp.asarray(distance)

    def number_of(state):
        cells = game.cells(state)
        places, twists = jnp.argsort(cells[:7]), cells[7:]
        later = jnp.arange(7)[None, :] > jnp.arange(7)[:, None]
        smaller = (places[None, :] < places[:, None]) & later
        weights = jnp.array([720, 120, 24, 6, 2, 1, 1])
        at = twists[places]
        return 729 * jnp.sum(smaller.sum(axis=1) * weights) + jnp.sum(at[:6] * 3 ** jnp.arange(5, -1, -1))

    np.testing.assert_array_equal(jax.jit(jax.vmap(number_of))(states), numbers)

    def act(key, states, params=None):
        after = jax.vmap(lambda s: jax.vmap(lambda a: game.step(s, a))(jnp.arange(9)))(states)
        ahead = params[jax.vmap(jax.vmap(number_of))(after)]
        return jnp.argmin(ahead, axis=1).astype(jnp.int32)

    perfect = Player("perfect", act, table.astype(jnp.int32))
    result = solved_cube.solve(game, perfect, states, limit=20, key=jax.random.key(0))
    assert result.solved.all()
    np.testing.assert_array_equal(result.turns, distance[numbers])
    chance = solved_cube.solve(game, random_player(game), states, limit=5, key=jax.random.key(0))
    assert not chance.solved[-4:].any() and (chance.turns[-4:] == 5).all()
