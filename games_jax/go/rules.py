"""The rules of Go on bitboards: one move, the legal points, the score."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board
from games_jax.go import board as go
from games_jax.go.board import Layout

# The fields of `State.flags`, from the lowest bit.
_KO_BITS = 10
KO = np.uint32((1 << _KO_BITS) - 1)
WHITE = np.uint32(1 << _KO_BITS)
PASSED = np.uint32(1 << (_KO_BITS + 1))
TWO_PASSES = np.uint32(1 << (_KO_BITS + 2))
_PLY_SHIFT = np.uint32(_KO_BITS + 3)
_PLY = np.uint32(1 << (_KO_BITS + 3))
MAX_PLIES = (1 << (32 - _KO_BITS - 3)) - 1


class State(NamedTuple):
    """A position, `8 * words + 4` bytes: 20 on 7 x 7, 28 on 9 x 9, 60 on 13 x 13, 156 on 19 x 19.

    Attributes:
        own: the stones of the player to move.
        other: the stones of the other player.
        flags: uint32 `[]`. From the lowest bit: 10 bits for one more than the board bit that ko forbids, or
            0; the player to move (1 is White); whether the last move was a pass; whether the last two were;
            the plies played.
    """

    own: Board
    other: Board
    flags: jax.Array


class Placement(NamedTuple):
    """What placing a stone does.

    Attributes:
        own: the stones of the player who placed it, after captures.
        other: the stones of the other player, after captures.
        captured: the stones of the other player that came off.
        legal: bool `[]`: whether the stone may be placed, ko apart.
    """

    own: Board
    other: Board
    captured: Board
    legal: jax.Array


def place(own: Board, other: Board, placed: Board, form: Layout, *, suicide: bool) -> Placement:
    """Places a stone of `own` on the empty point `placed` (one bit, or none to change nothing).

    Only groups next to the stone can have lost their last liberty. So the search for groups with liberties
    ends as soon as those are among them, which for most moves is at once.
    """
    mine = bits.either(own, placed)
    stones = bits.either(mine, other)
    empty = bits.without(form.points, stones)
    linked = go.links(form, mine, other)
    touched = bits.either(placed, bits.both(go.neighbours(placed, form), other))

    def judge(alive: Board, going: jax.Array | bool) -> tuple[Board, jax.Array]:
        return alive, going & bits.is_any(bits.without(touched, alive))

    def look_on(carry: tuple[Board, jax.Array]) -> tuple[Board, jax.Array]:
        (alive,) = bits.compute_once(go.sweep(carry[0], linked, form))
        return judge(alive, bits.is_any(bits.differ(alive, carry[0])))

    alive = bits.both(stones, go.neighbours(empty, form))
    (alive, right, down) = bits.compute_once(alive, linked.right, linked.down)
    linked = go.Links(right, down)
    alive, _ = jax.lax.while_loop(lambda carry: carry[1], look_on, judge(alive, True))
    return settle(own, other, placed, alive, form, suicide=suicide)


def settle(
    own: Board, other: Board, placed: Board, alive: Board, form: Layout, *, suicide: bool
) -> Placement:
    """Takes off the stones without liberties.

    Args:
        own: the stones of the player who places a stone.
        other: the stones of the other player.
        placed: the point, or none.
        alive: all stones of groups with a liberty after the placement; or some, if `placed` and the other
            player's stones next to it are among them, for then nothing comes off.
        form: the layout.
        suicide: whether groups of two stones or more may take themselves off.
    """
    mine = bits.either(own, placed)
    beside = go.neighbours(placed, form)
    doubt = bits.is_any(bits.without(bits.either(placed, bits.both(beside, other)), alive))
    dead = bits.where(doubt, bits.without(bits.either(mine, other), alive), bits.zeros(form.words))
    captured = bits.both(dead, other)
    captures = bits.is_any(captured)
    own_dead = bits.both(dead, mine)
    legal = captures | ~bits.is_any(own_dead)
    if suicide:
        # A single stone would come off again at once, and the board repeat.
        legal = legal | bits.is_any(bits.both(beside, own))
        mine = bits.without(mine, bits.where(captures, bits.zeros(form.words), own_dead))
    return Placement(mine, bits.without(other, captured), captured, legal)


def ko_after(placed: Board, other: Board, captured: Board, form: Layout) -> jax.Array:
    """Uint32 `[]`: one more than the bit of the point where the next player may not retake, or 0.

    It is the point of a single captured stone, if the stone that took it stands alone with that one
    liberty: then all its neighbours were stones of the other player, whose stones before the move are
    `other`.
    """
    alone = ~bits.is_any(bits.without(bits.both(go.neighbours(placed, form), form.points), other))
    is_ko = alone & (bits.popcount(captured) == 1)
    return jnp.where(is_ko, index_of(captured, form) + np.uint32(1), np.uint32(0))


def index_of(single: Board, form: Layout) -> jax.Array:
    """Uint32 `[]`: the bit of the one point in `single`; 0 if there is none."""
    index = jnp.zeros((), jnp.uint32)
    for w, word in enumerate(single):
        here = jax.lax.population_count(word - np.uint32(1)) + np.uint32(w * form.width)
        index = index | jnp.where(word != 0, here, np.uint32(0))
    return index


def ko_point(state: State, form: Layout) -> Board:
    """The point that ko forbids, if any."""
    return bits.bit((state.flags & KO).astype(jnp.int32) - 1, words=form.words, width=form.width)


def plies(flags: jax.Array) -> jax.Array:
    """Uint32 `[]`: plies since the start, or since the set-up position."""
    return flags >> _PLY_SHIFT


def flags_of(*, ko: int = 0, player: int = 0, passes: int = 0, ply: int = 0) -> int:
    """The word `State.flags` from plain numbers."""
    flags = ko | player * int(WHITE) | ply * int(_PLY)
    return flags | (int(PASSED) if passes else 0) | (int(TWO_PASSES) if passes > 1 else 0)


def next_flags(flags: jax.Array, *, ko: jax.Array, passed: jax.Array) -> jax.Array:
    """The flags after a move: the other player's turn, a ply more, the passes counted."""
    twice = passed & ((flags & PASSED) != 0)
    kept = (flags & (WHITE | ~(_PLY - np.uint32(1)))) + _PLY
    kept = kept ^ WHITE
    return kept | ko | jnp.where(passed, PASSED, np.uint32(0)) | jnp.where(twice, TWO_PASSES, np.uint32(0))


