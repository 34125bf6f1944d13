"""Games by name: `make("othello", size=6)`, `make("othello(size=6)")`, `make("pgx:hex")`."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import re
from collections.abc import Iterable
from typing import Any

from games_jax.chess import Chess
from games_jax.connect_four import ConnectFour
from games_jax.cube import Cube2, Cube3
from games_jax.game import Game
from games_jax.go import Go
from games_jax.hex import Hex
from games_jax.othello import Othello
from games_jax.pommerman import Pommerman
from games_jax.tic_tac_toe import TicTacToe

_GAMES: dict[str, type] = {
    "tic_tac_toe": TicTacToe,
    "connect_four": ConnectFour,
    "othello": Othello,
    "go": Go,
    "chess": Chess,
    "hex": Hex,
    "cube2": Cube2,
    "cube3": Cube3,
    "pommerman": Pommerman,
}

_PGX = "pgx:"


def names() -> tuple[str, ...]:
    """The names `make` knows."""
    return tuple(_GAMES)


def parameters(name: str) -> dict[str, Any]:
    """A game's constructor parameters and their defaults.

    Raises:
        ValueError: no such game.
    """
    return {field.name: field.default for field in dataclasses.fields(_class_of(name)) if field.init}


def make(name: str, **options: Any) -> Game:
    """A game by its name.

    Args:
        name: one of `names()`, or a game's own `name` with its parameters: `"othello(size=6)"`. A name that
            starts with `pgx:` is an environment of that library, which must be installed.
        **options: the game's parameters; see `parameters(name)`.

    Raises:
        ValueError: an unknown name or parameter, a parameter given twice, or a value the game refuses.
        ImportError: a `pgx:` name without pgx.

    Example:
        >>> make("connect_four").num_actions
        7
    """
    base, written = _split(name)
    if base.startswith(_PGX):
        return _make_pgx(base.removeprefix(_PGX), {**written, **options})
    game_class = _class_of(base)
    twice = sorted(written.keys() & options.keys())
    if twice:
        raise ValueError(f"parameter {twice[0]!r} is given in {name!r} and as an argument; give it once.")
    valid = parameters(base)
    given = {**written, **options}
    for option in given:
        if option not in valid:
            listed = ", ".join(valid) or "none"
            raise ValueError(
                f"{base!r} has no parameter {option!r}; its parameters: {listed}{_nearest(option, valid)}"
            )
    return game_class(**given)


def _nearest(word: str, valid: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(valid), n=1)
    return f"; did you mean {close[0]!r}?" if close else "."


def _class_of(name: str) -> type:
    if name not in _GAMES:
        raise ValueError(f"unknown game {name!r}; known games: {', '.join(_GAMES)}{_nearest(name, _GAMES)}")
    return _GAMES[name]


def _make_pgx(env_id: str, options: dict[str, Any]) -> Game:
    if options:
        raise ValueError(f"'pgx:{env_id}' takes no parameters here; build the environment and use from_pgx.")
    from games_jax.adapters.pgx import make_pgx  # pgx is optional

    return make_pgx(env_id)


def _split(name: str) -> tuple[str, dict[str, Any]]:
    match = re.fullmatch(r"\s*([^\s()]+)\s*(?:\((.*)\))?\s*", name)
    if match is None:
        raise ValueError(f"{name!r} is not a game name; write 'othello' or 'othello(size=6)'.")
    base, inside = match.groups()
    if not inside:
        return base, {}
    try:
        call = ast.parse(f"f({inside})", mode="eval").body
        if isinstance(call, ast.Call) and not call.args:
            return base, {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
    except (SyntaxError, ValueError):
        pass
    raise ValueError(f"cannot read the parameters in {name!r}; write 'othello(size=6)'.")
