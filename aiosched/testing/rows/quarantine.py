"""The DAGs of a world that are in quarantine: the counterpart of db/statements/quarantine.py."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from aiosched.db.statements.quarantine import FIRST_PAUSE, LONGEST_PAUSE, PROBATION, Quarantined
from aiosched.errors import DagFailure, Refused
from aiosched.version import __version__


@dataclass(slots=True)
class QuarantineRows:
    """See the module docstring; by DAG id."""

    rows: dict[str, Quarantined] = field(default_factory=dict)

    def put(self, failures: Iterable[DagFailure], now: datetime) -> None:
        """Put DAGs into quarantine."""
        for failure in failures:
            cause = failure.__cause__ or failure
            old = self.rows.get(failure.dag_id)
            if old is not None and old.tried_at is not None and old.tried_at <= now - timedelta(seconds=PROBATION):
                old = None  # its earlier failures are forgotten
            failed, since = (0, now) if old is None else (old.failures, old.since)
            pause = timedelta(seconds=min(FIRST_PAUSE * 2.0 ** min(failed, 20), LONGEST_PAUSE))
            self.rows[failure.dag_id] = Quarantined(
                failure.dag_id, failed + 1, since, now + pause, None, failure.place, f"{type(cause).__name__}: {cause}",
                __version__,
            )  # fmt: skip

    def find(self, dag_id: str) -> Quarantined | None:
        """The row of a DAG that is in quarantine."""
        row = self.rows.get(dag_id)
        return row if row is not None and row.tried_at is None else None

    def earliest(self) -> datetime | None:
        """When the next pause is over."""
        return min((row.retry_at for row in self.rows.values() if row.tried_at is None), default=None)

    def take_up(self, now: datetime) -> None:
        """The DAGs whose pause is over are tried again."""
        for dag_id, row in self.rows.items():
            if row.tried_at is None and row.retry_at <= now:
                self.rows[dag_id] = row._replace(tried_at=now)

    def release(self, dag_id: str, now: datetime) -> None:
        """End the pause of a DAG. Raises Refused if it is not in quarantine."""
        row = self.find(dag_id)
        if row is None:
            raise Refused(f"DAG {dag_id!r} is not in quarantine.")
        self.rows[dag_id] = row._replace(retry_at=now)
