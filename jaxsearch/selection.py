"""Selection rules: pure functions from a node's row to a score per action; the search takes the highest.

Each rule is written on `Row`, so the same text serves few actions and many. Illegal actions (prior zero)
are masked by the search, not here, and it is the search that decides between equal scores. Division and the
like come from `arithmetic.py`, which keeps a rule in one kernel.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp

from jaxsearch import arithmetic
from jaxsearch.arithmetic import divide, reciprocal
from jaxsearch.rows import PerAction, Row

__all__ = ["FirstPlay", "completed_qvalues", "gumbel_interior", "muzero_puct", "puct", "qvalues", "uct"]

FirstPlay = Literal["zero", "parent", "reduction", "loss"]

_UNTRIED = 1e9
"""Above every score of an action that was tried."""


def node_value(row: Row) -> jax.Array:
    """The mean of the node's own value and all returns through it (mctx's `node_values`)."""
    return divide(row.value + row.total_value, 1.0 + row.total_visits)


def qvalues(row: Row, unvisited: jax.Array) -> PerAction:
    """Mean return of each action, `unvisited` (per node) where there is none yet."""
    return row.each(
        lambda n, w: jnp.where(n > 0, divide(w, jnp.maximum(n, 1.0)), unvisited), row.visits, row.value_sums
    )


def muzero_puct(row: Row, *, pb_c_init: float = 1.25, pb_c_base: float = 19652.0) -> PerAction:
    """PUCT as MuZero uses it: values rescaled to [0, 1] by the node and its children.

    Unvisited actions count as the worst seen. Reference: Schrittwieser et al. (2020), appendix B; equals
    `mctx.muzero_policy` with its default q-transform.
    """
    value = node_value(row)
    visits = 1.0 + row.total_visits
    q = qvalues(row, value)
    low = jnp.minimum(value, row.smallest(q))
    scale = reciprocal(jnp.maximum(jnp.maximum(value, row.largest(q)) - low, 1e-8))
    exploration = _exploration(visits, pb_c_init, pb_c_base)

    def score(n: jax.Array, q: jax.Array, p: jax.Array) -> jax.Array:
        return jnp.where(n > 0, (q - low) * scale, 0.0) + divide(exploration * p, n + 1.0)

    return row.each(score, row.visits, q, row.priors)


def puct(
    row: Row,
    *,
    c_init: float = 1.25,
    c_base: float = 19652.0,
    first_play: FirstPlay = "parent",
    first_play_reduction: float = 0.25,
) -> PerAction:
    """PUCT as AlphaZero uses it, on plain values in [-1, 1].

    `Q + c(N) P sqrt(N) / (1 + n)` with `c(N) = c_init + log((N + c_base + 1) / c_base)` and N the node's
    visits. What an unvisited action counts is `first_play`: `"zero"`, the node's mean (`"parent"`), that
    less `first_play_reduction` times the root of the prior mass already visited (`"reduction"`, as in
    KataGo), or -1 (`"loss"`).

    Reference: Silver et al. (2018), Science 362, supplementary "Search".
    """
    visits = 1.0 + row.total_visits
    exploration = _exploration(visits, c_init, c_base)
    q = qvalues(row, _first_play_value(row, first_play, first_play_reduction))
    return row.each(lambda n, q, p: q + divide(exploration * p, n + 1.0), row.visits, q, row.priors)


def uct(row: Row, *, c: float = 1.0) -> PerAction:
    """UCB1 applied to trees: `Q + c sqrt(ln N / n)`; every action is tried once first.

    The formula speaks of results in [0, 1] and our values are in [-1, 1], so the bonus is doubled here:
    `c` means what it means in the textbooks. N counts the visits of the node, its own evaluation included.

    Reference: Kocsis and Szepesvari (2006); Browne et al. (2012), section 3.3.1 (whose `C_p` is `c / 2`
    with the factor sqrt(2) inside, so their `1 / sqrt(2)` is `c = sqrt(2)`).
    """
    log_visits = arithmetic.log(1.0 + row.total_visits)

    def score(n: jax.Array, w: jax.Array) -> jax.Array:
        inverse = reciprocal(jnp.maximum(n, 1.0))
        tried = w * inverse + 2.0 * c * arithmetic.sqrt(log_visits * inverse)
        return jnp.where(n > 0, tried, _UNTRIED)

    return row.each(score, row.visits, row.value_sums)


def completed_qvalues(
    row: Row,
    *,
    value_scale: float = 0.1,
    maxvisit_init: float = 50.0,
    rescale_values: bool = True,
) -> PerAction:
    """Gumbel MuZero's transformed values: unvisited actions get the mixed value, then all are scaled.

    Equals `mctx.qtransform_completed_by_mix_value`. Reference: Danihelka et al. (2022), equation 8 and
    appendix D.
    """
    visits = row.total_visits
    visited_prior = row.total(row.each(lambda n, p: jnp.where(n > 0, p, 0.0), row.visits, row.priors))
    weighted_q = row.total(
        row.each(
            lambda n, w, p: jnp.where(n > 0, divide(p * w, jnp.maximum(n, 1.0)), 0.0),
            row.visits,
            row.value_sums,
            row.priors,
        )
    )
    # Where nothing was visited yet, both sums are zero and the node's own value remains.
    weighted_q = jnp.where(visited_prior > 0, divide(weighted_q, jnp.maximum(visited_prior, 1e-30)), 0.0)
    mixed = divide(row.value + visits * weighted_q, visits + 1.0)
    q = qvalues(row, mixed)
    scale = value_scale * (maxvisit_init + row.largest(row.visits))
    if not rescale_values:
        return row.each(lambda q: scale * q, q)
    low = row.smallest(q)
    scale = divide(scale, jnp.maximum(row.largest(q) - low, 1e-8))
    return row.each(lambda q: scale * (q - low), q)


def gumbel_interior(row: Row, **options: float | bool) -> PerAction:
    """Gumbel MuZero below the root: visits follow the improved policy as closely as whole numbers can.

    `softmax(logits + completed Q) - n / (1 + N)`. `options` go to `completed_qvalues`.
    Reference: Danihelka et al. (2022), section 5.
    """
    q = completed_qvalues(row, **options)  # pyright: ignore[reportArgumentType]
    # softmax(log p + q) without the logarithm; the shift is taken over legal actions only.
    shift = row.largest(row.each(lambda q, p: jnp.where(p > 0, q, 0.0), q, row.priors))
    improved = row.each(lambda q, p: p * arithmetic.exp(jnp.minimum(q - shift, 0.0)), q, row.priors)
    per_weight = reciprocal(jnp.maximum(row.total(improved), 1e-30))
    per_visit = reciprocal(1.0 + row.total_visits)
    return row.each(lambda i, n: i * per_weight - n * per_visit, improved, row.visits)


def _exploration(visits: jax.Array, c_init: float, c_base: float) -> jax.Array:
    """`c(N) sqrt(N)` of the PUCT formulas."""
    return arithmetic.sqrt(visits) * (c_init + arithmetic.log((visits + c_base + 1.0) * (1.0 / c_base)))


def _first_play_value(row: Row, first_play: FirstPlay, reduction: float) -> jax.Array:
    if first_play == "zero":
        return jnp.zeros_like(row.value)
    if first_play == "loss":
        return jnp.full_like(row.value, -1.0)
    value = node_value(row)
    if first_play == "parent":
        return value
    if first_play == "reduction":
        visited = row.total(row.each(lambda n, p: jnp.where(n > 0, p, 0.0), row.visits, row.priors))
        return value - reduction * arithmetic.sqrt(visited)
    raise ValueError(f"first_play is {first_play!r}; expected 'zero', 'parent', 'reduction' or 'loss'")
