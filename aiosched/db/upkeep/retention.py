"""Removing old history: finished runs with everything that belongs to them, answered requests, and more.

History is removed in small batches, each a short transaction. Unfinished runs are never touched: a run that is cleared
at the same moment either no longer exists for its owner, or is kept. The newest run that the schedule of a DAG created
is kept, because the schedule continues from there; asset events are kept while a run of a DAG may still have to consume
them. DAGs are kept, and so are their newest versions and those that runs use.

A run that cannot be removed holds up nothing else. If a batch fails, its runs are removed one by one, and those that
fail are left out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final, NamedTuple

from aiosched.db.schema.tables import OF_RUNS
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_of_database
from aiosched.db.statements.dags import DELETE_VERSIONS, unused_versions
from aiosched.db.statements.schedules import BY_TIMETABLE

RUNS_PER_BATCH: Final = 50
_ROWS_PER_BATCH: Final = 5_000
_RUNS_PER_PAGE: Final = 1_000
VERSIONS_PER_BATCH: Final = 20  # each scans all runs once more, for its foreign key

Progress = Callable[["Removed"], None]
OfRuns = Callable[[Sequence["RunName"]], Awaitable[int]]
Remover = Callable[[DatabaseConnection, datetime, Sequence[int] | None], Awaitable[int]]


class RunName(NamedTuple):
    """The names of a run that users and log files use."""

    dag_id: str
    run_id: str


class _Place(NamedTuple):
    """A run in the order in which runs are removed: its instant as PostgreSQL writes it, and its key."""

    at: str
    id: int


_FIRST: Final = _Place("-infinity", 0)


class _Batch(NamedTuple):
    """Which runs are removed together."""

    statement: str
    before: datetime
    partitions: Sequence[int] | None
    after: _Place
    left_out: Sequence[int]  # keys of runs


class NotRemoved(NamedTuple):
    """A run (by its key), or rows of a kind (by its name), with the error of the attempt to remove them."""

    key: int | str
    what: str
    error: Exception

    def __str__(self) -> str:
        return f"{self.what} ({type(self.error).__name__}: {' '.join(str(self.error).split())})"


@dataclass(slots=True)
class Removed:
    """How many rows of each kind were removed (or would be), and how many log files on this machine."""

    runs: int = 0
    task_instances: int = 0
    tries: int = 0
    xcoms: int = 0
    requests: int = 0
    backfills: int = 0
    asset_partitions: int = 0
    asset_events: int = 0
    sla_misses: int = 0
    task_states: int = 0
    asset_states: int = 0
    schedulers: int = 0
    versions: int = 0
    log_files: int = 0

    def add(self, other: Removed) -> None:
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    @property
    def total(self) -> int:
        """All rows together."""
        return sum(int(getattr(self, one.name)) for one in fields(self)) - self.log_files


# Index: ix_dag_run_unfinished (partial).
UNFINISHED: Final = "SELECT dag_id, run_id FROM dag_run WHERE state IN ('queued', 'running')"


async def unfinished_runs(conn: DatabaseConnection) -> list[RunName]:
    """The unfinished runs of all partitions: their logs are kept."""
    return [RunName(row["dag_id"], row["run_id"]) for row in await conn.fetch(UNFINISHED)]


# $1 the instant before which a run must have ended, $2 partitions or NULL for all. The newest run that a DAG's schedule
# has created is found by uq_dag_run_dag_id_logical_date, waiting callbacks by run.
_REMOVABLE: Final = f"""
    r.state IN ('success', 'failed')
    AND ($2::smallint[] IS NULL OR greatest(r.partition, -1 - r.partition) = ANY($2))
    AND r.id IS DISTINCT FROM (
        SELECT newest.id FROM dag_run AS newest
         WHERE newest.dag_id = r.dag_id AND newest.triggered_by = '{BY_TIMETABLE}' AND newest.logical_date IS NOT NULL
         ORDER BY newest.logical_date DESC LIMIT 1
    )
    AND NOT EXISTS (SELECT 1 FROM callback_outbox AS c WHERE c.run_id = r.id AND c.given_up_at IS NULL)
