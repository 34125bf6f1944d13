"""Searches that are guided by more than visits and values: RAVE, a policy's bonus, the regularised policy."""

from __future__ import annotations

import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp

from jaxsearch import selection
from jaxsearch.evaluators import mixture
from jaxsearch.evaluators import playouts as playout_evaluator
from jaxsearch.noise import add_dirichlet
from jaxsearch.selection import FirstPlay
from jaxsearch.types import Environment, Evaluator, Params, Search, State
from jaxsearch.visit_search import Settings, visit_search

__all__ = ["policy_bonus", "rave", "regularised"]


def rave(
    game: Environment,
    *,
    simulations: int,
    c: float = 0.25,
    c_rave: float = 3000.0,
    per_action: bool = False,
    evaluator: Evaluator | None = None,
    temperature: float = 0.0,
    max_depth: int | None = None,
    discount: float = 1.0,
    solver: bool = False,
    stop_early: bool = False,
    keep_tree: bool = False,
    states: Literal["keep", "replay"] = "keep",
    memory_limit: int | None = None,
) -> Search:
    """UCT with playouts that learns of a move from all games in which it was played later, too.

    Far stronger than `uct` at equal simulations where a move is worth much the same now and later, as in Hex
    and Go; of little use where it is not, as in chess. For games of one or two players.

    Args:
        game: what is searched. Its own `playout_moves` (`types.PlayoutGame`) is used if it has one.
        simulations: S.
        c: exploration on the textbook's scale.
        c_rave, per_action: how long later moves count, see `selection.rave`.
        evaluator: judges leaves instead of one random playout, such as a `mixture` with
            `playouts(game, moves=True)`. Of one that reports no moves, those in the tree alone count.
        temperature, max_depth, discount, solver, stop_early, keep_tree, states, memory_limit: as in
            `puct`.

    Example:
        >>> import games_jax, jax, jaxsearch
        >>> game = games_jax.make("hex", size=3)
        >>> states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 2))
        >>> search = jaxsearch.rave(game, simulations=50)
        >>> jax.jit(search)(jax.random.key(1), states).visits.shape
        (2, 9)

    Reference: Gelly and Silver (2011); the form and the constants are those of Anthony, Tian and Barber
    (2017), whose vanilla search this is.
    """
    return visit_search(
        game,
        evaluator or playout_evaluator(game, moves=True),
        Settings(
            functools.partial(selection.rave, c=c, c_rave=c_rave, per_action=per_action),
            simulations=simulations,
            judge_root=evaluator is not None,
            temperature=temperature,
            max_depth=max_depth,
            discount=discount,
            solver=solver,
            stop_early=stop_early,
            keep_tree=keep_tree,
            states=states,
            memory_limit=memory_limit,
            amaf=True,
        ),
    )


