"""Searches of games: give a game and an evaluator, get a function of positions.

`search(key, states, params) -> SearchOutput`, for a batch of B states; jit it, or call it inside a jitted
program. Players, self-play and analysis all use these.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxsearch import policies, selection, stopping
from jaxsearch.environment import make_recurrent_fn, make_root_fn
from jaxsearch.evaluators import playouts as playout_evaluator
from jaxsearch.forced import force_playouts, pruned_visits
from jaxsearch.noise import add_dirichlet
from jaxsearch.parallel import virtual_loss_search
from jaxsearch.search import Rule, search
from jaxsearch.selection import FirstPlay
from jaxsearch.solver import root_proof
from jaxsearch.tree import Tree
from jaxsearch.types import (
    Environment,
    Evaluator,
    Params,
    RecurrentFn,
    RootFnOutput,
    Search,
    SearchOutput,
    State,
)

__all__ = ["gumbel", "puct", "uct"]


def puct(
    game: Environment,
    evaluator: Evaluator,
    *,
    simulations: int,
    c_init: float = 1.25,
    c_base: float = 19652.0,
    first_play: FirstPlay = "reduction",
    first_play_reduction: float = 0.25,
    dirichlet_alpha: float = 0.3,
    dirichlet_fraction: float = 0.0,
    root_temperature: float = 1.0,
    forced_playouts: float = 0.0,
    temperature: float = 0.0,
    max_depth: int | None = None,
    discount: float = 1.0,
    solver: bool = False,
    stop_early: bool = False,
    leaves: int = 1,
    virtual_loss: float = 1.0,
    keep_tree: bool = False,
) -> Search:
    """AlphaZero's search: PUCT on plain values, Dirichlet noise on the root's legal actions if asked for.

    Args:
        game: what is searched.
        evaluator: gives priors and values.
        simulations: S.
        c_init, c_base: exploration, see `selection.puct`.
        first_play, first_play_reduction: the value of an unvisited action, see `selection.puct`.
        dirichlet_alpha, dirichlet_fraction: root noise; fraction 0 is none.
        root_temperature: the root's logits are divided by it before the noise; above 1 flattens the prior.
        forced_playouts: k of `forced.force_playouts`, whose visits the target leaves out; 0 is none.
        temperature: of the action drawn from the visits; 0 takes the most visited.
        max_depth: plies from the root at which a simulation stops.
        discount: per ply.
        solver: back up proven wins, losses and draws, see `solver.py`: for games that end in -1, 0 or 1. A
            proven root is played, valued and taught as proven.
        stop_early: stop a tree once its most visited action cannot be caught; for temperature 0.
        leaves: K, evaluated at once per tree; must divide `simulations`, and goes with no other option that
            changes a simulation (solver, stop_early, forced playouts, budgets).
        virtual_loss: keeps the leaves apart, see `parallel.virtual_loss_search`.
        keep_tree: return the tree as well.

    Example:
        >>> import games_jax, jax, jaxsearch
        >>> game = games_jax.make("tic_tac_toe")
        >>> states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 2))
        >>> search = jaxsearch.puct(game, jaxsearch.uniform(game), simulations=50)
        >>> jax.jit(search)(jax.random.key(1), states).visits.shape
        (2, 9)

    Reference: Silver et al. (2018).
    """
    rule = functools.partial(
        selection.puct,
        c_init=c_init,
        c_base=c_base,
        first_play=first_play,
        first_play_reduction=first_play_reduction,
    )
    noise = functools.partial(add_dirichlet, alpha=dirichlet_alpha, fraction=dirichlet_fraction)
    return _visit_search(
        game,
        evaluator,
        _Settings(
            rule,
            simulations=simulations,
            noise=noise if dirichlet_fraction else None,
            root_temperature=root_temperature,
            forced_playouts=forced_playouts,
            temperature=temperature,
            max_depth=max_depth,
            discount=discount,
            solver=solver,
            stop_early=stop_early,
            leaves=leaves,
            virtual_loss=virtual_loss,
            keep_tree=keep_tree,
        ),
    )


def uct(
    game: Environment,
    *,
    simulations: int,
    c: float = 1.0,
    playouts: int = 1,
    evaluator: Evaluator | None = None,
    temperature: float = 0.0,
    max_depth: int | None = None,
    discount: float = 1.0,
    solver: bool = False,
    stop_early: bool = False,
    leaves: int = 1,
    virtual_loss: float = 1.0,
    keep_tree: bool = False,
) -> Search:
    """UCT with random playouts: a player that needs no training.

    Args:
        game: what is searched.
        simulations: S.
        c: exploration on the textbook's scale, see `selection.uct`.
        playouts: random games per leaf.
        evaluator: judges leaves instead of random playouts.
        temperature, max_depth, discount, solver, stop_early, leaves, virtual_loss, keep_tree: as in `puct`.

    Reference: Kocsis and Szepesvari (2006).
    """
    return _visit_search(
        game,
        evaluator or playout_evaluator(game, k=playouts),
        _Settings(
            functools.partial(selection.uct, c=c),
            simulations=simulations,
            temperature=temperature,
            max_depth=max_depth,
            discount=discount,
            solver=solver,
            stop_early=stop_early,
            leaves=leaves,
            virtual_loss=virtual_loss,
            keep_tree=keep_tree,
        ),
    )


def gumbel(
    game: Environment,
    evaluator: Evaluator,
    *,
    simulations: int,
    max_considered: int = 16,
    gumbel_scale: float = 1.0,
    value_scale: float = 0.1,
    maxvisit_init: float = 50.0,
    rescale_values: bool = True,
    parallel: bool = False,
    max_depth: int | None = None,
    discount: float = 1.0,
    keep_tree: bool = False,
) -> Search:
    """Gumbel AlphaZero's search: good targets from few simulations. `weights` is the improved policy.

    Arguments as in `puct` and `policies.gumbel_muzero_policy`; `parallel` searches all candidates of a round
    at once. Reference: Danihelka et al. (2022).
    """
    recurrent_fn = make_recurrent_fn(game, evaluator, discount=discount)
    root_fn = make_root_fn(game, evaluator)

    def run(key: jax.Array, states: State, params: Params = None) -> SearchOutput:
        root_key, key = jax.random.split(key)
        legal = jax.vmap(game.legal_actions)(states)
        out = policies.gumbel_muzero_policy(
            params,
            key,
            root_fn(params, root_key, states),
            recurrent_fn,
            simulations,
            ~legal,
            max_depth,
            max_num_considered_actions=min(max_considered, game.num_actions),
            gumbel_scale=gumbel_scale,
            value_scale=value_scale,
            maxvisit_init=maxvisit_init,
            rescale_values=rescale_values,
            parallel=parallel,
        )
        return _output(out.action, out.search_tree, legal, out.action_weights, keep_tree)

    return run


@dataclasses.dataclass(frozen=True)
class _Settings:
    """What `puct` and `uct` have in common; see `puct`."""

    rule: Rule
    _: dataclasses.KW_ONLY
    simulations: int
    temperature: float
    max_depth: int | None
    discount: float
    solver: bool
    stop_early: bool
    leaves: int
    virtual_loss: float
    keep_tree: bool
    noise: Callable[..., jax.Array] | None = None
    root_temperature: float = 1.0
    forced_playouts: float = 0.0

    def __post_init__(self):
        if self.root_temperature <= 0:
            raise ValueError(f"root_temperature is {self.root_temperature}; expected more than 0")
        if self.stop_early and self.temperature > 0:
            raise ValueError(
                f"stop_early is for players that take the most visited action, and temperature is "
                f"{self.temperature}; expected 0"
            )
        if self.leaves > 1 and (self.solver or self.stop_early or self.forced_playouts):
            raise ValueError(
                f"leaves is {self.leaves}, which goes with no solver, stop_early or forced_playouts yet"
            )


def _visit_search(game: Environment, evaluator: Evaluator, settings: _Settings) -> Search:
    """A search that plays, and teaches, by its visit counts."""
    recurrent_fn = make_recurrent_fn(game, evaluator, discount=settings.discount)
    root_fn = make_root_fn(game, evaluator)

    def run(
        key: jax.Array,
        states: State,
        params: Params = None,
        *,
        budgets: jax.Array | None = None,
        tree: Tree | None = None,
    ) -> SearchOutput:
        root_key, noise_key, search_key, action_key = jax.random.split(key, 4)
        legal = jax.vmap(game.legal_actions)(states)
        root = root_fn(params, root_key, states)
        logits = root.prior_logits
        if settings.root_temperature != 1.0:
            logits = jnp.where(legal, logits / settings.root_temperature, logits)
        if settings.noise is not None:
            logits = settings.noise(noise_key, logits, legal=legal)
        grown = _grow(
            settings, params, search_key, root.replace(prior_logits=logits), recurrent_fn, budgets, tree
        )
        return _judge(settings, action_key, grown, legal)

    return run


def _grow(
    settings: _Settings,
    params: Params,
    key: jax.Array,
    root: RootFnOutput,
    recurrent_fn: RecurrentFn,
    budgets: jax.Array | None,
    start: Tree | None,
) -> Tree:
    common: dict[str, Any] = {
        "root": root,
        "recurrent_fn": recurrent_fn,
        "num_simulations": settings.simulations,
        "rule": settings.rule,
        "max_depth": settings.max_depth,
    }
    if settings.leaves > 1:
        if budgets is not None or start is not None:
            raise ValueError(
                f"leaves is {settings.leaves}, which goes with no budgets and no tree to go on with"
            )
        return virtual_loss_search(
            params, key, leaves=settings.leaves, virtual_loss=settings.virtual_loss, **common
        )
    stops = [] if budgets is None else [stopping.at_budget(budgets)]
    if settings.stop_early:
        stops.append(stopping.when_decided(settings.simulations, budgets))
    forced = settings.forced_playouts
    return search(
        params,
        key,
        root_rule=force_playouts(settings.rule, k=forced) if forced else None,
        stop=stopping.any_of(*stops) if stops else None,
        prove=settings.solver,
        start=start,
        **common,
    )


def _judge(settings: _Settings, key: jax.Array, tree: Tree, legal: jax.Array) -> SearchOutput:
    """The move, the target and the value that a finished tree stands for."""
    visits = jnp.where(legal, tree.rows[: tree.num_trees, : tree.num_actions], 0.0)
    if settings.forced_playouts:
        pruned = pruned_visits(tree, settings.rule, k=settings.forced_playouts)
        weights = _shares(jnp.where(legal, pruned, 0.0))
    else:
        weights = _shares(visits)
    if not settings.solver:
        return _output(
            policies.sample_visits(key, visits, settings.temperature),
            tree,
            legal,
            weights,
            settings.keep_tree,
        )
    proof = root_proof(tree)
    # Moves proven to lose are neither played nor taught while there is another.
    hopeful = jnp.where(proof.lost, 0.0, visits)
    hopeful = jnp.where(jnp.any(hopeful > 0, axis=-1, keepdims=True), hopeful, visits)
    playable = jnp.where(proof.proven[:, None], proof.best.astype(jnp.float32), hopeful)
    taught = jnp.where(
        proof.proven[:, None] | jnp.any(proof.lost, -1, keepdims=True), _shares(playable), weights
    )
    action = policies.sample_visits(key, playable, settings.temperature)
    out = _output(action, tree, legal, taught, settings.keep_tree)
    return out._replace(value=jnp.where(proof.proven, proof.value, out.value))


def _shares(visits: jax.Array) -> jax.Array:
    return visits / jnp.maximum(jnp.sum(visits, axis=-1, keepdims=True), 1.0)


def _output(
    action: jax.Array, tree: Tree, legal: jax.Array, weights: jax.Array, keep_tree: bool
) -> SearchOutput:
    summary = tree.summary()
    visits = jnp.where(legal, summary.visit_counts, 0)
    return SearchOutput(
        action=action,
        visits=visits,
        value=summary.value,
        weights=jnp.where(legal, weights, 0.0),
        qvalues=jnp.where(visits > 0, summary.qvalues, summary.value[:, None]),
        tree=tree if keep_tree else None,
    )
