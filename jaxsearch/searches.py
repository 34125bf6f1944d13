"""Searches of games: give a game and an evaluator, get a function of positions.

`search(key, states, params) -> SearchOutput`, for a batch of B states; jit it, or call it inside a jitted
program. Players, self-play and analysis all use these. `key` is one key, or one for each position, `[B]`:
what is drawn for a position then does not depend on the others (an evaluator that draws gets the first).
"""

from __future__ import annotations

import functools
from typing import Literal

import jax

from jaxsearch import keys, policies, selection
from jaxsearch.choice import with_constants
from jaxsearch.environment import make_recurrent_fn, make_root_fn
from jaxsearch.evaluators import playouts as playout_evaluator
from jaxsearch.noise import add_dirichlet
from jaxsearch.selection import FirstPlay
from jaxsearch.types import Environment, Evaluator, Params, Search, SearchOutput, State
from jaxsearch.visit_search import Settings, output_of, visit_search

__all__ = ["gumbel", "puct", "uct"]


def puct(
    game: Environment,
    evaluator: Evaluator,
    *,
    simulations: int,
    c_init: float | jax.Array = 1.25,
    c_base: float | jax.Array = 19652.0,
    first_play: FirstPlay = "reduction",
    first_play_reduction: float | jax.Array = 0.25,
    dirichlet_alpha: float | jax.Array = 0.3,
    dirichlet_fraction: float | jax.Array = 0.0,
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
    states: Literal["keep", "replay"] = "keep",
    memory_limit: int | None = None,
    kernels: Literal["xla", "pallas"] = "xla",
) -> Search:
    """AlphaZero's search: PUCT on plain values, Dirichlet noise on the root's legal actions if asked for.

    Args:
        game: what is searched.
        evaluator: gives priors and values.
        simulations: S.
        c_init, c_base: exploration, see `selection.puct`. These, and the noise's constants, are numbers or,
            where positions differ in them, arrays `[B]`.
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
        leaves: K, evaluated at once per tree; must divide `simulations`, and goes with neither forced
            playouts nor `states="replay"`. Results proven in a step are known from the next one on.
        virtual_loss: keeps the leaves apart, see `parallel.virtual_loss_search`.
        keep_tree: return the tree as well.
        states: "replay" keeps no states in the nodes but replays the moves from the root: less memory, the
            same answers. It pays where states are large and steps cheap, see `docs/tree.md`.
        memory_limit: bytes that the trees may take (see `memory`); by default what the devices have.
        kernels: "pallas" descends and backs up by experimental kernels, see `pallas_steps.py`; same answers.

    Example:
        >>> import games_jax, jax, jaxsearch
        >>> game = games_jax.make("tic_tac_toe")
        >>> states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 2))
        >>> search = jaxsearch.puct(game, jaxsearch.uniform(game), simulations=50)
        >>> jax.jit(search)(jax.random.key(1), states).visits.shape
        (2, 9)

    Reference: Silver et al. (2018).
    """
    rule = with_constants(
        selection.puct,
        c_init=c_init,
        c_base=c_base,
        first_play=first_play,
        first_play_reduction=first_play_reduction,
    )
    noise = functools.partial(add_dirichlet, alpha=dirichlet_alpha, fraction=dirichlet_fraction)
    return visit_search(
        game,
        evaluator,
        Settings(
            rule,
            simulations=simulations,
            noise=None if isinstance(dirichlet_fraction, float | int) and not dirichlet_fraction else noise,
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
            states=states,
            memory_limit=memory_limit,
            kernels=kernels,
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
    states: Literal["keep", "replay"] = "keep",
    memory_limit: int | None = None,
) -> Search:
    """UCT with random playouts: a player that needs no training.

    Args:
        game: what is searched.
        simulations: S.
        c: exploration on the textbook's scale, see `selection.uct`.
        playouts: random games per leaf.
        evaluator: judges leaves instead of random playouts.
        temperature, max_depth, discount, solver, stop_early, leaves, virtual_loss, keep_tree, states,
            memory_limit: as in `puct`.

    Reference: Kocsis and Szepesvari (2006).
    """
    return visit_search(
        game,
        evaluator or playout_evaluator(game, k=playouts),
        Settings(
            functools.partial(selection.uct, c=c),
            simulations=simulations,
            judge_root=evaluator is not None,
            temperature=temperature,
            max_depth=max_depth,
            discount=discount,
            solver=solver,
            stop_early=stop_early,
            leaves=leaves,
            virtual_loss=virtual_loss,
            keep_tree=keep_tree,
            states=states,
            memory_limit=memory_limit,
        ),
    )


def gumbel(
    game: Environment,
    evaluator: Evaluator,
    *,
    simulations: int,
    max_considered: int = 16,
    gumbel_scale: float | jax.Array = 1.0,
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
    at once. `gumbel_scale` may be `[B, 1]`, and the search takes `budgets` and `considered` (int32 `[B]`)
    where positions differ in them. Reference: Danihelka et al. (2022).
    """
    if game.num_players > 2:
        raise ValueError(
            f"gumbel searches games of one or two players, and this one has {game.num_players}; puct and uct "
            "take more"
        )
    recurrent_fn = make_recurrent_fn(game, evaluator, discount=discount)
    root_fn = make_root_fn(game, evaluator)

    def run(
        key: jax.Array,
        states: State,
        params: Params = None,
        *,
        budgets: jax.Array | None = None,
        considered: jax.Array | None = None,
    ) -> SearchOutput:
        root_key, key = keys.split(key)
        legal = jax.vmap(game.legal_actions)(states)
        out = policies.gumbel_muzero_policy(
            params,
            key,
            root_fn(params, keys.one(root_key), states),
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
            budgets=budgets,
            considered=considered,
        )
        return output_of(out.action, out.search_tree, legal, out.action_weights, keep_tree)

    return run
