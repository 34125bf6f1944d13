"""Go: the game, its states, and its text forms."""

from games_jax.go.game import Go
from games_jax.go.notation import (
    Record,
    from_gtp,
    from_sgf_point,
    read_sgf,
    to_gtp,
    to_sgf_point,
    write_sgf,
)
from games_jax.go.rules import State
from games_jax.go.superko import SuperkoState

__all__ = [
    "Go",
    "Record",
    "State",
    "SuperkoState",
    "from_gtp",
    "from_sgf_point",
    "read_sgf",
    "to_gtp",
    "to_sgf_point",
    "write_sgf",
]
