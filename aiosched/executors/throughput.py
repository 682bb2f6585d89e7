"""How many attempts an executor accepts beyond its slots, so that short ones do not each wait for a commit."""

from __future__ import annotations

from typing import Final

_WINDOW: Final = 0.05  # seconds, of an executor on this machine


class Throughput:
    """Counts ended attempts.

    As many as ended in the last `window` seconds can be queued ahead. So queued attempts wait about that long at the
    current rate; while long attempts hold the slots nothing ends, and nothing is queued ahead.
    """

    def __init__(self, window: float = _WINDOW) -> None:
        self._window = window
        self._since = 0.0
        self._count = 0
        self._last = 0

    def ended(self, now: float) -> None:
        """Record that an attempt ended at `now` (monotonic seconds)."""
        self._turn(now)
        self._count += 1

    def ahead(self, now: float) -> int:
        """The number of attempts that can be queued ahead at `now`."""
        self._turn(now)
        return max(self._last, self._count)

    def _turn(self, now: float) -> None:
        if (past := now - self._since) >= self._window:
            self._last = self._count if past < 2 * self._window else 0
            self._since, self._count = now, 0
