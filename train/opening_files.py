"""Openings from files: lists of lines that give both sides an even game.

One opening a line, moves in the game's notation with spaces between, all lines of equal length; what follows
a `#` is a comment. The lists that come with the package are in `train/data`, `<game>_openings.txt`.

Dimensions: N openings, K opening plies, P players.
"""

from __future__ import annotations

import functools
from importlib import resources
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.game import Game
from games_jax.play import check_action, play
from train.openings import Openings

__all__ = ["BALANCED", "opening_lines", "read_openings"]

BALANCED = "balanced"
"""The name of the list that comes with the package, for games that have one."""


def read_openings(game: Game, source: str | Path, *, key: jax.Array, count: int) -> Openings:
    """Draws `count` openings of a list, without repetition if it has so many.

    A longer match takes each as often as any other, give or take one.

    Args:
        game: a game without chance.
        source: `"balanced"`, or the path of a file.
        key: consumed.
        count: N, at least 1.

    Raises:
        ValueError: there is no such file, or a line of it is no opening of the game.
    """
    if count < 1:
        raise ValueError(f"A match needs at least 1 opening, got {count}.")
    lines = opening_lines(game, source)
    order = np.asarray(jax.random.permutation(key, len(lines)))
    picked = [lines[i] for i in np.resize(order, count)]
    moves = np.array(picked, np.int32).reshape(count, -1)
    states, returns = _replay(jnp.asarray(moves), game=game)
    return Openings(states, moves, returns, min(len(lines), count))


@functools.partial(jax.jit, static_argnames="game")
def _replay(moves: jax.Array, *, game: Game):
    """States `[N]` and returns `[N, P]` after legal moves `[N, K]`."""

    def line(actions: jax.Array):
        def one(carry, action):
            state, returns = carry
            state = game.step(state, action)
            return (state, returns + game.rewards(state)), None

        start = game.init(jax.random.key(0)), jnp.zeros(game.num_players)
        return jax.lax.scan(one, start, actions)[0]

    return jax.vmap(line)(moves)


def opening_lines(game: Game, source: str | Path) -> list[tuple[int, ...]]:
    """The different openings of a list, as actions; `source` as in `read_openings`.

    Raises:
        ValueError: as `read_openings`.
    """
    if game.has_chance:
        raise ValueError(f"{game.name} is a game of chance: moves alone do not make an opening of it.")
    texts = _read(game, source).splitlines()
    found = {
        number: words for number, text in enumerate(texts, 1) if (words := text.partition("#")[0].split())
    }
    if not found:
        raise ValueError(f"{source} has no openings; expected one on a line, moves with spaces between.")
    first = min(found)
    for number, words in found.items():
        if len(words) != len(found[first]):
            raise ValueError(
                f"{source}, line {number} has {len(words)} moves and line {first} {len(found[first])}; "
                "expected lines of equal length."
            )
    if (lines := _all_lines(game, list(found.values()))) is None:
        lines = [_line(game, words, f"{source}, line {number}") for number, words in found.items()]
    return list(dict.fromkeys(lines))


def _all_lines(game: Game, lines: list[list[str]]) -> list[tuple[int, ...]] | None:
    """The actions of all openings at once; None if something is wrong or a move's name needs its position."""
    if hasattr(game, "move_from_string"):
        return None
    try:
        moves = [tuple(game.action_from_string(word) for word in words) for words in lines]
    except ValueError:
        return None
    return moves if bool(_are_openings(jnp.asarray(moves, jnp.int32), game=game)) else None


@functools.partial(jax.jit, static_argnames="game")
def _are_openings(moves: jax.Array, *, game: Game) -> jax.Array:
    """Bool `[]`: whether all moves `[N, K]` are legal and leave the game open."""

    def line(actions: jax.Array) -> jax.Array:
        def one(state, action):
            return game.step(state, action), game.legal_actions(state)[action]

        state, legal = jax.lax.scan(one, game.init(jax.random.key(0)), actions)
        return jnp.all(legal) & ~game.is_over(state)

    return jnp.all(jax.vmap(line)(moves))


def _line(game: Game, words: list[str], where: str) -> tuple[int, ...]:
    """The actions of one opening, each checked by itself."""
    state = game.init(jax.random.key(0))
    actions = []
    for word in words:
        try:
            actions.append(check_action(game, state, word))
            state = play(game, state, word)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    if bool(game.is_over(state)):
        raise ValueError(f"{where} ends the game of {game.name}; expected an opening that leaves it open.")
    return tuple(actions)


def _read(game: Game, source: str | Path) -> str:
    """The text of a list."""
    if source == BALANCED:
        folder = resources.files("train") / "data"
        file = folder / f"{game.name}_openings.txt"
        if not file.is_file():
            ending = "_openings.txt"
            known = sorted(f.name.removesuffix(ending) for f in folder.iterdir() if f.name.endswith(ending))
            raise ValueError(
                f"No balanced openings of {game.name} come with the package (there are some of "
                f"{', '.join(known)}); give the path of a list, or play from random openings."
            )
        return file.read_text()
    try:
        return Path(source).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"Openings {str(source)!r} cannot be read ({error}); expected the path of a list, or "
            f'"{BALANCED}".'
        ) from None
