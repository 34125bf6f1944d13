"""Chess. The game is `Chess`; the rest of the package is for those who want its parts."""

from games_jax.chess.chess import Chess
from games_jax.chess.perft import perft
from games_jax.chess.rules import ENDINGS, State

__all__ = ["ENDINGS", "Chess", "State", "perft"]
