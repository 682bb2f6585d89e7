"""The time until which a scheduler is considered alive: one number shared with its forkserver.

A scheduler that hangs cannot end its attempts, and after its lease expires others run them again. So its lease thread
writes the lease's end to memory that the forkserver reads: after that time the forkserver ends itself and all workers.
Source: docs/architecture.md, "Ownership and fencing".
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from aiosched.executors.worker.shared_page import SharedPage


class LeaseDeadline(SharedPage):
    """A time of the monotonic clock, 0 for no limit, shared by all processes that have its file open."""

    until = SharedPage.instant  # the deadline

    @property
    def has_passed(self) -> bool:
        """Whether other schedulers may run this scheduler's attempts now."""
        return 0.0 < self.until <= time.monotonic()


def windows_of(executors: Iterable[object]) -> list[LeaseDeadline]:
    """The `lease_deadline` attributes of those executors that have their own processes."""
    return [window for one in executors if isinstance(window := getattr(one, "lease_deadline", None), LeaseDeadline)]