def policy_bonus(
    game: Environment,
    evaluator: Evaluator,
    *,
    simulations: int,
    evaluations: int | None = None,
    weight: float | None = None,
    policy_temperature: float = 0.1,
    playout_weight: float = 1.0,
    c: float = 0.05,
    c_rave: float = 3000.0,
    first_play: FirstPlay = "parent",
    temperature: float = 0.0,
    max_depth: int | None = None,
    discount: float = 1.0,
    solver: bool = False,
    stop_early: bool = False,
    keep_tree: bool = False,
    states: Literal["keep", "replay"] = "keep",
    memory_limit: int | None = None,
) -> Search:
    """Expert Iteration's search: UCT with playouts and RAVE, and a bonus for what a policy prefers.

    Args:
        game: what is searched, of one or two players.
        evaluator: gives priors, and values if `playout_weight` is below 1.
        simulations: S.
        evaluations: leaves that the evaluator judges, those of the first simulations; by default all of them.
            From then on random playouts alone do, and new nodes have equal priors.
        weight: of the bonus, see `selection.policy_bonus`; by default S / A, the mean number of simulations
            per root action.
        policy_temperature: the evaluator's logits are divided by it.
        playout_weight: of a random playout in a leaf's value; the evaluator's value has the rest. 1, the
            paper's search without a value network; 4 / 7, with one, whose weight of 0.75 is beside the
            playout's 1; 0, no playouts.
        c: exploration on the textbook's scale.
        c_rave: how long later moves count, see `selection.rave`; 0 keeps no statistics of them.
        first_play: the value of an action neither visited nor played later.
        temperature, max_depth, discount, solver, stop_early, keep_tree, states, memory_limit: as in
            `puct`.

    Raises:
        ValueError: `policy_temperature` is not above 0, `playout_weight` outside 0..1, `evaluations` below
            0, or below `simulations` with a `playout_weight` of 0.

    The paper evaluates a node by its network at the second visit, here it is at the first: a batch of
    searches then evaluates all of its leaves at once, in each simulation.

    Reference: Anthony, Tian and Barber (2017), https://arxiv.org/abs/1705.08439, sections 3 and 4.
    """
    if not policy_temperature > 0:
        raise ValueError(f"policy_temperature is {policy_temperature}; expected more than 0")
    if not 0 <= playout_weight <= 1:
        raise ValueError(f"playout_weight is {playout_weight}; expected 0 to 1")
    asked = simulations if evaluations is None else evaluations
    if asked < 0 or (asked < simulations and not playout_weight):
        raise ValueError(
            f"evaluations is {evaluations} of {simulations} simulations and playout_weight {playout_weight}; "
            "expected 0 or more, and all of them where there are no playouts"
        )
    judge, playing = evaluator, playout_evaluator(game, moves=c_rave > 0)
    if playout_weight:
        judge = mixture(evaluator, playing, weight=playout_weight)
    later = (asked, playing) if asked < simulations else None

    weight = simulations / game.num_actions if weight is None else weight
    return visit_search(
        game,
        _sharpened(judge, policy_temperature),
        Settings(
            functools.partial(
                selection.policy_bonus, weight=weight, c=c, c_rave=c_rave, first_play=first_play
            ),
            simulations=simulations,
            temperature=temperature,
            max_depth=max_depth,
            discount=discount,
            solver=solver,
            stop_early=stop_early,
            keep_tree=keep_tree,
            states=states,
            memory_limit=memory_limit,
            amaf=c_rave > 0,
            later=later,
        ),
    )


def regularised(
    game: Environment,
    evaluator: Evaluator,
    *,
    simulations: int,
    act: bool = True,
    search: bool = True,
    learn: bool = True,
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
    states: Literal["keep", "replay"] = "keep",
    memory_limit: int | None = None,
) -> Search:
    """AlphaZero's search by the policy that its visits only tend to; the gain is greatest at few simulations.

    Args:
        game: what is searched.
        evaluator: gives priors and values.
        simulations: S.
        act: play by the regularised policy of the root, instead of by its visits.
        search: descend by it, instead of by PUCT.
        learn: `weights` are it, instead of the visits' shares.
        c_init, c_base, first_play, first_play_reduction: see `selection.regularised_policy`.
        dirichlet_alpha, dirichlet_fraction, temperature, max_depth, discount, keep_tree, states,
            memory_limit: as in `puct`.

    Reference: Grill et al. (2020), Monte-Carlo tree search as regularized policy optimization: "ACT",
    "SEARCH" and "LEARN", and "ALL", which is the default here.
    """
    constants: dict[str, Any] = {"c_init": c_init, "c_base": c_base, "first_play": first_play}
    policy = functools.partial(selection.regularised_policy, reduction=first_play_reduction, **constants)
    if search:
        rule = functools.partial(selection.regularised, reduction=first_play_reduction, **constants)
    else:
        rule = functools.partial(selection.puct, first_play_reduction=first_play_reduction, **constants)
    noise = functools.partial(add_dirichlet, alpha=dirichlet_alpha, fraction=dirichlet_fraction)
    return visit_search(
        game,
        evaluator,
        Settings(
            rule,
            simulations=simulations,
            noise=noise if dirichlet_fraction else None,
            temperature=temperature,
            max_depth=max_depth,
            discount=discount,
            keep_tree=keep_tree,
            states=states,
            memory_limit=memory_limit,
            improved=policy,
            act=act,
            learn=learn,
        ),
    )


def _sharpened(evaluator: Evaluator, temperature: float) -> Evaluator:
    """The evaluator with its logits divided by `temperature`."""

    def evaluate(params: Params, key: jax.Array, states: State) -> tuple[jax.Array, ...]:
        logits, *rest = evaluator(params, key, states)
        return logits.astype(jnp.float32) / temperature, *rest

    return evaluate
