"""How one ply changes the table: eligibility traces, and a step size for each weight by temporal coherence.

The table `[R, 3]` holds a weight w and its two sums N and A in one row, so that one gather and one scatter
serve all three (three arrays made XLA copy them at every step).

Dimensions: G games, N look-ups, H positions that a trace reaches, R rows.

Reference: Beal and Smith (1999), Temporal coherence and prediction decay in TD learning; Bagheri et al.
(2016), Online adaptable learning rates for the game Connect-4.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from train.networks.ntuple import NTupleNetwork
from train.td_config import TDSettings

__all__ = ["coherence", "horizon", "update"]


def horizon(settings: TDSettings) -> int:
    """H, how many positions one error changes."""
    if settings.trace_decay == 0:
        return 1
    return 1 + math.floor(math.log(settings.trace_cut) / math.log(settings.trace_decay) + 1e-9)


def coherence(settings: TDSettings, signed: jax.Array, absolute: jax.Array) -> jax.Array:
    """The factor of a weight's step: 1 if its wanted changes all had one sign, small if they cancelled out.

    Args:
        settings: which function of x.
        signed: N, the sum of the changes.
        absolute: A, the sum of their sizes.
    """
    if settings.coherence == "none":
        return jnp.ones_like(signed)
    init = settings.coherence_init
    x = jnp.abs(signed + init) / (absolute + init)
    return x if settings.coherence == "identity" else jnp.exp(settings.coherence_beta * (x - 1.0))


def update(
    network: NTupleNetwork,
    settings: TDSettings,
    table: jax.Array,
    rows: jax.Array,
    weights: jax.Array,
    target: jax.Array,
    learn: jax.Array,
    alpha: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Moves the newest position's value towards `target`, and those of the positions before along with it.

    For each position, newest first: `w += alpha / N * tc * g`, then `N += g`, `A += |g|`, where `g = error *
    lambda^k * slope`. If two images of a board look a row up, its weight changes once.

    Args:
        network: gives the slope of the newest position.
        settings: lambda, coherence, collisions.
        table: `[R, 3]`.
        rows: int32 `[H, N, G]`, newest first.
        weights: float32 `[H, G]`: what the error counts for each position before lambda; entry 0, that of the
            newest, is not used.
        target: float32 `[G]`.
        learn: bool `[G]`; other games change nothing.
        alpha: float32 `[]`.

    Returns:
        The table, the errors `[G]` (0 where nothing was learnt), and the newest positions' slopes `[G]`.
    """
    found = _gather(table, rows[0])
    value = network.output(jnp.sum(found[0], axis=0))
    slope = network.slope(value)
    error = jnp.where(learn, target - value, 0.0)
    for k in range(rows.shape[0]):
        if k > 0:
            found = _gather(table, rows[k])
        wanted = error * (slope if k == 0 else settings.trace_decay**k * weights[k])
        table = _change(network, settings, table, rows[k], found, wanted, alpha)
    return table, error, slope


def _gather(table: jax.Array, rows: jax.Array) -> tuple[jax.Array, ...]:
    """The three columns of `rows` `[N, G]`, each on its own.

    On CPU one gather of whole rows is worked out again, element by element, for every column that is read.
    """
    return tuple(
        table.at[rows, column].get(mode="promise_in_bounds", wrap_negative_indices=False)
        for column in range(table.shape[1])
    )


def _change(
    network: NTupleNetwork,
    settings: TDSettings,
    table: jax.Array,
    rows: jax.Array,
    found: tuple[jax.Array, ...],
    wanted: jax.Array,
    alpha: jax.Array,
) -> jax.Array:
    """The table after one position `rows` `[N, G]` of each game; `found` is what the table holds there."""
    factor = coherence(settings, found[1], found[2])
    step = (alpha / rows.shape[0]) * factor * wanted
    step = jnp.where(_first_of_images(rows, network.blocks), step, 0.0)
    if settings.collisions == "mean":
        active = (wanted != 0).astype(jnp.float32)
        same = (rows[:, :, None] == rows[:, None, :]).astype(jnp.float32)
        step = step / jnp.maximum(jnp.sum(same * active, axis=-1), 1.0)
    signed = jnp.broadcast_to(wanted, step.shape)
    changes = jnp.stack([step, signed, jnp.abs(signed)], axis=-1)
    return table.at[rows].add(changes, mode="promise_in_bounds", wrap_negative_indices=False)


def _first_of_images(rows: jax.Array, blocks: tuple[tuple[int, int], ...]) -> jax.Array:
    """Bool `[N, G]`: that no earlier image of the board looks up the same row of a tuple's table."""
    first, start = [], 0
    for places, tuples in blocks:
        by_place = rows[start : start + places * tuples].reshape(places, tuples, rows.shape[1])
        start += places * tuples
        first += [
            jnp.all(jnp.stack([by_place[k] != by_place[j] for j in range(k)]), axis=0)
            if k
            else jnp.ones(by_place.shape[1:], bool)
            for k in range(places)
        ]
    return jnp.concatenate(first)
