"""Moves from outside: from a person, a protocol, a file. Each one is checked before it is played.

A game's raw `step` trusts its caller. These functions run on the host, one state at a time, and refuse what
is illegal with a sentence that names what would have been legal.

Where a move's name depends on the position, as in chess, the game has `move_to_string(state, action)` and
`move_from_string(state, text)`, and these are used.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import jax
import numpy as np

from games_jax.game import Game, State

_LISTED = 40


@functools.partial(jax.jit, static_argnums=0)
def _legal(game: Game, state: State) -> jax.Array:
    return game.legal_actions(state)


@functools.partial(jax.jit, static_argnums=0)
def _step(game: Game, state: State, action: jax.Array) -> State:
    return game.step(state, action)


def legal_numbers(game: Game, state: State) -> list[int]:
    """The legal actions of one state."""
    return np.flatnonzero(_legal(game, state)).tolist()


def legal_moves(game: Game, state: State) -> list[str]:
    """The legal moves of one state in the game's notation, in the order of their actions."""
    return [write_move(game, state, action) for action in legal_numbers(game, state)]


def check_action(game: Game, state: State, action: int | str) -> int:
    """The action as a number, if it is legal in this one state.

    Args:
        action: an action number, or a move in the game's notation.

    Raises:
        ValueError: the game is over, the move cannot be read, is out of range, or is illegal; the sentence
            names the legal moves.
    """
    legal = np.asarray(_legal(game, state))
    if not legal.any():
        raise ValueError(f"move {action!r} comes after the end of the game; start a new game.")
    number = read_move(game, state, action) if isinstance(action, str) else int(action)
    if not 0 <= number < game.num_actions:
        raise ValueError(
            f"action {number} is out of range; {game.name} has actions 0 to {game.num_actions - 1}. "
            f"Legal now: {_listed(game, state, legal)}."
        )
    if not legal[number]:
        raise ValueError(
            f"move {write_move(game, state, number)!r} is illegal here. "
            f"Legal now: {_listed(game, state, legal)}."
        )
    return number


def play(game: Game, state: State, action: int | str) -> State:
    """The state after one move, which is checked first.

    Raises:
        ValueError: as `check_action`.
    """
    return _step(game, state, np.int32(check_action(game, state, action)))


def replay(game: Game, moves: Iterable[int | str], *, start: State | None = None) -> State:
    """The state after a list of moves from the start of the game (or from `start`).

    Raises:
        ValueError: as `check_action`, with the number of the move at fault.
    """
    state = game.init(jax.random.key(0)) if start is None else start
    for number, move in enumerate(moves, start=1):
        try:
            state = play(game, state, move)
        except ValueError as error:
            raise ValueError(f"at move {number}: {error}") from None
    return state


def write_move(game: Game, state: State, action: int) -> str:
    """The action's name in this one state."""
    if hasattr(game, "move_to_string"):
        return game.move_to_string(state, int(action))  # type: ignore[attr-defined]
    return game.action_to_string(int(action))


def read_move(game: Game, state: State, text: str) -> int:
    """The action that the text names in this one state; whether it is legal is not asked.

    Raises:
        ValueError: the text names no move.
    """
    if hasattr(game, "move_from_string"):
        return game.move_from_string(state, text)  # type: ignore[attr-defined]
    return game.action_from_string(text)


def write_line(game: Game, state: State, actions: Iterable[int]) -> list[str]:
    """The names of actions made one after the other from `state`; each must be legal in its turn.

    Raises:
        ValueError: as `check_action`.
    """
    names = []
    for action in actions:
        names.append(write_move(game, state, action))
        if hasattr(game, "move_to_string"):  # elsewhere a name needs no position
            state = play(game, state, int(action))
    return names


def list_moves(game: Game, state: State) -> str:
    """The legal moves of one state in one sentence; a long list is cut."""
    return _listed(game, state, np.asarray(_legal(game, state)))


def _listed(game: Game, state: State, legal: np.ndarray) -> str:
    actions = np.flatnonzero(legal)
    shown = ", ".join(write_move(game, state, action) for action in actions[:_LISTED])
    more = len(actions) - _LISTED
    return f"{shown} and {more} more" if more > 0 else shown
