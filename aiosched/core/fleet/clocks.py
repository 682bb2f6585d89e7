"""Whether the clock of a machine has jumped, or differs from that of the database. Pure: readings are arguments.

Schedules follow the clock of a scheduler's machine, leases that of the database, timeouts a clock that never jumps.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from aiosched.core.values.durations import duration
from aiosched.core.values.instants import stamp

NOTICED: Final = 10.0  # seconds by which a clock jumps or differs


@dataclass(frozen=True, slots=True)
class ClockJump:
    """The clock should have shown `expected`, and showed `found`."""

    expected: datetime
    found: datetime

    @property
    def seconds(self) -> float:
        """How far it went forward; negative: back."""
        return (self.found - self.expected).total_seconds()

    def __str__(self) -> str:
        by, readings = duration(abs(self.seconds)), f"from {stamp(self.expected)} to {stamp(self.found)}"
        if self.seconds > 0:
            what = "went forward, or the machine was suspended"
            return f"the clock of this machine {what}: by {by}, {readings}"
        return f"the clock of this machine went back: by {by}, {readings}"

    def meaning(self, due: str) -> str:
        """What comes of it; `due` names the DAGs whose next runs became due by it, or is empty."""
        if self.seconds > 0:
            return f"runs of that time are created now: {due}" if due else "no run became due by it"
        return (
            f"runs and retries that are due next wait until it shows {stamp(self.expected)} again; no run is made twice"
        )


@dataclass(slots=True)
class ClockWatch:
    """Compares each reading with the one before."""

    at: datetime | None = None
    monotonic: float = 0.0

    def look(self, now: datetime, monotonic: float) -> ClockJump | None:
        """Two readings of one moment: the wall clock, and one in seconds that never jumps."""
        before, elapsed = self.at, monotonic - self.monotonic
        self.at, self.monotonic = now, monotonic
        if before is None:
            return None
        expected = before + timedelta(seconds=elapsed)
        return ClockJump(expected, now) if abs((now - expected).total_seconds()) >= NOTICED else None


def from_database(before: datetime, database: datetime, after: datetime) -> float:
    """By how many seconds a clock is ahead of the database's (negative: behind), at least.

    It showed `before` when the database was asked, and `after` when its answer was there.
    """
    if before > database:
        return (before - database).total_seconds()
    return min((after - database).total_seconds(), 0.0)


def difference_in_words(ahead: float, database: datetime) -> str | None:
    """What is wrong, to be read after the name of a scheduler, if the difference is large."""
    if abs(ahead) < NOTICED:
        return None
    machine = stamp(database + timedelta(seconds=ahead))
    which, effect = ("ahead of", "early") if ahead > 0 else ("behind", "late")
    return (
        f"has a clock that is {duration(abs(ahead))} {which} the database's ({machine}, there {stamp(database)}): its "
        f"scheduled runs are created that much too {effect}, or the database's clock is wrong"
    )
