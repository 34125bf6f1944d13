"""What adapted games share: other libraries give their actions numbers and no names."""

from __future__ import annotations

import re
from typing import Any, cast

import jax
import jax.numpy as jnp

from games_jax.game import Game, State
from games_jax.play import replay


class NumberedActions:
    """Notation in which a move is its action's number and a position is the moves that led there.

    The class beside it says the game's `name`, `num_actions` and `has_chance`.
    """

    def action_to_string(self, action: int) -> str:
        """The action's number."""
        return str(int(action))

    def action_from_string(self, text: str) -> int:
        """The action of a number; ValueError if it is none of 0..A-1."""
        move, num_actions = text.strip(), cast(Game, self).num_actions
        if not re.fullmatch(r"[0-9]+", move) or int(move) >= num_actions:
            raise ValueError(f"{text!r} is not an action; give a number from 0 to {num_actions - 1}.")
        return int(move)

    def from_string(self, text: str) -> State:
        """The state after action numbers separated by spaces, from the start that `jax.random.key(0)` gives.

        Raises:
            ValueError: no number, an illegal action, an action after the end, or a game with chance.
        """
        game = cast(Game, self)
        if game.has_chance:
            raise ValueError(f"{game.name} has chance; moves alone do not name a position.")
        return replay(game, text.split())


def strongly_typed(tree: Any) -> Any:
    """The same leaves as arrays with a dtype of their own.

    Some environments start from Python numbers or weakly typed arrays, which would trace step twice.
    """
    return jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, jnp.asarray(leaf).dtype), tree)


def longest_game(known: int | None, given: int | None, what: str) -> int:
    """The longest game in steps: as given, or else as known.

    Raises:
        ValueError: neither.
    """
    steps = known if given is None else given
    if steps is None:
        raise ValueError(f"how long a game of {what} can last is not known; pass max_steps=.")
    return int(steps)
