"""Positional superko: no move may bring back an earlier board. Only this variant keeps a history."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board
from games_jax.go import rules
from games_jax.go.board import Layout
from games_jax.go.rules import State

_SEEDS = (np.uint32(0x3C6EF372), np.uint32(0xBB67AE85))


class SuperkoState(NamedTuple):
    """A position and the boards before it: `8 * (max_steps + 1)` bytes more than `State`.

    Attributes:
        position: the position by the simple ko rule.
        history: uint32 `[max_steps + 1, 2]`, a hash of 64 bits of the board after each ply; zeros from
            there on.
    """

    position: State
    history: jax.Array


AnyState = State | SuperkoState
"""A state by either ko rule."""


def position_of(state: AnyState) -> State:
    """The state without its history."""
    return state.position if isinstance(state, SuperkoState) else state


def begin(position: State, max_steps: int) -> SuperkoState:
    """A position without a past, for a game of `max_steps` plies."""
    return remember(position, jnp.zeros((max_steps + 1, 2), jnp.uint32))


def remember(position: State, history: jax.Array) -> SuperkoState:
    """The state whose history also holds the present board."""
    white = (position.flags & rules.WHITE) != 0
    black_stones = bits.where(white, position.other, position.own)
    white_stones = bits.where(white, position.own, position.other)
    now = _hash((*black_stones, *white_stones))
    # In a finished game this writes what is there already.
    return SuperkoState(position, history.at[rules.plies(position.flags)].set(now))


def legal_points(state: SuperkoState, form: Layout, *, suicide: bool) -> Board:
    """The points where the player to move may place a stone without bringing back an earlier board."""
    own, other, flags = state.position
    white = (flags & rules.WHITE) != 0
    columns = [word.reshape(-1) for word in _singles(form)]

    def repeats(placed: Board) -> jax.Array:
        after = rules.place(own, other, placed, form, suicide=suicide)
        stones = bits.where(white, after.other, after.own), bits.where(white, after.own, after.other)
        now = _hash((*stones[0], *stones[1]))
        return jnp.any((state.history[:, 0] == now[0]) & (state.history[:, 1] == now[1]))

    repeated = jax.vmap(repeats)(tuple(jnp.asarray(column) for column in columns))
    barred = bits.pack(repeated, form.positions, words=form.words, width=form.width)
    return bits.without(rules.legal_points(state.position, form, suicide=suicide), barred)


def _singles(form: Layout) -> list[np.ndarray]:
    """Each point as a board: per word, uint32 `[size * size]`."""
    word_of, offset = np.divmod(form.positions, form.width)
    bit = np.uint32(1) << offset.astype(np.uint32)
    return [np.where(word_of == w, bit, np.uint32(0)) for w in range(form.words)]


def _hash(words: Board) -> jax.Array:
    """Uint32 `[2]`: two hashes of the same words from different seeds.

    Reference: A. Appleby, MurmurHash3 (32 bits).
    """
    return jnp.stack([_murmur(words, seed) for seed in _SEEDS])


def _murmur(words: Board, seed: np.uint32) -> jax.Array:
    total = jnp.asarray(seed)
    for word in words:
        mixed = word * np.uint32(0xCC9E2D51)
        mixed = ((mixed << 15) | (mixed >> 17)) * np.uint32(0x1B873593)
        total = total ^ mixed
        total = ((total << 13) | (total >> 19)) * np.uint32(5) + np.uint32(0xE6546B64)
    total = (total ^ (total >> 16)) * np.uint32(0x85EBCA6B)
    total = (total ^ (total >> 13)) * np.uint32(0xC2B2AE35)
    return total ^ (total >> 16)