def is_over(state: State, max_steps: int) -> jax.Array:
    """Bool `[]`: two passes running, or `max_steps` plies."""
    return ((state.flags & TWO_PASSES) != 0) | (plies(state.flags) >= max_steps)


def step(state: State, action: jax.Array, form: Layout, *, suicide: bool, max_steps: int) -> State:
    """The state after `action` (int32 `[]`); a finished one unchanged."""
    over = is_over(state, max_steps)
    point = jnp.asarray(action, jnp.int32)
    size = np.int32(form.size)
    row, column = jax.lax.div(point, size), jax.lax.rem(point, size)
    passed = point >= form.size**2
    index = jnp.where(over | passed, np.int32(-1), row * np.int32(form.stride) + column)
    placed = bits.bit(index, words=form.words, width=form.width)
    after = place(state.own, state.other, placed, form, suicide=suicide)
    ko = ko_after(placed, state.other, after.captured, form)
    flags = jnp.where(over, state.flags, next_flags(state.flags, ko=ko, passed=passed))
    own = bits.where(over, state.own, after.other)
    other = bits.where(over, state.other, after.own)
    own, other, (flags,) = bits.compute_once(own, other, (flags,))
    return State(own, other, flags)


def legal_points(state: State, form: Layout, *, suicide: bool) -> Board:
    """The points where the player to move may place a stone; the end of the game is not looked at.

    A stone may go where it has a liberty, joins a group of its own with another liberty, or takes a group
    whose last liberty it fills. So groups with one liberty have to be told from those with more, all at
    once: for each of `Layout.codes` a fill finds the groups with a liberty in that set. A group with one
    liberty is in exactly `Layout.weight` of them and one with more in more. Two liberties that are
    neighbours are in the same sets; but a stone on either of them has the other for a liberty, and whose
    groups they are does not matter.
    """
    own, other = state.own, state.other
    stones = bits.either(own, other)
    empty = bits.without(form.points, stones)
    free = go.neighbours(empty, form)
    several = _more_than_one_liberty(stones, empty, go.links(form, own, other), form)
    single = bits.without(other, several)
    joined = own if suicide else bits.both(own, several)
    open_ = bits.either(free, go.neighbours(bits.either(single, joined), form))
    return bits.without(bits.both(empty, open_), ko_point(state, form))


