"""The time until which a scheduler is considered alive: one number shared with its forkserver.

A scheduler that hangs cannot end its attempts, and after its lease expires others run them again. So its lease thread
writes the lease's end to memory that the forkserver reads: after that time the forkserver ends itself and all workers.
Source: docs/architecture.md, "Ownership and fencing".
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable
from typing import Final

from aiosched.executors.worker.shared_page import SharedPage

_INSTANT: Final = struct.Struct("=d")  # aligned, hence written and read atomically


class LeaseDeadline(SharedPage):
    """A time of the monotonic clock, 0 for no limit, shared by all processes that have its file open."""

    @property
    def until(self) -> float:
        """The deadline, in seconds of the monotonic clock."""
        instant: float = _INSTANT.unpack_from(self.memory)[0]
        return instant

    @until.setter
    def until(self, instant: float) -> None:
        _INSTANT.pack_into(self.memory, 0, instant)

    @property
    def has_passed(self) -> bool:
        """Whether other schedulers may run this scheduler's attempts now."""
        return 0.0 < self.until <= time.monotonic()


def windows_of(executors: Iterable[object]) -> list[LeaseDeadline]:
    """The `lease_deadline` attributes of those executors that have their own processes."""
    return [window for one in executors if isinstance(window := getattr(one, "lease_deadline", None), LeaseDeadline)]
