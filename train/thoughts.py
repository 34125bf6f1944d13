"""What a search thinks of one state, as plain arrays: for tables and pictures.

Dimensions: A actions, N nodes.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import numpy as np

import jaxsearch
from games_jax.game import Game
from train.networks import evaluator
from train.player_specs import load_network, search_constants

LONGEST_LINE = 20


@dataclasses.dataclass(frozen=True, eq=False)
class Thoughts:
    """What a search says of one state.

    Attributes:
        visits: int `[A]`.
        priors: float `[A]`, or None if the search has none.
        qvalues: float `[A]` in [-1, 1] for the mover; of use only where `visits` is positive.
        value: the state's value for the mover.
        legal: bool `[A]`.
        line: the principal variation, actions.
    """

    visits: np.ndarray
    priors: np.ndarray | None
    qvalues: np.ndarray
    value: float
    legal: np.ndarray
    line: tuple[int, ...]

    @property
    def shares(self) -> np.ndarray:
        """Share of the visits, float `[A]`."""
        return self.visits / max(int(self.visits.sum()), 1)

    @property
    def order(self) -> np.ndarray:
        """Legal actions, most visited first."""
        actions = np.flatnonzero(self.legal)
        return actions[np.argsort(-self.visits[actions], kind="stable")]


def think_about(
    game: Game,
    state: Any,
    *,
    search: Literal["uct", "puct", "gumbel"],
    simulations: int,
    key: jax.Array,
    checkpoint: str | None = None,
    leaves: int | None = None,
) -> Thoughts:
    """Searches one state, without exploration noise, and keeps the tree.

    Args:
        game: the game.
        state: one state, not over.
        search: `"uct"` judges by random playouts, the others by a network.
        simulations: how many.
        key: consumed.
        checkpoint: where the network is; needed for `"puct"` and `"gumbel"`.
        leaves: judged at once by `"uct"` and `"puct"`, a divisor of `simulations`; None for `usual_leaves`.

    Raises:
        ValueError: if the state is over, a checkpoint is missing, not needed, or of another game, or `leaves`
            does not go with the search.
    """
    if leaves is None:
        leaves = 1 if search == "gumbel" else usual_leaves(simulations)
    elif search == "gumbel" and leaves > 1:
        raise ValueError(f"--leaves {leaves} does not go with --search gumbel; it is for uct and puct.")
    if bool(game.is_over(state)):
        raise ValueError("The game is over in this position; there is nothing to search.")
    if (search == "uct") == (checkpoint is not None):
        raise ValueError(
            f"--search {search} needs a --checkpoint."
            if checkpoint is None
            else "--search uct judges by random playouts and takes no --checkpoint."
        )
    if checkpoint is None:
        params, network = None, None
        searcher = jaxsearch.uct(game, simulations=simulations, leaves=leaves, keep_tree=True)
    else:
        network, params, metadata = load_network(checkpoint, game)
        name, make = ("gumbel", jaxsearch.gumbel) if search == "gumbel" else ("puct", jaxsearch.puct)
        constants = dict(search_constants(metadata.config.get("search", {}), name))
        if leaves > 1:
            constants["leaves"] = leaves
        searcher = make(game, evaluator(network, game), simulations=simulations, keep_tree=True, **constants)
    states = jax.tree.map(lambda x: x[None], state)
    output = jax.device_get(jax.jit(searcher)(key, states, params))
    tree = output.tree
    visits, children = np.asarray(tree.children_visits[0]), np.asarray(tree.children_index[0])
    legal = np.asarray(game.legal_actions(state))
    priors = None if network is None else np.where(legal, np.asarray(tree.block(2)[0, 0]), 0.0)
    return Thoughts(
        visits=output.visits[0],
        priors=priors,
        qvalues=output.qvalues[0],
        value=float(output.value[0]),
        legal=legal,
        line=principal_variation(visits, children),
    )


def usual_leaves(simulations: int) -> int:
    """Leaves to judge at once in one tree: 8 on an accelerator where the search is long enough, else 1.

    One tree keeps no accelerator busy: 8 leaves together take little longer than one. A CPU is as soon done
    with one after the other, and these are better spent.
    """
    busy = jax.default_backend() == "cpu"
    return 1 if busy or simulations % 8 or simulations < 800 else 8


def principal_variation(visits: np.ndarray, children: np.ndarray) -> tuple[int, ...]:
    """The most visited actions from the root down.

    Args:
        visits: int `[N, A]`, visits of each node's edges.
        children: int `[N, A]`, the node behind each edge, negative where there is none.
    """
    line: list[int] = []
    node = 0
    while node >= 0 and visits[node].max() > 0 and len(line) < LONGEST_LINE:
        action = int(visits[node].argmax())
        line.append(action)
        node = int(children[node, action])
    return tuple(line)
