"""Rubik's cubes: the 2x2x2 and the 3x3x3."""

from games_jax.cube.rules import Cube, Cube2, Cube3, State

__all__ = ["Cube", "Cube2", "Cube3", "State"]
