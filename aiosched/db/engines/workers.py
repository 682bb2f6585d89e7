"""Statements on `engine_attempt` by the worker API: claims of starts, heartbeats and final reports of workers.

A worker is known by an id that it chooses when it claims an attempt. All statements that name one concern only what
that worker has claimed and what has not ended, and find an attempt by all that its token says: after a restore of the
database another attempt may have the id of a token of before. Leases are judged by the database's clock. No decisions
live here.
Source: docs/decisions/0036-attempts-on-engines.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from aiosched.core.values.messages import Attempt, AttemptKey, Outcome, Report
from aiosched.db.engines.attempts import decode_attempt
from aiosched.db.engines.tokens import AttemptToken
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.inbox import NOTIFY_CHANNEL, notify

_KEY: Final = ("run_id", "task_index", "map_index", "try_number")
# What tokens say, as the relation t; the first five parameters of each statement (_columns).
_TOKENS: Final = """
    unnest($1::bigint[], $2::bigint[], $3::int[], $4::int[], $5::int[])
        AS t (id, run_id, task_index, map_index, try_number)
"""
_OF_TOKEN: Final = " AND ".join(f"e.{name} = t.{name}" for name in ("id", *_KEY))
_INSTANCE: Final = """
    SELECT FROM task_instance AS ti
     WHERE ti.run_id = e.run_id AND ti.task_index = e.task_index AND ti.map_index = e.map_index
"""
# Claimed once: by whoever comes first, and again by the same worker if it did not hear the answer; and only while the
# task instance waits for this try. A scheduler that does not know of engines may have taken it over and gone on to the
# next try. Rows are locked in one order. Indexes: the primary keys.
CLAIM: Final = f"""
    WITH wanted AS MATERIALIZED (
        SELECT e.id FROM engine_attempt AS e JOIN {_TOKENS} ON {_OF_TOKEN} ORDER BY e.id FOR NO KEY UPDATE OF e
    )
    UPDATE engine_attempt AS e
       SET worker = $6, hostname = $7, pid = $8, begun_at = coalesce(e.begun_at, clock_timestamp()),
           alive_until = clock_timestamp() + make_interval(secs => $9)
      FROM wanted
     WHERE e.id = wanted.id AND (e.worker IS NULL OR e.worker = $6 AND e.alive_until > clock_timestamp())
       AND NOT EXISTS ({_INSTANCE} AND (ti.state IN ('queued', 'running') AND ti.try_number = e.try_number) IS NOT TRUE)
    RETURNING e.id, e.run_id, e.task_index, e.map_index, e.try_number, e.attempt
"""
BEGUN: Final = f"""
    SELECT e.id, e.run_id, e.task_index, e.map_index, e.try_number
      FROM engine_attempt AS e JOIN {_TOKENS} ON {_OF_TOKEN} WHERE e.worker IS NOT NULL
"""


class ClaimedStarts(NamedTuple):
    """What became of claims: attempts, and those that another worker has begun."""

    attempts: dict[AttemptToken, Attempt]
    begun_elsewhere: set[AttemptToken]


async def claim_starts(
    conn: DatabaseConnection, tokens: Collection[AttemptToken], *, worker: str, hostname: str, pid: int, lease: float
) -> ClaimedStarts:
    """Claim the starts of attempts for a worker. Those that the answer does not name have ended, or nobody waits for
    them any more, or their id is that of another attempt."""
    found = await conn.fetch(CLAIM, *_columns(tokens), worker, hostname, pid, lease)
    claimed = {_token(row): decode_attempt(row["attempt"]) for row in found}
    missing = set(tokens) - claimed.keys()
    there = await conn.fetch(BEGUN, *_columns(missing)) if missing else ()
    return ClaimedStarts(claimed, {_token(row) for row in there})


def _columns(tokens: Collection[AttemptToken]) -> list[list[int]]:
    """The parameters of _TOKENS."""
    rows = [(token.id, *token.key) for token in tokens]
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in ("id", *_KEY)]


def _token(row: Any) -> AttemptToken:
    return AttemptToken(row["id"], AttemptKey(*(row[name] for name in _KEY)))


class LiveAttempt(NamedTuple):
    """What a heartbeat says of one attempt that goes on; `stop_grace`: seconds in which it is to be stopped."""

    token: AttemptToken
    stop_grace: int | None


# An expired lease is not renewed. An attempt whose task instance has gone on to another try, in a scheduler that does
# not know of engines, is to be stopped. Indexes: the primary keys.
RENEW: Final = f"""
    UPDATE engine_attempt AS e
       SET alive_until = clock_timestamp() + make_interval(secs => $7),
           stop_grace = CASE WHEN stop_grace IS NULL AND EXISTS (
               {_INSTANCE} AND ti.state IN ('queued', 'running') AND ti.try_number <> e.try_number
           ) THEN $8 ELSE stop_grace END
      FROM {_TOKENS}
     WHERE {_OF_TOKEN} AND worker = $6 AND alive_until > clock_timestamp()
    RETURNING e.id, e.run_id, e.task_index, e.map_index, e.try_number, stop_grace, is_announced, partition, queued_by,
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
    ON CONFLICT (run_id, task_index, map_index, try_number) WHERE outcome = 'started' DO NOTHING
