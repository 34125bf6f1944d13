"""mctx's MuZero and Gumbel MuZero policies on the search of `loop.py`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp

from jaxsearch.halving import halving_score
from jaxsearch.mctx.loop import search
from jaxsearch.mctx.original import mctx
from jaxsearch.noise import add_dirichlet
from jaxsearch.types import Params, PolicyOutput, RecurrentFn, RootFnOutput

__all__ = [
    "Compat",
    "QTransform",
    "check_compat",
    "gumbel_muzero_policy",
    "mask_invalid",
    "muzero_policy",
    "noisy_root",
    "visit_policy_output",
]

Compat = Literal["mctx"] | None
"""`"mctx"`: its answers, faults included; None: with the faults mended."""

QTransform = Callable[[Any, jax.Array], jax.Array]
"""From one tree and a node to transformed values `[A]`."""


def muzero_policy(
    params: Params,
    rng_key: jax.Array,
    root: RootFnOutput,
    recurrent_fn: RecurrentFn,
    num_simulations: int,
    invalid_actions: jax.Array | None = None,
    max_depth: int | jax.Array | None = None,
    loop_fn: Callable[..., Any] = jax.lax.fori_loop,
    *,
    qtransform: QTransform = mctx.qtransform_by_parent_and_siblings,
    dirichlet_fraction: float | jax.Array = 0.25,
    dirichlet_alpha: float | jax.Array = 0.3,
    pb_c_init: float | jax.Array = 1.25,
    pb_c_base: float | jax.Array = 19652,
    temperature: float | jax.Array = 1.0,
    compat: Compat = "mctx",
) -> PolicyOutput:
    """`mctx.muzero_policy`: the same arguments, random numbers and answers.

    Args:
        params: passed on to `recurrent_fn`.
        rng_key: consumed.
        root: prior logits `[B, A]`, values `[B]`, embeddings `[B, ...]`.
        recurrent_fn: `(params, key, action [B], embedding) -> (RecurrentFnOutput, embedding)`.
        num_simulations: S.
        invalid_actions: `[B, A]`, nonzero where an action is barred at the root.
        max_depth: edges from the root at which a descent stops; may be traced.
        loop_fn: runs the simulations, with the signature of `jax.lax.fori_loop`.
        qtransform: from one tree and a node to values in [0, 1], `[A]`.
        dirichlet_fraction: weight of the noise, 0 to 1.
        dirichlet_alpha: its concentration.
        pb_c_init: c_1 of the PUCT formula.
        pb_c_base: c_2 of the PUCT formula.
        temperature: the action is drawn in proportion to `visits ** (1 / temperature)`.
        compat: `"mctx"` for mctx's answers. None mends what is wrong there: noise is spread over valid
            actions only, nothing is searched below an edge of discount 0, and the tree's values are float32
            whatever the network's dtype.

    Returns:
        The action `[B]`, the visit shares `[B, A]` as `action_weights`, and the `mctx.Tree`.

    Raises:
        ValueError: shapes that do not agree, numbers out of range, or another `compat`.

    Reference: Schrittwieser et al. (2020), https://arxiv.org/abs/1911.08265, appendix B.
    """
    check_compat(compat)
    rng_key, noise_key, search_key = jax.random.split(rng_key, 3)
    root = noisy_root(noise_key, root, invalid_actions, dirichlet_fraction, dirichlet_alpha, compat)
    select = functools.partial(
        mctx.muzero_action_selection, pb_c_base=pb_c_base, pb_c_init=pb_c_init, qtransform=qtransform
    )
    tree = search(
        params,
        search_key,
        root=root,
        recurrent_fn=recurrent_fn,
        root_action_selection_fn=functools.partial(select, depth=0),
        interior_action_selection_fn=select,
        num_simulations=num_simulations,
        max_depth=max_depth,
        invalid_actions=invalid_actions,
        loop_fn=loop_fn,
        stop_at_ends=compat is None,
    )
    return visit_policy_output(rng_key, tree, temperature)


def gumbel_muzero_policy(
    params: Params,
    rng_key: jax.Array,
    root: RootFnOutput,
    recurrent_fn: RecurrentFn,
    num_simulations: int,
    invalid_actions: jax.Array | None = None,
    max_depth: int | jax.Array | None = None,
    loop_fn: Callable[..., Any] = jax.lax.fori_loop,
    *,
    qtransform: QTransform = mctx.qtransform_completed_by_mix_value,
    max_num_considered_actions: int = 16,
    gumbel_scale: float | jax.Array = 1.0,
    compat: Compat = "mctx",
) -> PolicyOutput:
    """`mctx.gumbel_muzero_policy`: the same arguments, random numbers and answers.

    Args:
        params: passed on to `recurrent_fn`.
        rng_key: consumed.
        root: prior logits `[B, A]`, values `[B]`, embeddings `[B, ...]`.
        recurrent_fn: `(params, key, action [B], embedding) -> (RecurrentFnOutput, embedding)`.
        num_simulations: S.
        invalid_actions: `[B, A]`, nonzero where an action is barred at the root.
        max_depth: edges from the root at which a descent stops; may be traced.
        loop_fn: runs the simulations, with the signature of `jax.lax.fori_loop`.
        qtransform: from one tree and a node to completed values `[A]`.
        max_num_considered_actions: candidates at the root.
        gumbel_scale: 0 makes the choice deterministic.
        compat: `"mctx"` for mctx's answers. None mends what is wrong there: nothing is searched below an edge
            of discount 0, and the tree's values are float32 whatever the network's dtype.

    Returns:
        The action `[B]`, the improved policy `[B, A]` as `action_weights`, and the `mctx.Tree`, whose
        `extra_data.root_gumbel` holds the noise.

    Raises:
        ValueError: shapes that do not agree, numbers out of range, or another `compat`.

    Reference: Danihelka et al. (2022), https://openreview.net/forum?id=bERaNdoegnO.
    """
    check_compat(compat)
    if max_num_considered_actions < 1:
        raise ValueError(f"max_num_considered_actions is {max_num_considered_actions}; expected at least 1")
    root = in_float32(root) if compat is None else root
    root = root.replace(prior_logits=mask_invalid(root.prior_logits, invalid_actions))
    rng_key, gumbel_key = jax.random.split(rng_key)
    logits = root.prior_logits
    gumbel = gumbel_scale * jax.random.gumbel(gumbel_key, logits.shape, logits.dtype)
    tree = search(
        params,
        rng_key,
        root=root,
        recurrent_fn=recurrent_fn,
        root_action_selection_fn=functools.partial(
            mctx.gumbel_muzero_root_action_selection,
            num_simulations=num_simulations,
            max_num_considered_actions=max_num_considered_actions,
            qtransform=qtransform,
        ),
        interior_action_selection_fn=functools.partial(
            mctx.gumbel_muzero_interior_action_selection, qtransform=qtransform
        ),
        num_simulations=num_simulations,
        max_depth=max_depth,
        invalid_actions=invalid_actions,
        extra_data=mctx.GumbelMuZeroExtraData(root_gumbel=gumbel),
        loop_fn=loop_fn,
        stop_at_ends=compat is None,
    )
    visits = tree.summary().visit_counts
    considered = jnp.max(visits, axis=-1, keepdims=True)
    q = jax.vmap(qtransform, in_axes=(0, None))(tree, tree.ROOT_INDEX)
    shifted = logits - jnp.max(logits, axis=-1, keepdims=True)
    score = halving_score(considered, gumbel, shifted, q, visits)
    if invalid_actions is not None:
        score = jnp.where(jnp.asarray(invalid_actions, bool), -jnp.inf, score)
    return PolicyOutput(
        action=jnp.argmax(score, axis=-1).astype(jnp.int32),
        action_weights=jax.nn.softmax(mask_invalid(logits + q, invalid_actions)),
        search_tree=tree,
    )


def check_compat(compat: Compat) -> None:
    """Raises ValueError unless `compat` is one of its two values."""
    if compat not in ("mctx", None):
        raise ValueError(f"compat is {compat!r}; expected 'mctx' or None")


def noisy_root(
    key: jax.Array,
    root: RootFnOutput,
    invalid_actions: jax.Array | None,
    fraction: float | jax.Array,
    alpha: float | jax.Array,
    compat: Compat,
) -> RootFnOutput:
    """The root with Dirichlet noise in its priors: mctx draws it over all actions, invalid ones included."""
    if compat is None:
        root = in_float32(root)
        logits = mask_invalid(root.prior_logits, invalid_actions)
        noisy = add_dirichlet(key, logits, alpha=alpha, fraction=fraction)
        # Invalid actions stay finite, as in mctx: a row without a valid action would be NaN otherwise.
        return root.replace(prior_logits=jnp.maximum(noisy, jnp.finfo(noisy.dtype).min))
    priors = jax.nn.softmax(root.prior_logits)
    b, a = priors.shape
    noise = jax.random.dirichlet(key, jnp.full((a,), alpha), (b,)).astype(priors.dtype)
    logits = _log((1 - fraction) * priors + fraction * noise)
    return root.replace(prior_logits=mask_invalid(logits, invalid_actions))


def in_float32(root: RootFnOutput) -> RootFnOutput:
    """The root with float32 logits and value, from which the tree takes its dtypes."""
    return root.replace(
        prior_logits=root.prior_logits.astype(jnp.float32), value=root.value.astype(jnp.float32)
    )


def mask_invalid(logits: jax.Array, invalid_actions: jax.Array | None) -> jax.Array:
    """Logits `[B, A]` with the lowest finite number at invalid actions, as mctx has them in its tree."""
    if invalid_actions is None:
        return logits
    if jnp.shape(invalid_actions) != logits.shape:
        raise ValueError(f"invalid_actions has shape {invalid_actions.shape}; expected {logits.shape}")
    logits = logits - jnp.max(logits, axis=-1, keepdims=True)
    # Finite, because a row may have no valid action at the end of an episode.
    return jnp.where(jnp.asarray(invalid_actions, bool), jnp.finfo(logits.dtype).min, logits)


def visit_policy_output(key: jax.Array, tree: Any, temperature: float | jax.Array) -> PolicyOutput:
    """An action drawn by the root's visits; the visit shares as weights."""
    shares = tree.summary().visit_probs
    logits = _log(shares)
    logits = logits - jnp.max(logits, axis=-1, keepdims=True)
    # A temperature of 0 leaves the most visited actions alone finite.
    logits = logits / jnp.maximum(jnp.finfo(logits.dtype).tiny, temperature)
    return PolicyOutput(action=jax.random.categorical(key, logits), action_weights=shares, search_tree=tree)


def _log(probabilities: jax.Array) -> jax.Array:
    return jnp.log(jnp.maximum(probabilities, jnp.finfo(probabilities.dtype).tiny))
