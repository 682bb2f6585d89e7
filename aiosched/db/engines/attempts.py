"""Statements on `engine_attempt` by schedulers: sending attempts to engines, adopting and ending them.

A row exists from before the engine hears of an attempt until its final report is stored, in the transaction that
deletes the row. So whoever reads the rows first and the reports second knows the fate of every attempt: its row is
there, its report is there, or it is lost. No decisions live here.
Source: docs/decisions/0036-attempts-on-engines.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from aiosched.core.values.messages import Attempt, AttemptKey, Outcome, Report
from aiosched.db.schema.table import same
from aiosched.db.schema.tables import ENGINE_ATTEMPT, TASK_TRY
from aiosched.db.server.connection import DatabaseConnection, Queryable
from aiosched.db.statements.inbox import notify

_encode: Final = msgspec.msgpack.Encoder().encode
decode_attempt: Final = msgspec.msgpack.Decoder(Attempt).decode


class NewAttempt(NamedTuple):
    """An attempt to be given to an engine; `executor` is the name by which tasks choose it."""

    partition: int
    executor: str
    attempt: Attempt
    body: bytes  # the attempt, encoded


def new_attempt(partition: int, executor: str, attempt: Attempt) -> NewAttempt:
    """Encode an attempt; raises whatever its values cause."""
    return NewAttempt(partition, executor, attempt, _encode(attempt))


class SentAttempt(NamedTuple):
    """An attempt that an engine was given. `begun_at`: a worker has claimed its start."""

    id: int
    key: AttemptKey
    queued_by: int
    executor: str
    hostname: str | None
    pid: int | None
    begun_at: datetime | None
    is_async: bool


# Behind the fence: a scheduler that was taken over sends nothing more. A row of the same key is what is left of an
# earlier call of the same try, whose report was never needed.
NEW_ATTEMPT: Final = ("partition", *TASK_TRY.key, "executor", "attempt")
INSERT_ATTEMPTS: Final = f"""
    WITH fence AS MATERIALIZED (SELECT incarnation FROM scheduler WHERE incarnation = $1 FOR KEY SHARE)
    INSERT INTO engine_attempt ({", ".join(NEW_ATTEMPT)}, queued_by)
    SELECT a.*, fence.incarnation FROM fence, {ENGINE_ATTEMPT.batch(NEW_ATTEMPT, 2, name="a")}
    ON CONFLICT ({", ".join(TASK_TRY.key)}) DO NOTHING
    RETURNING id, {", ".join(TASK_TRY.key)}
"""

# Index: uq_engine_attempt_run_id_task_index_map_index_try_number.
DELETE_EARLIER: Final = ENGINE_ATTEMPT.delete(TASK_TRY.key)


async def insert_attempts(
    conn: DatabaseConnection, attempts: Sequence[NewAttempt], *, incarnation: int
) -> dict[AttemptKey, int]:
    """Store attempts before an engine is given them; returns their ids. Empty if the scheduler was taken over."""
    columns = columns_of(attempts)
    found = await conn.fetch(INSERT_ATTEMPTS, incarnation, *columns)
    if 0 < len(found) < len(attempts):  # all again: their ids are not used yet
        await conn.execute(DELETE_EARLIER, *columns[1:5])
        found = await conn.fetch(INSERT_ATTEMPTS, incarnation, *columns)
    return {AttemptKey(*key): number for number, *key in found}


def columns_of(attempts: Sequence[NewAttempt]) -> list[list[Any]]:
    """The columns of new rows, as NEW_ATTEMPT names them."""
    rows = [(new.partition, *new.attempt.key, new.executor, new.body) for new in attempts]
    return list(map(list, zip(*rows, strict=True)))


_SENT: Final = "id, run_id, task_index, map_index, try_number, queued_by, executor, hostname, pid, begun_at, attempt"

# Index: ix_engine_attempt_partition.
ATTEMPTS_OF: Final = f"SELECT {_SENT} FROM engine_attempt WHERE partition = ANY($1::smallint[]) ORDER BY id"


async def attempts_of(conn: DatabaseConnection, partitions: Iterable[int]) -> list[SentAttempt]:
    """The attempts of these partitions that engines were given and that have not ended."""
    return [_sent(row) for row in await conn.fetch(ATTEMPTS_OF, sorted(partitions))]


# One snapshot: a row becomes a report in one transaction. The inbox is small.
# Index: uq_engine_attempt_run_id_task_index_map_index_try_number.
UNFINISHED: Final = f"""
    SELECT a.*
      FROM {TASK_TRY.batch(TASK_TRY.key, name="a")}
     WHERE EXISTS (SELECT FROM engine_attempt AS e WHERE {same(TASK_TRY.key, "e", "a")})
        OR EXISTS (SELECT FROM task_report AS r WHERE {same(TASK_TRY.key, "r", "a")} AND r.outcome <> 'started')
