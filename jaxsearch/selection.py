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
from jaxsearch.rows import Amaf, PerAction, Row

__all__ = [
    "Amaf",
    "FirstPlay",
    "completed_qvalues",
    "gumbel_interior",
    "muzero_puct",
    "policy_bonus",
    "puct",
    "qvalues",
    "rave",
    "regularised",
    "regularised_policy",
    "uct",
]

FirstPlay = Literal["zero", "parent", "reduction", "loss"]

_UNTRIED = 1e9
"""Above every score of an action that was tried."""

_NEWTON_STEPS = 10
"""Enough for 3e-7 at any values, 2 to 362 actions, and priors from `_LEAST_PRIOR`."""

_LEAST_PRIOR = 1e-12
"""Smaller priors count as this in the regularised policy: its limit as a prior goes to zero."""


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


def policy_bonus(
    row: Row,
    *,
    weight: float,
    c: float = 0.05,
    c_rave: float = 3000.0,
    first_play: FirstPlay = "parent",
    reduction: float = 0.25,
) -> PerAction:
    """UCT with a bonus for what a policy prefers, as Expert Iteration searches: `UCT + weight * P / (n + 1)`.

    The bonus works before the first visit, so that not every action need be tried: an unvisited action counts
    what `first_play` says (see `puct`), with the exploration term of one visit. Where the search keeps
    all-moves-as-first statistics, UCT is blended with them as in `rave`, and they stand for an unvisited
    action.

    Args:
        row: the nodes.
        weight: of the policy, about the mean number of simulations per root action; 100 in the paper.
        c: exploration of UCT. It and `weight` are on the textbook's scale, as in `uct`.
        c_rave: see `rave`; not used without all-moves-as-first statistics.
        first_play, reduction: the value of an unvisited action.

    Reference: Anthony, Tian and Barber (2017), Thinking Fast and Slow with Deep Learning and Tree Search.
    """
    log_visits = arithmetic.log(1.0 + row.total_visits)
    q = qvalues(row, _first_play_value(row, first_play, reduction))

    def explored(n: jax.Array, q: jax.Array) -> jax.Array:
        return q + 2.0 * c * arithmetic.sqrt(log_visits * reciprocal(jnp.maximum(n, 1.0)))

    scores = row.each(explored, row.visits, q)
    if row.amaf is not None:
        scores = _blend(row, row.amaf, scores, c=c, c_rave=c_rave)
    return row.each(
        lambda s, n, p: s + 2.0 * weight * p * reciprocal(n + 1.0), scores, row.visits, row.priors
    )


def rave(row: Row, *, c: float = 0.25, c_rave: float = 3000.0, per_action: bool = False) -> PerAction:
    """UCT blended with what each action was worth when it was played later: `beta RAVE + (1 - beta) UCT`.

    `beta = sqrt(c_rave / (3 n + c_rave))` with n the node's visits. Both parts are UCB1 (see `uct`) of their
    own statistics. An action without visits has its RAVE value alone, and one without any is tried first.

    Args:
        row: the nodes, of a search that keeps all-moves-as-first statistics: `search(..., amaf=True)`.
        c: exploration on the textbook's scale.
        c_rave: visits of a node at which beta is 1 / 2.
        per_action: let n be the action's visits, as Gelly and Silver do.

    Raises:
        ValueError: the search does not keep these statistics.

    Reference: Gelly and Silver (2011), Monte-Carlo tree search and rapid action value estimation in computer
    Go.
    """
    if row.amaf is None:
        raise ValueError(
            "rave scores by all-moves-as-first statistics, and this search keeps none: amaf=True"
        )
    return _blend(row, row.amaf, uct(row, c=c), c=c, c_rave=c_rave, per_action=per_action)


def _blend(
    row: Row, amaf: Amaf, scores: PerAction, *, c: float, c_rave: float, per_action: bool = False
) -> PerAction:
    """`beta RAVE + (1 - beta) score`; of an action not tried RAVE, of one not played later the score."""
    log_visits = arithmetic.log(jnp.maximum(row.total(amaf.visits), 1.0))
    visits = 1.0 + row.total_visits

    def blend(n: jax.Array, amaf_n: jax.Array, amaf_w: jax.Array, score: jax.Array) -> jax.Array:
        beta = arithmetic.sqrt(c_rave * reciprocal(3.0 * (n if per_action else visits) + c_rave))
        beta = jnp.where(n > 0, beta, 1.0)
        inverse = reciprocal(jnp.maximum(amaf_n, 1.0))
        later = amaf_w * inverse + 2.0 * c * arithmetic.sqrt(log_visits * inverse)
        return jnp.where(amaf_n > 0, beta * later + (1.0 - beta) * score, score)

    return row.each(blend, row.visits, amaf.visits, amaf.value_sums, scores)


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


