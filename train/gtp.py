"""A client of the Go Text Protocol, and of its dialects for Hex and Othello.

An engine is a program that reads commands from its standard input and answers on its standard output. It may
crash, hang or answer nonsense: every such thing is an `EngineError`, after which `Engine` starts the program
anew at the next question.

Reference: Farnebäck (2002), GTP version 2 draft 2; https://www.hexwiki.net/index.php/HTP
"""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import shlex
import subprocess
import threading
from collections.abc import Sequence

from games_jax.game import Game

__all__ = ["DIALECTS", "Dialect", "Engine", "EngineError", "dialect_of"]

RESIGN = "resign"


class EngineError(RuntimeError):
    """An engine died, hung, refused a command or gave an answer that is no move."""


@dataclasses.dataclass(frozen=True)
class Dialect:
    """How one game is spoken.

    Attributes:
        setup: commands that a new game starts with, `{size}` and `{komi}` filled in from the game.
        tells_passes: whether a pass is told to the engine; some Othello engines refuse to hear of it.
    """

    setup: tuple[str, ...] = ("boardsize {size}", "clear_board")
    tells_passes: bool = True


DIALECTS = {
    "go": Dialect(setup=("boardsize {size}", "clear_board", "komi {komi}")),
    "hex": Dialect(),
    "othello": Dialect(setup=("clear_board",), tells_passes=False),
}
"""Game names without their size (`go`, `hex`, `othello`) to what their engines understand."""

COLOURS = ("black", "white")
"""What the first and the second player are called; black begins in all three games."""


def dialect_of(game: Game) -> Dialect:
    """The dialect of a game.

    Raises:
        ValueError: no engine can be asked about this game over GTP.
    """
    kind = type(game).__name__.lower()
    if kind not in DIALECTS:
        raise ValueError(
            f"No GTP engine plays {game.name}: the protocol is spoken for {', '.join(sorted(DIALECTS))}."
        )
    return DIALECTS[kind]


class Engine:
    """One running program and the game it has been told so far.

    Args:
        command: what to start, as typed in a shell.
        game: what it plays.
        timeout: seconds to wait for an answer.
    """

    def __init__(self, command: str, game: Game, *, timeout: float = 120.0):
        self._process: subprocess.Popen[str] | None = None
        self.command = command
        self._game = game
        self._dialect = dialect_of(game)
        self._timeout = timeout
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._told: list[tuple[str, str]] | None = None

    def __del__(self):
        self.close()

    def genmove(self, moves: Sequence[int]) -> str:
        """The engine's move after `moves`, in small letters; `"resign"` if it gives up.

        Args:
            moves: actions from the start of the game, by the two players in turn (passes are actions). What
                the engine knows of them already is not told again.

        Raises:
            EngineError: there was no answer, or a refusal.
        """
        told = [
            (COLOURS[ply % 2], text)
            for ply, action in enumerate(moves)
            if (text := self._game.action_to_string(action).lower()) != "pass" or self._dialect.tells_passes
        ]
        mover = COLOURS[len(moves) % 2]
        try:
            self._tell(told)
            answer = self.ask(f"genmove {mover}").lower()
        except EngineError:
            self.close()
            raise
        if answer != "pass" or self._dialect.tells_passes:
            self._told = [*told, (mover, answer)]
        return answer

    def ask(self, command: str) -> str:
        """Sends one command and returns its answer without the `=`.

        Raises:
            EngineError: no program, no answer in time, or an answer that begins with `?`.
        """
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(command + "\n")
            process.stdin.flush()
        except OSError:
            raise EngineError(f"{self.command!r} ended before {command!r}{self._status()}") from None
        answer = self._read(command)
        if answer.startswith("="):
            return answer.lstrip("=").lstrip("0123456789").strip()
        raise EngineError(f"{self.command!r} refused {command!r}: {answer.lstrip('?').strip()!r}")

    def close(self) -> None:
        """Ends the program, if it runs."""
        process, self._process, self._told = self._process, None, None
        if process is None:
            return
        process.kill()
        process.wait()
        with contextlib.suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()

    def _tell(self, told: list[tuple[str, str]]) -> None:
        """Brings the engine to the position after `told`, by the shortest way that only adds moves."""
        known = self._told
        if known is None or told[: len(known)] != known:
            for line in self._dialect.setup:
                facts = {"size": getattr(self._game, "size", 0), "komi": getattr(self._game, "komi", 0)}
                self.ask(line.format(**facts))
            known = []
        for colour, move in told[len(known) :]:
            self.ask(f"play {colour} {move}")
        self._told = told

    def _running(self) -> subprocess.Popen[str]:
        """The program, started if it does not run."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        if self._process is not None:
            raise EngineError(f"{self.command!r} ended{self._status()}")
        words = shlex.split(self.command)
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                bufsize=1,
            )
        except (OSError, IndexError) as error:
            raise EngineError(f"{self.command!r} cannot be started: {error}") from None
        self._lines = queue.Queue()
        self._told = None
        threading.Thread(target=_pump, args=(self._process, self._lines), daemon=True).start()
        return self._process

    def _read(self, command: str) -> str:
        """One answer: its lines up to the empty one that ends it."""
        lines: list[str] = []
        while True:
            try:
                line = self._lines.get(timeout=self._timeout)
            except queue.Empty:
                raise EngineError(
                    f"{self.command!r} did not answer {command!r} within {self._timeout:g} s"
                ) from None
            if line is None:
                raise EngineError(f"{self.command!r} ended at {command!r}{self._status()}")
            if line:
                lines.append(line)
            elif lines:
                return "\n".join(lines)

    def _status(self) -> str:
        if self._process is None:
            return ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return f" (exit status {self._process.wait(timeout=1)})"
        return ""


def _pump(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    """Moves what the program prints into `lines`; None marks its end."""
    assert process.stdout is not None
    with contextlib.suppress(OSError, ValueError):
        for line in process.stdout:
            lines.put(line.strip())
    lines.put(None)
