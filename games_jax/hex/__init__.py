"""Hex on rhombic boards from 2x2 to 19x19."""

from games_jax.hex.rules import Hex, State

__all__ = ["Hex", "State"]
