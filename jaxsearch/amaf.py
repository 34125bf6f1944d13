"""All moves as first: what an action was worth when it was played later.

After a simulation, every node on its path counts each action that the node's mover played there or later, in
the tree or in the playout that judged the leaf, with the return that the node saw. The statistics lie in a
table of their own, `Tree.amaf`, float32 `[N * B, 2 A]`: visits | value sums; a simulation touches the rows of
its path, and of the node it makes, which counts its own playout.

What was played is carried up the path as sets of actions (`action_sets.py`), two per lane: those of the
player to move and those of the other one. An edge of negative discount exchanges them. An action played more
than once in a simulation counts once.

Reference: Gelly and Silver (2011), Monte-Carlo tree search and rapid action value estimation in computer Go,
section 4.1.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsearch import action_sets

__all__ = ["Played", "first_rows", "go_up", "nothing", "of_leaf", "renewed", "turned"]


class Played(NamedTuple):
    """Sets of actions, uint32 `[L, W]` each, played by the player to move, and by the other one."""

    own: jax.Array
    other: jax.Array


def nothing(lanes: int, num_actions: int) -> Played:
    """Empty sets."""
    empty = jnp.zeros((lanes, action_sets.num_words(num_actions)), jnp.uint32)
    return Played(empty, empty)


def of_leaf(played: jax.Array | None, over: jax.Array, num_actions: int) -> Played:
    """What a playout reported, with the mover of the leaf first (`types.StepDetails`); None is nothing.

    So is what is reported where the game is `over`, bool `[L]`.

    Raises:
        ValueError: another shape, or more than two players.
    """
    lanes = over.shape[0]
    if played is None:
        return nothing(lanes, num_actions)
    words, packed = action_sets.num_words(num_actions), played.dtype == jnp.uint32
    last = words if packed else num_actions
    if played.shape not in ((lanes, 1, last), (lanes, 2, last)):
        raise ValueError(
            f"recurrent_fn reported actions played of shape {played.shape}; expected ({lanes}, P, "
            f"{num_actions}), or ({lanes}, P, {words}) in packed words, with P, the number of players, 1 or 2"
        )
    empty = nothing(lanes, num_actions)
    words = jnp.where(over[:, None, None], jnp.uint32(0), played if packed else action_sets.pack(played))
    return Played(words[:, 0], words[:, 1] if played.shape[1] == 2 else empty.other)


def first_rows(played: Played, value: jax.Array, num_actions: int) -> jax.Array:
    """Rows `[L, 2 A]` of new nodes: their own playouts, which brought `value` `[L]`."""
    return _counted(played.own, value, num_actions)


def turned(played: Played, mover_changes: jax.Array) -> Played:
    """The sets as the player before saw them, where the mover changes (bool `[L]`)."""
    change = mover_changes[:, None]
    own = jnp.where(change, played.other, played.own)
    return Played(own, jnp.where(change, played.own, played.other))


def go_up(played: Played, mover_changes: jax.Array, action: jax.Array, on: jax.Array) -> Played:
    """The sets one node up, where a path is `on` (bool `[L]`): turned, and the node's action added."""
    played = turned(played, mover_changes)
    num_actions = action_sets.WORD * played.own.shape[-1]
    taken = jnp.where(on[:, None], action_sets.single(action, num_actions), jnp.uint32(0))
    return Played(played.own | taken, played.other)


def renewed(rows: jax.Array, played: jax.Array, returns: jax.Array) -> jax.Array:
    """Rows `[R, 2 A]` after the sets `played` (uint32 `[R, W]`) brought `returns` `[R]`."""
    return rows + _counted(played, returns, rows.shape[-1] // 2)


def _counted(words: jax.Array, returns: jax.Array, num_actions: int) -> jax.Array:
    member = action_sets.unpack(words, num_actions)
    # Not a product: a return that is no number stays with the actions played.
    return jnp.concatenate([member, jnp.where(member > 0, returns[:, None], 0.0)], axis=-1)
