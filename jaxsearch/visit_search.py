"""The search that plays, and teaches, by its visit counts: what `searches.py` builds on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp

from jaxsearch import keys, policies, stopping
from jaxsearch.environment import make_recurrent_fn, make_root_fn
from jaxsearch.evaluators import uniform
from jaxsearch.forced import force_playouts, pruned_visits
from jaxsearch.parallel import virtual_loss_search
from jaxsearch.search import Rule, search
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

__all__ = ["Settings", "output_of", "visit_search"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What searches by visit counts have in common; see `searches.puct`.

    Attributes:
        rule: scores the actions of every node.
        amaf: keep all-moves-as-first statistics for the rule.
        states: "keep" or "replay", see `replay.py`.
        memory_limit: bytes that the trees may take.
        kernels: what descends and backs up, see `search.search`.
        later: `(n, evaluator)`, what judges the leaves from simulation n on.
        judge_root: ask the evaluator about the root too. Where its priors are equal and `rule` does not look
            at a node's own value, there is no need: the root's value is then the mean over the simulations,
            and playouts of a large game are compiled once instead of twice.
        improved: the policy that the root's statistics stand for, if it is not the visits.
        act: play by `improved`.
        learn: teach `improved`.
    """

    rule: Rule
    _: dataclasses.KW_ONLY
    simulations: int
    temperature: float
    max_depth: int | None
    discount: float
    keep_tree: bool
    solver: bool = False
    stop_early: bool = False
    leaves: int = 1
    virtual_loss: float = 1.0
    noise: Callable[..., jax.Array] | None = None
    root_temperature: float = 1.0
    forced_playouts: float = 0.0
    amaf: bool = False
    states: Literal["keep", "replay"] = "keep"
    memory_limit: int | None = None
    kernels: Literal["xla", "pallas"] = "xla"
    later: tuple[int, Evaluator] | None = None
    judge_root: bool = True
    improved: Rule | None = None
    act: bool = False
    learn: bool = False

    def __post_init__(self):
        if self.root_temperature <= 0:
            raise ValueError(f"root_temperature is {self.root_temperature}; expected more than 0")
        if self.stop_early and self.temperature > 0:
            raise ValueError(
                f"stop_early is for players that take the most visited action, and temperature is "
                f"{self.temperature}; expected 0"
            )
        if self.states not in ("keep", "replay"):
            raise ValueError(f"states is {self.states!r}; expected 'keep' or 'replay'")
        if self.leaves > 1 and self.kernels != "xla":
            raise ValueError(f"leaves is {self.leaves}, which goes with kernels='xla' alone")
        if self.leaves > 1 and self.later is not None:
            raise ValueError(f"leaves is {self.leaves}, which goes with one evaluator alone")
        if self.leaves > 1 and self.states == "replay":
            raise ValueError(f"leaves is {self.leaves}, which goes with states='keep' alone")
        if self.leaves > 1 and self.amaf:
            raise ValueError(f"leaves is {self.leaves}, which goes with no all-moves-as-first statistics")
        if self.leaves > 1 and self.forced_playouts:
            raise ValueError(f"leaves is {self.leaves}, which goes with no forced_playouts")


def visit_search(game: Environment, evaluator: Evaluator, settings: Settings) -> Search:
    """A search that plays, and teaches, by its visit counts."""
    recurrent_fn = make_recurrent_fn(game, evaluator, discount=settings.discount)
    root_fn = make_root_fn(game, evaluator if settings.judge_root else uniform(game))

    def run(
        key: jax.Array,
        states: State,
        params: Params = None,
        *,
        budgets: jax.Array | None = None,
        tree: Tree | None = None,
    ) -> SearchOutput:
        root_key, noise_key, search_key, action_key = keys.split(key, 4)
        legal = jax.vmap(game.legal_actions)(states)
        root = root_fn(params, keys.one(root_key), states)
        movers = jax.vmap(game.current_player)(states) if root.value.ndim == 2 else None
        logits = root.prior_logits
        if settings.root_temperature != 1.0:
            logits = jnp.where(legal, logits / settings.root_temperature, logits)
        if settings.noise is not None:
            logits = settings.noise(noise_key, logits, legal=legal)
        root = root.replace(prior_logits=logits)
        grown = _grow(game, settings, params, search_key, root, recurrent_fn, budgets, tree, movers)
        if not settings.judge_root:
            grown = _with_mean_at_root(grown)
        return _judge(settings, action_key, grown, legal)

    return run


