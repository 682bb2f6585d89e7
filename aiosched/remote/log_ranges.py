"""The names of logs in remote storage, and which of them make up the log of a try. Pure.

    …/task_id=load/attempt=1.20261125T084214123456Z-<machine>.0-81920.log

A log is written by one machine or, if its task was deferred or rescheduled, by several, one after the other: each
writes a *segment*, named by when it began and by its machine. Object stores cannot append, so a segment consists of
*ranges* of bytes, each in a file of its own that never changes. Ranges may overlap: those that were put together into
one are removed afterwards. A file of another size than its name says was not written completely, and does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

_NAME: Final = re.compile(r"^attempt=(\d+)\.(\d{8}T\d{12}Z-([A-Za-z0-9-]+))\.(\d+)-(\d+)\.log$")


class LogRange(NamedTuple):
    """A file in remote storage: bytes `start` to `end` of the log file on a machine."""

    attempt: int
    segment: str
    machine: str
    start: int
    end: int

    @property
    def name(self) -> str:
        """The name of the file, without its folder."""
        return f"attempt={self.attempt}.{self.segment}.{self.start}-{self.end}.log"


def range_of(name: str, size: int) -> LogRange | None:
    """The range in a file; None for a file that is no complete range."""
    match = _NAME.match(name)
    if match is None or int(match[5]) - int(match[4]) != size:
        return None
    return LogRange(int(match[1]), match[2], match[3], int(match[4]), int(match[5]))


def chain(ranges: Iterable[LogRange], start: int) -> tuple[list[LogRange], int]:
    """The ranges of a segment that follow each other from `start`, the longest first; and where they end.

    The next range begins where the one before ends, or inside it.
    """
    left = sorted(ranges, key=lambda one: (one.start, -one.end))
    found: list[LogRange] = []
    end = start
    while True:
        best = max((one for one in left if one.start <= end < one.end), key=lambda one: one.end, default=None)
        if best is None:
            return found, end
        found.append(best)
        end = best.end


def segments(ranges: Iterable[LogRange]) -> dict[str, list[LogRange]]:
    """The ranges by segment, in the order in which these began."""
    found: dict[str, list[LogRange]] = {}
    for one in sorted(ranges, key=lambda one: (one.segment, one.start, one.end)):
        found.setdefault(one.segment, []).append(one)
    return found
