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
from aiosched.db.statements.inbox import NOTIFY_CHANNEL, notify

_INSTANCE: Final = """
    SELECT FROM task_instance AS ti
     WHERE ti.run_id = e.run_id AND ti.task_index = e.task_index AND ti.map_index = e.map_index
"""
# Claimed once: by whoever comes first, and again by the same worker if it did not hear the answer; and only while the
# task instance waits for this try. A scheduler that does not know of engines may have taken it over and gone on to the
# next try. Rows are locked in one order. Indexes: the primary keys.
CLAIM: Final = f"""
    WITH wanted AS MATERIALIZED (
        SELECT id FROM engine_attempt WHERE id = ANY($1::bigint[]) ORDER BY id FOR NO KEY UPDATE
    )
    UPDATE engine_attempt AS e
       SET worker = $2, hostname = $3, pid = $4, begun_at = coalesce(e.begun_at, clock_timestamp()),
           alive_until = clock_timestamp() + make_interval(secs => $5)
      FROM wanted
     WHERE e.id = wanted.id AND (e.worker IS NULL OR e.worker = $2 AND e.alive_until > clock_timestamp())
       AND NOT EXISTS ({_INSTANCE} AND (ti.state IN ('queued', 'running') AND ti.try_number = e.try_number) IS NOT TRUE)
    RETURNING e.id, e.attempt
"""
_KEY: Final = ("run_id", "task_index", "map_index", "try_number")
BEGUN: Final = "SELECT id FROM engine_attempt WHERE id = ANY($1::bigint[]) AND worker IS NOT NULL"


class ClaimedStarts(NamedTuple):
    """What became of claims: attempts by their ids, and the ids of those that another worker has begun."""

    attempts: dict[int, Attempt]
    begun_elsewhere: set[int]


async def claim_starts(
    conn: DatabaseConnection, attempts: Collection[int], *, worker: str, hostname: str, pid: int, lease: float
) -> ClaimedStarts:
    """Claim the starts of attempts for a worker. Those that the answer does not name have ended, or nobody waits for
    them any more."""
    found = await conn.fetch(CLAIM, list(attempts), worker, hostname, pid, lease)
    claimed = {row["id"]: decode_attempt(row["attempt"]) for row in found}
    missing = set(attempts) - claimed.keys()
    there = await conn.fetch(BEGUN, list(missing)) if missing else ()
    return ClaimedStarts(claimed, {row["id"] for row in there})


class Alive(NamedTuple):
    """What a heartbeat says of one attempt that goes on; `stop_grace`: seconds in which it is to be stopped."""

    id: int
    stop_grace: int | None


# An expired lease is not renewed. An attempt whose task instance has gone on to another try, in a scheduler that does
# not know of engines, is to be stopped. Indexes: the primary keys.
RENEW: Final = f"""
    UPDATE engine_attempt AS e
       SET alive_until = clock_timestamp() + make_interval(secs => $3),
           stop_grace = CASE WHEN stop_grace IS NULL AND EXISTS (
               {_INSTANCE} AND ti.state IN ('queued', 'running') AND ti.try_number <> e.try_number
           ) THEN $4 ELSE stop_grace END
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


async def renew(
    conn: DatabaseConnection, attempts: Collection[int], *, worker: str, lease: float, grace: float
) -> list[Alive]:
    """Renew a worker's lease on attempts; those that are missing in the answer have ended, or their lease has.

    Those whose task instance is at another try are to end within `grace` seconds. The first time it also reports that
    they have started. Call it in a transaction.
    """
    found = await conn.fetch(RENEW, list(attempts), worker, lease, round(grace))
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


# The row is replaced by the report, and the owners of partitions are told, at one commit. Rows are locked in one order.
# Index: the primary key.
FINISH: Final = """
    WITH wanted AS MATERIALIZED (
        SELECT id FROM engine_attempt WHERE id = ANY($1::bigint[]) AND worker = $2 ORDER BY id FOR UPDATE
    ), ended AS (
        DELETE FROM engine_attempt AS e
         USING wanted, unnest($1::bigint[], $3::text[], $4::text[]) AS r (id, outcome, body)
         WHERE e.id = wanted.id AND e.id = r.id
        RETURNING e.*, r.outcome, r.body
    ), stored AS (
        INSERT INTO task_report (partition, run_id, task_index, map_index, try_number, outcome, body, queued_by)
        SELECT partition, run_id, task_index, map_index, try_number, outcome, body::json, queued_by
          FROM ended ORDER BY id
    )
    SELECT array_agg(id) AS ids, pg_notify($5, 'reports ' || string_agg(DISTINCT partition::text, ','))
      FROM ended HAVING count(*) > 0
"""


async def finish(conn: DatabaseConnection, reports: Sequence[tuple[int, Report]], *, worker: str) -> set[int]:
    """Store final reports of a worker and tell the owners; returns the ids of the attempts that had not ended yet."""
    bodies = [msgspec.json.encode(report).decode() for _, report in reports]
    outcomes = [report.outcome.value for _, report in reports]
    ids = [number for number, _ in reports]
    found = await conn.fetchval(FINISH, ids, worker, outcomes, bodies, NOTIFY_CHANNEL)
    return set(found or ())


# Index: the primary key.
IS_CLAIMED: Final = """
    SELECT EXISTS (SELECT FROM engine_attempt WHERE id = $1 AND worker = $2 AND alive_until > clock_timestamp())
"""


async def is_claimed(conn: DatabaseConnection, attempt: int, *, worker: str) -> bool:
    """Whether a worker runs an attempt, within its lease."""
    return bool(await conn.fetchval(IS_CLAIMED, attempt, worker))


# Index: the primary key.
ATTEMPT_BODIES: Final = "SELECT id, attempt FROM engine_attempt WHERE id = ANY($1::bigint[]) AND worker = $2"


async def claimed_attempts(conn: DatabaseConnection, attempts: Collection[int], *, worker: str) -> dict[int, Attempt]:
    """Those of the attempts, by their ids, that the worker runs and that have not ended."""
    rows = await conn.fetch(ATTEMPT_BODIES, list(attempts), worker)
    return {row["id"]: decode_attempt(row["attempt"]) for row in rows}
