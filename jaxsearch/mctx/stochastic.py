"""mctx's Stochastic MuZero policy: decision nodes, where a player acts, and chance nodes, where nature does.

Both kinds share one tree of A + C edges per node: the first A are actions and count at decision nodes, the
last C are chance outcomes and count at chance nodes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxsearch.mctx.loop import search
from jaxsearch.mctx.original import mctx
from jaxsearch.mctx.policies import Compat, QTransform, check_compat, noisy_root, visit_policy_output
from jaxsearch.types import Params, PolicyOutput, RecurrentFnOutput, RootFnOutput

__all__ = ["StochasticRecurrentState", "stochastic_muzero_policy"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StochasticRecurrentState:
    """The embedding of a node of either kind; the one of the other kind is a dummy.

    Attributes:
        afterstate_embedding: `[B, ...]`, of use at chance nodes.
        is_decision_node: bool `[B]`.
        state_embedding: `[B, ...]`, of use at decision nodes.
    """

    # In mctx's order of leaves.
    afterstate_embedding: Any
    is_decision_node: jax.Array
    state_embedding: Any


def stochastic_muzero_policy(
    params: Params,
    rng_key: jax.Array,
    root: RootFnOutput,
    decision_recurrent_fn: Callable[..., Any],
    chance_recurrent_fn: Callable[..., Any],
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
    """`mctx.stochastic_muzero_policy`: the same arguments, random numbers and answers.

    A chance node takes the outcome that its visits lag behind most: the highest `p / (n + 1)`.

    Args:
        params: passed on to both functions.
        rng_key: consumed.
        root: prior logits `[B, A]`, values `[B]`, embeddings `[B, ...]`, at decision nodes.
        decision_recurrent_fn: `(params, key, action [B], embedding) -> (DecisionRecurrentFnOutput,
            afterstate embedding)`.
        chance_recurrent_fn: `(params, key, outcome [B], afterstate embedding) -> (ChanceRecurrentFnOutput,
            embedding)`.
        num_simulations: S; a move of player and nature takes two.
        invalid_actions: `[B, A]`, nonzero where an action is barred at the root.
        max_depth: edges from the root at which a descent stops, of both kinds.
        loop_fn, qtransform, dirichlet_fraction, dirichlet_alpha, pb_c_init, pb_c_base, temperature, compat:
            as in `muzero_policy`.

    Returns:
        The action `[B]`, the visit shares `[B, A]` as `action_weights`, and the `mctx.Tree`, with the edges
        of decision nodes alone.

    Raises:
        ValueError: shapes that do not agree, numbers out of range, or another `compat`.

    Reference: Antonoglou et al. (2022), https://openreview.net/forum?id=X6D9bAHhBQ1.
    """
    check_compat(compat)
    b, num_actions = root.prior_logits.shape
    rng_key, noise_key, search_key = jax.random.split(rng_key, 3)
    root = noisy_root(noise_key, root, invalid_actions, dirichlet_fraction, dirichlet_alpha, compat)
    # Evaluated for its shapes: how many outcomes there are, and what an afterstate looks like.
    example, afterstate = decision_recurrent_fn(params, rng_key, jnp.zeros((b,), jnp.int32), root.embedding)
    num_outcomes = example.chance_logits.shape[-1]
    root = root.replace(
        prior_logits=_join(root.prior_logits, num_outcomes=num_outcomes),
        embedding=StochasticRecurrentState(
            state_embedding=root.embedding,
            afterstate_embedding=afterstate,
            is_decision_node=jnp.ones((b,), bool),
        ),
    )
    select = functools.partial(
        _select,
        functools.partial(
            mctx.muzero_action_selection, pb_c_base=pb_c_base, pb_c_init=pb_c_init, qtransform=qtransform
        ),
        num_actions,
    )
    recurrent_fn = _make_recurrent_fn(decision_recurrent_fn, chance_recurrent_fn, num_actions, num_outcomes)
    tree = search(
        params,
        search_key,
        root=root,
        recurrent_fn=recurrent_fn,
        root_action_selection_fn=functools.partial(select, depth=jnp.int32(0)),
        interior_action_selection_fn=select,
        num_simulations=num_simulations,
        max_depth=max_depth,
        invalid_actions=None if invalid_actions is None else _pad_invalid(invalid_actions, num_outcomes),
        loop_fn=loop_fn,
        stop_at_ends=compat is None,
    )
    return visit_policy_output(rng_key, _edges(tree, slice(num_actions)), temperature)


def _make_recurrent_fn(
    decision_fn: Callable[..., Any], chance_fn: Callable[..., Any], num_actions: int, num_outcomes: int
) -> Callable[..., Any]:
    """One step from nodes of either kind: both functions are run, and each node takes its own's answer."""

    def recurrent_fn(
        params: Params, key: jax.Array, edge: jax.Array, state: StochasticRecurrentState
    ) -> tuple[Any, StochasticRecurrentState]:
        decision, afterstate = decision_fn(params, key, edge, state.state_embedding)
        chance, after = chance_fn(params, key, edge - num_actions, state.afterstate_embedding)
        # Nothing is paid and no time passes until nature has moved.
        at_decision = RecurrentFnOutput(
            reward=jnp.zeros_like(decision.afterstate_value),
            discount=jnp.ones_like(decision.afterstate_value),
            prior_logits=_join(decision.chance_logits, num_actions=num_actions),
            value=decision.afterstate_value,
        )
        at_chance = RecurrentFnOutput(
            reward=chance.reward,
            discount=chance.discount,
            prior_logits=_join(chance.action_logits, num_outcomes=num_outcomes),
            value=chance.value,
        )

        def choose(a: jax.Array, b: jax.Array) -> jax.Array:
            return jnp.where(state.is_decision_node.reshape(-1, *[1] * (a.ndim - 1)), a, b)

        new_state = StochasticRecurrentState(
            state_embedding=after,
            afterstate_embedding=afterstate,
            is_decision_node=~state.is_decision_node,
        )
        return jax.tree.map(choose, at_decision, at_chance), new_state

    return recurrent_fn


