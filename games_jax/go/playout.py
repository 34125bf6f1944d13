"""Random games that keep their own eyes, many at once and each at its own pace.

A ply asks for one random empty point and looks at that one alone: is it suicide, does it capture? One turn
of the loop is one round of that look, for every game of the batch. A game whose look is finished plays the
point (or crosses it off, if it is illegal) and picks the next one in the same turn, so that no game waits
for another's ply.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board
from games_jax.go import board as go
from games_jax.go import rules
from games_jax.go.board import Layout
from games_jax.go.rules import State

# Turns between two looks at whether all games are over: under `vmap` a look costs as much as a turn.
_TURNS = 8
# A batch is not cut below this: a kernel over fewer games takes as long.
_FEWEST = 64


class Playout(NamedTuple):
    """A random game on its way.

    Attributes:
        own: the stones of the player to move.
        other: the stones of the other player.
        flags: as in `State`.
        untried: points that may yet be picked for this ply.
        placed: the point picked, or none for a pass.
        shut: points that are not counted as liberties: `placed`, and others of `untried` without empty
            neighbours.
        alive: stones known to have a liberty outside `shut` if `placed` is played.
        random: the state of the game's random numbers, two uint32 `[]`.
    """

    own: Board
    other: Board
    flags: jax.Array
    untried: Board
    placed: Board
    shut: Board
    alive: Board
    random: tuple[jax.Array, jax.Array]


def start(state: State, key: jax.Array, form: Layout) -> Playout:
    """A random game from `state`, its first point picked."""
    draws = jax.random.bits(key, (2,), jnp.uint32)
    random = draws[0] | np.uint32(1), draws[1]  # not both zero
    untried = bits.without(candidates(state.own, state.other, form), rules.ko_point(state, form))
    placed, shut, random = _pick(state.own, state.other, untried, random, form)
    alive = _with_liberty(state.own, state.other, placed, shut, form)
    boards = bits.compute_once(state.own, state.other, untried, placed, shut, alive)
    own, other, untried, placed, shut, alive = boards
    return Playout(own, other, state.flags, untried, placed, shut, alive, random)


def candidates(own: Board, other: Board, form: Layout) -> Board:
    """The empty points that are no eyes of `own`: those with a neighbour that is no stone of `own`."""
    empty = bits.without(form.points, bits.either(own, other))
    return bits.both(empty, go.neighbours(bits.without(form.points, own), form))


def is_going(game: Playout, plies: jax.Array) -> jax.Array:
    """Bool `[]`: neither two passes running nor `plies` played."""
    return ((game.flags & rules.TWO_PASSES) == 0) & (rules.plies(game.flags) < plies)


def turn(game: Playout, plies: jax.Array, form: Layout, *, suicide: bool) -> Playout:
    """One turn of the loop: looks on, and if that settles the point, plays it or not and picks the next."""
    own, other, placed, shut = game.own, game.other, game.placed, game.shut
    mine = bits.either(own, placed)
    linked = go.links(form, mine, other)
    alive = go.sweep(game.alive, linked, form)
    beside = bits.both(go.neighbours(placed, form), other)
    lives = ~bits.is_any(bits.without(bits.either(placed, beside), alive))
    # Enclosed by stones of the other player that live on: suicide, there and at the other points shut.
    doomed = bits.without(shut, go.neighbours(bits.without(form.points, bits.both(other, alive)), form))
    suicidal = bits.is_any(bits.both(placed, doomed))
    alone = bits.equal(shut, placed)
    complete = ~bits.is_any(bits.without(go.spread(alive, linked, form), alive))
    known = lives | (complete & alone)  # what comes off
    done = known | suicidal
    narrow = complete & ~done  # the answer may lie in the other points shut: look again without them

    after = rules.settle(own, other, placed, alive, form, suicide=suicide)
    played = known & after.legal & is_going(game, plies)
    passed = ~bits.is_any(placed)
    ko = rules.ko_after(placed, other, after.captured, form)
    flags = jnp.where(played, rules.next_flags(game.flags, ko=ko, passed=passed), game.flags)
    next_own, next_other = bits.where(played, after.other, own), bits.where(played, after.own, other)
    fresh = candidates(after.other, after.own, form)
    fresh = bits.without(fresh, bits.where(ko != 0, after.captured, bits.zeros(form.words)))
    left = bits.without(game.untried, bits.where(done, bits.either(doomed, placed), doomed))
    untried = bits.where(played, fresh, left)

    picked, picked_shut, random = _pick(next_own, next_other, untried, game.random, form)
    placed = bits.where(done, picked, placed)
    shut = bits.where(done, picked_shut, bits.where(narrow, placed, shut))
    seen = _with_liberty(next_own, next_other, placed, shut, form)
    alive = bits.either(seen, bits.where(done, bits.zeros(form.words), alive))
    return Playout(next_own, next_other, flags, untried, placed, shut, alive, random)


def run(game: Playout, plies: jax.Array, form: Layout, *, suicide: bool) -> Playout:
    """Plays on until two passes running, or until `plies` (uint32 `[]`) have been played."""
    body = functools.partial(_turns, plies=plies, form=form, suicide=suicide)
    return jax.lax.while_loop(lambda game: is_going(game, plies), body, game)


def run_batch(games: Playout, plies: jax.Array, form: Layout, *, suicide: bool) -> Playout:
    """`run` for a whole batch `[B]`, without waiting at full width for its longest games.

    Once three games in four are over the others go on as a smaller batch, and so on down to `_FEWEST` games.
    """
    going = jax.vmap(is_going)
    batch = len(plies)
    fewer = batch // 4 if batch >= 4 * _FEWEST else 0
    body = jax.vmap(functools.partial(_turns, form=form, suicide=suicide))

    def many_go_on(games: Playout) -> jax.Array:
        return jnp.sum(going(games, plies).astype(jnp.int32)) > fewer

    games = jax.lax.while_loop(many_go_on, lambda games: body(games, plies), games)
    if not fewer:
        return games
    left = jnp.argsort(~going(games, plies), stable=True)[:fewer]
    rest = jax.tree.map(lambda leaf: leaf[left], games)
    rest = run_batch(rest, plies[left], form, suicide=suicide)
    return jax.tree.map(lambda leaf, part: leaf.at[left].set(part), games, rest)


def _turns(game: Playout, plies: jax.Array, form: Layout, *, suicide: bool) -> Playout:
    def body(_: int, game: Playout) -> Playout:
        game = turn(game, plies, form, suicide=suicide)
        boards = game.own, game.other, game.untried, game.placed, game.shut, game.alive
        *boards, rest = bits.compute_once(*boards, (game.flags, *game.random))
        own, other, untried, placed, shut, alive = boards
        return Playout(own, other, rest[0], untried, placed, shut, alive, (rest[1], rest[2]))

    return jax.lax.fori_loop(0, _TURNS, body, game)


def _with_liberty(own: Board, other: Board, placed: Board, shut: Board, form: Layout) -> Board:
    """The stones with a neighbour that is empty once `placed` is on the board, and not in `shut`."""
    stones = bits.either(bits.either(own, placed), other)
    liberties = bits.without(form.points, bits.either(stones, shut))
    return bits.both(stones, go.neighbours(liberties, form))


# Random numbers

_FRACTION = 23  # bits of a random number that pick a point: a board has fewer than 2 ** 9


def _draw(random: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """A uniform uint32 `[]`, whose high bits are the better ones, and the next state.

    JAX's own generator would cost more than the ply. Reference: Blackman and Vigna (2021), xoroshiro64*.
    """
    low, high = random
    word = low * np.uint32(0x9E3779BB)
    high = high ^ low
    low = _rotate(low, 26) ^ high ^ (high << 9)
    return word, (low, _rotate(high, 13))


def _rotate(word: jax.Array, count: int) -> jax.Array:
    return (word << count) | (word >> (32 - count))


def _pick(
    own: Board, other: Board, untried: Board, random: tuple[jax.Array, jax.Array], form: Layout
) -> tuple[Board, Board, tuple[jax.Array, jax.Array]]:
    """One point of `untried` at random, or none if there is none, and the points to shut with it.

    Each point is as likely as another to 2 ** -14. Shut are, beside it, most of the points without empty
    neighbours, which may be suicide: one look then crosses many of them off.
    """
    word, random = _draw(random)
    counts = [jax.lax.population_count(part) for part in untried]
    total = sum(counts[1:], start=counts[0])
    rank = ((word >> (32 - _FRACTION)) * total) >> _FRACTION
    inside = []
    chosen = chosen_rank = jnp.zeros((), jnp.uint32)
    for part, count in zip(untried, counts, strict=True):
        here = rank < count  # ranks before this word have wrapped to huge numbers
        inside.append(here)
        chosen = jnp.where(here, part, chosen)
        chosen_rank = jnp.where(here, rank, chosen_rank)
        rank = rank - count
    bit = np.uint32(1) << _nth_bit(chosen, chosen_rank)
    picked = tuple(jnp.where(here, bit, np.uint32(0)) for here in inside)
    empty = bits.without(form.points, bits.either(own, other))
    # Three points in four. Which ones has no part in what is played, so that the same number may choose them.
    most = tuple(
        _rotate(word, 1 + 7 * w % 31) | _rotate(word, 1 + (7 * w + 13) % 31) for w in range(form.words)
    )
    shut = bits.without(bits.both(untried, most), go.neighbours(empty, form))
    return picked, bits.either(picked, shut), random


def _nth_bit(word: jax.Array, rank: jax.Array) -> jax.Array:
    """Uint32 `[]`: the position of the set bit of `word` that has `rank` set bits below it."""
    # Bits set in each pair, each four, each eight and each sixteen; then down the halves.
    pairs = word - ((word >> 1) & np.uint32(0x55555555))
    fours = (pairs & np.uint32(0x33333333)) + ((pairs >> 2) & np.uint32(0x33333333))
    eights = (fours + (fours >> 4)) & np.uint32(0x0F0F0F0F)
    sixteens = (eights + (eights >> 8)) & np.uint32(0x00FF00FF)
    at = jnp.zeros((), jnp.uint32)
    for counts, half in ((sixteens, 16), (eights, 8), (fours, 4), (pairs, 2), (word, 1)):
        low = (counts >> at) & np.uint32(2 * half - 1 if half > 1 else 1)
        up = rank >= low
        rank = jnp.where(up, rank - low, rank)
        at = jnp.where(up, at + np.uint32(half), at)
    return at
