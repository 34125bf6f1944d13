"""Pommerman: simultaneous moves, bombs, and agents to play against."""

from games_jax.pommerman.game import Pommerman
from games_jax.pommerman.state import Snapshot, State

__all__ = ["Pommerman", "Snapshot", "State"]
