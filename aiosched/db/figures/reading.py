"""Reads figures over time, of the whole fleet, of one scheduler or of a pool. Read only, and bounded by their range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aiosched.core.figures.histograms import quantile
from aiosched.core.figures.ranges import Range
from aiosched.db.figures.sums import number, summed
from aiosched.db.server.engine import Database


@dataclass(frozen=True, slots=True)
class FleetPoint:
    """A step of a range: what was done in it, and means of what there was. Durations are in seconds."""

    at: datetime
    schedulers: int
    ended_per_second: float | None
    lag_p50: float | None  # None: no task was started
    lag_p99: float | None
    waiting: float | None
    queued: float | None
    running: float | None
    commits_per_second: float | None
    commit_p50: float | None
    commit_p99: float | None
    loop_lag_p99: float | None
    memory: float | None  # bytes, of all schedulers
    parsing: float | None  # seconds a minute


@dataclass(frozen=True, slots=True)
class PoolPoint:
    """A step of a range: means of what a pool had. `slots` is None if nothing used it or waited, -1 for no limit."""

    at: datetime
    slots: float | None
    used: float | None
    queued: float | None
    waiting: float | None

    @property
    def open(self) -> float | None:
        """Free slots; None for no limit, or if it is not known."""
        return None if self.slots is None or self.slots < 0 or self.used is None else max(self.slots - self.used, 0.0)


# The rows of a range with the beginning of their step, and how many minutes each step covers: schedulers run at once.
# `$1` since, `$2` until, `$3` seconds of a step. Index: the primary keys, by instant.
_ROWS: Final = """
    found AS (
        SELECT date_bin(make_interval(secs => $3), f.at, $1) AS step, f.* FROM {table} AS f
         WHERE f.at >= $1 AND f.at < $2 {condition}
    ), covered AS (
        SELECT step, nullif(sum(minutes), 0)::float8 AS covered
          FROM (SELECT step, at, max(minutes) AS minutes FROM found GROUP BY step, at) AS each GROUP BY step
    )
"""
_FLEET: Final = f"""
    WITH {_ROWS}
    SELECT step AS at, covered, count(DISTINCT scheduler)::int AS schedulers, sum(ended)::float8 AS ended,
           {summed("task_lag")} AS task_lag, {summed("commits")} AS commits, {summed("loop_lag")} AS loop_lag,
           sum(waiting * minutes) / covered AS waiting, sum(queued * minutes) / covered AS queued,
           sum(running * minutes) / covered AS running, sum(memory * minutes) / covered AS memory,
           sum(parsing) / covered AS parsing
      FROM found JOIN covered USING (step) GROUP BY step, covered ORDER BY step
"""
# All schedulers see the same slots and used slots.
_POOL: Final = f"""
    WITH {_ROWS}, each AS (
        SELECT step, at, max(minutes) AS minutes, bool_or(pools IS NOT NULL) AS known,
               max({number("pool", 0)}) AS slots, max({number("pool", 1)}) AS used,
               sum({number("pool", 2)} * minutes) AS queued, sum({number("pool", 3)} * minutes) AS waiting
          FROM (SELECT found.*, pools -> $4 AS pool FROM found) AS of_pool GROUP BY step, at
    )
    SELECT step AS at, max(slots) AS slots, sum(coalesce(used, 0) * minutes) / covered AS used,
           coalesce(sum(queued), 0) / covered AS queued, coalesce(sum(waiting), 0) / covered AS waiting
      FROM each JOIN covered USING (step) WHERE known GROUP BY step, covered ORDER BY step
"""
_TABLES: Final = {False: "figures_minute", True: "figures_hour"}
_ONE_OR_ALL: Final = "AND ($4::text IS NULL OR f.scheduler = $4)"
FLEET: Final = {hours: _FLEET.format(table=table, condition=_ONE_OR_ALL) for hours, table in _TABLES.items()}
POOL: Final = {hours: _POOL.format(table=table, condition="") for hours, table in _TABLES.items()}


async def fleet_points(db: Database, span: Range, *, scheduler: str | None = None) -> list[FleetPoint]:
    """The steps of which there are figures, in order, of all schedulers or of those with this name."""
    rows = await db.fetch(FLEET[span.of_hours], *_arguments(span), scheduler)
    return [_fleet_point(row) for row in rows]


async def pool_points(db: Database, span: Range, pool: str) -> list[PoolPoint]:
    """The steps of which there are figures, in order."""
    rows = await db.fetch(POOL[span.of_hours], *_arguments(span), pool)
    values = ("slots", "used", "queued", "waiting")
    return [PoolPoint(row["at"], **{name: _finite(row[name]) for name in values}) for row in rows]


def _arguments(span: Range) -> tuple[datetime, datetime, float]:
    return span.since, span.until, span.step.total_seconds()


def _fleet_point(row: Any) -> FleetPoint:
    lag, commits, loop_lag = row["task_lag"], row["commits"], row["loop_lag"]
    return FleetPoint(
        at=row["at"],
        schedulers=row["schedulers"],
        ended_per_second=_per_second(row["ended"], row["covered"]),
        lag_p50=quantile(lag, 0.5),
        lag_p99=quantile(lag, 0.99),
        commits_per_second=_per_second(sum(commits), row["covered"]),
        commit_p50=quantile(commits, 0.5),
        commit_p99=quantile(commits, 0.99),
        loop_lag_p99=quantile(loop_lag, 0.99),
        **{name: _finite(row[name]) for name in ("waiting", "queued", "running", "memory", "parsing")},
    )


def _per_second(count: float, minutes: float | None) -> float | None:
    return None if not minutes else _finite(count / minutes / 60)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
