"""Statements on `task_report`: reports of attempts that run in another scheduler than the owner of their DAG.

The scheduler that runs an attempt appends rows, behind its fence; the owner of the partition reads them, and deletes
them in the transaction that stores their effects. No decisions live here.
Source: docs/architecture.md, "Who writes what" and "Ownership and fencing".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from aiosched.core.values.messages import AttemptKey, Report
from aiosched.db.schema.tables import TASK_REPORT, TASK_TRY
from aiosched.db.server.connection import DatabaseConnection, Queryable

_decode: Final = msgspec.json.Decoder(Report).decode


class UnreadableReport(NamedTuple):
    """A report with a body that this aiosched cannot read, as the other columns of its row describe it.

    A newer aiosched wrote it (with an outcome that is unknown here, for example), or it is broken.
    """

    inbox_id: int
    partition: int
    key: AttemptKey
    outcome: str
    ran_by: int | None
    error: str


# A start that already waits to be read is not inserted twice. Index: uq_task_report_started.
NEW_REPORT: Final = ("partition", *TASK_TRY.key, "outcome", "body", "queued_by")
INSERT_REPORTS: Final = f"""
    {TASK_REPORT.insert(NEW_REPORT)}
    ON CONFLICT ({", ".join(TASK_TRY.key)}) WHERE outcome = 'started' DO NOTHING
"""


async def insert_reports(conn: DatabaseConnection, reports: Sequence[tuple[int, Report]], *, incarnation: int) -> None:
    """Send reports of attempts of `incarnation` to the owners of these partitions. Call it behind the fence."""
    rows = [(p, *r.key, r.outcome.value, msgspec.json.encode(r).decode(), incarnation) for p, r in reports]
    await conn.execute(INSERT_REPORTS, *map(list, zip(*rows, strict=True)))


PAGE: Final = 500  # reports
PAGE_BYTES: Final = 2**20  # of their bodies, and one report more

# One page: the first reports, and no more after their bodies have $5 bytes. Index: ix_task_report_partition_id.
READ_REPORTS: Final = """
    SELECT id, queued_by, body, partition, run_id, task_index, map_index, try_number, outcome FROM (
        SELECT *, sum(octet_length(body::text)) OVER (ORDER BY id) - octet_length(body::text) AS before
          FROM (
            SELECT id, queued_by, body, partition, run_id, task_index, map_index, try_number, outcome FROM task_report
             WHERE partition = ANY($1::smallint[]) AND id <> ALL($2::bigint[]) AND run_id <> ALL($3::bigint[])
             ORDER BY id LIMIT $4
          ) AS page
    ) AS sized WHERE before < $5 ORDER BY id
"""


async def read_reports(
    conn: DatabaseConnection, partitions: Iterable[int], *, but: Collection[int], but_runs: Collection[int] = ()
) -> tuple[list[Report], list[UnreadableReport], bool]:
    """The first reports to the owner of `partitions` in the order in which they were sent, those of them that cannot be
    read, and whether there are more.

    The rows in `but` and those of `but_runs` are left out.
    """
    rows = await conn.fetch(READ_REPORTS, sorted(partitions), list(but), list(but_runs), PAGE, PAGE_BYTES)
    is_cut = len(rows) >= PAGE or sum(len(row["body"].encode()) for row in rows) >= PAGE_BYTES
    found: list[Report] = []
    unreadable: list[UnreadableReport] = []
    for row in rows:
        number, ran_by, body, partition, *key, outcome = row
        try:
            found.append(msgspec.structs.replace(_decode(body), inbox_id=number, ran_by=ran_by))
        except Exception as error:  # whatever the error is, others are read
            what = f"{type(error).__name__}: {error}"
            unreadable.append(UnreadableReport(number, partition, AttemptKey(*key), outcome, ran_by, what))
    return found, unreadable, is_cut


DELETE_REPORTS: Final = "DELETE FROM task_report WHERE id = ANY($1::bigint[])"


async def delete_reports(conn: DatabaseConnection, ids: Collection[int]) -> None:
    """Delete reports, in the transaction that stores their effects."""
    await conn.execute(DELETE_REPORTS, list(ids))


# Index: uq_task_report_started.
DELETE_STARTS: Final = f"{TASK_REPORT.delete(TASK_TRY.key)} AND t.outcome = 'started'"


async def delete_starts(conn: DatabaseConnection, attempts: Sequence[AttemptKey]) -> None:
    """Delete the reports of the starts of these attempts."""
    if attempts:
        await conn.execute(DELETE_STARTS, *map(list, zip(*attempts, strict=True)))


# Index: the primary key of task_instance.
WANTED: Final = f"""
    SELECT ti.run_id, ti.task_index, ti.map_index, ti.try_number
      FROM {TASK_TRY.batch(TASK_TRY.key, name="a")} JOIN task_instance AS ti USING ({", ".join(TASK_TRY.key)})
     WHERE ti.queued_by = $5 AND ti.state IN ('queued', 'running')
