"""Connect Four against the truth: positions with exact scores, and games against perfect play.

Dimensions: N positions, A = 7 columns.
"""

from __future__ import annotations

import dataclasses
import functools
import gzip
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import games_jax
from games_jax.game import Game
from train.players import AnyPlayer, choose_actions


class SolvedPositions(NamedTuple):
    """Positions and what is right in them.

    Attributes:
        states: `[N]` Connect Four states.
        keeps: bool `[N, A]`, moves that keep the perfect result.
        optimal: bool `[N, A]`, moves that also win as early or lose as late as possible.
        decisive: bool `[N]`, whether some legal move changes the result.
        ply: int `[N]`, stones on the board.
    """

    states: Any
    keeps: np.ndarray
    optimal: np.ndarray
    decisive: np.ndarray
    ply: np.ndarray


class Share(NamedTuple):
    """A share of N positions with its standard error."""

    share: float
    error: float
    positions: int

    def __str__(self) -> str:
        return f"{self.share:.1%} ± {self.error:.1%}"


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """How often a player's moves are right.

    Attributes:
        all: keeps the perfect result, over all positions.
        decisive: the same over positions where some legal move does not.
        optimal: plays a move of the best score (earliest win, latest loss), over all positions.
    """

    all: Share
    decisive: Share
    optimal: Share


def load_solved(path: str | Path) -> SolvedPositions:
    """Reads `connect_four_solved.json.gz`.

    Raises:
        ValueError: if the file is not there or not of that kind.
    """
    try:
        with gzip.open(path, "rt") as file:
            entries = json.load(file)["positions"]
        moves = [[int(c) for c in entry["moves"]] for entry in entries]
        scores = [entry["scores"] for entry in entries]
        keeps = _columns(entry["wdl_best"] for entry in entries)
        optimal = _columns(entry["best"] for entry in entries)
    except FileNotFoundError:
        raise ValueError(f"There is no file {path}; give the path of connect_four_solved.json.gz.") from None
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is not a gzipped JSON file of solved Connect Four positions ({error!r})."
        ) from None
    legal = np.array([[s is not None for s in row] for row in scores])
    ply = np.array([len(m) for m in moves])
    padded = np.full((ply.max(), len(moves)), -1, np.int32)
    for i, line in enumerate(moves):
        padded[: len(line), i] = line
    states = _replay(jnp.asarray(padded), game=games_jax.make("connect_four"))
    return SolvedPositions(states, keeps, optimal, np.any(legal & ~keeps, axis=1), ply)


def _columns(rows) -> np.ndarray:
    """Bool `[N, A]` from lists of columns."""
    return np.array([np.isin(np.arange(7), row) for row in rows])


@functools.partial(jax.jit, static_argnames="game")
def _replay(moves: jax.Array, *, game: Game) -> Any:
    """States `[N]` after moves `[T, N]`; -1 is no move."""
    start = game.init(jax.random.key(0))
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (moves.shape[1], *x.shape)), start)

    def play(states, actions):
        after = jax.vmap(game.step)(states, jnp.maximum(actions, 0))
        return jax.tree.map(lambda new, old: jnp.where(actions >= 0, new, old), after, states), None

    return jax.lax.scan(play, states, moves)[0]


def accuracy(player: AnyPlayer, positions: SolvedPositions, *, key: jax.Array) -> Accuracy:
    """Asks a player for its move in every position at once and compares with the truth.

    Args:
        player: a Connect Four player.
        positions: N solved positions.
        key: consumed by the player.
    """
    actions = np.asarray(choose_actions(player, key, positions.states))
    rows = np.arange(len(actions))
    keeps = positions.keeps[rows, actions]
    return Accuracy(
        all=_share(keeps),
        decisive=_share(keeps[positions.decisive]),
        optimal=_share(positions.optimal[rows, actions]),
    )


def _share(right: np.ndarray) -> Share:
    share = float(right.mean())
    return Share(share, math.sqrt(share * (1 - share) / len(right)), len(right))


def play_first(player: AnyPlayer, opponent: AnyPlayer, *, games: int, key: jax.Array) -> np.ndarray:
    """Plays Connect Four games from the empty board in which `player` always moves first.

    The first player wins with perfect play, so that against perfect play every point lost is an error.

    Returns:
        Points of `player`, 1, 1/2 or 0, float `[games]`.
    """
    game = games_jax.make("connect_four")
    states = jax.vmap(game.init)(jax.random.split(key, games))
    step = jax.jit(jax.vmap(game.step))
    for ply in range(game.max_steps):
        mover = (player, opponent)[ply % 2]
        over = np.asarray(jax.vmap(game.is_over)(states))
        if over.all():
            break
        move_key = jax.random.fold_in(key, ply)
        states = step(states, choose_actions(mover, move_key, states, where=~over))
    rewards = np.asarray(jax.vmap(game.rewards)(states))[:, 0]
    return 0.5 * (1 + rewards)
