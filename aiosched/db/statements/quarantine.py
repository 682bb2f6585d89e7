"""Statements on DAGs in quarantine: an unforeseen error concerned them, so nothing of them is decided for a while."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from aiosched.core.values.commands import command_line
from aiosched.db.schema.tables import DAG_QUARANTINE
from aiosched.db.server.connection import DatabaseConnection, Queryable

FIRST_PAUSE: Final = 15.0  # seconds until a DAG is tried again; doubled with each failure in a row
LONGEST_PAUSE: Final = 3_600.0
PROBATION: Final = 600.0  # seconds without a failure after which earlier ones are forgotten


class Quarantined(NamedTuple):
    """A DAG in quarantine, or one that was taken up again (`tried_at`) and whose failures are not forgotten yet."""

    dag_id: str
    failures: int
    since: datetime
    retry_at: datetime
    tried_at: datetime | None
    place: str
    error: str
    version: str
    has_changed: bool = False  # there is a newer version of the DAG

    def is_due(self, now: datetime, version: str) -> bool:
        """Whether the DAG is tried again: its pause is over, it has changed, or this aiosched is another one."""
        return self.retry_at <= now or self.has_changed or self.version != version

    def __str__(self) -> str:
        return (
            f"DAG {self.dag_id!r} is in quarantine since {self.since.isoformat(timespec='seconds')}: {self.place} "
            f"failed ({self.error}). Nothing of it is decided; it is tried again at "
            f"{self.retry_at.isoformat(timespec='seconds')}, or now by `{command_line('dags release', self.dag_id)}`."
        )


class Failure(NamedTuple):
    """A failure to store."""

    dag_id: str
    place: str
    error: str
    traceback: str


COLUMNS: Final = tuple(DAG_QUARANTINE.columns_of(Quarantined))
_COLUMNS: Final = ", ".join(f"q.{column}" for column in COLUMNS)
# Guard: the DAG's partition is ours. A failure while the DAG is tried again is one more in a row.
PUT: Final = f"""
    INSERT INTO dag_quarantine AS q
           (dag_id, failures, since, retry_at, place, error, traceback, version, dag_version_id)
    SELECT f.dag_id, 1, $2::timestamptz, $2::timestamptz + make_interval(secs => {FIRST_PAUSE}),
           f.place, f.error, f.traceback, $3, dag.version_id
      FROM unnest($4::text[], $5::text[], $6::text[], $7::text[]) AS f (dag_id, place, error, traceback)
      JOIN dag ON dag.dag_id = f.dag_id
      JOIN partition_lease AS l ON l.partition = dag.partition AND l.incarnation = $1
        ON CONFLICT (dag_id) DO UPDATE
       SET failures = q.failures + 1, tried_at = NULL, place = EXCLUDED.place, error = EXCLUDED.error,
           traceback = EXCLUDED.traceback, version = EXCLUDED.version, dag_version_id = EXCLUDED.dag_version_id,
           retry_at = $2::timestamptz + make_interval(
               secs => least({FIRST_PAUSE} * 2.0 ^ least(q.failures, 20), {LONGEST_PAUSE}))
    RETURNING {_COLUMNS}
"""


async def put(
    conn: DatabaseConnection, failures: Iterable[Failure], now: datetime, *, version: str, incarnation: int
) -> list[Quarantined]:
    """Put DAGs into quarantine; those that are deleted, or that another scheduler owns by now, are left out."""
    columns = list(map(list, zip(*failures, strict=True)))
    return [Quarantined(*row) for row in await conn.fetch(PUT, incarnation, now, version, *columns)]


# Index: the primary key; the table has few rows.
LOAD: Final = f"""
    SELECT {_COLUMNS}, q.dag_version_id IS DISTINCT FROM dag.version_id
      FROM dag_quarantine AS q JOIN dag ON dag.dag_id = q.dag_id
     WHERE dag.partition = ANY($1::smallint[]) ORDER BY q.dag_id
"""


async def load(conn: DatabaseConnection, partitions: Iterable[int]) -> list[Quarantined]:
    """The rows of the DAGs of `partitions`."""
    return [Quarantined(*row) for row in await conn.fetch(LOAD, list(partitions))]


# Guard: since the rows were read, nobody has tried these DAGs and put them into quarantine again.
TAKE_UP: Final = """
    UPDATE dag_quarantine AS q SET tried_at = $1
      FROM unnest($2::text[], $3::int[]) AS r (dag_id, failures)
     WHERE q.dag_id = r.dag_id AND q.failures = r.failures AND q.tried_at IS NULL
"""


async def take_up(conn: DatabaseConnection, rows: Iterable[Quarantined], now: datetime) -> None:
    """Note that these DAGs are tried again."""
    ids, failures = zip(*((row.dag_id, row.failures) for row in rows), strict=True)
    await conn.execute(TAKE_UP, now, list(ids), list(failures))


RELEASE: Final = "UPDATE dag_quarantine SET retry_at = $2 WHERE dag_id = $1 AND tried_at IS NULL RETURNING dag_id"


async def release(conn: DatabaseConnection, dag_id: str, now: datetime) -> bool:
    """End the pause of a DAG now; returns whether it is in quarantine."""
    return await conn.fetchval(RELEASE, dag_id, now) is not None


DELETE_RELEASED: Final = "DELETE FROM dag_quarantine WHERE dag_id = ANY($1::text[]) AND tried_at <= $2 RETURNING dag_id"


async def forget(conn: Queryable, dag_ids: Iterable[str], before: datetime) -> set[str]:
    """Forget the failures of DAGs that were taken up before then; returns which."""
    return {row["dag_id"] for row in await conn.fetch(DELETE_RELEASED, list(dag_ids), before)}
