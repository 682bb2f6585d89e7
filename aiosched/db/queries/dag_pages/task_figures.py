"""What the tasks of some runs of a DAG took: durations, states and retries, by run. No decisions here.

Each statement reads the task instances of the given runs, by the primary key. Instances of a mapped task count as one:
from the first start to the last end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aiosched.db.server.engine import Database

# Periods with an infinite end, as a hand may store them, count as not measured.
_MEASURED: Final = "isfinite(start_date) AND isfinite(end_date) AND end_date >= start_date"
_SECONDS: Final = f"""
    extract(epoch FROM max(end_date) FILTER (WHERE {_MEASURED}) - min(start_date) FILTER (WHERE {_MEASURED}))::float8
"""


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """The figures of a task over some runs: how many of them have measured it, and its usual durations in seconds."""

    task_id: str
    runs: int
    failed: int
    retries: int
    p50: float | None
    p95: float | None


# The names of tasks come with the statement: a task keeps its name when its place in the DAG changes.
TASK_FIGURES: Final = f"""
    SELECT n.name, count(*)::int, count(*) FILTER (WHERE t.failed)::int, coalesce(sum(t.retries), 0)::int,
           percentile_disc(0.5) WITHIN GROUP (ORDER BY t.seconds) FILTER (WHERE t.succeeded),
           percentile_disc(0.95) WITHIN GROUP (ORDER BY t.seconds) FILTER (WHERE t.succeeded)
      FROM (SELECT run_id, task_index, sum(greatest(try_number - 1, 0)) AS retries,
                   coalesce(bool_or(state IN ('failed', 'upstream_failed')), false) AS failed,
                   coalesce(bool_and(state = 'success'), false) AS succeeded, {_SECONDS} AS seconds
              FROM task_instance WHERE run_id = ANY ($1::bigint[]) GROUP BY run_id, task_index) AS t
      JOIN unnest($1::bigint[], $2::bigint[]) AS r (run_id, version_id) USING (run_id)
      JOIN unnest($3::bigint[], $4::int[], $5::text[]) AS n (version_id, task_index, name)
           USING (version_id, task_index)
     GROUP BY n.name
"""


async def read_task_figures(
    db: Database, runs: Sequence[tuple[int, int]], names: Sequence[tuple[int, int, str]]
) -> list[TaskFigures]:
    """The figures of each task over `runs` (key, version key); `names` are (version key, task index, task id)."""
    keys, versions = [run for run, _ in runs], [version for _, version in runs]
    columns = [[name[i] for name in names] for i in range(3)]
    return [TaskFigures(*row) for row in await db.fetch(TASK_FIGURES, keys, versions, *columns)]


# Index: the primary key, once for each run.
RETRIES: Final = """
    SELECT run_id, sum(greatest(try_number - 1, 0))::int FROM task_instance
     WHERE run_id = ANY ($1::bigint[]) AND try_number > 1 GROUP BY run_id
"""


async def read_retries(db: Database, runs: Sequence[int]) -> dict[int, int]:
    """How many tries of the tasks of these runs were retries, by run; runs without any are absent."""
    return {row[0]: row[1] for row in await db.fetch(RETRIES, list(runs))}


@dataclass(frozen=True, slots=True)
class TaskInRun:
    """A task in a run: how many of its instances are in a state (None: no state yet), and what they took together."""

    run: int
    task_index: int
    seconds: float | None
    retries: int
    states: dict[str, int]


# Index: the primary key, once for each run; with a task index, once for each of them.
TASKS_IN_RUNS: Final = f"""
    SELECT run_id, task_index, {_SECONDS} AS seconds, sum(greatest(try_number - 1, 0))::int AS retries,
           array_agg(coalesce(state, 'none')) AS states
      FROM task_instance JOIN unnest($1::bigint[], $2::int[]) AS w (wanted_run, wanted_task)
           ON run_id = wanted_run AND (wanted_task IS NULL OR task_index = wanted_task)
     GROUP BY run_id, task_index ORDER BY run_id, task_index
"""


async def read_tasks_in_runs(db: Database, wanted: Sequence[tuple[int, int | None]]) -> list[TaskInRun]:
    """The tasks of runs: of each `wanted` (run key, task index), or all tasks of the run if the index is None."""
    keys, tasks = [run for run, _ in wanted], [task for _, task in wanted]
    rows = await db.fetch(TASKS_IN_RUNS, keys, tasks)
    return [
        TaskInRun(row[0], row[1], row[2], row[3], {state: row[4].count(state) for state in dict.fromkeys(row[4])})
        for row in rows
    ]
