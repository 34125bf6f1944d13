"""States worked out anew instead of kept: a leaf's is its root's after the path's moves.

Nodes then take their statistics alone. A simulation plays as many moves as its path is long, for all trees in
step, where it would look the state up; so it pays where a state is large beside the statistics
(`docs/tree.md`), and steps are cheap.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from jaxsearch import steps
from jaxsearch.steps import Cursor
from jaxsearch.tree import Tree
from jaxsearch.types import State

__all__ = ["StepFn", "leaf_states"]

StepFn = Callable[[State, jax.Array], State]
"""`(states [B], actions [B]) -> states [B]`: one move of the game, the same every time."""


def leaf_states(step: StepFn, tree: Tree, cursor: Cursor, edge: jax.Array) -> State:
    """The states of the nodes from which descents have come to `edge` (int32 `[B]`)."""
    moves = steps.length_of(tree, edge) - 1

    def play(level: jax.Array, states: State) -> State:
        level = jnp.asarray(level, jnp.int32)  # int64 where 64-bit numbers are on
        action = jax.lax.rem(steps.edges_of(cursor, level), np.int32(tree.num_actions))
        after, on = step(states, action), level < moves

        def chosen(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(on.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        return jax.tree.map(chosen, after, states)

    roots = tree.packer.unpack({name: table[0] for name, table in tree.states.items()})
    return jax.lax.fori_loop(0, jnp.max(moves), play, roots)
