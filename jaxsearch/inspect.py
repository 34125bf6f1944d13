"""Looking at one tree of a finished search: its main line, its history, and the tree as text or picture.

All of it runs on the host, in numpy; keep the tree with `keep_tree=True`. Dimensions: N nodes, A actions.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsearch.tree import NO_NODE, Tree, node_number

__all__ = [
    "Move",
    "NodeInfo",
    "nodes",
    "principal_variation",
    "to_graphviz",
    "to_json",
    "to_png",
    "visit_history",
]

ActionName = Callable[[int], str]
"""The name of an action, such as a game's `action_to_string`."""


class Move(NamedTuple):
    """A move of the principal variation.

    Attributes:
        action: its number.
        visits: how often the search chose it.
        value: its mean return for the player who makes it.
    """

    action: int
    visits: int
    value: float


class NodeInfo(NamedTuple):
    """A node and the edge that leads to it.

    Attributes:
        node: its number within the tree; 0 is the root, and node n was made by simulation n.
        parent: the node above; -1 for the root.
        action: the edge; -1 for the root.
        depth: edges from the root.
        visits: simulations through the node; for the root all of them.
        value: mean return of the edge, for the player who moves along it; the root's is for its own mover.
        prior: of the edge; 1 for the root.
        over: whether the game is over there, or its result proven.
    """

    node: int
    parent: int
    action: int
    depth: int
    visits: int
    value: float
    prior: float
    over: bool


class _Host(NamedTuple):
    """One tree in numpy: `[N, A]`, the nodes' own values `[N]`; `ends` is bool, where a descent stops."""

    visits: np.ndarray
    sums: np.ndarray
    priors: np.ndarray
    value: np.ndarray
    children: np.ndarray
    ends: np.ndarray


def principal_variation(tree: Tree, batch_index: int = 0, *, max_length: int = 20) -> list[Move]:
    """The most visited moves from the root down; of equally visited ones the better.

    Args:
        tree: of a finished search.
        batch_index: which of its B trees.
        max_length: moves at most.

    Raises:
        ValueError: a batch index that is not there, or a length below 1.

    Example:
        >>> import games_jax, jax, jaxsearch
        >>> game = games_jax.make("tic_tac_toe")
        >>> states = jax.tree.map(lambda leaf: leaf[None], game.from_string("XX./OO./... X"))
        >>> search = jaxsearch.puct(game, jaxsearch.uniform(game), simulations=50, keep_tree=True)
        >>> line = principal_variation(jax.jit(search)(jax.random.key(0), states).tree)
        >>> [game.action_to_string(move.action) for move in line], line[0].value
        (['c1'], 1.0)
    """
    host = _host(tree, batch_index)
    if max_length < 1:
        raise ValueError(f"max_length is {max_length}; expected at least 1")
    line: list[Move] = []
    node = 0
    while node != NO_NODE and host.visits[node].max() > 0 and len(line) < max_length:
        visits = host.visits[node]
        means = host.sums[node] / np.maximum(visits, 1)
        action = int(np.lexsort((means, visits))[-1])
        line.append(Move(action, int(visits[action]), float(means[action])))
        node = NO_NODE if host.ends[node, action] else int(host.children[node, action])
    return line


def visit_history(tree: Tree, batch_index: int = 0) -> np.ndarray:
    """How the visits of the root's actions grew.

    A tree gone on with after a move tells of the simulations whose nodes it kept.

    Args:
        tree: of a finished search.
        batch_index: which of its B trees.

    Returns:
        int `[S + 1, A]`; row s holds the counts after s simulations.

    Raises:
        ValueError: a batch index that is not there.
    """
    host = _host(tree, batch_index)
    num_actions = host.visits.shape[1]
    taken = np.asarray(tree.taken.reshape(tree.num_nodes, tree.num_trees)[:, batch_index])
    through = np.full(len(taken), -1)  # the root's action that each simulation went through
    history = np.zeros(host.visits.shape, np.int64)
    for simulation in np.flatnonzero(taken >= 0):
        number, action = divmod(int(taken[simulation]), num_actions)
        node = number // tree.num_trees
        through[simulation] = action if node == 0 else through[node]
        history[simulation, through[simulation]] = 1
    return np.cumsum(history, axis=0)


def nodes(tree: Tree, batch_index: int = 0, *, max_nodes: int | None = None) -> list[NodeInfo]:
    """The tree's nodes, most visited first; with each its parent is there too.

    Args:
        tree: of a finished search.
        batch_index: which of its B trees.
        max_nodes: how many at most; all by default.

    Raises:
        ValueError: a batch index that is not there, or fewer than one node.
    """
    host = _host(tree, batch_index)
    if max_nodes is not None and max_nodes < 1:
        raise ValueError(f"max_nodes is {max_nodes}; expected at least 1")
    total = int(host.visits[0].sum())
    value = (host.value[0] + host.sums[0].sum()) / (1 + total)
    found = {0: NodeInfo(0, -1, -1, 0, total, float(value), 1.0, False)}
    for parent, action in np.argwhere(host.children != NO_NODE).tolist():
        child, visits = int(host.children[parent, action]), host.visits[parent, action]
        found[child] = NodeInfo(
            node=child,
            parent=parent,
            action=action,
            depth=found[parent].depth + 1,
            visits=int(visits),
            value=float(host.sums[parent, action] / max(visits, 1)),
            prior=float(host.priors[parent, action]),
            over=bool(host.ends[parent, action]),
        )
    # No node is visited more often than its parent, nor made before it.
    order = sorted(found.values(), key=lambda info: (-info.visits, info.node))
    return order[:max_nodes]