def _more_than_one_liberty(stones: Board, empty: Board, linked: go.Links, form: Layout) -> Board:
    """The stones of groups that have two liberties or more, neighbours in a pair of a row counted as one."""
    stones, empty, right, down = bits.compute_once(stones, empty, *linked)
    linked = go.Links(right, down)
    depth = len(form.codes).bit_length()

    def count(counters: tuple[Board, ...], codes: Any) -> tuple[tuple[Board, ...], None]:
        seeds = []
        for code in codes:
            liberties = bits.both(empty, tuple(code))
            seeds.append(bits.both(stones, go.neighbours(liberties, form)))
        for found in go.fill(seeds, linked, form):
            counters = _add(counters, found)
        return counters, None

    at_once = go.boards_at_once(form)
    codes = np.array(form.codes, np.uint32)
    if len(codes) <= at_once:
        counters, _ = count((bits.zeros(form.words),) * depth, codes)
    else:
        filler = np.zeros((-len(codes) % at_once, form.words), np.uint32)
        groups = np.concatenate([codes, filler]).reshape(-1, at_once, form.words)
        counters, _ = jax.lax.scan(count, (bits.zeros(form.words),) * depth, cast(Any, groups))
    return _greater(counters, form.weight)


def _add(counters: tuple[Board, ...], found: Board) -> tuple[Board, ...]:
    """Adds one at each point of `found` to counters whose binary digits are boards, lowest first."""
    digits = []
    for digit in counters:
        digits.append(bits.differ(digit, found))
        found = bits.both(digit, found)
    return tuple(digits)


def _greater(counters: tuple[Board, ...], bound: int) -> Board:
    """The points whose counter is greater than `bound`."""
    greater = bits.zeros(len(counters[0]))
    equal = tuple(~word for word in greater)
    for power, digit in reversed(list(enumerate(counters))):
        if bound >> power & 1:
            equal = bits.both(equal, digit)
        else:
            greater = bits.either(greater, bits.both(equal, digit))
            equal = bits.without(equal, digit)
    return greater


def area(own: Board, other: Board, form: Layout) -> tuple[Board, Board]:
    """Each side's stones and the empty points from which empty points lead to its stones alone."""
    empty = bits.without(form.points, bits.either(own, other))
    linked = go.links(form, empty)
    seeds = [bits.both(empty, go.neighbours(stones, form)) for stones in (own, other)]
    by_own, by_other = go.fill(seeds, linked, form)
    return (
        bits.either(own, bits.without(by_own, by_other)),
        bits.either(other, bits.without(by_other, by_own)),
    )


def black_margin(state: State, form: Layout) -> jax.Array:
    """Int32 `[]`: Black's area minus White's, without komi."""
    own, other = area(state.own, state.other, form)
    margin = bits.popcount(own) - bits.popcount(other)
    return jnp.where((state.flags & WHITE) != 0, -margin, margin)
