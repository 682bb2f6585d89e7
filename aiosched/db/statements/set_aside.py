"""Statements on `set_aside_report`: reports of attempts that could not be applied or stored, time after time.

A row is a copy of the report with the error, for people. For schedulers it says that the attempt has ended with a
result that is not known to its run. No decisions live here. Source: docs/architecture.md, "Quarantine".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from aiosched.core.run.deferral import is_trigger
from aiosched.core.values.messages import AttemptKey, Report
from aiosched.db.schema.tables import SET_ASIDE_REPORT, TASK_TRY
from aiosched.db.server.connection import DatabaseConnection


class SetAside(NamedTuple):
    """A report to set aside, whose attempt belongs to the incarnation `queued_by`."""

    report: Report
    queued_by: int
    failures: int
    error: str


# A report of a run that is deleted is left out: nobody waits for it. Index: the primary key of dag_run.
_GIVEN: Final = (*TASK_TRY.key, "outcome", "body", "queued_by", "failures", "error")
SET_ASIDE: Final = f"""
    INSERT INTO set_aside_report ({", ".join(_GIVEN)}, version, set_aside_at)
    SELECT {", ".join("f." + SET_ASIDE_REPORT.read(column) for column in _GIVEN)}, $1, $2
      FROM {SET_ASIDE_REPORT.batch(_GIVEN, 3, name="f")} JOIN dag_run AS r ON r.id = f.run_id
"""


async def set_reports_aside(
    conn: DatabaseConnection, reports: Iterable[SetAside], now: datetime, *, version: str
) -> None:
    """Keep reports with their errors. Call it behind the fence, in the transaction that deletes their other rows."""
    rows = [
        (*each.report.key, each.report.outcome.value, msgspec.json.encode(each.report).decode(), *each[1:])
        for each in reports
    ]
    await conn.execute(SET_ASIDE, version, now, *map(list, zip(*rows, strict=True)))


# Indexes: ix_dag_run_unfinished (partial), ix_set_aside_report_run_id. There are few such reports.
ENDS_SET_ASIDE: Final = """
    SELECT s.id, s.run_id, s.task_index, s.map_index, s.try_number, s.queued_by, s.failures, s.error
      FROM set_aside_report AS s JOIN dag_run AS r ON r.id = s.run_id
     WHERE r.partition = ANY($1::smallint[]) AND r.state = 'running' AND s.outcome <> 'started'
     ORDER BY s.id
"""

Ends = Mapping[tuple[AttemptKey, int | None], str]


async def ends_set_aside(conn: DatabaseConnection, partitions: Sequence[int]) -> Ends:
    """The attempts of running runs of `partitions` whose end is set aside: why, in words.

    By their key and their incarnation, which is None for a trigger.
    """
    rows = await conn.fetch(ENDS_SET_ASIDE, partitions)
    return {
        (AttemptKey(*key), None if is_trigger(AttemptKey(*key)) else queued_by): (
            f"its report could not be processed {failures} times ({error}); "
            f"it is kept as row {number} of set_aside_report"
        )
        for number, *key, queued_by, failures, error in rows
    }
