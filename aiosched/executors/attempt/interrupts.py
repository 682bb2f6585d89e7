"""Signals that interrupt a worker's main thread: the alarm of a timeout, the TERM of a cancellation."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from aiosched.errors import TaskTimeout

_SOON: Final = 1e-6  # seconds: 0 would disable the timer


class Interrupts:
    """Exceptions that signal handlers raise in the main thread, deferred while the socket is in use.

    Without that, an alarm in the middle of a request would leave half a frame in the socket.
    """

    def __init__(self) -> None:
        self._shielded = False
        self._waiting: BaseException | None = None

    def strike(self, error: BaseException) -> None:
        """Raise `error` now, or at the end of `shield`. For signal handlers."""
        if not self._shielded:
            raise error
        self._waiting = error

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Defer exceptions in the main thread; other threads get none."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._shielded = True
        try:
            yield
        finally:
            self._shielded = False
            error, self._waiting = self._waiting, None
            if error is not None:
                raise error


interrupts: Final = Interrupts()


@contextmanager
def alarm(seconds: float, message: str) -> Iterator[None]:
    """Raise TaskTimeout(message) in the main thread after `seconds`. Call it in the main thread; can be nested."""

    def ring(signum: int, frame: FrameType | None) -> None:
        interrupts.strike(TaskTimeout(message))

    handler = signal.signal(signal.SIGALRM, ring)
    began = time.monotonic()
    left, interval = signal.setitimer(signal.ITIMER_REAL, max(seconds, _SOON))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left:  # an enclosing block has an alarm of its own
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), _SOON), interval)
