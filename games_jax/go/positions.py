"""Go positions in text and from lists of stones, on the host: what `Go`'s notation methods do."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from games_jax import bits, diagram
from games_jax.go import board as go
from games_jax.go import notation, rules, superko
from games_jax.go.rules import State
from games_jax.go.superko import AnyState, SuperkoState, position_of
from games_jax.play import replay

if TYPE_CHECKING:
    from games_jax.go.game import Go

_FIELD = r"\w+=\S*"


def read(game: Go, text: str) -> AnyState:
    """What `Go.from_string` answers."""
    if text.lstrip().startswith("("):
        return _from_sgf(game, text)
    if diagram.is_diagram(re.sub(_FIELD, " ", text)):
        return _from_diagram(game, text)
    try:
        return replay(game, text.split())
    except ValueError as error:
        raise ValueError(f"in {text!r}, {error}") from None


def write(game: Go, state: AnyState) -> str:
    """What `Go.to_string` answers."""
    position = position_of(state)
    first, second = stones(game, state)
    flags = int(position.flags)
    text = diagram.dump(first, second, int(game.current_player(state)))
    ko = flags & int(rules.KO)
    if ko:
        point = go.layout(game.size).positions.tolist().index(ko - 1)
        text += f" ko={game.action_to_string(point)}"
    passes = bool(flags & int(rules.PASSED)) + bool(flags & int(rules.TWO_PASSES))
    text += f" passes={passes}" if passes else ""
    ply = int(rules.plies(position.flags))
    text += f" ply={ply}" if ply else ""
    if isinstance(state, SuperkoState) and ply:
        past = np.asarray(state.history)[:ply]
        text += " history=" + ",".join(f"{high:08x}{low:08x}" for high, low in past.tolist())
    return text


def from_stones(game: Go, black: Sequence[int], white: Sequence[int], player: int) -> AnyState:
    """What `Go.setup` answers."""
    boards = np.zeros((2, game.size**2), bool)
    for side, points in zip(boards, (black, white), strict=True):
        for point in points:
            if not 0 <= point < game.size**2:
                raise ValueError(f"point {point} is off the board; give 0 to {game.size**2 - 1}.")
            if boards[:, point].any():
                raise ValueError(f"point {game.action_to_string(point)} has two stones.")
            side[point] = True
    if player not in (0, 1):
        raise ValueError(f"player is {player!r}; give 0 for Black or 1 for White.")
    position = _from_cells(game, boards[0], boards[1], player)
    return position if game.ko == "simple" else superko.begin(position, game.max_steps)


def stones(game: Go, state: AnyState) -> tuple[np.ndarray, np.ndarray]:
    """Bool `[size, size]` each: Black's and White's stones."""
    position, form = position_of(state), go.layout(game.size)
    boards = [
        np.asarray(bits.unpack(board, form.positions, width=form.width)).reshape(game.size, game.size)
        for board in (position.own, position.other)
    ]
    player = int(game.current_player(state))
    return boards[player], boards[1 - player]


def ko_point(game: Go, state: AnyState) -> np.ndarray:
    """Bool `[size, size]`: the point that ko forbids, if any."""
    form = go.layout(game.size)
    point = bits.unpack(rules.ko_point(position_of(state), form), form.positions, width=form.width)
    return np.asarray(point).reshape(game.size, game.size)


def status(game: Go, state: AnyState) -> str:
    """Who is to move or has won, and each side's points as the board stands."""
    own, other = (
        int(bits.popcount(side)) for side in rules.area(*position_of(state)[:2], go.layout(game.size))
    )
    player = int(game.current_player(state))
    black, white = (other, own + game.komi) if player else (own, other + game.komi)
    winner = None if black == white else int(white > black)
    text = diagram.status(over=bool(game.is_over(state)), player=player, winner=winner)
    return f"{text} (X {black:g}, O {white:g})"


def _from_cells(game: Go, first: np.ndarray, second: np.ndarray, player: int, **flags: int) -> State:
    form = go.layout(game.size)
    pack = functools.partial(bits.pack, positions=form.positions, words=form.words, width=form.width)
    own, other = (pack(jnp.asarray((first, second)[who].ravel())) for who in (player, 1 - player))
    stones = bits.either(own, other)
    breathing = bits.both(stones, go.neighbours(bits.without(form.points, stones), form))
    (alive,) = go.fill([breathing], go.links(form, own, other), form)
    dead = np.asarray(bits.unpack(bits.without(stones, alive), form.positions, width=form.width))
    if dead.any():
        point = game.action_to_string(int(dead.argmax()))
        raise ValueError(f"the group at {point} has no liberty; it would have come off the board.")
    return State(own, other, jnp.asarray(rules.flags_of(player=player, **flags), jnp.uint32))


def _from_diagram(game: Go, text: str) -> AnyState:
    fields = dict(field.split("=", 1) for field in re.findall(_FIELD, text))
    first, second, player = diagram.parse(re.sub(_FIELD, " ", text), game.size, game.size)
    unknown = sorted(fields.keys() - {"ko", "passes", "ply", "history"})
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r} in {text!r}; known: ko, passes, ply, history.")
    numbers = {}
    for name, most in (("passes", 2), ("ply", game.max_steps)):
        value = fields.get(name, "0")
        if not value.isdecimal() or int(value) > most:
            raise ValueError(f"{name}={value} in {text!r}; expected a number from 0 to {most}.")
        numbers[name] = int(value)
    ko = _ko_from(game, fields["ko"], first | second) if "ko" in fields else 0
    position = _from_cells(game, first, second, player, ko=ko, **numbers)
    if game.ko == "simple":
        return position
    history = np.zeros((game.max_steps + 1, 2), np.uint32)
    if "history" in fields:
        past = fields["history"].split(",")
        if len(past) != numbers["ply"] or not all(re.fullmatch("[0-9a-f]{16}", word) for word in past):
            raise ValueError(f"history in {text!r} is not one word of 16 hexadecimal digits for each ply.")
        history[: len(past)] = [[int(word[:8], 16), int(word[8:], 16)] for word in past]
    return superko.remember(position, jnp.asarray(history))


def _ko_from(game: Go, text: str, stones: np.ndarray) -> int:
    point = game.action_from_string(text)
    if point == game.size**2 or stones.ravel()[point]:
        raise ValueError(f"ko={text} is not an empty point.")
    return int(go.layout(game.size).positions[point]) + 1


def _from_sgf(game: Go, text: str) -> AnyState:
    record = notation.read_sgf(text)
    komi = game.komi if record.komi is None else record.komi
    if (record.size, komi) != (game.size, game.komi):
        raise ValueError(
            f"the SGF text is of size {record.size} and komi {komi:g}, the game of size {game.size} "
            f"and komi {game.komi:g}; make the game of the text with Go.from_sgf."
        )
    player = record.moves[0][0] if record.player is None and record.moves else record.player or 0
    state = from_stones(game, record.black, record.white, player)
    for number, (mover, action) in enumerate(record.moves, start=1):
        if mover != int(game.current_player(state)):
            raise ValueError(f"move {number} of the SGF text is by the player who is not to move.")
        try:
            state = replay(game, [action], start=state)
        except ValueError as error:
            sentence = str(error).removeprefix("at move 1: ")
            raise ValueError(f"at move {number} of the SGF text: {sentence}") from None
    return state
