"""The command `jaxsearch`: one file per sub-command, arguments parsed before JAX is imported."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from train.cli import analyze, bench, doctor, games, match, play, sweep, train

COMMANDS = {
    "train": train,
    "play": play,
    "match": match,
    "analyze": analyze,
    "games": games,
    "doctor": doctor,
    "bench": bench,
    "sweep": sweep,
}

DESCRIPTION = """\
Batched tree search and self-play training for board games, in JAX.

Train an agent from nothing, play against it, let agents meet, and look at what they think.
"""

EPILOG = """\
first steps:
  jaxsearch train configs/connect_four.toml       learn Connect Four (about 15 minutes on two cores)
  jaxsearch play connect_four --checkpoint runs/connect_four
  jaxsearch match run:runs/connect_four@sims=64 uct:1000 connect_four --games 100

Each command explains itself: jaxsearch COMMAND --help.
"""


class _Parser(argparse.ArgumentParser):
    """Argument errors in one line, with the nearest valid word."""

    def error(self, message: str) -> NoReturn:
        found = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if found:
            words = re.findall(r"[\w-]+", found[2])
            near = difflib.get_close_matches(found[1], words, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            message = f"{found[1]!r} is none of {', '.join(words)}{hint}"
        print(f"{self.prog}: error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = _Parser(
        prog="jaxsearch",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, module in COMMANDS.items():
        summary = module.DESCRIPTION.strip().splitlines()[0]
        sub = subparsers.add_parser(
            name,
            help=summary[0].lower() + summary[1:].rstrip("."),
            description=module.DESCRIPTION,
            epilog=module.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(sub)
        sub.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status.

    0: done. 2: a mistake in what was asked, told in one line on stderr. 1: a failure of the program itself.
    130: interrupted.
    """
    parser = build_parser()
    arguments = parser.parse_args(argv)
    if arguments.version:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"jaxsearch {version('jaxsearch')}")
        except PackageNotFoundError:
            print("jaxsearch (not installed)")
        return 0
    if arguments.command is None:
        parser.print_help()
        return 0
    try:
        return COMMANDS[arguments.command].run(arguments) or 0
    except BrokenPipeError:  # the reader of a pipe went away, `jaxsearch games | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print(f"jaxsearch {arguments.command}: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if arguments.debug:
            raise
        ours = type(error).__module__.partition(".")[0] in ("train", "jaxsearch", "games_jax")
        expected = ours or isinstance(error, ValueError | OSError)
        text = " ".join(str(error).split()) or type(error).__name__
        if not expected:
            text = f"{type(error).__name__}: {text} (a fault of jaxsearch; --debug shows where)"
        print(f"jaxsearch {arguments.command}: error: {text}", file=sys.stderr)
        return 2 if expected else 1
