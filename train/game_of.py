"""The game that a config or a command names, if training, players and commands can use it."""

from __future__ import annotations

import games_jax
from games_jax.game import Game, is_simultaneous
from train.config import ConfigError, GameConfig

__all__ = ["game_of", "sequential"]


def game_of(settings: GameConfig) -> Game:
    """The game of a config's `[game]`.

    Raises:
        ConfigError: no such game, parameters that it does not take, or simultaneous moves.
    """
    try:
        return sequential(games_jax.make(settings.name, **settings.parameters))
    except ValueError as error:
        raise ConfigError(str(error), "game") from error


def sequential(game: Game) -> Game:
    """`game` itself.

    Raises:
        ValueError: its players move at once, which players and trainers of single moves cannot do.
    """
    if is_simultaneous(game):
        raise ValueError(
            f"All players of {game.name} move at once, and here they move in turn; show it as a game for one "
            "or two by games_jax.views.single_player_view or two_player_view, from Python."
        )
    return game
