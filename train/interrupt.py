"""Stopping on request: the first Ctrl-C (or SIGTERM) asks, a second Ctrl-C leaves at once."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from types import FrameType

__all__ = ["StopRequest", "stop_request"]

_REPEAT_SECONDS = 0.3
"""Launchers pass a terminal's Ctrl-C on to a child that already had it: two so close together are one."""


class StopRequest:
    """A context in which SIGINT and SIGTERM set `requested` instead of raising.

    Python runs signal handlers between bytecodes of the main thread, which a training loop spends inside
    compiled code for seconds at a time. Here a thread reads the signals from the wake-up descriptor, so
    the first is acknowledged and the second obeyed without waiting. Outside the main thread, where
    handlers cannot be set, the context does nothing.
    """

    def __init__(self, on_request: Callable[[], None], on_leave: Callable[[], None]):
        """Makes the context.

        Args:
            on_request: called from another thread upon the first signal.
            on_leave: called from another thread just before the process ends upon a second Ctrl-C.
        """
        self.requested = False
        self._on_request = on_request
        self._on_leave = on_leave
        self._handlers: dict[int, object] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is not threading.main_thread():
            return self
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._old_descriptor = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            self._handlers[number] = signal.signal(number, self._handle)
        self._thread = threading.Thread(target=self._watch, name="stop-request", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        if not self._handlers:
            return
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._old_descriptor)
        self._writer.close()  # the watching thread reads the end and returns
        self._thread.join()
        self._reader.close()
        self._handlers = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.requested = True  # the thread sets it too; whichever runs first

    def _watch(self) -> None:
        asked_at = None
        while data := self._reader.recv(1):
            now = time.monotonic()
            if data[0] not in (signal.SIGINT, signal.SIGTERM):
                continue
            if asked_at is None:
                asked_at = now
                self.requested = True
                self._on_request()
            elif data[0] == signal.SIGINT and now - asked_at > _REPEAT_SECONDS:
                self._on_leave()
                os._exit(128 + signal.SIGINT)


def stop_request(say: Callable[[str], None], close: Callable[[], None], command: str) -> StopRequest:
    """A run's: says what happens next, and by which command it goes on.

    Args:
        say: prints a line; may be called from another thread.
        close: ends the display, before the process is left at once.
        command: resumes the run.
    """

    def leave() -> None:
        close()
        say(f"Left at once. Go on from the last checkpoint with: {command}")

    return StopRequest(
        on_request=lambda: say("Stopping after this iteration, saving first; Ctrl-C again leaves at once."),
        on_leave=leave,
    )