"""
_OLD_RUN: Final = f"coalesce(r.end_date, r.run_after) < $1 AND {_REMOVABLE}"

# The oldest first, onwards from the run ($3, $4), so what is younger is never read: looking for old runs costs the same
# however much there is of it. Guard: locked and checked again, so a run that was just cleared is kept.
# Index: ix_dag_run_end_date_id.
TAKE_ENDED: Final = f"""
    SELECT r.id, r.dag_id, r.run_id, r.end_date::text AS at FROM dag_run AS r
     WHERE r.end_date < $1 AND (r.end_date, r.id) > ($3::text::timestamptz, $4)
       AND r.id <> ALL($6::bigint[]) AND {_REMOVABLE}
     ORDER BY r.end_date, r.id LIMIT $5 FOR UPDATE SKIP LOCKED
"""
# The same for finished runs without an end, which only somebody who edits rows can make. They are as old as they were
# due. Index: ix_dag_run_run_after_id.
TAKE_ENDLESS: Final = f"""
    SELECT r.id, r.dag_id, r.run_id, r.run_after::text AS at FROM dag_run AS r
     WHERE r.end_date IS NULL AND r.run_after < $1 AND (r.run_after, r.id) > ($3::text::timestamptz, $4)
       AND r.id <> ALL($6::bigint[]) AND {_REMOVABLE}
     ORDER BY r.run_after, r.id LIMIT $5 FOR UPDATE SKIP LOCKED
"""
# One of them.
TAKE_RUN: Final = f"""
    SELECT r.id, r.dag_id, r.run_id FROM dag_run AS r WHERE r.id = $3 AND {_OLD_RUN} FOR UPDATE SKIP LOCKED
"""

# What has expired, whatever $1 is. Indexes: ix_task_state_expires_at, ix_asset_state_expires_at.
_EXPIRED: Final = "expires_at <= now() AND $1::timestamptz IS NOT NULL AND ($2::smallint[] IS NULL OR 0 = ANY($2))"

# Everything else by kind: the table, the column that identifies a row, and the condition for old rows.
_REST: Final = {
    "requests": (
        "request",
        "id",
        "state <> 'waiting' AND created_at < $1 AND ($2::smallint[] IS NULL OR coalesce(partition, 0) = ANY($2))",
    ),
    "backfills": ("backfill", "id", "completed_at < $1 AND ($2::smallint[] IS NULL OR partition = ANY($2))"),
    "asset_partitions": (  # whose condition is not met: what they wait for did not come
        "asset_partition",
        "id",
        "newest_at < $1 AND due_at IS NULL AND ($2::smallint[] IS NULL OR partition = ANY($2))",
    ),
    "asset_events": (
        "asset_event",
        "id",
        """timestamp < $1 AND ($2::smallint[] IS NULL OR 0 = ANY($2))
           AND NOT EXISTS (SELECT 1 FROM asset_queue AS q
                            WHERE q.asset_id = asset_event.asset_id AND q.first_at <= asset_event.timestamp)
           AND NOT EXISTS (SELECT 1 FROM asset_key_event AS k WHERE k.event_id = asset_event.id AND k.refused IS NULL)
           AND NOT EXISTS (SELECT 1 FROM asset_partition_event AS p WHERE p.event_id = asset_event.id)""",
    ),
    "sla_misses": (  # the newest of each task is kept: earlier dates are not checked again
        "sla_miss",
        "id",
        """missed_at < $1 AND ($2::smallint[] IS NULL OR partition = ANY($2))
           AND EXISTS (SELECT 1 FROM sla_miss AS newer
                        WHERE newer.dag_id = sla_miss.dag_id AND newer.task_id = sla_miss.task_id
                          AND newer.logical_date > sla_miss.logical_date)
           AND NOT EXISTS (SELECT 1 FROM callback_outbox AS c WHERE c.id = sla_miss.callback_id)""",
    ),
    "task_states": ("task_state", "id", _EXPIRED),
    "asset_states": ("asset_state", "id", _EXPIRED),
    "schedulers": (
        "scheduler",
        "incarnation",
        """lease_expires_at < $1 AND ($2::smallint[] IS NULL OR 0 = ANY($2))
           AND NOT EXISTS (SELECT 1 FROM partition_lease AS l WHERE l.incarnation = scheduler.incarnation)""",
    ),
}


# Old versions that no run uses and no try has run, except the newest of each DAG. It reads all runs once.
_OLD_VERSIONS: Final = """
    SELECT v.id FROM dag_version AS v JOIN dag AS d ON d.dag_id = v.dag_id
     WHERE v.id IS DISTINCT FROM d.version_id AND v.created_at < $1
       AND ($2::smallint[] IS NULL OR d.partition = ANY($2))
       AND NOT EXISTS (SELECT FROM dag_run AS r WHERE r.dag_id = v.dag_id AND r.version_id = v.id)
       AND NOT EXISTS (SELECT FROM try_source AS t WHERE t.version_id = v.id)
       AND NOT EXISTS (SELECT FROM try_source AS t WHERE t.version_id IS NULL AND t.source_hash = v.source_hash)
     ORDER BY v.id LIMIT $3
