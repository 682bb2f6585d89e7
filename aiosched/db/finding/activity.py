"""What the first page shows of a day: runs an hour, failed task instances, and what runs for long. Read only, bounded.

`seen`: of these DAGs only (None: of all).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiosched.core.why.error_groups import FailedInstance
from aiosched.db.access.visibility import ScopedStatement, Seen
from aiosched.db.server.engine import Database
from aiosched.db.statements.waiting_runs import ONLY_WAITS

MOST_ENDED: Final = 20_000  # ended runs that are counted, newest first
_UNFINISHED: Final = 5_000
_FAILED_RUNS: Final = 200
_TASKS_OF_RUN: Final = 1_000  # of a failed run, in the order of the DAG
_LONGEST: Final = 100  # running runs, oldest first
_BEFORE: Final = 20  # successes that say how long a run usually takes


@dataclass(frozen=True, slots=True)
class HourCount:
    """The runs of an hour in a state. Runs that have not ended count in the hour of their start."""

    at: datetime
    state: str
    number: int


@dataclass(frozen=True, slots=True)
class LongRun:
    """A running run, and the median duration of successful ones. `only_waits`: nothing of it is at work now."""

    dag_id: str
    run_id: str
    start_date: datetime
    usual_seconds: float
    only_waits: bool = False


# Indexes: ix_dag_run_end_date_id, ix_dag_run_unfinished.
HOURS: Final = ScopedStatement.of("""
    SELECT date_trunc('hour', at, 'UTC') AS at, state, count(*)::int AS number
      FROM ((SELECT end_date AS at, state FROM dag_run
              WHERE end_date >= $1 AND end_date < $2 AND state IN ('success', 'failed') [seen]
              ORDER BY end_date DESC, id DESC LIMIT $3)
            UNION ALL
            (SELECT least(greatest(coalesce(start_date, run_after), $1), $2), state FROM dag_run
              WHERE state IN ('queued', 'running') [seen] LIMIT $4)) AS each
     GROUP BY 1, 2 ORDER BY 1, 2
""")
# Indexes: ix_dag_run_failed; the primary keys of task_instance and version_task.
FAILURES: Final = ScopedStatement.of("""
    SELECT r.dag_id, r.run_id, coalesce(t.task_id, 'task ' || ti.task_index) AS task_id, ti.map_index, ti.reason
      FROM (SELECT id, dag_id, run_id, version_id, end_date FROM dag_run
             WHERE state = 'failed' AND end_date >= $1 [seen] ORDER BY end_date DESC, id DESC LIMIT $2) AS r
     CROSS JOIN LATERAL (SELECT task_index, map_index, state, reason FROM task_instance WHERE run_id = r.id
                          ORDER BY task_index, map_index LIMIT $3) AS ti
      LEFT JOIN version_task AS t ON t.version_id = r.version_id AND t.task_index = ti.task_index
     WHERE ti.state = 'failed' ORDER BY r.end_date DESC, r.id DESC, ti.task_index, ti.map_index
""")
# Indexes: ix_dag_run_unfinished; ix_dag_run_dag_id_id, once for each run.
LONG: Final = ScopedStatement.of(f"""
    SELECT r.dag_id, r.run_id, r.start_date, s.usual_seconds, coalesce(({ONLY_WAITS}), false) AS only_waits
      FROM (SELECT id, dag_id, run_id, start_date FROM dag_run
             WHERE state = 'running' AND state IN ('queued', 'running') AND isfinite(start_date) [seen]
             ORDER BY start_date LIMIT $1) AS r
     CROSS JOIN LATERAL (
           SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM end_date - start_date)::float8)
                  AS usual_seconds, count(*) AS number
             FROM (SELECT start_date, end_date, state FROM dag_run WHERE dag_run.dag_id = r.dag_id
                    ORDER BY id DESC LIMIT $2) AS newest
            WHERE state = 'success' AND isfinite(end_date) AND isfinite(start_date)) AS s
     WHERE s.number >= 3 ORDER BY r.start_date
""")


async def count_hours(db: Database, since: datetime, until: datetime, *, seen: Seen = None) -> list[HourCount]:
    """The runs that have ended in [since, until) by hour and state, and those that have not ended."""
    rows = await HOURS.fetch(db, since, until, MOST_ENDED, _UNFINISHED, seen=seen)
    return [HourCount(**dict(row)) for row in rows]


async def failures_since(db: Database, since: datetime, *, seen: Seen = None) -> list[FailedInstance]:
    """The failed task instances of the newest failed runs, newest first."""
    rows = await FAILURES.fetch(db, since, _FAILED_RUNS, _TASKS_OF_RUN, seen=seen)
    return [FailedInstance(**dict(row)) for row in rows]


async def running_long(db: Database, *, seen: Seen = None) -> list[LongRun]:
    """The oldest running runs of DAGs of which at least three of the newest runs have succeeded."""
    return [LongRun(**dict(row)) for row in await LONG.fetch(db, _LONGEST, _BEFORE, seen=seen)]
