"""Until when a scheduler is taken to be alive: one number that it and its forkserver share.

A scheduler that hangs cannot end its attempts, and after its lease others run them again. So its
lease thread writes down how long it is trusted, in memory that the forkserver reads: when that
instant has passed the forkserver ends itself and all workers. Source: docs/architecture.md, "Ownership and fencing".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from aiosched.executors.worker.shared_page import SharedPage

_INSTANT: Final = struct.Struct("=d")  # aligned, hence written and read in one piece


class LeaseDeadline(SharedPage):
    """An instant of the monotonic clock, 0 for no limit, shared by all processes that have its file open."""

    @property
    def until(self) -> float:
        """The instant, in seconds of the monotonic clock."""
        instant: float = _INSTANT.unpack_from(self.memory)[0]
        return instant

    @until.setter
    def until(self, instant: float) -> None:
        _INSTANT.pack_into(self.memory, 0, instant)


def windows_of(executors: Iterable[object]) -> list[LeaseDeadline]:
    """Those of the executors that have processes of their own: the attribute `lease_deadline`."""
    return [window for one in executors if isinstance(window := getattr(one, "lease_deadline", None), LeaseDeadline)]
