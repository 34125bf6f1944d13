"""Games as pure step functions on small states. The contract is `games_jax.game.Game`."""

from games_jax.checked import checked
from games_jax.game import Game, State, Symmetries, num_bytes, symmetries_of
from games_jax.play import check_action, legal_moves, play, replay
from games_jax.registry import make, names, parameters

__all__ = [
    "Game",
    "State",
    "Symmetries",
    "check_action",
    "checked",
    "legal_moves",
    "make",
    "names",
    "num_bytes",
    "parameters",
    "play",
    "replay",
    "symmetries_of",
]