def _grow(
    game: Environment,
    settings: Settings,
    params: Params,
    key: jax.Array,
    root: RootFnOutput,
    recurrent_fn: RecurrentFn,
    budgets: jax.Array | None,
    start: Tree | None,
    movers: jax.Array | None,
) -> Tree:
    common: dict[str, Any] = {
        "root": root,
        "recurrent_fn": recurrent_fn,
        "num_simulations": settings.simulations,
        "rule": settings.rule,
        "max_depth": settings.max_depth,
        "movers": movers,
        "memory_limit": settings.memory_limit,
    }
    stops = [] if budgets is None else [stopping.at_budget(budgets)]
    if settings.stop_early:
        stops.append(stopping.when_decided(settings.simulations, budgets))
    common |= {
        "stop": stopping.any_of(*stops) if stops else None,
        "prove": settings.solver,
        "start": start,
    }
    if settings.leaves > 1:
        return virtual_loss_search(
            params, key, leaves=settings.leaves, virtual_loss=settings.virtual_loss, **common
        )
    forced = settings.forced_playouts
    return search(
        params,
        key,
        root_rule=force_playouts(settings.rule, k=forced) if forced else None,
        amaf=settings.amaf,
        replay=jax.vmap(game.step) if settings.states == "replay" else None,
        kernels=settings.kernels,
        later=_later(game, settings),
        **common,
    )


def _later(game: Environment, settings: Settings) -> tuple[int, RecurrentFn] | None:
    if settings.later is None:
        return None
    number, evaluator = settings.later
    return number, make_recurrent_fn(game, evaluator, discount=settings.discount)


def _with_mean_at_root(tree: Tree) -> Tree:
    """The trees with the mean over their simulations for the roots' own value, which was 0."""
    b, a = tree.num_trees, tree.num_actions
    visits, sums = (jnp.sum(tree.rows[:b, k * a : (k + 1) * a], axis=-1) for k in range(2))
    return dataclasses.replace(tree, rows=tree.rows.at[:b, 3 * a].set(sums / jnp.maximum(visits, 1.0)))


def _judge(settings: Settings, key: jax.Array, tree: Tree, legal: jax.Array) -> SearchOutput:
    """The move, the target and the value that a finished tree stands for."""
    visits = jnp.where(legal, tree.rows[: tree.num_trees, : tree.num_actions], 0.0)
    if settings.forced_playouts:
        pruned = pruned_visits(tree, settings.rule, k=settings.forced_playouts)
        weights = _shares(jnp.where(legal, pruned, 0.0))
    else:
        weights = _shares(visits)
    if not settings.solver:
        played = visits
        if settings.improved is not None:
            improved = jnp.where(legal, settings.improved(tree.root_rows(unrolled=False)), 0.0)
            played = improved if settings.act else visits
            weights = improved if settings.learn else weights
        return output_of(
            policies.sample_visits(key, played, settings.temperature),
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
    out = output_of(action, tree, legal, taught, settings.keep_tree)
    return out._replace(value=jnp.where(proof.proven, proof.value, out.value))


def _shares(visits: jax.Array) -> jax.Array:
    return visits / jnp.maximum(jnp.sum(visits, axis=-1, keepdims=True), 1.0)


def output_of(
    action: jax.Array, tree: Tree, legal: jax.Array, weights: jax.Array, keep_tree: bool
) -> SearchOutput:
    """What a search says that has grown `tree`, plays `action` and teaches `weights`."""
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
