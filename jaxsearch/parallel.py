"""Several leaves of each tree at a time: few trees, large networks, big accelerators.

One evaluation then serves K leaves per tree, which a network does in little more time than one. The price is
that the K descents of a step do not see each other's results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsearch import keys, rows, solver, steps
from jaxsearch.halving import considered_visits
from jaxsearch.search import Stop, check, plant
from jaxsearch.steps import Choice, Cursor, Rule
from jaxsearch.tree import Tree, ended
from jaxsearch.types import Params, RecurrentFn, RootFnOutput

__all__ = ["RootScores", "phase_parallel_search", "virtual_loss_search"]

RootScores = Callable[[rows.Row, jax.Array], rows.PerAction]
"""Scores `[B, A]` of the root's actions; the second argument, `[B, 1]`, is the visits a candidate has had."""


def virtual_loss_search(
    params: Params,
    key: jax.Array,
    *,
    root: RootFnOutput,
    recurrent_fn: RecurrentFn,
    num_simulations: int,
    leaves: int,
    rule: Rule,
    virtual_loss: float = 1.0,
    invalid_actions: jax.Array | None = None,
    max_depth: int | None = None,
    random_ties: bool = True,
    stop: Stop | None = None,
    prove: bool = False,
    start: Tree | None = None,
    movers: jax.Array | None = None,
    memory_limit: int | None = None,
) -> Tree:
    """Searches B trees, `leaves` simulations of each at a time, kept apart by virtual losses.

    The descents of a step follow each other. Each counts at once as a visit that lost by `virtual_loss` at
    every node passed, so that the next looks elsewhere; the true returns then replace the losses. Descents
    that choose the same edge all the same evaluate it each and make one node.

    Args:
        leaves: K; must divide `num_simulations`.
        virtual_loss: subtracted from each value sum on the path, 0 or more.
        stop: as in `search.search`, asked before each descent, whose predecessors count as visits by then.
        params, key, root, recurrent_fn, num_simulations, rule, invalid_actions, max_depth, random_ties,
            prove, start, movers, memory_limit: as in `search.search`; `recurrent_fn` gets `K * B` leaves,
            tree `b`'s at `k * B + b`.

    Raises:
        ValueError: as `search.search`, or `leaves` does not divide the simulations, or a negative loss.
        MemoryError: as `search.search`.

    Reference: Chaslot, Winands and van den Herik (2008), Parallel Monte-Carlo Tree Search.
    """
    kept = 1 if start is None else start.num_nodes
    check(root, num_simulations, invalid_actions, max_depth, kept=kept, movers=movers)
    if leaves < 1 or num_simulations % leaves:
        raise ValueError(f"leaves is {leaves}; expected a divisor of the {num_simulations} simulations")
    if virtual_loss < 0:
        raise ValueError(f"virtual_loss is {virtual_loss}; expected 0 or more")
    if movers is not None and prove:
        raise ValueError("values for each player go with no proofs, which are for two players")
    deepest = kept - 1 + num_simulations
    max_depth = deepest if max_depth is None else min(max_depth, deepest)
    tie_key, key = keys.split(key)
    tree = plant(
        tie_key if random_ties else None,
        root,
        num_simulations,
        invalid_actions,
        prove=prove,
        start=start,
        movers=movers,
        memory_limit=memory_limit,
    )
    lanes = leaves * tree.num_trees
    choose = Choice(tree.tie_seeds, rule)
    stop = solver.stop_when_proven(stop) if prove else stop
    descend = functools.partial(
        _descend_apart,
        choose=choose,
        leaves=leaves,
        limit=max_depth if max_depth < deepest else None,
        virtual_loss=virtual_loss,
        no_return=jnp.zeros(root.value.shape),
        stop=stop,
    )

    def step(index: jax.Array, carry: _Carry) -> _Carry:
        index = jnp.asarray(index, jnp.int32)
        tree, cursor, on, passed = descend(index * leaves, *carry)
        edges = cursor.at
        by_leaf, on_by_leaf = edges.reshape(leaves, -1), on.reshape(leaves, -1)
        same = (by_leaf[:, None] == by_leaf[None]) & on_by_leaf[None]
        again = jnp.any(same & np.tri(leaves, k=-1, dtype=bool)[:, :, None], axis=1).reshape(-1)
        tree, new = steps.expand(
            params,
            jax.random.fold_in(keys.one(key), index),
            tree,
            recurrent_fn,
            edges,
            kept + index * leaves,
            choose,
            on & ~again,
        )
        new = new._replace(length=jnp.where(on, new.length, 0))
        if prove:
            tree, new = solver.prove(tree, cursor, new)
        passed, count, _ = steps.back_up(tree, passed, cursor, new.returns, new.length)
        gained = steps.Passed(passed.edges, passed.returns + virtual_loss)
        tree = steps.update(tree, gained, count, choose, lanes=lanes, visits=0.0)
        return tree, cursor.path, passed

    tree = choose.at_root(tree, jnp.int32(0))
    carry = (tree, *steps.make_room(tree, lanes, max_depth))
    turns = num_simulations // leaves
    if stop is None:
        return jax.lax.fori_loop(0, turns, step, carry)[0]

    def go_on(state: tuple[jax.Array, _Carry]) -> jax.Array:
        index, (tree, *_) = state
        return (index < turns) & jnp.any(~stop(tree, index * leaves))

    turn = lambda state: (state[0] + 1, step(*state))  # noqa: E731
    return jax.lax.while_loop(go_on, turn, (jnp.int32(0), carry))[1][0]


