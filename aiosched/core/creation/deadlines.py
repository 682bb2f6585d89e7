"""When the deadlines of a run expire. Pure. Source: the semantics reference, section 23.4."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from aiosched.core.graph.spec import DeadlineSpec

AVERAGE_RUNTIME: Final = "average_runtime"
QUEUED_AT: Final = "queued_at"


def deadline_time(
    deadline: DeadlineSpec,
    *,
    now: datetime,
    logical_date: datetime | None,
    queued_at: datetime | None,
    average: timedelta | None = None,
) -> datetime | None:
    """The instant by which a run created at `now` must succeed; None if it has no such deadline.

    `average` is the mean duration of the DAG's latest ended runs, None if there are too few. An instant beyond the
    calendar means no deadline.
    """
    references = {
        "logical_date": logical_date,
        QUEUED_AT: queued_at,
        "fixed": deadline.at,
        AVERAGE_RUNTIME: None if average is None else now + average,
    }
    reference = references.get(deadline.reference)
    try:
        return None if reference is None else reference + timedelta(seconds=deadline.interval)
    except (OverflowError, ValueError):
        return None


def least_runs(deadline: DeadlineSpec) -> int:
    """The minimum number of ended runs for an average."""
    return deadline.max_runs if deadline.min_runs is None else deadline.min_runs
