"""The backfills of a `World`: in place of their table (db/statements/backfills.py)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from datetime import datetime

from aiosched.db.statements.backfills import Backfill
from aiosched.errors import Refused


@dataclass(slots=True)
class Backfills:
    """All backfills by number, and when completed ones ended."""

    rows: dict[int, Backfill] = field(default_factory=dict)
    completed: dict[int, datetime] = field(default_factory=dict)

    def insert(self, dag_id: str, max_active_runs: int) -> int:
        """Insert a backfill; returns its number. Raises Refused if the DAG has an unfinished one."""
        if any(row.dag_id == dag_id for row in self.unfinished()):
            raise Refused(f"DAG {dag_id!r} has an unfinished backfill; wait for its end or cancel it.")
        number = len(self.rows) + 1
        self.rows[number] = Backfill(number, dag_id, max_active_runs, is_paused=False)
        return number

    def unfinished(self) -> list[Backfill]:
        """Copies of those that are not completed."""
        return [dataclasses.replace(row) for number, row in self.rows.items() if number not in self.completed]