"""


async def count_old(db: Database, before: datetime, *, count_logs: OfRuns | None = None) -> Removed:
    """What `clean` would remove. `count_logs` is called for the log files of runs, page by page."""
    async with db.acquire(unhurried=True) as conn:
        found = Removed(*await conn.fetchrow(_COUNT_RUNS, before, None))
        found.versions = await conn.fetchval(_COUNT_VERSIONS, before, None)
        after = 0
        while count_logs and (page := await conn.fetch(_NAME_RUNS, before, None, after, _RUNS_PER_PAGE)):
            found.log_files += await count_logs([RunName(row["dag_id"], row["run_id"]) for row in page])
            after = page[-1]["id"]
        for kind, (table, _, old) in _REST.items():
            setattr(found, kind, await conn.fetchval(f"SELECT count(*) FROM {table} WHERE {old}", before, None))
    return found


_COUNT_RUNS: Final = f"""
    WITH old AS MATERIALIZED (SELECT r.id FROM dag_run AS r WHERE {_OLD_RUN})
    SELECT (SELECT count(*) FROM old),
           (SELECT count(*) FROM task_instance WHERE run_id IN (SELECT id FROM old)),
           (SELECT count(*) FROM task_try WHERE run_id IN (SELECT id FROM old)),
           (SELECT count(*) FROM xcom WHERE run_id IN (SELECT id FROM old))
"""


_NAME_RUNS: Final = f"""
    SELECT r.id, r.dag_id, r.run_id FROM dag_run AS r WHERE r.id > $3 AND {_OLD_RUN} ORDER BY r.id LIMIT $4
"""
_COUNT_VERSIONS: Final = f"""
    SELECT count(*) FROM dag_version AS v JOIN dag AS d ON d.dag_id = v.dag_id
     WHERE v.id IS DISTINCT FROM d.version_id AND v.created_at < $1
       AND NOT EXISTS (SELECT FROM dag_run AS r WHERE r.dag_id = v.dag_id AND r.version_id = v.id AND NOT ({_OLD_RUN}))
       AND NOT EXISTS (
           SELECT FROM try_source AS t JOIN dag_run AS r ON r.id = t.run_id
            WHERE r.dag_id = v.dag_id AND NOT ({_OLD_RUN})
              AND (t.version_id = v.id OR (t.version_id IS NULL AND t.source_hash = v.source_hash)))
