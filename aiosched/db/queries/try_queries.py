"""The tries of a task instance with the code that each one ran, for people. Read only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, NamedTuple

from aiosched.db.queries.queries import RunRow, TaskRow
from aiosched.db.server.engine import Database


@dataclass(frozen=True, slots=True)
class TryRow:
    """One try of a task instance. `details` is the traceback, kept for tries that are followed by another one.

    `version` is the number of the DAG version whose code it ran (None: that version is not stored), `source_hash` the
    hash of that code (None: unknown, as for registered DAGs). Both are None before it has run any code.
    """

    try_number: int
    state: str
    queued_at: datetime | None
    start_date: datetime | None
    end_date: datetime | None
    reason: str | None
    details: str | None
    hostname: str | None
    pid: int | None
    version: int | None = None
    source_hash: str | None = None

    @property
    def seconds(self) -> float | None:
        return None if not (self.start_date and self.end_date) else (self.end_date - self.start_date).total_seconds()


class RanCode(NamedTuple):
    """The code of a try."""

    version: int | None
    source_hash: str | None


# Index: primary key.
TRIES: Final = """
    SELECT try_number, state, queued_at, start_date, end_date, reason, details, hostname, pid
      FROM task_try WHERE run_id = $1 AND task_index = $2 AND map_index = $3 AND try_number > $4::bigint
     ORDER BY try_number LIMIT $5
"""
# The code of the run's version unless the row has another. Code that was not parsed yet when it ran is known by its
# hash once it is. Indexes: primary keys, uq_dag_version_dag_id_number.
CODE_OF_TRIES: Final = """
    SELECT t.try_number,
           CASE WHEN t.version_id IS NOT NULL THEN
                     (SELECT v.number FROM dag_version AS v WHERE v.id = t.version_id)
                ELSE (SELECT max(v.number) FROM dag_version AS v
                       WHERE v.dag_id = r.dag_id AND v.source_hash = t.source_hash) END AS version,
           t.source_hash
      FROM try_source AS t JOIN dag_run AS r ON r.id = t.run_id
     WHERE t.run_id = $1 AND t.task_index = $2 AND t.map_index = $3
"""
CODE_OF_RUN: Final = """
    SELECT v.number, v.source_hash FROM dag_run AS r JOIN dag_version AS v ON v.id = r.version_id WHERE r.id = $1
"""


async def list_tries(
    db: Database, run: RunRow, task: TaskRow, *, after: int = 0, limit: int | None = None
) -> list[TryRow]:
    """The tries of a task instance after number `after`, oldest first; the last one of all is the current one."""
    place = (run.key, task.task_index, task.map_index)
    async with db.acquire() as conn:
        tries = [TryRow(**dict(row)) for row in await conn.fetch(TRIES, *place, after, limit)]
        if len(tries) != limit and task.try_number > max([after, *(one.try_number for one in tries)]):
            tries.append(_current(task))
        own = RanCode(*(await conn.fetchrow(CODE_OF_RUN, run.key) or (None, None)))
        others = {row[0]: RanCode(row[1], row[2]) for row in await conn.fetch(CODE_OF_TRIES, *place)}
    nothing = RanCode(None, None)
    return [
        replace(one, **others.get(one.try_number, own if one.queued_at is not None else nothing)._asdict())
        for one in tries
    ]


def _current(task: TaskRow) -> TryRow:
    return TryRow(
        try_number=task.try_number,
        state=task.state,
        queued_at=task.queued_at,
        start_date=task.start_date,
        end_date=task.end_date,
        reason=task.reason,
        details=None,
        hostname=None,
        pid=None,
    )
