"""Which runs have changed since browsers were told, while somebody looks at them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from aiosched.db.statements.run_changes import WATCH_SECONDS
from aiosched.scheduler.state.changes import Changes
from aiosched.scheduler.state.wakeup import Wakeup


@dataclass(slots=True)
class Broadcast:
    """See the module docstring."""

    wakeup: Wakeup
    changed: set[int] = field(default_factory=set)  # keys of runs
    until: float = 0.0  # monotonic second

    def wanted(self) -> None:
        """A web server has said that somebody looks."""
        self.until = time.monotonic() + WATCH_SECONDS

    def add_batch(self, batch: Changes) -> None:
        """Remember what a committed batch has changed."""
        if time.monotonic() <= self.until:
            self.add_runs(change.run_id for change in batch.tasks.instances)
            self.add_runs(change.id for change in batch.runs.changed)

    def add_runs(self, keys: Iterable[int]) -> None:
        """Remember runs whose rows were changed by a commit of their own."""
        if time.monotonic() <= self.until:
            self.changed.update(keys)
            if self.changed:
                self.wakeup.wake()
