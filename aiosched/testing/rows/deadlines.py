"""The deadlines of runs in a `World`, in place of their table (db/statements/deadlines.py).

scheduler/memory/deadline_rows.py decides which deadlines a run has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from aiosched.core.values.instants import just_after
from aiosched.db.statements.deadlines import DeadlineRow


@dataclass(slots=True)
class Deadlines:
    """Pending and missed deadlines, by (run key, index)."""

    pending: dict[tuple[int, int], DeadlineRow] = field(default_factory=dict)
    missed: dict[tuple[int, int], DeadlineRow] = field(default_factory=dict)

    def store(self, rows: Iterable[DeadlineRow]) -> None:
        """Store deadlines of new runs, or new ones of cleared runs; a missed one stays missed."""
        self.pending.update((row[:2], row) for row in rows if row[:2] not in self.missed)

    def prune(self, succeeded: Iterable[tuple[int, datetime]]) -> None:
        """Remove the deadlines that succeeded runs have met."""
        ends = dict(succeeded)
        kept = [place for place, row in self.pending.items() if (end := ends.get(row.run_id)) and end <= row[3]]
        for place in kept:
            del self.pending[place]

    def miss(self, now: datetime) -> list[DeadlineRow]:
        """Mark what is missed now, and return it."""
        found = sorted(row for row in self.pending.values() if row.deadline_time < now)
        for row in found:
            self.missed[row[:2]] = self.pending.pop(row[:2])
        return found

    @property
    def earliest(self) -> datetime | None:
        """When the next one will be missed."""
        return just_after(min(row.deadline_time for row in self.pending.values())) if self.pending else None