def to_json(
    tree: Tree,
    batch_index: int = 0,
    *,
    max_nodes: int | None = None,
    action_name: ActionName | None = None,
) -> str:
    """The tree as JSON, one node a line, with the fields of `NodeInfo`; `name` too where there are names.

    Arguments and errors as for `nodes`; `action_name` such as `game.action_to_string`.
    """
    lines = []
    for info in nodes(tree, batch_index, max_nodes=max_nodes):
        record: dict[str, Any] = info._asdict()
        if action_name is not None and info.parent >= 0:
            record["name"] = action_name(info.action)
        lines.append(json.dumps(record))
    return f'{{"num_actions": {tree.num_actions}, "nodes": [\n' + ",\n".join(lines) + "\n]}\n"


def to_graphviz(
    tree: Tree, batch_index: int = 0, *, max_nodes: int = 50, action_name: ActionName | None = None
) -> str:
    """The most visited nodes as a drawing in Graphviz's language: `dot -Tsvg` makes a picture of it.

    Each node shows its visits and its value for the player who moved there, each edge its action; the
    thicker, the more of the parent's visits it has. Arguments and errors as for `nodes`.
    """
    shown = nodes(tree, batch_index, max_nodes=max_nodes)
    visits = {info.node: info.visits for info in shown}
    lines = ["digraph tree {", '  node [shape=box, fontname="sans-serif"];']
    for info in shown:
        shape = ", style=bold" if info.over else ""
        lines.append(f'  n{info.node} [label="{info.visits}\\n{info.value:+.2f}"{shape}];')
        if info.parent >= 0:
            label = _name(info, action_name).replace("\\", "\\\\").replace('"', '\\"')
            width = 0.5 + 4.5 * info.visits / max(visits[info.parent], 1)
            lines.append(f'  n{info.parent} -> n{info.node} [label="{label}", penwidth={width:.2f}];')
    return "\n".join([*lines, "}\n"])


def to_png(
    tree: Tree,
    path: str | Path,
    batch_index: int = 0,
    *,
    max_nodes: int = 50,
    action_name: ActionName | None = None,
) -> None:
    """Draws the most visited nodes, root on top, edges as thick as their share of the parent's visits.

    Args:
        tree: of a finished search.
        path: the file to write; its suffix says the format, as matplotlib knows them.
        batch_index: which of its B trees.
        max_nodes: how many nodes at most.
        action_name: such as `game.action_to_string`.

    Raises:
        ImportError: matplotlib is not there.
        ValueError: as for `nodes`, or a suffix that is no picture's.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "to_png draws with matplotlib, which is not installed: pip install matplotlib"
        ) from error
    shown = {info.node: info for info in nodes(tree, batch_index, max_nodes=max_nodes)}
    columns = _columns(shown)
    depth = max(info.depth for info in shown.values())
    figure = Figure(figsize=(max(4.0, 0.6 * (max(columns.values()) + 1)), 1.0 + 1.1 * (depth + 1)), dpi=100)
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.set_axis_off()
    axes.invert_yaxis()
    for info in shown.values():
        x, y = columns[info.node], info.depth
        if info.parent >= 0:
            above = shown[info.parent]
            width = 0.5 + 4.5 * info.visits / max(above.visits, 1)
            axes.plot([columns[above.node], x], [above.depth, y], color="#a9c7da", lw=width, zorder=1)
        label = f"{info.visits}\n{info.value:+.2f}"
        label = label if info.parent < 0 else f"{_name(info, action_name)}\n{label}"
        box = {"boxstyle": "round", "facecolor": "#f2e8cf" if info.over else "white", "edgecolor": "#2a6f97"}
        axes.text(x, y, label, ha="center", va="center", fontsize=7, bbox=box, zorder=2)
    axes.margins(0.08)
    figure.savefig(path, bbox_inches="tight")


def _columns(shown: dict[int, NodeInfo]) -> dict[int, float]:
    """Where each node stands: leaves side by side, the others above the middle of what is below."""
    below: dict[int, list[int]] = {node: [] for node in shown}
    for info in shown.values():
        if info.parent >= 0:
            below[info.parent].append(info.node)
    columns: dict[int, float] = {}
    waiting, order = [0], []
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting += sorted(below[node], key=lambda child: -shown[child].action)
    leaves = 0
    for node in order:
        if not below[node]:
            columns[node] = float(leaves)
            leaves += 1
    for node in reversed(order):
        if below[node]:
            columns[node] = float(np.mean([columns[child] for child in below[node]]))
    return columns


def _name(info: NodeInfo, action_name: ActionName | None) -> str:
    return str(info.action) if action_name is None else action_name(info.action)


def _host(tree: Tree, batch_index: int) -> _Host:
    b, a = tree.num_trees, tree.num_actions
    if not 0 <= batch_index < b:
        raise ValueError(f"batch_index is {batch_index}; expected 0 to {b - 1}, as the tree holds {b}")
    rows = np.asarray(tree.rows.reshape(-1, b, tree.rows.shape[-1])[:, batch_index], np.float64)
    children = np.asarray(tree.children.reshape(-1, b, a)[:, batch_index])
    numbers = np.asarray(node_number(jnp.asarray(children))) // b
    return _Host(
        visits=rows[:, :a].astype(np.int64),
        sums=rows[:, a : 2 * a],
        priors=rows[:, 2 * a : 3 * a],
        value=rows[:, 3 * a],
        children=np.where(children == NO_NODE, NO_NODE, numbers),
        ends=children < NO_NODE,
    )