_Carry = tuple[Tree, jax.Array, steps.Passed]
"""The trees, and room for paths and passed edges."""


def _descend_apart(
    simulation: jax.Array,
    tree: Tree,
    paths: jax.Array,
    passed: steps.Passed,
    *,
    choose: Choice,
    leaves: int,
    limit: int | None,
    virtual_loss: float,
    no_return: jax.Array,
    stop: Stop | None,
) -> tuple[Tree, Cursor, jax.Array, steps.Passed]:
    """K descents of each tree, one after the other, each of them a visit that lost.

    Returns:
        The trees; where the `K * B` lanes ended, `at` being their last edges; whether each took part; and the
        room for passed edges.
    """
    b = tree.num_trees
    roots, lanes = jnp.arange(b, dtype=jnp.int32), leaves * b

    def one_more(k: jax.Array, carry: tuple) -> tuple:
        tree, edges, taking_part, depth, paths, passed = carry
        path = jax.lax.dynamic_slice(paths, (0, k * b), (paths.shape[0], b))
        on = jnp.ones(b, bool) if stop is None else ~stop(tree, simulation + jnp.asarray(k, jnp.int32))
        start = jnp.where(on, roots, ended(roots * tree.num_actions))
        cursor = steps.descend(tree, Cursor(start, jnp.int32(0), path), limit)
        edge = ended(cursor.at)
        # Only the edges are wanted of this backup: what each of them brought for now is a loss.
        length = jnp.where(on, steps.length_of(tree, edge), 0)
        passed, count, _ = steps.back_up(tree, passed, cursor, no_return, length)
        losses = steps.Passed(passed.edges, jnp.full_like(passed.returns, -virtual_loss))
        tree = steps.update(tree, losses, count, choose, lanes=lanes)
        edges = jax.lax.dynamic_update_slice(edges, edge, (k * b,))
        taking_part = jax.lax.dynamic_update_slice(taking_part, on, (k * b,))
        paths = jax.lax.dynamic_update_slice(paths, cursor.path, (0, k * b))
        return tree, edges, taking_part, jnp.maximum(depth, cursor.depth), paths, passed

    nowhere = jnp.zeros((lanes,), jnp.int32)
    begin = (tree, nowhere, jnp.zeros((lanes,), bool), jnp.int32(0), paths, passed)
    tree, edges, on, depth, paths, passed = jax.lax.fori_loop(0, leaves, one_more, begin)
    return tree, Cursor(edges, depth, paths), on, passed


