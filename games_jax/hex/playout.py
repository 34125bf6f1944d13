"""Random play to the end without playing: fill the board, then look who has won.

Uniformly random play gives the empty cells to the players in a uniformly random order, in turns. A game stops
at the win; but stones placed after it cannot undo it, and a full board has exactly one winner. So the winner
of the board filled to the last cell is the winner of the game, and only the set of cells that each player
gets matters: a uniformly random subset of the right size.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board


class _Split(NamedTuple):
    """What the digits drawn so far say.

    Attributes:
        chosen: the cells known to be among the least.
        tied: cells whose numbers are equal so far.
        missing: uint32 `[]`, how many of the tied cells are among the least.
        seeds: for each word of the board the state of a generator.
    """

    chosen: Board
    tied: Board
    missing: jax.Array
    seeds: Board


def random_subset(key: jax.Array, cells: Board, count: jax.Array) -> Board:
    """`count` (int32 `[]`) of the cells, every subset of that size equally likely.

    Each cell has a random number, and the `count` cells of the least numbers are chosen. The numbers are
    drawn digit by digit, a board of binary digits at a time, until the chosen cells are told from the rest:
    about as many digits as the number of cells has, and a few more.
    """
    start = _Split(
        chosen=bits.zeros(len(cells)),
        tied=cells,
        missing=jnp.asarray(count, jnp.int32).astype(jnp.uint32),
        seeds=tuple(random_word(key, number) for number in range(len(cells))),
    )
    return jax.lax.while_loop(_is_open, _divide, start).chosen


def random_word(key: jax.Array, number: int) -> jax.Array:
    """Word `number` of a key, uint32 `[]`: a hash, because JAX's generator takes as long as the playout.

    Reference: the finaliser of MurmurHash3 (Appleby).
    """
    words = jax.random.key_data(key)
    seed = jnp.uint32((number + 1) * 0x9E3779B9 & 0xFFFFFFFF)
    for i in range(words.shape[-1]):
        seed = seed ^ words[i]
        seed = (seed ^ (seed >> 16)) * np.uint32(0x85EBCA6B)
        seed = (seed ^ (seed >> 13)) * np.uint32(0xC2B2AE35)
        seed = seed ^ (seed >> 16)
    return seed


def _is_open(split: _Split) -> jax.Array:
    return bits.is_any(split.tied) & (split.missing != 0)


def _divide(split: _Split) -> _Split:
    """Draws the next digit of every cell and divides the tied ones by it."""
    # JAX's own generator would cost more than all the rest of a playout.
    # Reference: O'Neill (2014), PCG-RXS-M-XS-32.
    digits, seeds = zip(*(_draw(seed) for seed in split.seeds), strict=True)
    small, large = bits.without(split.tied, digits), bits.both(split.tied, digits)
    found = bits.popcount(small).astype(jnp.uint32)
    all_small = found <= split.missing
    chosen, tied, (missing,), seeds = bits.compute_once(
        bits.where(all_small, bits.either(split.chosen, small), split.chosen),
        bits.where(all_small, large, small),
        (jnp.where(all_small, split.missing - found, split.missing),),
        seeds,
    )
    return _Split(chosen, tied, missing, seeds)


def _draw(seed: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A random word and the generator's next state."""
    word = ((seed >> ((seed >> 28) + np.uint32(4))) ^ seed) * np.uint32(277803737)
    return (word >> 22) ^ word, seed * np.uint32(747796405) + np.uint32(2891336453)
