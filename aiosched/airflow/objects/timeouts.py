"""`timeout`: ends a block of plain code after some seconds."""

from __future__ import annotations

import signal
import threading
from types import FrameType

from aiosched.errors import TaskTimeout


class timeout:
    """`with timeout(seconds=30): …` raises TaskTimeout in the block when it takes longer.

    It works in the main thread of a process, where Python lets signals interrupt code; elsewhere it does nothing, and
    the task's `execution_timeout` ends what takes too long.
    """

    def __init__(self, seconds: float = 1, error_message: str = "the block took too long") -> None:
        self._seconds = seconds
        self._message = error_message
        self._armed = False

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        raise TaskTimeout(f"{self._message} (limit: {self._seconds} s)")

    def __enter__(self) -> timeout:
        self._armed = threading.current_thread() is threading.main_thread() and self._seconds > 0
        if self._armed:
            self._before = signal.signal(signal.SIGALRM, self._stop)
            self._left, _ = signal.setitimer(signal.ITIMER_REAL, self._seconds)
        return self

    def __exit__(self, *_: object) -> None:
        if self._armed:
            signal.setitimer(signal.ITIMER_REAL, self._left)
            signal.signal(signal.SIGALRM, self._before)