"""


async def wanted_attempts(conn: Queryable, attempts: Sequence[AttemptKey], *, incarnation: int) -> set[AttemptKey]:
    """Those of the attempts, queued by `incarnation`, whose result is still needed."""
    rows = await conn.fetch(WANTED, *map(list, zip(*attempts, strict=True)), incarnation)
    return {AttemptKey(*row) for row in rows}


# Index: the primary key of task_instance. The other tables are small.
QUEUED_BY: Final = """
    SELECT ti.run_id, ti.task_index, ti.map_index, ti.try_number
      FROM task_instance AS ti
     WHERE ti.run_id = ANY($1::bigint[]) AND ti.queued_by = $2 AND ti.state = 'queued'
       AND NOT EXISTS (
           SELECT FROM task_report AS r
            WHERE r.run_id = ti.run_id AND r.task_index = ti.task_index AND r.map_index = ti.map_index
              AND r.try_number = ti.try_number AND r.queued_by = ti.queued_by)
       AND NOT EXISTS (
           SELECT FROM set_aside_report AS s
            WHERE s.run_id = ti.run_id AND s.task_index = ti.task_index AND s.map_index = ti.map_index
              AND s.try_number = ti.try_number)
"""


async def queued_attempts(conn: DatabaseConnection, runs: Collection[int], *, incarnation: int) -> list[AttemptKey]:
    """The attempts of these runs that `incarnation` has queued and of which no row tells that they began."""
    rows = await conn.fetch(QUEUED_BY, list(runs), incarnation) if runs else ()
    return [AttemptKey(*row) for row in rows]


# Index: ix_task_report_partition_id.
SENDERS: Final = """
    SELECT DISTINCT queued_by FROM task_report
     WHERE partition = ANY($1::smallint[]) AND id <> ALL($2::bigint[]) AND queued_by IS NOT NULL
"""


async def senders(conn: DatabaseConnection, partitions: Iterable[int], *, but: Collection[int]) -> set[int]:
    """The incarnations that sent reports to the owner of `partitions`, except the rows in `but`."""
    return {row["queued_by"] for row in await conn.fetch(SENDERS, sorted(partitions), list(but))}


# Index: ix_task_report_partition_id.
UNREAD_ENDS: Final = """
    SELECT run_id, task_index, map_index, try_number FROM task_report
     WHERE partition = ANY($1::smallint[]) AND queued_by = $2 AND outcome <> 'started'
"""


async def reported_ends(conn: DatabaseConnection, partitions: Iterable[int], *, incarnation: int) -> set[AttemptKey]:
    """The attempts of `incarnation` in these partitions whose final report is stored, and not applied yet."""
    rows = await conn.fetch(UNREAD_ENDS, sorted(partitions), incarnation)
    return {AttemptKey(*row) for row in rows}


LIVING: Final = "SELECT incarnation FROM scheduler"


async def living(conn: DatabaseConnection) -> set[int]:
    """The incarnations that were not taken over: their attempts may still run and report."""
    return {row["incarnation"] for row in await conn.fetch(LIVING)}