"""


async def renew(
    conn: DatabaseConnection, tokens: Collection[AttemptToken], *, worker: str, lease: float, grace: float
) -> list[LiveAttempt]:
    """Renew a worker's lease on attempts; those that are missing in the answer have ended, or their lease has.

    Those whose task instance is at another try are to end within `grace` seconds. The first time it also reports that
    they have started. Call it in a transaction.
    """
    found = await conn.fetch(RENEW, *_columns(tokens), worker, lease, round(grace))
    new = [row for row in found if not row["is_announced"]]
    if new:
        starts = [msgspec.json.encode(_started(row)).decode() for row in new]
        await conn.execute(ANNOUNCE, [row["id"] for row in new], starts)
        await notify(conn, "reports", [row["partition"] for row in new])
    return [LiveAttempt(_token(row), row["stop_grace"]) for row in found]


def _started(row: Any) -> Report:
    begun = row["begun_at"]
    where = {"hostname": row["hostname"], "pid": row["pid"]}
    return Report(key=_token(row).key, outcome=Outcome.STARTED, at=begun, started_at=begun, **where)


# The row is replaced by the report, and the owners of partitions are told, at one commit. Rows are locked in one order.
# Index: the primary key.
FINISH: Final = f"""
    WITH wanted AS MATERIALIZED (
        SELECT e.id FROM engine_attempt AS e JOIN {_TOKENS} ON {_OF_TOKEN}
         WHERE e.worker = $6 ORDER BY e.id FOR UPDATE OF e
    ), ended AS (
        DELETE FROM engine_attempt AS e
         USING wanted, unnest($1::bigint[], $2::bigint[], $3::int[], $4::int[], $5::int[], $7::text[], $8::text[])
            AS t (id, run_id, task_index, map_index, try_number, outcome, body)
         WHERE e.id = wanted.id AND {_OF_TOKEN}
        RETURNING e.*, t.outcome, t.body
    ), stored AS (
        INSERT INTO task_report (partition, run_id, task_index, map_index, try_number, outcome, body, queued_by)
        SELECT partition, run_id, task_index, map_index, try_number, outcome, body::json, queued_by
          FROM ended ORDER BY id
    )
    SELECT array_agg(ARRAY[id, run_id, task_index, map_index, try_number]) AS tokens,
           pg_notify($9, 'reports ' || string_agg(DISTINCT partition::text, ','))
      FROM ended HAVING count(*) > 0
"""


async def finish(
    conn: DatabaseConnection, reports: Sequence[tuple[AttemptToken, Report]], *, worker: str
) -> set[AttemptToken]:
    """Store final reports of a worker and tell the owners; returns the attempts that had not ended yet."""
    bodies = [msgspec.json.encode(report).decode() for _, report in reports]
    outcomes = [report.outcome.value for _, report in reports]
    tokens = [token for token, _ in reports]
    ended = await conn.fetchval(FINISH, *_columns(tokens), worker, outcomes, bodies, NOTIFY_CHANNEL)
    return {AttemptToken(number, AttemptKey(*key)) for number, *key in ended or ()}


# Index: the primary key.
IS_CLAIMED: Final = f"""
    SELECT EXISTS (
        SELECT FROM engine_attempt AS e JOIN {_TOKENS} ON {_OF_TOKEN}
         WHERE worker = $6 AND alive_until > clock_timestamp()
    )
"""


async def is_claimed(conn: DatabaseConnection, token: AttemptToken, *, worker: str) -> bool:
    """Whether a worker runs an attempt, within its lease."""
    return bool(await conn.fetchval(IS_CLAIMED, *_columns([token]), worker))


# Index: the primary key.
ATTEMPT_BODIES: Final = f"""
    SELECT e.id, e.run_id, e.task_index, e.map_index, e.try_number, attempt
      FROM engine_attempt AS e JOIN {_TOKENS} ON {_OF_TOKEN} WHERE worker = $6
"""


async def claimed_attempts(
    conn: DatabaseConnection, tokens: Collection[AttemptToken], *, worker: str
) -> dict[AttemptToken, Attempt]:
    """Those of the attempts that the worker runs and that have not ended."""
    rows = await conn.fetch(ATTEMPT_BODIES, *_columns(tokens), worker)
    return {_token(row): decode_attempt(row["attempt"]) for row in rows}
