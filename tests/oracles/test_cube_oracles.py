"""The cubes against magiccube, move by move, and against kociemba's solver."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from games_jax.cube import Cube2, Cube3, render

# magiccube's colours by our faces; it gives the faces in the order U L F R B D.
COLOURS = {"W": "U", "R": "R", "G": "F", "Y": "D", "O": "L", "B": "B"}
ORDER = "ULFRBD"


@functools.partial(jax.jit, static_argnums=0)
def play(game, state, actions):
    def turn(states, action):
        states = jax.vmap(game.step, in_axes=(0, 0))(states, action)
        return states, jax.vmap(lambda state: game.observe(state, jnp.int32(0)))(states)

    return jax.lax.scan(turn, state, actions)[1]


@pytest.mark.parametrize(("game", "plies"), [(Cube2(), 7), (Cube3(), 8)])
def test_every_move_of_random_sequences(game, plies):
    """2,000 scrambles, compared sticker by sticker after every move."""
    magiccube = pytest.importorskip("magiccube")
    rng = np.random.default_rng(game.size)
    actions = rng.integers(0, game.num_actions, (plies, 2000))
    first = game.action_from_string("R")
    actions[0] = first  # not from the solved cube, where a game is over
    start = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (2000,)), game.from_string("R'  F"))
    seen = np.asarray(play(game, start, jnp.asarray(actions, jnp.int32)))
    faces = game.size**2
    for index in range(2000):
        cube = magiccube.Cube(game.size)
        cube.rotate("R' F")
        for ply in range(plies):
            if cube.is_done():
                break
            cube.rotate(game.action_to_string(actions[ply, index]))
            letters = "".join(COLOURS[colour] for colour in cube.get())
            theirs = {face: letters[i * faces : (i + 1) * faces] for i, face in enumerate(ORDER)}
            expected = "".join(theirs[face] for face in "URFDLB")
            assert render.facelets(seen[ply, index]) == expected, actions[: ply + 1, index].tolist()


@pytest.mark.slow  # its tables take half a minute where it has no compiled part
def test_kociemba_solves_our_random_cubes():
    """Its parser accepts uniformly random cubes, and its solutions solve them by our turns."""
    kociemba = pytest.importorskip("kociemba")
    game = Cube3()
    states = jax.jit(jax.vmap(game.init))(jax.random.split(jax.random.key(5), 12))
    for index in range(12):
        state = jax.tree.map(lambda leaf, i=index: leaf[i], states)
        for move in kociemba.solve(game.to_string(state)).split():
            assert not bool(game.is_over(state))
            state = game.step(state, jnp.int32(game.action_from_string(move)))
        assert bool(game.is_solved(state))
