"""How many attempts an executor takes beyond its slots, so that short ones do not wait for a commit each."""

from __future__ import annotations

from typing import Final

_WINDOW: Final = 0.05  # seconds


class Throughput:
    """Counts endings. As many as ended within the last twentieth of a second may stand in line.

    So what stands in line waits about that long at the current pace; when the slots are
    held by long attempts nothing ends, and nothing is taken ahead.
    """

    def __init__(self) -> None:
        self._since = 0.0
        self._count = 0
        self._last = 0

    def ended(self, now: float) -> None:
        """One attempt ended at `now` (monotonic seconds)."""
        self._turn(now)
        self._count += 1

    def ahead(self, now: float) -> int:
        """How many may stand in line at `now`."""
        self._turn(now)
        return max(self._last, self._count)

    def _turn(self, now: float) -> None:
        if (past := now - self._since) >= _WINDOW:
            self._last = self._count if past < 2 * _WINDOW else 0
            self._since, self._count = now, 0
