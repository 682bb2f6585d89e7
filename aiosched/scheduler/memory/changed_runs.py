"""Which runs have changed since the last broadcast to browsers, while a browser watches."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from aiosched.db.statements.run_changes import WATCH_SECONDS
from aiosched.scheduler.concurrency.wakeup import Wakeup
from aiosched.scheduler.memory.changes import Changes


@dataclass(slots=True)
class ChangedRuns:
    """See the module docstring."""

    wakeup: Wakeup
    changed: set[int] = field(default_factory=set)  # keys of runs
    until: float = 0.0  # monotonic second until which browsers watch

    def wanted(self) -> None:
        """A web server has announced that a browser watches."""
        self.until = time.monotonic() + WATCH_SECONDS

    def add_batch(self, batch: Changes) -> None:
        """Remember the runs that a committed batch has changed."""
        if time.monotonic() <= self.until:
            self.add_runs(change.run_id for change in batch.tasks.instances)
            self.add_runs(change.id for change in batch.runs.changed)

    def add_runs(self, keys: Iterable[int]) -> None:
        """Remember runs whose rows were changed by a separate commit."""
        if time.monotonic() <= self.until:
            self.changed.update(keys)
            if self.changed:
                self.wakeup.wake()
