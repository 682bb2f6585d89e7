"""The positions of the schedules of DAGs, read from their runs. No decisions live here (core/creation/next_run.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from aiosched.core.creation.next_run import (
    MOST_FAILURES,
    FailureStreak,
    SchedulePosition,
    failure_streak,
    first_date,
    is_continuous,
)
from aiosched.core.graph.spec import DagSpec
from aiosched.core.timetables.base import DataInterval
from aiosched.core.values.states import RunState
from aiosched.db.server.connection import DatabaseConnection

BY_TIMETABLE: Final = (
    "timetable"  # `triggered_by` of the runs that the schedule creates, even after a backfill took them over
)

MOST_TAKEN: Final = 100  # dates of a DAG that are read before it is known from which one on they matter

# The latest run that each DAG's schedule has created, by logical date, and the dates from its interval on that have a
# run, the $2 earliest of them (NULL: all). Runs of backfills do not move the schedule.
# Index: uq_dag_run_dag_id_logical_date, backwards and as a range.
SCHEDULE_POSITIONS: Final = f"""
    SELECT d.dag_id, latest.data_interval_start, latest.data_interval_end, taken.dates
      FROM unnest($1::text[]) AS d (dag_id)
      LEFT JOIN LATERAL (
        SELECT data_interval_start, data_interval_end FROM dag_run
         WHERE dag_id = d.dag_id AND logical_date IS NOT NULL AND triggered_by = '{BY_TIMETABLE}'
         ORDER BY logical_date DESC LIMIT 1
     ) AS latest ON true
     CROSS JOIN LATERAL (
        SELECT array_agg(logical_date) AS dates FROM (
            SELECT logical_date FROM dag_run
             WHERE dag_id = d.dag_id AND logical_date >= coalesce(latest.data_interval_start, '-infinity')
             ORDER BY logical_date LIMIT $2::bigint
        ) AS earliest
     ) AS taken
"""

# The dates of each DAG from a date on that have a run. Index: uq_dag_run_dag_id_logical_date, as a range.
DATES_FROM: Final = """
    SELECT d.dag_id, taken.dates FROM unnest($1::text[], $2::timestamptz[]) AS d (dag_id, first)
     CROSS JOIN LATERAL (
        SELECT array_agg(logical_date) AS dates FROM dag_run WHERE dag_id = d.dag_id AND logical_date >= d.first
     ) AS taken
"""

# The newest runs of each schedule. Index: uq_dag_run_dag_id_logical_date, backwards.
LATEST_STATES: Final = f"""
    SELECT d.dag_id, r.state, r.end_date
      FROM unnest($1::text[]) AS d (dag_id)
     CROSS JOIN LATERAL (
        SELECT logical_date, state, end_date FROM dag_run
         WHERE dag_id = d.dag_id AND logical_date IS NOT NULL AND triggered_by = '{BY_TIMETABLE}'
         ORDER BY logical_date DESC LIMIT $2
     ) AS r
     ORDER BY d.dag_id, r.logical_date DESC
"""


async def schedule_positions(
    conn: DatabaseConnection, specs: Sequence[DagSpec], now: datetime | None
) -> dict[str, SchedulePosition]:
    """The position of each DAG's schedule, by DAG id; a schedule without runs by the clock is at its start.

    With `now`, what is taken before the first date that could be next is left out where there is much of it.
    """
    found = {spec.dag_id: SchedulePosition() for spec in specs}
    scheduled = {spec.dag_id: spec for spec in specs if spec.timetable.can_be_scheduled}
    if not scheduled:
        return found
    failures = await _failures(conn, [spec.dag_id for spec in specs if is_continuous(spec)])
    most = None if now is None else MOST_TAKEN + 1
    crowded: dict[str, datetime] = {}
    for dag_id, start, end, dates in await conn.fetch(SCHEDULE_POSITIONS, list(scheduled), most):
        last = None if start is None else DataInterval(start, end)
        found[dag_id] = SchedulePosition(last, frozenset(dates or ()), failures.get(dag_id))
        if now is not None and dates is not None and len(dates) > MOST_TAKEN:
            first = first_date(scheduled[dag_id], last, now)
            if first is not None:
                crowded[dag_id] = first
    for dag_id, taken in (await _dates_from(conn, crowded)).items():
        found[dag_id] = found[dag_id]._replace(taken=taken)
    return found


async def _dates_from(conn: DatabaseConnection, firsts: Mapping[str, datetime]) -> dict[str, frozenset[datetime]]:
    if not firsts:
        return {}
    rows = await conn.fetch(DATES_FROM, list(firsts), list(firsts.values()))
    return {dag_id: frozenset(dates or ()) for dag_id, dates in rows}


async def _failures(conn: DatabaseConnection, dag_ids: Sequence[str]) -> dict[str, FailureStreak | None]:
    if not dag_ids:
        return {}
    rows = await conn.fetch(LATEST_STATES, list(dag_ids), MOST_FAILURES)
    known = set(RunState)  # a run in a state of a newer aiosched is neither a success nor a failure here
    states = {
        dag_id: [(RunState(state), end) for of, state, end in rows if of == dag_id and state in known]
        for dag_id in dag_ids
    }
    return {dag_id: failure_streak(newest_first) for dag_id, newest_first in states.items()}
