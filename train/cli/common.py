"""What several commands share. Imports JAX only inside functions."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from games_jax.game import Game

PLAYER_HELP = """\
players:
  random                                 uniformly random legal moves
  uct:1000                               UCT, 1000 simulations with random playouts (uct:1000@c=1.0)
  run:PATH@sims=64                       a trained agent: a run directory's newest checkpoint or one
                                         checkpoint; sims=0 plays by the network alone; also
                                         search=puct|gumbel and temperature=T
  bitbully:full, bitbully:4              Connect Four by a solver: perfect, or a few plies deep
                                         (needs the packages bitbully and bitbully-databases)
"""

MIN_COMPILE_SECONDS = 0.5
"""Programs that compile faster are not worth a file in the cache."""


def start_jax() -> None:
    """Switches the compilation cache on; call before the first JAX computation of a command."""
    import jax

    directory = cache_directory()
    if directory is not None:
        jax.config.update("jax_compilation_cache_dir", str(directory))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", MIN_COMPILE_SECONDS)


def cache_directory() -> Path | None:
    """Where compiled programs are kept between commands; None if there is no private place.

    `JAX_COMPILATION_CACHE_DIR` decides if it is set (empty: no cache). Otherwise it is a folder of the
    user's cache folder, per JAX version, made readable for the user only: who can write there can make
    this program run code.
    """
    given = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if given is not None:
        return Path(given) if given else None
    import jax
    import platformdirs

    directory = Path(platformdirs.user_cache_dir("jaxsearch", appauthor=False)) / f"jax-{jax.__version__}"
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        private = _is_private(directory) and _is_private(directory.parent)
    except OSError as error:
        _warn(f"no compilation cache: {directory} cannot be made ({error.strerror})")
        return None
    if not private:
        _warn(f"no compilation cache: others can write to {directory} or its parent; chmod go-w both")
        return None
    return directory


def _is_private(directory: Path) -> bool:
    """Whether only this user can write there."""
    if os.name != "posix":
        return True
    status = directory.stat()
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _warn(message: str) -> None:
    print(f"jaxsearch: warning: {message}", file=sys.stderr)


def positive_int(text: str) -> int:
    """An argparse type: a whole number of at least 1."""
    value = int(text) if text.strip().lstrip("+").isdigit() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return value


def natural(text: str) -> int:
    """An argparse type: a whole number of at least 0."""
    if not text.strip().lstrip("+").isdigit():
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 0, got {text!r}")
    return int(text)


def add_overrides(parser: argparse.ArgumentParser, help: str) -> None:
    """Adds `--set`, whose texts are `overrides`."""
    parser.add_argument(
        "--set",
        dest="overrides",
        action="extend",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help=help,
    )


def run_script(name: str, report: Callable[[argparse.Namespace], None], arguments: argparse.Namespace) -> int:
    """What a script does with its arguments: a mistake is one line on standard error and status 2."""
    start_jax()
    try:
        report(arguments)
    except ValueError as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return 2
    return 0


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Adds `--seed`."""
    parser.add_argument(
        "--seed", type=natural, default=0, metavar="N", help="seed of all random choices (default 0)"
    )


def make_game(text: str) -> Game:
    """The game of a command's GAME argument.

    Raises:
        ValueError: no such game, or one whose players move at once.
    """
    import games_jax
    from train.game_of import sequential

    return sequential(games_jax.make(text))


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> str:
    """Rows of text in columns, flush right except for the columns in `left`."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        ]
        return "  ".join(cells).rstrip()

    return "\n".join([line(header), *(line(row) for row in rows)])
