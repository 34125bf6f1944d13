"""Searches of games: give a game and an evaluator, get a function of positions.

`search(key, states, params) -> SearchOutput`, for a batch of B states; jit it, or call it inside a jitted
program. Players, self-play and analysis all use these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxsearch import policies, selection
from jaxsearch.environment import make_recurrent_fn, make_root_fn
from jaxsearch.evaluators import playouts as playout_evaluator
from jaxsearch.noise import add_dirichlet
from jaxsearch.search import Rule, search
from jaxsearch.selection import FirstPlay
from jaxsearch.tree import Tree
from jaxsearch.types import Environment, Evaluator, Params, Search, SearchOutput, State

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
    temperature: float = 0.0,
    max_depth: int | None = None,
    discount: float = 1.0,
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
        temperature: of the action drawn from the visits; 0 takes the most visited.
        max_depth: plies from the root at which a simulation stops.
        discount: per ply.
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
        rule,
        simulations=simulations,
        noise=noise if dirichlet_fraction else None,
        temperature=temperature,
        max_depth=max_depth,
        discount=discount,
        keep_tree=keep_tree,
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
    keep_tree: bool = False,
) -> Search:
    """UCT with random playouts: a player that needs no training.

    Args:
        game: what is searched.
        simulations: S.
        c: exploration on the textbook's scale, see `selection.uct`.
        playouts: random games per leaf.
        evaluator: judges leaves instead of random playouts.
        temperature, max_depth, discount, keep_tree: as in `puct`.

    Reference: Kocsis and Szepesvari (2006).
    """
    return _visit_search(
        game,
        evaluator or playout_evaluator(game, k=playouts),
        functools.partial(selection.uct, c=c),
        simulations=simulations,
        noise=None,
        temperature=temperature,
        max_depth=max_depth,
        discount=discount,
        keep_tree=keep_tree,
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
    max_depth: int | None = None,
    discount: float = 1.0,
    keep_tree: bool = False,
) -> Search:
    """Gumbel AlphaZero's search: good targets from few simulations. `weights` is the improved policy.

    Arguments as in `puct` and `policies.gumbel_muzero_policy`. Reference: Danihelka et al. (2022).
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
        )
        return _output(out.action, out.search_tree, legal, out.action_weights, keep_tree)

    return run


def _visit_search(
    game: Environment,
    evaluator: Evaluator,
    rule: Rule,
    *,
    simulations: int,
    noise: Callable[..., jax.Array] | None,
    temperature: float,
    max_depth: int | None,
    discount: float,
    keep_tree: bool,
) -> Search:
    """A search that plays, and teaches, by its visit counts."""
    recurrent_fn = make_recurrent_fn(game, evaluator, discount=discount)
    root_fn = make_root_fn(game, evaluator)

    def run(key: jax.Array, states: State, params: Params = None) -> SearchOutput:
        root_key, noise_key, search_key, action_key = jax.random.split(key, 4)
        legal = jax.vmap(game.legal_actions)(states)
        root = root_fn(params, root_key, states)
        if noise is not None:
            root = root.replace(prior_logits=noise(noise_key, root.prior_logits, legal=legal))
        tree = search(
            params,
            search_key,
            root=root,
            recurrent_fn=recurrent_fn,
            num_simulations=simulations,
            rule=rule,
            max_depth=max_depth,
        )
        summary = tree.summary()
        action = policies.sample_visits(action_key, jnp.where(legal, summary.visit_counts, 0), temperature)
        return _output(action, tree, legal, summary.visit_probs, keep_tree)

    return run


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
