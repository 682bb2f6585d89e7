"""Writes a scheduler's minutes, rolls minutes of all schedulers up to hours, and removes what is old.

A roll-up replaces an hour by what its minutes say, however often it runs and whoever runs it: nothing is counted twice.
It begins with the newest hour that there is, so it also makes up for a time in which nobody rolled up.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from aiosched.core.figures.minutes import MOST_POOLS, Minute
from aiosched.db.figures.sums import number, summed
from aiosched.db.server.connection import DatabaseConnection

_ROWS_PER_DELETE: Final = 5_000

# The use of pools is as of now, so only the newest minute gets it. Guard: a minute that is there stays as it is.
WRITE: Final = f"""
    INSERT INTO figures_minute (at, incarnation, scheduler, ended, task_lag, commits, loop_lag, waiting, queued,
                                running, memory, parsing, pools)
    SELECT m.at, m.incarnation, m.scheduler, m.ended, m.task_lag, m.commits, m.loop_lag, m.waiting, m.queued, m.running,
           m.memory, m.parsing, CASE WHEN m.at = max(m.at) OVER () THEN busy.pools END
      FROM jsonb_to_recordset($1::jsonb) AS m (
               at timestamptz, incarnation bigint, scheduler text, ended bigint, task_lag int[], commits int[],
               loop_lag int[], waiting float8, queued float8, running float8, memory float8, parsing float8, pools jsonb
           )
     CROSS JOIN LATERAL (
           SELECT coalesce(jsonb_object_agg(name, jsonb_build_array(slots, used, queued, waiting)), '{{}}') AS pools
             FROM (SELECT p.name, p.slots, p.used, coalesce((m.pools -> p.name ->> 0)::int, 0) AS queued,
                          coalesce((m.pools -> p.name ->> 1)::int, 0) AS waiting
                     FROM pool AS p WHERE p.used > 0 OR m.pools ? p.name
                    ORDER BY p.used + coalesce((m.pools -> p.name ->> 1)::int, 0) DESC, p.name LIMIT {MOST_POOLS}) AS p
           ) AS busy
    ON CONFLICT (at, incarnation) DO NOTHING
"""

# At least the last three full hours: minutes may be written late. `$1`: now. Index: the primary keys, by instant.
ROLL_UP: Final = f"""
    WITH since AS (
        SELECT least(coalesce((SELECT max(at) FROM figures_hour), '-infinity'),
                     date_trunc('hour', $1::timestamptz, 'UTC') - interval '3 hours') AS first
    ), minute AS (
        SELECT date_trunc('hour', m.at, 'UTC') AS hour, m.*
          FROM since JOIN figures_minute AS m ON m.at >= since.first AND m.at <= $1 AND isfinite(m.at)
    ), covered AS (
        SELECT hour, scheduler, count(DISTINCT at) AS minutes FROM minute GROUP BY hour, scheduler
    ), pool_minute AS (
        SELECT hour, scheduler, at, key, max({number("value", 0)}) AS slots, max({number("value", 1)}) AS used,
               sum({number("value", 2)}) AS queued, sum({number("value", 3)}) AS waiting
          FROM minute
         CROSS JOIN LATERAL jsonb_each(CASE jsonb_typeof(pools) WHEN 'object' THEN pools ELSE '{{}}' END)
         GROUP BY hour, scheduler, at, key
    ), pool_hour AS (
        SELECT hour, scheduler, key, max(slots) AS slots, sum(used) / minutes AS used, sum(queued) / minutes AS queued,
               sum(waiting) / minutes AS waiting,
               row_number() OVER (PARTITION BY hour, scheduler ORDER BY sum(used) + sum(waiting) DESC, key) AS place
          FROM pool_minute JOIN covered USING (hour, scheduler) GROUP BY hour, scheduler, key, minutes
    ), pools_of AS (
        SELECT hour, scheduler, jsonb_object_agg(key, jsonb_build_array(slots, used, queued, waiting)) AS pools
          FROM pool_hour WHERE place <= {MOST_POOLS} GROUP BY hour, scheduler
    )
    INSERT INTO figures_hour AS h (at, scheduler, minutes, ended, task_lag, commits, loop_lag, waiting, queued, running,
                                   memory, parsing, pools)
    SELECT hour, scheduler, c.minutes, sum(ended), {summed("task_lag")}, {summed("commits")}, {summed("loop_lag")},
           sum(waiting) / c.minutes, sum(queued) / c.minutes, sum(running) / c.minutes, sum(memory) / c.minutes,
           sum(parsing), CASE WHEN bool_or(m.pools IS NOT NULL) THEN coalesce(p.pools, '{{}}') END
      FROM minute AS m JOIN covered AS c USING (hour, scheduler) LEFT JOIN pools_of AS p USING (hour, scheduler)
     GROUP BY hour, scheduler, c.minutes, p.pools ORDER BY hour, scheduler
    ON CONFLICT (at, scheduler) DO UPDATE
       SET minutes = excluded.minutes, ended = excluded.ended, task_lag = excluded.task_lag, commits = excluded.commits,
           loop_lag = excluded.loop_lag, waiting = excluded.waiting, queued = excluded.queued,
           running = excluded.running, memory = excluded.memory, parsing = excluded.parsing, pools = excluded.pools
"""

# Whole hours that are rolled up, so that no hour is ever rolled up again from a part of its minutes.
REMOVE_MINUTES: Final = """
    DELETE FROM figures_minute WHERE (at, incarnation) IN (
        SELECT at, incarnation FROM figures_minute
         WHERE at < least(date_trunc('hour', $1::timestamptz, 'UTC'),
                          coalesce((SELECT max(at) FROM figures_hour) - interval '6 hours', '-infinity'))
         ORDER BY at LIMIT $2)
"""
REMOVE_HOURS: Final = """
    DELETE FROM figures_hour WHERE (at, scheduler) IN (
        SELECT at, scheduler FROM figures_hour WHERE at < $1 ORDER BY at LIMIT $2)
"""


async def write_minutes(conn: DatabaseConnection, minutes: Iterable[Minute]) -> None:
    """Store minutes of one scheduler; those that are stored already stay as they are."""
    await conn.execute(WRITE, msgspec.json.encode(list(minutes)).decode())


async def roll_up(conn: DatabaseConnection, now: datetime) -> None:
    """Make rows of hours of the minutes until `now`, the present hour included. It may run again at any time."""
    await conn.execute(ROLL_UP, now)


async def remove_old(conn: DatabaseConnection, now: datetime, *, minutes: timedelta, hours: timedelta) -> None:
    """Remove rows of minutes and of hours that are older than that, a bounded number of each."""
    await conn.execute(REMOVE_MINUTES, now - minutes, _ROWS_PER_DELETE)
    await conn.execute(REMOVE_HOURS, now - hours, _ROWS_PER_DELETE)
