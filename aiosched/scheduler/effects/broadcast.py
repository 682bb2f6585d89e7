"""Telling web servers which runs have changed, while somebody looks at them.

Costs nothing while nobody does: one comparison a commit. Source: docs/architecture.md, "The loop" (metrics and
helpers stay outside of the hot transaction).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aiosched.db.statements.run_changes import WATCH_SECONDS, publish_runs
from aiosched.scheduler.state.batch import Batch
from aiosched.scheduler.state.wakeup import Wakeup

if TYPE_CHECKING:
    from aiosched.scheduler.session import Session

_BETWEEN_SECONDS: Final = 0.2


@dataclass(slots=True)
class Broadcast:
    """What is to be told, and until when somebody wants to hear it."""

    wakeup: Wakeup = field(default_factory=Wakeup)
    changed: set[int] = field(default_factory=set)  # keys of runs
    until: float = 0.0  # monotonic second

    def wanted(self) -> None:
        """A web server has said that somebody looks."""
        self.until = time.monotonic() + WATCH_SECONDS

    def saw(self, batch: Batch) -> None:
        """Remember what a committed batch has changed."""
        if time.monotonic() <= self.until:
            self.runs(change.run_id for change in batch.instances)
            self.runs(change.id for change in batch.runs)

    def runs(self, keys: Iterable[int]) -> None:
        """Remember runs whose rows were changed by a commit of their own."""
        if time.monotonic() <= self.until:
            self.changed.update(keys)
            if self.changed:
                self.wakeup.wake()


async def publish_changes(session: Session) -> float | None:
    """One pass: tell what has changed, then pause a moment so that news come in flocks."""
    broadcast = session.broadcast
    if broadcast.changed:
        changed, broadcast.changed = broadcast.changed, set()
        async with session.db.acquire() as conn:
            await publish_runs(conn, sorted(changed))
        await asyncio.sleep(_BETWEEN_SECONDS)
    return None
