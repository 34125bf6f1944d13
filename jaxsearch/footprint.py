"""How many bytes a search takes, and whether there are as many.

`docs/tree.md` says where they go. A search is refused before anything is allocated: XLA would say so later,
in the middle of a program, of some buffer; and on a CPU the operating system would end the process.
"""

from __future__ import annotations

import os
import pathlib
from typing import Literal, NamedTuple

import jax

from jaxsearch.storage import Packer
from jaxsearch.types import Environment, State

__all__ = ["Memory", "available", "check", "memory", "of_trees"]

_CONTAINER_LIMIT = pathlib.Path("/sys/fs/cgroup/memory.max")


class Memory(NamedTuple):
    """Bytes of a batch of trees.

    Attributes:
        total: of all arrays of the trees.
        per_node: of a node with all its edges, its state included.
        per_edge: of each action of a node.
        per_state: of a game state; kept in every node, or in the roots alone.
    """

    total: int
    per_node: int
    per_edge: int
    per_state: int


def memory(
    game: Environment,
    states: State,
    *,
    simulations: int,
    kept: int = 1,
    amaf: bool = False,
    solver: bool = False,
    keep_states: bool = True,
) -> Memory:
    """What the trees of a search by `uct`, `puct` and their like take; the evaluator comes on top.

    Args:
        game: what is searched.
        states: `[B]`, or their shapes and dtypes.
        simulations: S.
        kept: nodes that a tree gone on with has room for: the capacity of `reroot`.
        amaf: as `rave` and `policy_bonus` keep it.
        solver: as for `solver=True`.
        keep_states: False is for `states="replay"`.

    Example:
        >>> import games_jax, jax, jaxsearch
        >>> game = games_jax.make("connect_four")
        >>> states = jax.eval_shape(jax.vmap(game.init), jax.random.split(jax.random.key(0), 1024))
        >>> jaxsearch.memory(game, states, simulations=64)
        Memory(total=10653696, per_node=160, per_edge=16, per_state=16)
    """
    return of_trees(
        Packer.of(states),
        trees=jax.tree.leaves(states)[0].shape[0],
        nodes=simulations + kept,
        num_actions=game.num_actions,
        amaf=amaf,
        prove=solver,
        players=game.num_players if game.num_players > 2 else 0,
        keep_states=keep_states,
    )


def of_trees(
    packer: Packer,
    *,
    trees: int,
    nodes: int,
    num_actions: int,
    amaf: bool = False,
    prove: bool = False,
    players: int = 0,
    keep_states: bool = True,
) -> Memory:
    """The same from the parts: `players` is P where trees keep `Tree.players`, else 0."""
    # Visits, value sums, priors and children; later visits and sums; proofs.
    per_edge = 4 * (4 + 2 * amaf + prove)
    # Value, reward, discount and two totals; choice, depth and edge taken; mover and rewards.
    per_node = 4 * (5 + 3) + num_actions * per_edge + 4 * (1 + players) * (players > 0)
    state = packer.num_bytes
    per_node += state * keep_states
    total = trees * (nodes * per_node + state * (not keep_states) + 4)  # the seed that decides between equals
    return Memory(total, per_node, per_edge, state)


def available() -> int | None:
    """Bytes that the default devices of this process have, all together; None where nobody says.

    All together, because a batch of searches may be spread over them.
    """
    stats = [device.memory_stats() for device in jax.local_devices()]
    limits = [entry["bytes_limit"] for entry in stats if entry and "bytes_limit" in entry]
    if limits:
        return sum(limits)
    try:
        host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on every system
        return None
    try:
        return min(host, int(_CONTAINER_LIMIT.read_text()))
    except (OSError, ValueError):  # no container, or "max"
        return host


def check(
    needed: int, limit: int | None, *, trees: int, nodes: int, states: Literal["keep", "replay"]
) -> None:
    """Raises MemoryError where a search would need more than `limit` bytes, or than there are (None)."""
    most = available() if limit is None else limit
    if most is None or needed <= most:
        return
    replay = ', or give states="replay"' if states == "keep" else ""
    whose = "the devices have" if limit is None else "memory_limit allows"
    raise MemoryError(
        f"{trees} trees of {nodes} nodes take {needed:,} bytes, and {whose} {most:,}; search fewer trees at "
        f"once, or with fewer simulations{replay}"
    )
