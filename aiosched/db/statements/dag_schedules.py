"""Statements on schedules that are data. What they mean: core/creation/durable_schedules.py."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid5

import msgspec

from aiosched.core.creation.durable_schedules import Terms
from aiosched.core.values.ids import partition_of
from aiosched.core.values.json_bounds import shown_object
from aiosched.db.server.connection import DatabaseConnection, Queryable

_OF_RUNS: Final = UUID("9d2f6c1e-6f2b-4f0c-8a53-1b8f0d1c7a44")


class StoredSchedule(NamedTuple):
    """A schedule as it is stored; `last_at` is the last instant for which a run was asked for, `conf` JSON."""

    dag_id: str
    name: str
    terms: Terms
    conf: str
    is_paused: bool
    last_at: datetime | None
    next_at: datetime | None
    error: str | None
    id: int = 0  # 0: not stored yet


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule of a DAG: one of `cron` (in `timezone`), `every` (seconds) and `at`; instants are UTC.

    `last_at` is the instant of its last run, `last_state` the state of that, or refused or waiting for the request
    for it; `error` why it was refused, or why the schedule has stopped. Secrets of its `conf` are `***`.
    """

    dag_id: str
    name: str
    summary: str
    cron: str | None
    every: float | None
    at: datetime | None
    timezone: str
    start: datetime | None
    end: datetime | None
    catchup: bool
    conf: Mapping[str, Any]
    is_paused: bool
    last_at: datetime | None
    next_at: datetime | None
    last_state: str | None
    error: str | None


def shown_schedule(stored: StoredSchedule, conf: Any, last_state: str | None, refused: str | None) -> Schedule:
    """A stored schedule for people, with what became of its last run."""
    terms = stored.terms
    return Schedule(
        stored.dag_id,
        stored.name,
        terms.summary,
        terms.cron,
        terms.every,
        terms.at,
        terms.timezone,
        terms.start,
        terms.end,
        terms.catchup,
        shown_object(conf) if isinstance(conf, str) else conf,
        stored.is_paused,
        stored.last_at,
        stored.next_at,
        last_state,
        stored.error or refused,
    )


class Firing(NamedTuple):
    """What a schedule does now: the instants whose runs it asks for, and when it is next."""

    schedule: StoredSchedule
    instants: Sequence[datetime]
    next_at: datetime | None
    error: str | None = None


def request_of_run(schedule: int, instant: datetime) -> UUID:
    """The id of the request for the run of an instant: a schedule, by its id, makes one, whoever asks."""
    return uuid5(_OF_RUNS, f"{schedule} {instant.timestamp()}")


def run_id_of(name: str, instant: datetime) -> str:
    """The id of the run of an instant."""
    return f"{name}__{instant.isoformat()}"


_COLUMNS: Final = """
    s.dag_id, s.name, s.cron, s.every, s.at, s.timezone, s.starts_at, s.ends_at, s.catchup, s.since, s.conf,
    s.is_paused, s.last_at, s.next_at, s.error, s.id
"""


def _schedule(row: Any) -> StoredSchedule:
    dag_id, name, *terms = row[:10]
    return StoredSchedule(dag_id, name, Terms(*terms), *row[10:])


# Index: ix_dag_schedule_next. Those of paused and stale DAGs wait, as their own schedules do.
_FROM_ACTIVE: Final = """
      FROM dag_schedule AS s JOIN dag AS d ON d.dag_id = s.dag_id
     WHERE s.partition = ANY($1::smallint[]) AND s.next_at IS NOT NULL AND NOT s.is_paused AND NOT d.is_paused
       AND NOT d.is_stale"""
DUE_SCHEDULES: Final = f"""
    SELECT {_COLUMNS}
      FROM (SELECT s.*, octet_length(s.conf::text) AS own, sum(octet_length(s.conf::text)) OVER most AS all_up_to_it
            {_FROM_ACTIVE} AND s.next_at <= $2
            WINDOW most AS (ORDER BY s.next_at, s.id ROWS UNBOUNDED PRECEDING)
            ORDER BY s.next_at, s.id LIMIT $3) AS s
     WHERE s.all_up_to_it - s.own < $4
     ORDER BY s.next_at, s.id"""
