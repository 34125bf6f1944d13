"""Symmetry: a mirrored position is searched as its mirror, and the colour of a player makes no difference."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from search_helpers import quick_jit
from toy_games import AgainNim, Pile

import games_jax
import jaxsearch

GAME = games_jax.make("connect_four")


def even_handed(weights, key, states):
    """A random linear evaluator that says of a mirrored board the mirror of what it says of the board."""
    del key
    planes = jax.vmap(lambda state: game_planes(state))(states)
    both = jnp.stack([planes, planes[:, :, ::-1]]).reshape(2, planes.shape[0], -1)
    # As sums of products of exact numbers, both sides are equal to the last bit.
    out = jnp.round(both @ weights * 64) / 64
    return out[0, :, :7] + out[1, :, 6::-1], jnp.tanh((out[0, :, 7] + out[1, :, 7]) / 4)


def game_planes(state):
    return GAME.observe(state, GAME.current_player(state)).astype(jnp.float32)


WEIGHTS = np.round(np.random.default_rng(0).normal(size=(42 * GAME.observation_shape[-1], 8)) * 16) / 64

SEARCHES = {
    "puct, 4 leaves": functools.partial(jaxsearch.puct, leaves=4),
    "puct, 8 leaves, loss 3": functools.partial(jaxsearch.puct, leaves=8, virtual_loss=3.0),
}


def test_mirrored_positions_get_mirrored_visits():
    """For either colour, where virtual losses steer."""
    games = ["4433", "123", "77", "6654", "664", "1425", "5", "33421"]
    mirrored = ["".join(str(8 - int(move)) for move in game) for game in games]
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(GAME.from_string, games + mirrored))
    search = SEARCHES["puct, 4 leaves"](GAME, even_handed, simulations=64)
    out = quick_jit(search)(jax.random.key(0), states, jnp.asarray(WEIGHTS, jnp.float32))
    visits, half = np.asarray(out.visits), len(games)
    assert (visits[:half] != visits[:half, ::-1]).any(-1).mean() > 0.7, "these say something"
    np.testing.assert_array_equal(visits[:half], visits[half:, ::-1])
    np.testing.assert_allclose(out.value[:half], out.value[half:], atol=1e-6)


@pytest.mark.parametrize("kind", SEARCHES)
def test_both_players_search_alike(kind):
    """The same piles with either player to move: the same visits, though who leaves a third moves again."""

    def judge(params, key, piles):
        """For the mover, whoever that is."""
        del params, key
        stones = piles.stones.astype(jnp.float32)
        return jnp.sin(stones[:, None] * jnp.array([[1.0, 1.7, 2.9]]) + 0.3), 0.6 * jnp.cos(stones)

    stones = jnp.tile(jnp.arange(4, 12, dtype=jnp.int32), 2)
    player = jnp.repeat(jnp.arange(2, dtype=jnp.int32), 8)
    piles = Pile(stones, player, jnp.full((16,), -1, jnp.int32))
    search = SEARCHES[kind](AgainNim(12), judge, simulations=64)
    out = quick_jit(search)(jax.random.key(0), piles)
    for answer in (out.visits, out.value, out.weights, out.action):
        np.testing.assert_array_equal(*np.split(np.asarray(answer), 2))
    assert len(np.unique(out.visits, axis=0)) > 4
