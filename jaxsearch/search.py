"""The batched search: plant the trees, simulate, return them.

The steps of a simulation are in `steps.py`, the layout of a tree in `tree.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from jaxsearch import footprint, keys, solver, steps
from jaxsearch.players import Players, of_player
from jaxsearch.priors import mask_invalid, prior_probabilities
from jaxsearch.replay import StepFn, leaf_states
from jaxsearch.steps import Choice, Cursor, Passed, RootRule, Rule
from jaxsearch.storage import Packer
from jaxsearch.tree import EXTRA_COLUMNS, NO_NODE, Tree, ended, first_rows
from jaxsearch.types import Params, RecurrentFn, RootFnOutput

__all__ = ["RootRule", "Rule", "Stop", "search"]

Stop = Callable[[Tree, jax.Array], jax.Array]
"""`(tree, simulations done) -> bool [B]`: the trees whose search ends here."""

_MAX_SIMULATIONS = 1 << 24

_MAX_NUMBERS = 1 << 31


def search(
    params: Params,
    key: jax.Array,
    *,
    root: RootFnOutput,
    recurrent_fn: RecurrentFn,
    num_simulations: int,
    rule: Rule,
    root_rule: RootRule | None = None,
    invalid_actions: jax.Array | None = None,
    max_depth: int | None = None,
    random_ties: bool = True,
    stop: Stop | None = None,
    prove: bool = False,
    start: Tree | None = None,
    amaf: bool = False,
    movers: jax.Array | None = None,
    replay: StepFn | None = None,
    memory_limit: int | None = None,
    kernels: Literal["xla", "pallas"] = "xla",
    later: tuple[int, RecurrentFn] | None = None,
) -> Tree:
    """Searches B trees in one program.

    Args:
        params: passed on to `recurrent_fn`.
        key: consumed: it seeds tie-breaks and the keys given to `recurrent_fn`. One, or one for each tree.
        root: prior logits `[B, A]`, values `[B]` and embeddings `[B, ...]` of the roots.
        recurrent_fn: evaluates B leaves at once, as in mctx. A `discount` of zero marks the end of a game:
            nothing is searched below and the value returned there is ignored, NaN included.
        num_simulations: S; each adds at most one node per tree.
        rule: scores actions at inner nodes, and at the root unless `root_rule` is given.
        root_rule: scores actions at the root.
        invalid_actions: bool `[B, A]`, actions barred at the root; see `mask_invalid`. Below it, an action
            whose prior logit is -1e8 or less is never chosen.
        max_depth: edges from the root at which a descent stops; S by default.
        random_ties: decide between equal scores at random, in one way for the whole of a tree; else the first
            action wins.
        stop: asked before each simulation; trees that it names are left as they are, and the search returns
            once it names all. One that stopped may not go on.
        prove: back up proven results, see `solver.py`. A tree whose root is proven stops.
        start: go on with these trees, from `reuse.reroot`, instead of planting new ones. Priors, values and
            states of their roots are `root`'s all the same.
        amaf: keep all-moves-as-first statistics for `rule`, see `amaf.py`. Moves played in the tree count,
            and those that `recurrent_fn` reports (`types.StepDetails`).
        movers: int32 `[B]`, who moves at the roots where values are given for each player, `root.value` and
            those of `recurrent_fn` being `[B, P]`: see `players.py`.
        replay: one move of the game, `(states, actions) -> states`. With it only the roots' states are kept,
            and leaves' are worked out by replaying their paths: less memory, the same tree (`replay.py`).
        memory_limit: bytes that the trees may take; by default what the devices have.
        kernels: what descends and backs up; "pallas" is experimental, see `pallas_steps.py`.
        later: `(n, function)`: from simulation n on, counted from 0, leaves are evaluated by this function
            in place of `recurrent_fn`, which must return the same kinds of things.

    Returns:
        The finished tree; `tree.summary()` has the root's statistics.

    Raises:
        ValueError: a number of simulations outside 1..2^24, a tree too large for 32-bit indices, inputs whose
            shapes do not agree, a state that differs in kind from the roots', or `amaf` with a `root_rule`.
        MemoryError: the trees would take more than there is, or than `memory_limit`.
    """
    if amaf and root_rule is not None:
        raise ValueError("amaf goes with no root_rule: all-moves-as-first statistics of roots need the rule")
    kept = 1 if start is None else start.num_nodes
    check(root, num_simulations, invalid_actions, max_depth, kept=kept, movers=movers)
    if movers is not None and (amaf or prove):
        raise ValueError("values for each player go with neither amaf nor prove, which are for two players")
    deepest = kept - 1 + num_simulations
    max_depth = deepest if max_depth is None else min(max_depth, deepest)
    limit = max_depth if max_depth < deepest else None
    tie_key, key = keys.split(key)
    tree = plant(
        tie_key if random_ties else None,
        root,
        num_simulations,
        invalid_actions,
        prove=prove,
        start=start,
        amaf=amaf,
        movers=movers,
        keep_states=replay is None,
        memory_limit=memory_limit,
    )
    b = tree.num_trees
    choose = Choice(tree.tie_seeds, rule, root_rule)
    roots = jnp.arange(b, dtype=jnp.int32)
    stop = solver.stop_when_proven(stop) if prove else stop
    by = _kernels(kernels)

    def simulate(simulation: jax.Array, carry: tuple[Tree, jax.Array, Passed], on: jax.Array | None) -> Any:
        tree, path, passed = carry
        simulation = jnp.asarray(simulation, jnp.int32)  # int64 where 64-bit numbers are on
        start = roots if on is None else jnp.where(on, roots, ended(roots * tree.num_actions))
        cursor = by.descend(tree, Cursor(start, jnp.int32(0), path), limit)
        edge = ended(cursor.at)
        simulation_key = jax.random.fold_in(keys.one(key), simulation)
        leaves = None if replay is None else leaf_states(replay, tree, cursor, edge)
        evaluate = recurrent_fn if later is None else _one_of(recurrent_fn, later, simulation)
        tree, new = steps.expand(
            params, simulation_key, tree, evaluate, edge, kept + simulation, choose, on, leaves
        )
        if on is not None:
            new = new._replace(length=jnp.where(on, new.length, 0))
        if prove:
            tree, new = solver.prove(tree, cursor, new)
        # Where the root has a rule of its own, it is not among the nodes treated alike.
        first = 0 if root_rule is None else 1
        passed, count, returns = by.back_up(
            tree, passed, cursor, new.returns, new.length, first=first, played=new.played
        )
        tree = steps.update(tree, passed, count, choose, lanes=b)
        if root_rule is not None:
            here = roots if on is None else jnp.where(on, roots, tree.choice.size)
            tree = steps.add(tree, here, tree.choice[:b], returns)
            tree = choose.at_root(tree, simulation + 1)
        return tree, cursor.path, passed

    tree = choose.at_root(tree, jnp.int32(0))
    carry = (tree, *steps.make_room(tree, b, max_depth))
    if stop is None:
        return jax.lax.fori_loop(0, num_simulations, lambda i, carry: simulate(i, carry, None), carry)[0]

    def go_on(state: tuple[jax.Array, jax.Array, Any]) -> jax.Array:
        return (state[0] < num_simulations) & jnp.any(state[1])

    def turn(state: tuple[jax.Array, jax.Array, Any]) -> tuple[jax.Array, jax.Array, Any]:
        simulation, on, carry = state
        carry = simulate(simulation, carry, on)
        return simulation + 1, on & ~stop(carry[0], simulation + 1), carry

    first = (jnp.int32(0), ~stop(tree, jnp.int32(0)), carry)
    return jax.lax.while_loop(go_on, turn, first)[2][0]


def _one_of(first: RecurrentFn, later: tuple[int, RecurrentFn], simulation: jax.Array) -> RecurrentFn:
    """The function that evaluates the leaves of a simulation; the other one does not run."""
    number, second = later

    def evaluate(params: Params, key: jax.Array, action: jax.Array, embedding: Any) -> Any:
        return jax.lax.cond(simulation < number, first, second, params, key, action, embedding)

    return evaluate


def _kernels(name: str) -> Any:
    """The module whose `descend` and `back_up` a search uses."""
    if name == "xla":
        return steps
    if name != "pallas":
        raise ValueError(f"kernels is {name!r}; expected 'xla' or 'pallas'")
    from jaxsearch import pallas_steps  # Pallas takes a while to import

    return pallas_steps


def plant(
    key: jax.Array | None,
    root: RootFnOutput,
    num_simulations: int,
    invalid_actions: jax.Array | None,
    *,
    prove: bool = False,
    start: Tree | None = None,
    amaf: bool = False,
    movers: jax.Array | None = None,
    keep_states: bool = True,
    memory_limit: int | None = None,
) -> Tree:
    """Trees with nothing but their roots, or the trees `start`, and room for the simulations' nodes."""
    b, a = root.prior_logits.shape
    priors = prior_probabilities(mask_invalid(root.prior_logits, invalid_actions))
    packer = Packer.of(root.embedding)
    nodes = num_simulations + (1 if start is None else start.num_nodes)
    needed = footprint.of_trees(
        packer,
        trees=b,
        nodes=nodes,
        num_actions=a,
        amaf=amaf,
        prove=prove,
        players=0 if movers is None else root.value.shape[1],
        keep_states=keep_states,
    )
    footprint.check(
        needed.total, memory_limit, trees=b, nodes=nodes, states="keep" if keep_states else "replay"
    )
    value = root.value.astype(jnp.float32)
    seats = None
    if movers is not None:
        seats = Players(movers.astype(jnp.int32), jnp.zeros_like(value))
        value = of_player(value, seats.movers)
    if start is None:
        tree = Tree(
            rows=first_rows(priors, value, jnp.zeros_like(value), jnp.ones_like(value)),
            children=jnp.full((b * a,), NO_NODE, jnp.int32),
            choice=jnp.zeros((b,), jnp.int32),
            depths=jnp.zeros((b,), jnp.int32),
            taken=jnp.full((b,), NO_NODE, jnp.int32),
            states={name: part[None] for name, part in packer.pack(root.embedding).items()},
            amaf=jnp.zeros((b, 2 * a), jnp.float32) if amaf else None,
            players=seats,
            proofs=jnp.full((b * a,), solver.UNKNOWN, jnp.int32) if prove else None,
            tie_seeds=None,
            num_trees=b,
            num_actions=a,
            packer=packer,
        )
    else:
        wanted = _Kept(proofs=prove, amaf=amaf, movers=movers is not None, states=keep_states)
        _check_start(start, b, a, packer, wanted)
        if start.proofs is not None:
            priors = jnp.where(solver.is_lost(start.proofs[: b * a].reshape(b, a)), 0.0, priors)
        if seats is not None:
            assert start.players is not None
            seats = start.players._replace(movers=start.players.movers.at[:b].set(seats.movers))
        tree = dataclasses.replace(
            start,
            players=seats,
            rows=start.rows.at[:b, 2 * a : 3 * a].set(priors).at[:b, 3 * a].set(value),
            states={
                name: start.states[name].at[0].set(part) for name, part in packer.pack(root.embedding).items()
            },
        )

    tree = _with_room(tree, num_simulations, fresh=start is None, keep_states=keep_states)
    seeds = key if key is None else keys.draw(_seeds, key, (b,))
    return dataclasses.replace(tree, tie_seeds=seeds)


