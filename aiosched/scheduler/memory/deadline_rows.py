"""The rows of a run's deadlines, as it is created and as it is cleared.

Source: the semantics reference, sections 23.4 and 23.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from aiosched.core.creation.deadlines import QUEUED_AT, deadline_time
from aiosched.core.graph.spec import DagSpec
from aiosched.core.run.board import Run
from aiosched.core.values.states import RUN_FINISHED
from aiosched.db.statements.deadlines import DeadlineRow


def deadlines_of(
    key: int,
    spec: DagSpec,
    partition: int,
    logical_date: datetime | None,
    now: datetime,
    averages: Mapping[tuple[str, int], timedelta | None],
) -> list[DeadlineRow]:
    """The deadlines of a run that is created now; `averages` are average runtimes by (DAG id, deadline index)."""
    rows = []
    for index, deadline in enumerate(spec.deadlines):
        average = averages.get((spec.dag_id, index))
        at = deadline_time(deadline, now=now, logical_date=logical_date, queued_at=now, average=average)
        if at is not None:
            rows.append(DeadlineRow(key, index, partition, at))
    return rows


def moved_deadlines(run: Run, spec: DagSpec, partition: int) -> list[DeadlineRow]:
    """The new deadlines of a cleared, unfinished run: those that count from its queueing, which was repeated (23.5)."""
    if not spec.deadlines or not run.clear_number or run.state in RUN_FINISHED or run.queued_at is None:
        return []
    found = []
    for index, deadline in enumerate(spec.deadlines):
        if deadline.reference == QUEUED_AT:
            at = deadline_time(deadline, now=run.queued_at, logical_date=None, queued_at=run.queued_at)
            if at is not None:
                found.append(DeadlineRow(run.key, index, partition, at))
    return found
