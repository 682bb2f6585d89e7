"""How many calls one worker may make: code of authors runs in it, and must not take all the time of its scheduler.

A worker that makes one call after the other never notices. One that makes more at a time, or for long without a pause,
waits in the writes to its socket. Pure: the clock is given. Source: docs/decisions/0067-a-worker-has-a-share.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

AT_ONCE: Final = 8  # calls of one attempt that are being answered
MOST_AT_ONCE: Final = 256  # of one worker, which may run many coroutines
WITHOUT_PAUSE: Final = 5_000  # calls of one attempt that are answered as fast as can be
A_SECOND: Final = 300.0  # what comes back of that
MOST_WAITING: Final = 1_000  # calls that have been read and wait; after them nothing more is read
MOST_WAITING_BYTES: Final = 2**20
LARGEST: Final = 16 * 2**20  # bytes of one call
MOST_REFS: Final = 10_000  # XComs that one call names


@dataclass(slots=True)
class Allowance:
    """What is left to a worker that runs `attempts` at a time; `since`: monotonic seconds."""

    since: float
    used: float = 0.0

    def take(self, now: float, attempts: int) -> float:
        """Take one call; 0.0, or the seconds after which it may be made."""
        share = max(1, min(attempts, MOST_AT_ONCE // AT_ONCE))
        self.used = max(0.0, self.used - (now - self.since) * A_SECOND * share)
        self.since = now
        if self.used < WITHOUT_PAUSE * share:
            self.used += 1
            return 0.0
        return (self.used - WITHOUT_PAUSE * share + 1) / (A_SECOND * share)


def at_once(attempts: int) -> int:
    """How many calls of a worker that runs so many attempts are answered at a time."""
    return min(AT_ONCE * max(1, attempts), MOST_AT_ONCE)