def phase_parallel_search(
    params: Params,
    key: jax.Array,
    *,
    root: RootFnOutput,
    recurrent_fn: RecurrentFn,
    num_simulations: int,
    rule: Rule,
    root_scores: RootScores,
    num_candidates: jax.Array,
    max_considered: int,
    invalid_actions: jax.Array | None = None,
    max_depth: int | None = None,
) -> Tree:
    """Sequential Halving with all candidates of a round searched at once.

    Subtrees of different root actions have nothing in common, so the simulations of a round do not disturb
    each other: this is Sequential Halving as published, in fewer steps. 16 candidates and 64 simulations take
    15 steps of 16, then 8, 4 and 2 leaves a tree. The search of one leaf at a time differs in one thing: it
    ranks the candidates of a new phase anew after each visit, when the scale of the values may have moved.

    Args:
        root_scores: scores the candidates at the start of a round, see `halving.make_root_scores`.
        num_candidates: int32 `[B]`, 1 to `max_considered`. A tree with one candidate gets as many simulations
            as the longest schedule of the others has rounds.
        max_considered: M.
        params, key, root, recurrent_fn, num_simulations, rule, invalid_actions, max_depth: as in
            `search.search`; `recurrent_fn` gets `K * B` leaves, tree `b`'s at `k * B + b`.

    Raises:
        ValueError: as `search.search`.

    Reference: Karnin et al. (2013); Danihelka et al. (2022), section 3.
    """
    check(root, num_simulations, invalid_actions, max_depth)
    plan = _rounds(max_considered, num_simulations)
    max_depth = num_simulations if max_depth is None else min(max_depth, num_simulations)
    limit = max_depth if max_depth < num_simulations else None
    tree = plant(None, root, int(plan.lanes.sum()), invalid_actions)
    b, a = tree.num_trees, tree.num_actions
    choose = Choice(None, rule)
    widths = jnp.asarray(plan.widths)[num_candidates].T  # [T, B]
    visits = jnp.asarray(plan.visits)[num_candidates].T
    last = jnp.max(jnp.asarray(plan.lengths)[num_candidates])
    slots = jnp.asarray(np.concatenate([[1], 1 + np.cumsum(plan.lanes)]).astype(np.int32))

    def one_round(lanes: int, state: tuple) -> tuple:
        t, (tree, path, passed) = state
        scores = root_scores(tree.root_rows(unrolled=False), visits[t].astype(jnp.float32)[:, None])
        best, action = jax.lax.top_k(jnp.where(tree.rows[:b, 2 * a : 3 * a] > 0, scores, -jnp.inf), lanes)
        on = (jnp.arange(lanes)[None] < widths[t][:, None]) & (best > -jnp.inf)
        on, action = on.T.reshape(-1), action.T.reshape(-1).astype(jnp.int32)
        edge = jnp.tile(jnp.arange(b, dtype=jnp.int32) * a, lanes) + action
        child = steps.take(tree.children, edge)
        goes_on = on & (child >= 0) if limit is None or limit > 1 else jnp.zeros_like(on)
        start = steps.begin(edge, jnp.where(goes_on, child, ended(edge)), path)
        cursor = steps.descend(tree, start, limit)
        tree, new = steps.expand(
            params,
            jax.random.fold_in(keys.one(key), t),
            tree,
            recurrent_fn,
            ended(cursor.at),
            slots[t],
            choose,
            on,
        )
        length = jnp.where(on, new.length, 0)
        passed, count, _ = steps.back_up(tree, passed, cursor, new.returns, length)
        return t + 1, (steps.update(tree, passed, count, choose, lanes=lanes * b), cursor.path, passed)

    t = jnp.int32(0)
    ends = np.flatnonzero(np.diff(plan.lanes, append=0)) + 1
    for end in ends.tolist():  # rounds of equally many lanes are one loop
        lanes = int(plan.lanes[end - 1])

        def unfinished(state: tuple, end: int = end) -> jax.Array:
            return (state[0] < end) & (state[0] < last)

        carry = (tree, *steps.make_room(tree, lanes * b, max_depth))
        t, (tree, *_) = jax.lax.while_loop(unfinished, functools.partial(one_round, lanes), (t, carry))
    return tree


class _Rounds(NamedTuple):
    """The rounds of Sequential Halving for every number of candidates, padded to the longest.

    Attributes:
        widths: int32 `[M + 1, T]`, candidates visited in a round.
        visits: int32 `[M + 1, T]`, the visits that these have had.
        lengths: int32 `[M + 1]`, rounds.
        lanes: int `[T]`, candidates visited in a round at most.
    """

    widths: np.ndarray
    visits: np.ndarray
    lengths: np.ndarray
    lanes: np.ndarray


def _rounds(max_considered: int, num_simulations: int) -> _Rounds:
    plans = []
    for candidates in range(2, max_considered + 1):
        schedule = considered_visits(candidates, num_simulations)
        starts = np.flatnonzero(np.diff(schedule, prepend=-1))
        plans.append((np.diff(starts, append=num_simulations), schedule[starts]))
    longest = max((len(widths) for widths, _ in plans), default=num_simulations)
    single = min(longest, num_simulations)
    plans = [(np.ones(single, int), np.arange(single))] * 2 + plans  # none and one candidate
    table = np.zeros((2, max_considered + 1, longest), np.int32)
    for candidates, plan in enumerate(plans):
        table[:, candidates, : len(plan[0])] = plan
    widths, visits = table
    lengths = np.array([len(plan[0]) for plan in plans], np.int32)
    # Never more lanes than before, and as many or at most half: each number is a program of its own.
    lanes = np.maximum.accumulate(widths.max(axis=0)[::-1])[::-1].copy()
    for t in range(1, longest):
        if 2 * lanes[t] > lanes[t - 1]:
            lanes[t] = lanes[t - 1]
    return _Rounds(widths, visits, lengths, lanes)