"""


async def clean(
    db: Database,
    before: datetime,
    *,
    partitions: Sequence[int] | None = None,
    batches: int | None = None,
    progress: Progress = lambda _: None,
    remove_logs: OfRuns | None = None,
    but: Collection[int | str] = (),
    failed: list[NotRemoved] | None = None,
) -> Removed:
    """Remove what ended before the aware instant `before`; returns how much was removed.

    With `partitions` only what belongs to their DAGs; partition 0 includes what belongs to no DAG. At most `batches`
    batches (None: until nothing is left). `progress` is called with the sum after each. `remove_logs` removes the log
    files of runs before the deletion of their rows is committed, so that none are left without a run. What cannot be
    removed is added to `failed`, and everything else is removed; without that list the first error is raised. The keys
    in `but` are not tried.
    """
    total, left = Removed(), batches
    left_out = [key for key in but if isinstance(key, int)]
    for statement in (TAKE_ENDED, TAKE_ENDLESS):
        batch = _Batch(statement, before, partitions, _FIRST, left_out)
        while (left is None or left > 0) and (found := await _remove_batch(db, batch, remove_logs, failed)) is not None:
            removed, last = found
            batch = batch._replace(after=last)
            total.add(removed)
            progress(total)
            left = None if left is None else left - 1
    kinds = {kind: _remover(kind) for kind in _REST} | {"versions": (_remove_versions, VERSIONS_PER_BATCH)}
    for kind, (remove, most) in kinds.items():
        while kind not in but and (left is None or left > 0):
            try:
                async with db.transaction(unhurried=True) as conn:
                    number = await remove(conn, before, partitions)
            except Exception as error:
                _keep(failed, error, kind, f"old {kind.replace('_', ' ')}")
                break
            total.add(Removed(**{kind: number}))
            progress(total)
            left = None if left is None else left - 1
            if number < most:
                break
    return total


async def _remove_batch(
    db: Database, batch: _Batch, remove_logs: OfRuns | None, failed: list[NotRemoved] | None
) -> tuple[Removed, _Place] | None:
    """Remove one batch of runs; returns what was removed, and the last of them. None: there was nothing to remove."""
    rows: list[Any] = []
    try:
        async with db.transaction(unhurried=True) as conn:
            rows += await conn.fetch(
                batch.statement, batch.before, batch.partitions, *batch.after, RUNS_PER_BATCH, batch.left_out
            )
            removed = await _remove_runs(conn, rows, remove_logs)
    except Exception as error:
        if failed is None or not rows or is_of_database(error):
            raise
        removed = await _remove_each(db, batch, rows, remove_logs, failed)
    return (removed, _Place(rows[-1]["at"], rows[-1]["id"])) if rows else None


async def _remove_each(
    db: Database, batch: _Batch, rows: Sequence[Any], remove_logs: OfRuns | None, failed: list[NotRemoved]
) -> Removed:
    """Remove these runs one by one, since some of them cannot be removed."""
    removed = Removed()
    for row in rows:
        try:
            async with db.transaction(unhurried=True) as conn:
                one = await conn.fetch(TAKE_RUN, batch.before, batch.partitions, row["id"])
                removed.add(await _remove_runs(conn, one, remove_logs))
        except Exception as error:
            _keep(failed, error, row["id"], f"run {row['run_id']!r} of DAG {row['dag_id']!r}")
    return removed


def _keep(failed: list[NotRemoved] | None, error: Exception, key: int | str, what: str) -> None:
    """Add what cannot be removed to `failed`; raises a failure of the database, and any if there is no such list."""
    if failed is None or is_of_database(error):
        raise error
    failed.append(NotRemoved(key, what, error))


async def _remove_runs(conn: DatabaseConnection, rows: Sequence[Any], remove_logs: OfRuns | None) -> Removed:
    """Remove these runs, which are locked."""
    if not rows:
        return Removed()
    runs = [row["id"] for row in rows]
    gone = {
        table: _count(await conn.execute(f"DELETE FROM {table} WHERE run_id = ANY($1::bigint[])", runs))
        for table in OF_RUNS
    }
    await conn.execute("DELETE FROM dag_run WHERE id = ANY($1::bigint[])", runs)
    files = 0 if remove_logs is None else await remove_logs([RunName(row["dag_id"], row["run_id"]) for row in rows])
    return Removed(len(runs), gone["task_instance"], gone["task_try"], gone["xcom"], log_files=files)


def _remover(kind: str) -> tuple[Remover, int]:
    """What removes one batch of old rows of a kind, and how many these are."""
    table, key, old = _REST[kind]
    statement = f"DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {table} WHERE {old} ORDER BY {key} LIMIT $3)"

    async def remove(conn: DatabaseConnection, before: datetime, partitions: Sequence[int] | None) -> int:
        return _count(await conn.execute(statement, before, partitions, _ROWS_PER_BATCH))

    return remove, _ROWS_PER_BATCH


async def _remove_versions(conn: DatabaseConnection, before: datetime, partitions: Sequence[int] | None) -> int:
    """Remove one batch of DAG versions that no run uses; a run that is being created keeps its version."""
    rows = await conn.fetch(_OLD_VERSIONS, before, partitions, VERSIONS_PER_BATCH)
    unused = await unused_versions(conn, [row["id"] for row in rows])
    if unused:
        await conn.execute(DELETE_VERSIONS, sorted(unused))
    return len(unused)


def _count(status: str) -> int:
    return int(status.rpartition(" ")[2])