"""


async def unfinished(conn: Queryable, attempts: Sequence[AttemptKey]) -> set[AttemptKey]:
    """Those of the attempts that have a row, or a final report that has not been applied yet."""
    rows = await conn.fetch(UNFINISHED, *map(list, zip(*attempts, strict=True))) if attempts else ()
    return {AttemptKey(*row) for row in rows}


UNCLAIMED: Final = "SELECT id, attempt FROM engine_attempt WHERE id = ANY($1::bigint[]) AND worker IS NULL ORDER BY id"


async def unclaimed_attempts(conn: Queryable, ids: Collection[int]) -> dict[int, Attempt]:
    """Those of the attempts that no worker has begun."""
    return {row["id"]: decode_attempt(row["attempt"]) for row in await conn.fetch(UNCLAIMED, list(ids))}


# Index: the primary key.
REMOVE_UNCLAIMED: Final = "DELETE FROM engine_attempt WHERE id = ANY($1::bigint[]) AND worker IS NULL"


async def remove_unclaimed(conn: Queryable, ids: Collection[int]) -> None:
    """Remove attempts that nobody waits for and no worker has begun, without a report."""
    await conn.execute(REMOVE_UNCLAIMED, list(ids))


# Its worker hears of it with the next heartbeat. Index: the primary key.
REQUEST_STOP: Final = """
    UPDATE engine_attempt SET stop_grace = least(coalesce(stop_grace, $2), $2) WHERE id = $1 AND worker IS NOT NULL
    RETURNING id
"""


async def request_stop(conn: DatabaseConnection, attempt: int, *, grace: float) -> bool:
    """Ask the worker of an attempt to end it within `grace` seconds; returns whether one has begun it."""
    return await conn.fetchval(REQUEST_STOP, attempt, round(grace)) is not None


# The row is replaced by the report. Index: the primary key.
END: Final = """
    WITH ended AS (
        DELETE FROM engine_attempt AS e
         USING unnest($1::bigint[], $2::text[], $3::text[]) AS r (id, outcome, body)
         WHERE e.id = r.id AND (e.worker IS NULL OR NOT $4)
        RETURNING e.*, r.outcome, r.body
    )
    INSERT INTO task_report (partition, run_id, task_index, map_index, try_number, outcome, body, queued_by)
    SELECT partition, run_id, task_index, map_index, try_number, outcome, body::json, queued_by FROM ended
    RETURNING partition
"""


async def end_attempts(
    conn: DatabaseConnection, reports: Sequence[tuple[int, Report]], *, unless_begun: bool = False
) -> int:
    """End attempts on behalf of workers that cannot: those with these ids that have not ended. Returns how many.

    `unless_begun`: only those that no worker has begun. Tells the owners of their partitions.
    """
    bodies = [msgspec.json.encode(report).decode() for _, report in reports]
    outcomes = [report.outcome.value for _, report in reports]
    found = await conn.fetch(END, [number for number, _ in reports], outcomes, bodies, unless_begun)
    if found:
        await notify(conn, "reports", [row["partition"] for row in found])
    return len(found)


# Index: ix_engine_attempt_partition. Rows that another scheduler is about to end are left to it.
EXPIRED: Final = f"""
    SELECT {_SENT} FROM engine_attempt WHERE partition = ANY($1::smallint[]) AND alive_until < now()
     ORDER BY id FOR UPDATE SKIP LOCKED
"""


async def lose_expired(conn: DatabaseConnection, partitions: Iterable[int], *, now: datetime) -> int:
    """End the attempts of these partitions whose worker has not renewed its lease as lost; returns how many.

    Call it in a transaction.
    """
    expired = [_sent(row) for row in await conn.fetch(EXPIRED, sorted(partitions))]
    reports = [(sent.id, _lost(sent, now)) for sent in expired]
    return await end_attempts(conn, reports) if reports else 0


def _lost(sent: SentAttempt, now: datetime) -> Report:
    where = f"its worker on {sent.hostname} (process {sent.pid})" if sent.hostname else "its worker"
    return Report(
        key=sent.key,
        outcome=Outcome.LOST,
        at=now,
        started_at=sent.begun_at,
        hostname=sent.hostname,
        pid=sent.pid,
        reason=f"{where} has not been heard of for longer than its lease",
    )


def _sent(row: Any) -> SentAttempt:
    number, run, task_index, map_index, try_number, queued_by, executor, hostname, pid, begun_at, body = row
    key, is_async = AttemptKey(run, task_index, map_index, try_number), decode_attempt(body).is_async
    return SentAttempt(number, key, queued_by, executor, hostname, pid, begun_at, is_async)