def _seeds(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jax.random.bits(key, shape, jnp.uint32)


def _with_room(tree: Tree, num_simulations: int, *, fresh: bool, keep_states: bool) -> Tree:
    """The trees with room for the nodes of the simulations; `fresh` ones hold nothing but their roots."""
    b, a = tree.num_trees, tree.num_actions

    def longer(table: jax.Array, each: int = b) -> jax.Array:
        """The table with `each` more entries per simulation."""
        room = jnp.zeros((table.shape[0] + num_simulations * each, *table.shape[1:]), table.dtype)
        return room.at[: table.shape[0]].set(table)

    def blank(table: jax.Array, each: int = b, empty: Any = 0) -> jax.Array:
        """The same for a table that has nothing but `empty` in fresh trees."""
        room = jnp.full((table.shape[0] + num_simulations * each, *table.shape[1:]), empty, table.dtype)
        # Not written into: XLA would work out the result as it compiles, in seconds for large trees.
        return room if fresh else room.at[: table.shape[0]].set(table)

    states = tree.states
    if keep_states:
        states = {name: longer(table, 1) for name, table in tree.states.items()}
    return dataclasses.replace(
        tree,
        rows=longer(tree.rows),
        children=blank(tree.children, b * a, NO_NODE),
        choice=blank(tree.choice),
        depths=blank(tree.depths),
        taken=blank(tree.taken, b, NO_NODE),
        states=states,
        amaf=None if tree.amaf is None else blank(tree.amaf),
        players=None if tree.players is None else Players(*map(longer, tree.players)),
        proofs=None if tree.proofs is None else blank(tree.proofs, b * a, solver.UNKNOWN),
    )


class _Kept(NamedTuple):
    """What trees keep beside their rows."""

    proofs: bool
    amaf: bool
    movers: bool
    states: bool


def _check_start(start: Tree, b: int, a: int, packer: Packer, wanted: _Kept) -> None:
    if (start.num_trees, start.num_actions) != (b, a):
        raise ValueError(
            f"start holds {start.num_trees} trees of {start.num_actions} actions; expected {b} of {a}, root's"
        )
    if start.packer != packer:
        raise ValueError(
            f"start holds states of {start.packer.describe()}; expected root.embedding's, {packer.describe()}"
        )
    had = _Kept(
        start.proofs is not None, start.amaf is not None, start.players is not None, start.keeps_states
    )
    for name, has, wants in zip(_Kept._fields, had, wanted, strict=True):
        if has != wants:
            what = f"{name}, and this search none" if has else f"no {name}, and this search some"
            raise ValueError(
                f"start keeps {what}; expected a tree of the same options: what trees keep cannot be added "
                "or dropped midway"
            )


def check(
    root: RootFnOutput,
    num_simulations: int,
    invalid_actions: jax.Array | None,
    max_depth: int | None,
    *,
    kept: int = 1,
    movers: jax.Array | None = None,
) -> None:
    """Raises ValueError where a search's arguments do not agree."""
    if root.prior_logits.ndim != 2:
        raise ValueError(f"root.prior_logits has shape {root.prior_logits.shape}; expected [B, A]")
    b, a = root.prior_logits.shape[:2]
    if movers is None and root.value.shape != (b,):
        raise ValueError(f"root.value has shape {root.value.shape}; expected ({b},), or ({b}, P) with movers")
    if movers is not None and (movers.shape != (b,) or root.value.ndim != 2 or len(root.value) != b):
        raise ValueError(
            f"movers has shape {movers.shape} and root.value {root.value.shape}; expected ({b},) and ({b}, P)"
        )
    for leaf in jax.tree.leaves(root.embedding):
        if leaf.shape[:1] != (b,):
            raise ValueError(
                f"a leaf of root.embedding has shape {leaf.shape}; expected a leading dimension of {b}"
            )
    if not 1 <= num_simulations < _MAX_SIMULATIONS:
        raise ValueError(f"num_simulations is {num_simulations}; expected 1 to {_MAX_SIMULATIONS - 1}")
    numbers = (num_simulations + kept) * b * (3 * a + EXTRA_COLUMNS)
    if numbers >= _MAX_NUMBERS:
        raise ValueError(
            f"{b} trees of {num_simulations} simulations and {a} actions hold {numbers} numbers; expected "
            f"fewer than {_MAX_NUMBERS} (32-bit indices): search fewer trees at once"
        )
    if invalid_actions is not None and invalid_actions.shape != (b, a):
        raise ValueError(f"invalid_actions has shape {invalid_actions.shape}; expected ({b}, {a})")
    if max_depth is not None and max_depth < 1:
        raise ValueError(f"max_depth is {max_depth}; expected at least 1")
