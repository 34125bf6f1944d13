"""Games for one player: what an agent earns alone, which is all that can be measured there.

Dimensions: B games.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.game import Game
from train.openings import step_batch
from train.players import Act, AnyPlayer, Player
from train.ratings import share_interval

__all__ = ["SoloResult", "play_alone", "solo_evaluation"]


@dataclasses.dataclass(frozen=True, eq=False)
class SoloResult:
    """What one player earned in games of its own; every array is `[B]`.

    Attributes:
        returns: float, the sum of each game's rewards.
        won: bool, whether the last move brought a positive reward: of a cube, whether it was solved.
        lengths: int, plies.
    """

    returns: np.ndarray
    won: np.ndarray
    lengths: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON; `score` is the share of games won, with its 95 % interval."""
        games, wins = len(self.won), int(self.won.sum())
        low, high = share_interval(wins, games)
        return {
            "games": games,
            "wins": wins,
            "losses": games - wins,
            "score": wins / games,
            "low": low,
            "high": high,
            "mean_return": float(self.returns.mean()),
            "mean_length": float(self.lengths.mean()),
        }


def play_alone(game: Game, player: Player, *, games: int, key: jax.Array) -> SoloResult:
    """Plays `games` games from fresh starts to their ends, all at once.

    Compiled once per game, `act` and number of games. Players that are given the same key start from the same
    positions.

    Args:
        game: a game for one player.
        player: a device player.
        games: how many.
        key: consumed.

    Raises:
        ValueError: the game is not for one player.
    """
    if game.num_players != 1:
        raise ValueError(f"Nobody plays {game.name} alone; it is a game for {game.num_players}.")
    returns, won, lengths = jax.device_get(
        _play(key, player.params, game=game, act=player.act, games=games)  # pyright: ignore
    )
    return SoloResult(returns, won, lengths)


@functools.partial(jax.jit, static_argnames=("game", "act", "games"))
def _play(key: jax.Array, params: Any, *, game: Game, act: Act, games: int) -> tuple[jax.Array, ...]:
    start_key, play_key = jax.random.split(key)
    states = jax.vmap(game.init)(jax.random.split(start_key, games))
    zeros = jnp.zeros(games, jnp.float32)
    carry = jnp.int32(0), states, zeros, jnp.zeros(games, bool), jnp.zeros(games, jnp.int32)

    def unfinished(carry: tuple[Any, ...]) -> jax.Array:
        step, states, *_ = carry
        return (step < game.max_steps) & ~jnp.all(jax.vmap(game.is_over)(states))

    def ply(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        step, states, returns, won, lengths = carry
        act_key, chance_key = jax.random.split(jax.random.fold_in(play_key, step))
        going = ~jax.vmap(game.is_over)(states)
        states = step_batch(game, chance_key, states, act(act_key, states, params))
        rewards = jax.vmap(game.rewards)(states)[:, 0]
        won = jnp.where(going, jax.vmap(game.is_over)(states) & (rewards > 0), won)
        return step + 1, states, returns + jnp.where(going, rewards, 0.0), won, lengths + going

    return jax.lax.while_loop(unfinished, ply, carry)[2:]


def solo_evaluation(
    game: Game,
    opponents: Sequence[AnyPlayer],
    *,
    games: int,
    base_key: jax.Array,
    self_at: Callable[[Any, int], Player],
) -> Callable[[Any, int], dict[str, Any]]:
    """The `evaluate(state, iteration)` of a run whose game is for one player.

    The record's `alone` holds, by name, `SoloResult.to_dict()` of the run's newest self, called "agent", and
    of the fixed players, all on the same starts. There is no rating, since nobody meets anybody.

    Args:
        game: a game for one player.
        opponents: the fixed players.
        games: games of each.
        base_key: the starts follow from it; every evaluation has the same.
        self_at: the player that a state of the run is, at an iteration.

    Raises:
        ValueError: an opponent is no JAX function.
    """
    for opponent in opponents:
        if not isinstance(opponent, Player):
            raise ValueError(f"{opponent.name} does not play {game.name}, a game for one player.")
    fixed: dict[str, dict[str, Any]] = {}

    def evaluate_state(state: Any, iteration: int) -> dict[str, Any]:
        player = self_at(state, iteration)
        results = {"agent": play_alone(game, player, games=games, key=base_key).to_dict()}
        for opponent in opponents:
            if isinstance(opponent, Player) and opponent.name not in fixed:
                fixed[opponent.name] = play_alone(game, opponent, games=games, key=base_key).to_dict()
        return {"player": player.name, "alone": results | fixed}

    return evaluate_state