def _select(
    decision_fn: Callable[..., jax.Array],
    num_actions: int,
    key: jax.Array,
    tree: Any,
    node: jax.Array,
    depth: jax.Array,
) -> jax.Array:
    """The edge to take at a node of one tree."""
    action = decision_fn(key, _edges(tree, slice(num_actions)), node, depth)
    nature = _edges(tree, slice(num_actions, None))
    chances = jax.nn.softmax(nature.children_prior_logits[node])
    visits = nature.children_visits[node].astype(chances.dtype)
    outcome = jnp.argmax(chances / (visits + 1), axis=-1).astype(jnp.int32)
    return jnp.where(tree.embeddings.is_decision_node[node], action, num_actions + outcome)


def _edges(tree: Any, part: slice) -> Any:
    """The tree with a part of each node's edges: those of decision or of chance nodes."""
    names = [name for name in tree.__dataclass_fields__ if name.startswith("children_")]
    names.append("root_invalid_actions")
    return tree.replace(**{name: getattr(tree, name)[..., part] for name in names})


def _join(logits: jax.Array, *, num_actions: int = 0, num_outcomes: int = 0) -> jax.Array:
    """Logits `[B, A + C]` from those of one kind; the others are -inf and never looked at."""
    logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    return jnp.pad(logits, ((0, 0), (num_actions, num_outcomes)), constant_values=-jnp.inf)


def _pad_invalid(invalid_actions: jax.Array, num_outcomes: int) -> jax.Array:
    """Of chance outcomes, none is barred."""
    return jnp.pad(jnp.asarray(invalid_actions), ((0, 0), (0, num_outcomes)))
