"""mctx's policies on our search: the same arguments, the same answers, sooner."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp

from jaxsearch import halving, keys, selection, stopping
from jaxsearch.mctx import policies as drop_in
from jaxsearch.mctx import stochastic_muzero_policy as _stochastic_muzero_policy
from jaxsearch.mctx.original import mctx
from jaxsearch.noise import add_dirichlet
from jaxsearch.parallel import phase_parallel_search
from jaxsearch.priors import mask_invalid
from jaxsearch.rows import Row
from jaxsearch.search import search
from jaxsearch.tree import Tree
from jaxsearch.types import Params, PolicyOutput, RecurrentFn, RootFnOutput

__all__ = [
    "gumbel_muzero_policy",
    "muzero_policy",
    "root_row",
    "sample_visits",
    "stochastic_muzero_policy",
]


def muzero_policy(
    params: Params,
    rng_key: jax.Array,
    root: RootFnOutput,
    recurrent_fn: RecurrentFn,
    num_simulations: int,
    invalid_actions: jax.Array | None = None,
    max_depth: int | None = None,
    loop_fn: Callable[..., Any] = jax.lax.fori_loop,
    *,
    qtransform: Callable[..., jax.Array] | None = None,
    dirichlet_fraction: float | jax.Array = 0.25,
    dirichlet_alpha: float | jax.Array = 0.3,
    pb_c_init: float = 1.25,
    pb_c_base: float = 19652.0,
    temperature: float | jax.Array = 1.0,
    compat: Literal["mctx"] | None = None,
) -> PolicyOutput:
    """MuZero's search, as `mctx.muzero_policy`.

    Differs from mctx where mctx is wrong: the Dirichlet noise is spread over valid actions only; nothing is
    searched below an edge of discount 0; sums are float32 whatever the network's dtype; ties are broken by
    noise drawn once per search.

    Args:
        params: passed on to `recurrent_fn`.
        rng_key: consumed.
        root: prior logits `[B, A]`, values `[B]`, embeddings `[B, ...]`.
        recurrent_fn: `(params, key, action [B], embedding) -> (RecurrentFnOutput, embedding)`.
        num_simulations: S.
        invalid_actions: `[B, A]`, nonzero where an action is barred at the root.
        max_depth: edges from the root at which a simulation stops.
        dirichlet_fraction: weight of the noise, 0 to 1.
        dirichlet_alpha: its concentration.
        pb_c_init: c_1 of the PUCT formula.
        pb_c_base: c_2 of the PUCT formula.
        temperature: the action is drawn in proportion to `visits ** (1 / temperature)`; 0 takes the most
            visited.
        loop_fn, qtransform: mctx's; a `qtransform` or loop of one's own runs on the slower drop-in search of
            `jaxsearch.mctx`, as does
        compat: `"mctx"` for mctx's answers, its faults and its use of random numbers included.

    Returns:
        The action `[B]`, the visit shares `[B, A]` as `action_weights`, and the tree.

    Raises:
        ValueError: shapes that do not agree, or a number of simulations out of range.

    Reference: Schrittwieser et al. (2020), https://arxiv.org/abs/1911.08265, appendix B.
    """
    if _wants_drop_in(compat, qtransform, loop_fn):
        return drop_in.muzero_policy(
            params,
            rng_key,
            root,
            recurrent_fn,
            num_simulations,
            invalid_actions,
            max_depth,
            loop_fn,
            qtransform=qtransform or mctx.qtransform_by_parent_and_siblings,
            dirichlet_fraction=dirichlet_fraction,
            dirichlet_alpha=dirichlet_alpha,
            pb_c_init=pb_c_init,
            pb_c_base=pb_c_base,
            temperature=temperature,
            compat=compat,
        )
    rng_key, noise_key, search_key = jax.random.split(rng_key, 3)
    logits = mask_invalid(root.prior_logits, invalid_actions)
    noisy = add_dirichlet(noise_key, logits, alpha=dirichlet_alpha, fraction=dirichlet_fraction)
    tree = search(
        params,
        search_key,
        root=root.replace(prior_logits=noisy),
        recurrent_fn=recurrent_fn,
        num_simulations=num_simulations,
        rule=functools.partial(selection.muzero_puct, pb_c_init=pb_c_init, pb_c_base=pb_c_base),
        invalid_actions=invalid_actions,
        max_depth=max_depth,
    )
    summary = tree.summary()
    return PolicyOutput(
        action=sample_visits(rng_key, summary.visit_counts, temperature),
        action_weights=summary.visit_probs,
        search_tree=tree,
    )


def gumbel_muzero_policy(
    params: Params,
    rng_key: jax.Array,
    root: RootFnOutput,
    recurrent_fn: RecurrentFn,
    num_simulations: int,
    invalid_actions: jax.Array | None = None,
    max_depth: int | None = None,
    loop_fn: Callable[..., Any] = jax.lax.fori_loop,
    *,
    qtransform: Callable[..., jax.Array] | None = None,
    max_num_considered_actions: int = 16,
    gumbel_scale: float | jax.Array = 1.0,
    value_scale: float = 0.1,
    maxvisit_init: float = 50.0,
    rescale_values: bool = True,
    parallel: bool = False,
    budgets: jax.Array | None = None,
    considered: jax.Array | None = None,
    compat: Literal["mctx"] | None = None,
) -> PolicyOutput:
    """Gumbel MuZero's search, as `mctx.gumbel_muzero_policy` with its default q-transform.

    At the root, Sequential Halving over the actions with the highest `gumbel + logits`; below, the
    deterministic rule that follows the improved policy.

    Args:
        params: passed on to `recurrent_fn`.
        rng_key: consumed.
        root: prior logits `[B, A]`, values `[B]`, embeddings `[B, ...]`.
        recurrent_fn: `(params, key, action [B], embedding) -> (RecurrentFnOutput, embedding)`.
        num_simulations: S.
        invalid_actions: `[B, A]`, nonzero where an action is barred at the root.
        max_depth: edges from the root at which a simulation stops.
        max_num_considered_actions: candidates at the root.
        gumbel_scale: 0 makes the choice deterministic.
        value_scale, maxvisit_init, rescale_values: of the q-transform, see `selection.completed_qvalues`.
        parallel: search all candidates of a round at once, see `parallel.phase_parallel_search`:
            `recurrent_fn` then gets several leaves per tree.
        budgets: int32 `[B]`, simulations of each tree, 1 to `num_simulations`, where they differ.
        considered: int32 `[B]`, candidates of each tree, 1 to `max_num_considered_actions`, where they
            differ.
        loop_fn, qtransform, compat: as in `muzero_policy`.

    Returns:
        The action `[B]`, the improved policy `[B, A]` as `action_weights`, and the tree.

    Raises:
        ValueError: shapes that do not agree, or a number of simulations out of range.

    Reference: Danihelka et al. (2022), https://openreview.net/forum?id=bERaNdoegnO.
    """
    options: dict[str, Any] = {
        "value_scale": value_scale,
        "maxvisit_init": maxvisit_init,
        "rescale_values": rescale_values,
    }
    if _wants_drop_in(compat, qtransform, loop_fn):
        if parallel:
            raise ValueError("parallel goes with no compat, qtransform or loop_fn: those search leaf by leaf")
        if budgets is not None or considered is not None:
            raise ValueError("budgets and considered go with no compat, qtransform or loop_fn")
        completed = functools.partial(mctx.qtransform_completed_by_mix_value, **options)
        return drop_in.gumbel_muzero_policy(
            params,
            rng_key,
            root,
            recurrent_fn,
            num_simulations,
            invalid_actions,
            max_depth,
            loop_fn,
            qtransform=qtransform or completed,
            max_num_considered_actions=max_num_considered_actions,
            gumbel_scale=gumbel_scale,
            compat=compat,
        )
    if max_num_considered_actions < 1:
        raise ValueError(f"max_num_considered_actions is {max_num_considered_actions}; expected at least 1")
    rng_key, gumbel_key = keys.split(rng_key)
    masked = mask_invalid(root.prior_logits, invalid_actions)
    valid, lowest = masked > -1e8, jnp.finfo(jnp.float32).min
    logits = jnp.where(valid, masked - jnp.max(masked, axis=-1, keepdims=True), lowest)
    gumbel = gumbel_scale * keys.draw(_gumbel, gumbel_key, logits.shape)
    num_valid = jnp.sum(valid, axis=-1, dtype=jnp.int32)
    scores = halving.make_root_scores(gumbel, logits, **options)
    arguments: dict[str, Any] = {
        "root": root.replace(prior_logits=masked),
        "recurrent_fn": recurrent_fn,
        "num_simulations": num_simulations,
        "rule": functools.partial(selection.gumbel_interior, **options),
        "invalid_actions": invalid_actions,
        "max_depth": max_depth,
    }
    if parallel:
        if budgets is not None or considered is not None:
            raise ValueError("parallel goes with no budgets and no considered: all trees search alike")
        most = min(max_num_considered_actions, logits.shape[-1])
        tree = phase_parallel_search(
            params,
            rng_key,
            root_scores=scores,
            num_candidates=jnp.minimum(num_valid, most),
            max_considered=most,
            **arguments,
        )
    else:
        root_rule = halving.make_root_rule(
            scores,
            num_simulations=num_simulations,
            max_considered=max_num_considered_actions,
            num_valid=num_valid if considered is None else jnp.minimum(num_valid, considered),
            budgets=budgets,
        )
        stop = None if budgets is None else stopping.at_budget(budgets)
        # The noise at the root is the only chance in this search, as in mctx.
        tree = search(params, rng_key, root_rule=root_rule, random_ties=False, stop=stop, **arguments)
    q = selection.completed_qvalues(root_row(tree), **options)
    visits = tree.summary().visit_counts
    most_visits = jnp.max(visits, axis=-1, keepdims=True)
    score = halving.halving_score(most_visits, gumbel, logits, q, visits)
    return PolicyOutput(
        action=jnp.argmax(jnp.where(valid, score, -jnp.inf), axis=-1).astype(jnp.int32),
        action_weights=jnp.where(valid, jax.nn.softmax(jnp.where(valid, logits + q, lowest), axis=-1), 0.0),
        search_tree=tree,
    )


def stochastic_muzero_policy(
    *args: Any, compat: Literal["mctx"] | None = None, **kwargs: Any
) -> PolicyOutput:
    """Stochastic MuZero's search, with chance nodes: `mctx.stochastic_muzero_policy`, its faults mended.

    The arguments are those of `jaxsearch.mctx.stochastic_muzero_policy`; `compat="mctx"` keeps mctx's faults.
    The tree is an `mctx.Tree`.

    Reference: Antonoglou et al. (2022), https://openreview.net/forum?id=X6D9bAHhBQ1.
    """
    return _stochastic_muzero_policy(*args, compat=compat, **kwargs)


def _wants_drop_in(compat: Literal["mctx"] | None, qtransform: object, loop_fn: object) -> bool:
    drop_in.check_compat(compat)
    return compat is not None or qtransform is not None or loop_fn is not jax.lax.fori_loop


def _gumbel(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jax.random.gumbel(key, shape, jnp.float32)


def sample_visits(key: jax.Array, visits: jax.Array, temperature: float | jax.Array) -> jax.Array:
    """An action int32 `[B]` drawn in proportion to `visits ** (1 / temperature)`; 0 takes the most visited.

    `visits` are counts, or any weights of 0 or more.

    `temperature` is a number or `[B]`. Equally visited actions are equally likely at temperature 0 too, and
    action 0 stands for a row without visits.
    """
    temperature = jnp.broadcast_to(jnp.asarray(temperature, jnp.float32), visits.shape[:1])[:, None]
    log_visits = jnp.log(jnp.where(visits > 0, visits, 1).astype(jnp.float32)) / jnp.maximum(
        temperature, 1e-6
    )
    most = visits == jnp.max(visits, axis=-1, keepdims=True)
    logits = jnp.where(temperature > 0, log_visits, jnp.where(most, 0.0, -jnp.inf))
    logits = jnp.where(visits > 0, logits, -jnp.inf)
    if keys.is_per_row(key):
        return jax.vmap(jax.random.categorical)(key, logits).astype(jnp.int32)
    return jax.random.categorical(key, logits).astype(jnp.int32)


def root_row(tree: Tree) -> Row:
    """The roots' row as arrays `[B, A]`, for rules applied after the search."""
    return tree.root_rows(unrolled=False)