NEXT_SCHEDULE: Final = f"SELECT min(s.next_at){_FROM_ACTIVE} AND ($2::timestamptz IS NULL OR s.next_at > $2)"


async def due_schedules(
    conn: DatabaseConnection, partitions: Collection[int], now: datetime, *, limit: int, most_bytes: int
) -> list[StoredSchedule]:
    """The schedules of these partitions that are due, the longest due first; of more than so many bytes of conf one."""
    return [_schedule(row) for row in await conn.fetch(DUE_SCHEDULES, list(partitions), now, limit, most_bytes)]


async def next_schedule(
    conn: DatabaseConnection, partitions: Collection[int], *, after: datetime | None = None
) -> datetime | None:
    """When the next one of these partitions is due; `after`: leave out those that are due by then."""
    at: datetime | None = await conn.fetchval(NEXT_SCHEDULE, list(partitions), after)
    return at


# Guard: it is due at the instant that was read, so one scheduler moves it on, and asks for the runs. The id of the
# request is that of the instant: should it be due once more, because a change wrote what it had read, there is one run.
FIRE_SCHEDULES: Final = """
    WITH fired AS (
        UPDATE dag_schedule AS s SET next_at = n.next_at, last_at = coalesce(n.last_at, s.last_at), error = n.error
          FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::text[])
            AS n (dag_id, name, due, next_at, last_at, error)
         WHERE s.dag_id = n.dag_id AND s.name = n.name AND s.next_at = n.due AND NOT s.is_paused
        RETURNING s.dag_id, s.name
    )
    INSERT INTO request (partition, dag_id, verb, args, requested_by, reason, idempotency_key)
    SELECT r.partition, r.dag_id, 'trigger', r.args::json, 'schedule', r.name, r.idempotency_key
      FROM unnest($7::smallint[], $8::text[], $9::text[], $10::text[], $11::uuid[]) WITH ORDINALITY
        AS r (partition, dag_id, name, args, idempotency_key, number)
      JOIN fired AS f ON f.dag_id = r.dag_id AND f.name = r.name
     ORDER BY r.number
    ON CONFLICT (idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
"""


async def fire_schedules(conn: DatabaseConnection, firings: Sequence[Firing]) -> None:
    """Move schedules on, and ask for their runs in the same transaction; those that moved meanwhile stay."""
    moved = [
        (
            one.schedule.dag_id, one.schedule.name, one.schedule.next_at, one.next_at,
            one.instants[-1] if one.instants else None, one.error,
        )
        for one in firings
    ]  # fmt: skip
    runs = [
        (
            partition_of(schedule.dag_id), schedule.dag_id, schedule.name, _args(schedule, instant),
            request_of_run(schedule.id, instant),
        )
        for schedule, instants, *_ in firings
        for instant in instants
    ]  # fmt: skip
    columns = [list(column) for column in zip(*moved, strict=True)]
    columns += [list(column) for column in zip(*runs, strict=True)] if runs else [[]] * 5
    await conn.execute(FIRE_SCHEDULES, *columns)


def _args(schedule: StoredSchedule, instant: datetime) -> str:
    args: dict[str, Any] = {
        "run_id": run_id_of(schedule.name, instant),
        "run_after": instant.isoformat(),
        "triggered_by": "schedule",
    }
    if schedule.conf != "{}":
        args["conf"] = msgspec.Raw(schedule.conf.encode())
    return msgspec.json.encode(args).decode()


FIND_SCHEDULE: Final = f"SELECT {_COLUMNS} FROM dag_schedule AS s WHERE s.dag_id = $1 AND s.name = $2"


