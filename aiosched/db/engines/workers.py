"""Statements on `engine_attempt` by the worker API: claims of starts, heartbeats and final reports of workers.

A worker is known by an id that it chooses when it claims an attempt. All statements that name one concern only what
that worker has claimed and what has not ended. Leases are judged by the database's clock. No decisions live here.
Source: docs/decisions/0036-attempts-on-engines.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from aiosched.core.values.messages import Attempt, AttemptKey, Outcome, Report
from aiosched.db.engines.attempts import decode_attempt
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.inbox import notify

# Claimed once: by whoever comes first, and again by the same worker if it did not hear the answer.
CLAIM: Final = """
    UPDATE engine_attempt
       SET worker = $2, hostname = $3, pid = $4, begun_at = coalesce(begun_at, clock_timestamp()),
           alive_until = clock_timestamp() + make_interval(secs => $5)
     WHERE id = $1 AND (worker IS NULL OR worker = $2 AND alive_until > clock_timestamp())
    RETURNING attempt
"""
_KEY: Final = ("run_id", "task_index", "map_index", "try_number")
IS_THERE: Final = "SELECT EXISTS (SELECT FROM engine_attempt WHERE id = $1)"


class AlreadyBegun(Exception):
    """Another worker has begun the attempt."""


async def claim_start(
    conn: DatabaseConnection, attempt: int, *, worker: str, hostname: str, pid: int, lease: float
) -> Attempt | None:
    """Claim the start of an attempt for a worker; None if it has ended. Raises AlreadyBegun."""
    body = await conn.fetchval(CLAIM, attempt, worker, hostname, pid, lease)
    if body is not None:
        return decode_attempt(body)
    if await conn.fetchval(IS_THERE, attempt):
        raise AlreadyBegun
    return None


class Alive(NamedTuple):
    """What a heartbeat says of one attempt that goes on; `stop_grace`: seconds in which it is to be stopped."""

    id: int
    stop_grace: int | None


# An expired lease is not renewed. Index: the primary key.
RENEW: Final = """
    UPDATE engine_attempt SET alive_until = clock_timestamp() + make_interval(secs => $3)
     WHERE id = ANY($1::bigint[]) AND worker = $2 AND alive_until > clock_timestamp()
    RETURNING id, stop_grace, is_announced, partition, run_id, task_index, map_index, try_number, queued_by,
              begun_at, hostname, pid
"""

ANNOUNCE: Final = """
    WITH announced AS (
        UPDATE engine_attempt AS e SET is_announced = true
          FROM unnest($1::bigint[], $2::text[]) AS s (id, body)
         WHERE e.id = s.id AND NOT e.is_announced
        RETURNING e.*, s.body
    )
    INSERT INTO task_report (partition, run_id, task_index, map_index, try_number, outcome, body, queued_by)
    SELECT partition, run_id, task_index, map_index, try_number, 'started', body::json, queued_by FROM announced
    ON CONFLICT DO NOTHING
"""


async def renew(conn: DatabaseConnection, attempts: Collection[int], *, worker: str, lease: float) -> list[Alive]:
    """Renew a worker's lease on attempts; those that are missing in the answer have ended, or their lease has.

    The first time it also reports that they have started. Call it in a transaction.
    """
    found = await conn.fetch(RENEW, list(attempts), worker, lease)
    new = [row for row in found if not row["is_announced"]]
    if new:
        starts = [msgspec.json.encode(_started(row)).decode() for row in new]
        await conn.execute(ANNOUNCE, [row["id"] for row in new], starts)
        await notify(conn, "reports", [row["partition"] for row in new])
    return [Alive(row["id"], row["stop_grace"]) for row in found]


def _started(row: Any) -> Report:
    key, begun = AttemptKey(*(row[name] for name in _KEY)), row["begun_at"]
    where = {"hostname": row["hostname"], "pid": row["pid"]}
    return Report(key=key, outcome=Outcome.STARTED, at=begun, started_at=begun, **where)


# The row is replaced by the report. Index: the primary key.
FINISH: Final = """
    WITH ended AS (
        DELETE FROM engine_attempt AS e
         USING unnest($1::bigint[], $3::text[], $4::text[]) AS r (id, outcome, body)
         WHERE e.id = r.id AND e.worker = $2
        RETURNING e.*, r.outcome, r.body
    ), stored AS (
        INSERT INTO task_report (partition, run_id, task_index, map_index, try_number, outcome, body, queued_by)
        SELECT partition, run_id, task_index, map_index, try_number, outcome, body::json, queued_by FROM ended
    )
    SELECT id, partition FROM ended
"""


async def finish(conn: DatabaseConnection, reports: Sequence[tuple[int, Report]], *, worker: str) -> set[int]:
    """Store final reports of a worker and tell the owners; returns the ids of the attempts that had not ended yet."""
    bodies = [msgspec.json.encode(report).decode() for _, report in reports]
    outcomes = [report.outcome.value for _, report in reports]
    found = await conn.fetch(FINISH, [number for number, _ in reports], worker, outcomes, bodies)
    if found:
        await notify(conn, "reports", [row["partition"] for row in found])
    return {row["id"] for row in found}


# Index: the primary key.
IS_CLAIMED: Final = """
    SELECT EXISTS (SELECT FROM engine_attempt WHERE id = $1 AND worker = $2 AND alive_until > clock_timestamp())
"""


async def is_claimed(conn: DatabaseConnection, attempt: int, *, worker: str) -> bool:
    """Whether a worker runs an attempt, within its lease."""
    return bool(await conn.fetchval(IS_CLAIMED, attempt, worker))


# Index: the primary key.
ATTEMPT_BODY: Final = "SELECT attempt FROM engine_attempt WHERE id = $1 AND worker = $2"


async def claimed_attempt(conn: DatabaseConnection, attempt: int, *, worker: str) -> Attempt | None:
    """The attempt that a worker runs; None if it has ended."""
    body = await conn.fetchval(ATTEMPT_BODY, attempt, worker)
    return None if body is None else decode_attempt(body)
