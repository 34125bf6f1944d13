"""Hex against the truth: who wins after each first move, and whether a player holds those wins.

Dimensions: N = size * size openings, R repetitions.
"""

from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.game import Game
from games_jax.hex import Hex
from train.arena import MatchResult, play_match
from train.networks import Network, Variables, show
from train.openings import Openings
from train.players import AnyPlayer
from train.tournament import every_opening

__all__ = ["hold_openings", "load_winning", "play_openings", "value_signs"]


def load_winning(path: str | Path, game: Game) -> np.ndarray:
    """Bool `[N]`: whether the first player wins after each first move, from `hex_openings.json`.

    Raises:
        ValueError: the game is not Hex without swap, or the file does not know its size.
    """
    if not isinstance(game, Hex) or game.swap:
        raise ValueError(f"Solved openings are those of hex without swap, got {game.name}.")
    try:
        winning = json.loads(Path(path).read_text())["winning"]
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"{path} is no file of solved Hex openings: {error!r}.") from error
    size = f"{game.size}x{game.size}"
    if size not in winning:
        raise ValueError(f"{path} has no openings of {size}; expected one of {', '.join(winning)}.")
    cells = [game.action_from_string(name) for name in winning[size]]
    return np.isin(np.arange(game.size**2), cells)


def play_openings(
    game: Game, player: AnyPlayer, opponent: AnyPlayer, *, repeats: int, key: jax.Array
) -> MatchResult:
    """Every opening with both colours, `repeats` times; row `r N + i` is the r-th game of opening i."""
    once = every_opening(game)
    rows = np.tile(np.arange(len(once.moves)), repeats)
    states, returns = jax.tree.map(lambda leaf: leaf[rows], (once.states, once.returns))
    openings = Openings(states, once.moves[rows], returns, once.distinct)
    return play_match(game, player, opponent, games=2 * len(rows), key=key, openings=openings)


def hold_openings(result: MatchResult, winning: np.ndarray) -> np.ndarray:
    """Bool `[R, N]`: whether the first-named player of `play_openings` won with the side that should win."""
    seats = np.where(winning, 0, 1)
    points = result.points.reshape(-1, len(winning), 2)
    return np.take_along_axis(points, seats[None, :, None], axis=2)[..., 0] == 1.0


def value_signs(game: Game, network: Network, variables: Variables, winning: np.ndarray) -> np.ndarray:
    """Bool `[N]`: whether the network's value after each opening has the sign of the true result."""
    states = every_opening(game).states
    observations = jax.vmap(lambda state: show(network, game, state))(states)
    values = network.apply(variables, observations).value
    # The second player is to move, who wins where the first does not.
    return np.asarray((values > 0) == jnp.asarray(~winning))
