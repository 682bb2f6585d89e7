"""The state of parsing and of the schedulers, for people: import errors, counts, live schedulers. Read only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import func, select

from aiosched.core.values.figures import read_figures
from aiosched.db.queries.queries import fetch, shown_words
from aiosched.db.schema.schema import dag, dag_file
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements.ownership import FleetView, read_fleet

# ---- parsing ----


@dataclass(frozen=True, slots=True)
class ImportErrorRow:
    """Why a DAG file cannot be imported. `file` is relative to the DAGs folder."""

    file: str
    error: str
    line: int | None
    code_frame: str | None
    traceback: str | None
    dag_ids: tuple[str, ...]
    parsed_at: datetime | None


@dataclass(frozen=True, slots=True)
class ParsingSummary:
    """A summary of parsing: the numbers of files, of files with errors, and of DAGs that are not stale; the latest
    parse."""

    files: int
    errors: int
    dags: int
    parsed_at: datetime | None
    seconds: float  # the sum of every file's last parse


async def list_import_errors(db: Database, *, after: str | None = None, limit: int = 100) -> list[ImportErrorRow]:
    """Files whose last parse failed, by name, after the file `after`."""
    query = (
        select(
            dag_file.c.file,
            dag_file.c.error,
            dag_file.c.error_line.label("line"),
            dag_file.c.code_frame,
            dag_file.c.traceback,
            dag_file.c.dag_ids,
            dag_file.c.parsed_at,
        )
        .where(dag_file.c.error.is_not(None))
        .order_by(dag_file.c.file)
        .limit(limit)
    )
    if after is not None:
        query = query.where(dag_file.c.file > after)
    return [ImportErrorRow(**{**row._mapping, "dag_ids": shown_words(row.dag_ids)}) for row in await fetch(db, query)]


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A DAG file and its last parse, which took `seconds`."""

    file: str
    dag_ids: tuple[str, ...]
    parsed_at: datetime | None
    seconds: float | None
    has_error: bool
    warnings: tuple[str, ...]


async def list_files(
    db: Database, *, failed: bool | None = None, after: str | None = None, limit: int = 100
) -> list[FileStatus]:
    """DAG files by name, after the file `after`; `failed`: only those whose last parse failed, or did not."""
    query = (
        select(
            dag_file.c.file,
            dag_file.c.dag_ids,
            dag_file.c.parsed_at,
            dag_file.c.parse_seconds.label("seconds"),
            dag_file.c.error.is_not(None).label("has_error"),
            dag_file.c.warnings,
        )
        .order_by(dag_file.c.file)
        .limit(limit)
    )
    if failed is not None:
        query = query.where(dag_file.c.error.is_not(None) == failed)
    if after is not None:
        query = query.where(dag_file.c.file > after)
    rows = await fetch(db, query)
    return [
        FileStatus(**{**row._mapping, "dag_ids": shown_words(row.dag_ids), "warnings": shown_words(row.warnings)})
        for row in rows
    ]


async def parsing_summary(db: Database) -> ParsingSummary:
    """Counts over all DAG files and DAGs."""
    dags = select(func.count()).select_from(dag).where(~dag.c.is_stale).scalar_subquery()
    query = select(
        func.count().label("files"),
        func.count(dag_file.c.error).label("errors"),
        dags.label("dags"),
        func.max(dag_file.c.parsed_at).label("parsed_at"),
        func.coalesce(func.sum(dag_file.c.parse_seconds), 0.0).label("seconds"),
    )
    (row,) = await fetch(db, query)
    return ParsingSummary(**row._mapping)


# ---- schedulers ----


@dataclass(frozen=True, slots=True)
class SchedulerRow:
    """One incarnation. `lease_age` is seconds since its last renewal, by the database's clock.

    `alive`: its process is connected and its lease has not expired.
    """

    incarnation: int
    name: str
    hostname: str
    pid: int
    version: str
    executor: str
    slots: int
    draining: bool
    alive: bool
    lease_age: float
    partitions: int
    started_at: datetime
    figures: dict[str, Any] | None  # of aiosched.scheduler.observability.metrics_snapshot, as of the last renewal
    owned: tuple[int, ...] = ()  # the partitions
    load: float = 0.0  # of these partitions: rows of task instances stored in a second (core/fleet/loads.py)

    @property
    def stalled(self) -> float:
        """For how many seconds its event loop had been blocked at its last renewal; 0.0 unless that is long."""
        return float((self.figures or {}).get("stalled", 0.0)) if self.alive else 0.0

    @property
    def status(self) -> str:
        """One word for people: alive, stalled, draining or dead."""
        if not self.alive:
            return "dead"
        if self.stalled:
            return "stalled"
        return "draining" if self.draining else "alive"


# An age is finite, and not negative, whatever the row has.
SCHEDULERS: Final = """
    SELECT incarnation, name, hostname, pid, version, executor, slots, draining, started_at, figures,
           least(greatest(extract(epoch FROM clock_timestamp()) - extract(epoch FROM renewed_at), 0), 1e9)::float8
           AS lease_age
      FROM scheduler ORDER BY incarnation
"""


async def list_schedulers(db: Database) -> list[SchedulerRow]:
    """All known incarnations, oldest first; dead ones until they have been taken over."""
    async with db.acquire() as conn:
        return (await read_schedulers(conn))[1]


async def read_schedulers(conn: DatabaseConnection) -> tuple[FleetView, list[SchedulerRow]]:
    """The fleet as its members see it, and all known incarnations."""
    view = await read_fleet(conn)
    rows = await conn.fetch(SCHEDULERS)
    dead = {peer.incarnation for peer in view.peers if peer.dead}
    held: dict[int | None, list[int]] = {}
    for partition, owner in sorted(view.leases.items()):
        held.setdefault(owner, []).append(partition)
    return view, [
        SchedulerRow(
            **{**dict(row), "figures": read_figures(row["figures"])},
            alive=row["incarnation"] not in dead,
            partitions=len(held.get(row["incarnation"], ())),
            owned=tuple(held.get(row["incarnation"], ())),
            load=round(sum(view.loads.get(partition, 0.0) for partition in held.get(row["incarnation"], ())), 3),
        )
        for row in rows
    ]


# ---- attempts on engines ----

ENGINE_COUNTS: Final = """
    SELECT executor,
           CASE WHEN worker IS NULL THEN 'waiting' WHEN alive_until < now() THEN 'silent' ELSE 'running' END AS state,
           count(*)::int AS number
      FROM engine_attempt GROUP BY 1, 2 ORDER BY 1, 2
"""


async def count_on_engines(db: Database) -> dict[tuple[str, str], int]:
    """How many attempts are on engines, by the engine's name and state: waiting, running, or silent."""
    async with db.acquire() as conn:
        return {(row["executor"], row["state"]): row["number"] for row in await conn.fetch(ENGINE_COUNTS)}
