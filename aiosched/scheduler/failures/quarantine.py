"""The DAGs in quarantine: they are not held, and their runs keep their states until they are tried again.

An unforeseen error concerned them. They are tried again after growing pauses, by another version of aiosched, or on
request. Source: docs/architecture.md, "Quarantine".
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from aiosched.core.values.ids import partition_of
from aiosched.db.statements.quarantine import Quarantined
from aiosched.errors import Refused


@dataclass(slots=True)
class Quarantine:
    """See the module docstring; for the owned partitions, as stored."""

    dags: dict[str, Quarantined] = field(default_factory=dict)  # left alone
    tried: dict[str, Quarantined] = field(default_factory=dict)  # held again, their failures are not forgotten yet

    def read(self, rows: Iterable[Quarantined], now: datetime, version: str) -> list[Quarantined]:
        """Take over rows that were read; returns those of DAGs that are tried again from now on."""
        again = []
        for row in rows:
            if row.tried_at is None and not row.is_due(now, version):
                self.dags[row.dag_id] = row
                continue
            if row.tried_at is None:
                again.append(row)
            self.dags.pop(row.dag_id, None)
            self.tried[row.dag_id] = row
        return again

    def forget(self, partitions: Container[int]) -> None:
        """These partitions are not ours any more."""
        for held in (self.dags, self.tried):
            for dag_id in [dag_id for dag_id in held if partition_of(dag_id) in partitions]:
                del held[dag_id]

    def refuse_dag(self, dag_id: str | None) -> None:
        """Raise Refused for a DAG in quarantine."""
        if dag_id in self.dags:
            raise Refused(str(self.dags[dag_id]))