async def find_schedule(conn: DatabaseConnection, dag_id: str, name: str) -> StoredSchedule | None:
    """One schedule of a DAG."""
    row = await conn.fetchrow(FIND_SCHEDULE, dag_id, name)
    return None if row is None else _schedule(row)


STORE_SCHEDULE: Final = """
    INSERT INTO dag_schedule (dag_id, name, cron, every, at, timezone, starts_at, ends_at, catchup, since, conf,
                              is_paused, last_at, next_at, partition)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::json, $12, $13, $14, $15)
    ON CONFLICT (dag_id, name) DO UPDATE
       SET cron = excluded.cron, every = excluded.every, at = excluded.at, timezone = excluded.timezone,
           starts_at = excluded.starts_at, ends_at = excluded.ends_at, catchup = excluded.catchup,
           since = excluded.since, conf = excluded.conf, is_paused = excluded.is_paused, last_at = excluded.last_at,
           next_at = excluded.next_at, error = NULL
"""


async def store_schedule(conn: DatabaseConnection, schedule: StoredSchedule) -> None:
    """Insert or replace a schedule."""
    await conn.execute(
        STORE_SCHEDULE, schedule.dag_id, schedule.name, *schedule.terms, schedule.conf, schedule.is_paused,
        schedule.last_at, schedule.next_at, partition_of(schedule.dag_id),
    )  # fmt: skip


REMOVE_SCHEDULE: Final = "DELETE FROM dag_schedule WHERE dag_id = $1 AND name = $2 RETURNING id"


async def remove_schedule(conn: DatabaseConnection, dag_id: str, name: str) -> bool:
    """Delete a schedule; whether there was one."""
    return await conn.fetchval(REMOVE_SCHEDULE, dag_id, name) is not None


# Of the last runs. Indexes: ix_request_idempotency_key, uq_dag_run_dag_id_run_id.
OUTCOMES: Final = """
    SELECT n.idempotency_key, r.state, c.state, c.result ->> 'error'
      FROM unnest($1::uuid[], $2::text[], $3::text[]) AS n (idempotency_key, dag_id, run_id)
      LEFT JOIN request AS c ON c.idempotency_key = n.idempotency_key
      LEFT JOIN dag_run AS r ON r.dag_id = n.dag_id AND r.run_id = n.run_id
"""


async def outcomes(
    conn: Queryable, schedules: Sequence[StoredSchedule]
) -> Mapping[tuple[str, str], tuple[str | None, str | None]]:
    """By DAG and name the state of the last run, and why it was refused; those that have had none are absent."""
    asked = {
        request_of_run(one.id, one.last_at): (one.dag_id, one.name, run_id_of(one.name, one.last_at))
        for one in schedules
        if one.last_at is not None
    }
    places = [(key, dag_id, run_id) for key, (dag_id, _, run_id) in asked.items()]
    if not places:
        return {}
    found = await conn.fetch(OUTCOMES, *([list(column) for column in zip(*places, strict=True)]))
    return {asked[key][:2]: (state or asked_state, error) for key, state, asked_state, error in found}


class SchedulesOfDag(NamedTuple):
    """The schedules of a DAG together: how many, how many paused, how many with an error, and the next that is due."""

    number: int
    paused: int
    failing: int
    next_name: str | None
    next_at: datetime | None


# Index: uq_dag_schedule_dag_id_name.
SUM_OF_SCHEDULES: Final = """
    SELECT count(*), count(*) FILTER (WHERE is_paused), count(*) FILTER (WHERE error IS NOT NULL),
           (array_agg(name ORDER BY next_at, name) FILTER (WHERE next_at IS NOT NULL AND NOT is_paused))[1],
           min(next_at) FILTER (WHERE NOT is_paused)
      FROM dag_schedule WHERE dag_id = $1
"""


async def sum_of_schedules(conn: DatabaseConnection, dag_id: str) -> SchedulesOfDag:
    """The schedules of a DAG together."""
    return SchedulesOfDag(*(await conn.fetchrow(SUM_OF_SCHEDULES, dag_id)))