def regularised_policy(
    row: Row,
    *,
    c_init: float = 1.25,
    c_base: float = 19652.0,
    first_play: FirstPlay = "parent",
    reduction: float = 0.25,
) -> PerAction:
    """The policy that PUCT's visits tend to: `argmax_y Q.y - lambda KL(P || y)`, probabilities per action.

    Its solution is `pi(a) = lambda P(a) / (alpha - Q(a))`, with alpha such that they sum to 1, and
    `lambda = c(N) sqrt(N) / (A + N)` from `puct`'s exploration, N being the node's visits and A its legal
    actions. At few simulations it says more than the visits do: play by it ("act"), or learn from it
    ("learn"), at the root of a search by `puct`; and `regularised` searches by it ("search").

    Args:
        row: the nodes; for a search's roots, `policies.root_row(tree)`.
        c_init, c_base: exploration, as the search had it.
        first_play, reduction: the value of an unvisited action, see `puct`.

    Reference: Grill et al. (2020), Monte-Carlo tree search as regularized policy optimization, equation 3 and
    appendix B.3.
    """
    visits = 1.0 + row.total_visits
    q = qvalues(row, _first_play_value(row, first_play, reduction))
    legal = row.total(row.each(lambda p: jnp.where(p > 0, 1.0, 0.0), row.priors))
    scale = divide(_exploration(visits, c_init, c_base), legal + visits)
    # With x = alpha - max Q and each action's gap to max Q, no digits are lost where alpha comes close to Q.
    highest = row.largest(row.each(lambda q, p: jnp.where(p > 0, q, -1e30), q, row.priors))
    gaps = row.each(lambda q: jnp.maximum(highest - q, 0.0), q)
    weights = row.each(lambda p: jnp.where(p > 0, scale * jnp.maximum(p, _LEAST_PRIOR), 0.0), row.priors)
    # Two lower bounds of x: no probability is above 1, and Jensen's inequality.
    bound = row.largest(row.each(lambda w, gap: w - gap, weights, gaps))
    mean_gap = row.total(row.each(lambda p, gap: p * gap, row.priors, gaps))
    x = jnp.maximum(jnp.maximum(bound, scale - mean_gap), 1e-20)
    shares = _solve(_wide(row, weights), _wide(row, gaps), x if not row.unrolled else x[:, None])
    return row.per_action(shares)


def regularised(row: Row, **options: float | FirstPlay) -> PerAction:
    """Searches by `regularised_policy`: visits follow it as closely as whole numbers can.

    `pi - n / (1 + N)`. The paper draws from pi instead; here nothing is drawn in a search, and the visits
    tend to the same shares. `options` go to `regularised_policy`.
    """
    policy = regularised_policy(row, **options)  # pyright: ignore[reportArgumentType]
    per_visit = reciprocal(1.0 + row.total_visits)
    return row.each(lambda p, n: p - n * per_visit, policy, row.visits)


def _solve(weights: jax.Array, gaps: jax.Array, x: jax.Array) -> jax.Array:
    """Probabilities `weight / (x + gap)`, `[R, A]`, for the x at which they sum to 1, from a bound `[R, 1]`.

    On arrays also where rows are unrolled, and in a loop: ten steps written out for 16 actions take a minute
    to compile.
    """

    # Newton's method on 1 / sum = 1, which is concave in x: from below, it climbs and never goes beyond.
    def climb(_: jax.Array, x: jax.Array) -> jax.Array:
        inverse = 1.0 / (x + gaps)
        shares = weights * inverse
        total = jnp.sum(shares, axis=-1, keepdims=True)
        slope = jnp.sum(shares * inverse, axis=-1, keepdims=True)
        return x + jnp.maximum(total * (total - 1.0) / jnp.maximum(slope, 1e-20), 0.0)

    shares = weights / (jax.lax.fori_loop(0, _NEWTON_STEPS, climb, x) + gaps)
    return shares / jnp.maximum(jnp.sum(shares, axis=-1, keepdims=True), 1e-20)


def _wide(row: Row, column: PerAction) -> jax.Array:
    return jnp.stack(column, axis=-1) if row.unrolled else column


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
