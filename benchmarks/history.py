"""What a big history costs: the same shapes on an empty database and on one with many finished task instances, in turn.

The history belongs to the very DAGs that then run, so that whatever looks back in a DAG's runs sees it, and to others.

Both databases begin alike: after a checkpoint each shape runs once unmeasured. The first change of a page after a
checkpoint writes the whole page into the write-ahead log. The pages of an empty database are all new, and pay nothing;
those of a history would, and the ratios would be of these images. The ratio of WAL shows whether any are left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Final

import asyncpg

from aiosched.clock import SystemClock
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.timetables.parse import parse_schedule
from aiosched.parsing.store import register_specs
from benchmarks import measure
from benchmarks.figures import Figure, Finding
from benchmarks.report import Result
from benchmarks.run import Seed, run
from benchmarks.shapes import SHAPES, Shape

INSTANCES_OF_A_RUN: Final = 10
_OTHERS: Final = 100  # DAGs that only have a history
LONG_AGO: Final = datetime(2020, 1, 1, tzinfo=UTC)

_RUNS: Final = """
    INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, logical_date,
                         data_interval_start, data_interval_end, run_after, queued_at, start_date, end_date, created_by)
    SELECT d.dag_id, 'manual__old_' || n, d.partition, d.version_id, 'manual', 'api', 'success', at, at, at, at, at, at,
           at + interval '1 minute', 1
      FROM unnest($1::text[]) WITH ORDINALITY AS wanted (dag_id, place)
      JOIN dag AS d USING (dag_id)
     CROSS JOIN LATERAL generate_series(place, $2::bigint, cardinality($1)) AS n
     CROSS JOIN LATERAL (SELECT $3::timestamptz + n * interval '1 minute' AS at) AS t
"""
_INSTANCES: Final = """
    INSERT INTO task_instance (run_id, task_index, map_index, try_number, state, queued_by, scheduled_at, queued_at,
                               start_date, end_date)
    SELECT r.id, i, -1, 1, 'success', 1, r.run_after, r.run_after, r.run_after, r.run_after + interval '1 second'
      FROM dag_run AS r CROSS JOIN generate_series(0, $1::int - 1) AS i
"""
_FILLFACTOR: Final = """
    SELECT option_value::int FROM pg_class, pg_options_to_table(reloptions)
     WHERE oid = 'task_instance'::regclass AND option_name = 'fillfactor'
"""


def history_of(instances: int) -> Seed:
    """What fills a database with so many finished task instances of a shape's DAGs and others, in runs of ten."""

    async def seed(conn: asyncpg.Connection, shape: Shape) -> None:
        now, never = SystemClock().now(), parse_schedule(None)
        dag_ids = [*shape.dag_ids(), *(f"other.{number:03d}" for number in range(_OTHERS))]
        tasks = (TaskSpec(task_id="old", operator="Old"),)
        specs = [DagSpec(dag_id=dag_id, timetable=never, start_date=LONG_AGO, tasks=tasks) for dag_id in dag_ids]
        async with conn.transaction():
            await register_specs(conn, specs, now=now, paused_at_creation=False)
        await fill(conn, dag_ids, instances)

    return seed


async def fill(conn: asyncpg.Connection, dag_ids: Sequence[str], instances: int) -> None:
    """So many finished task instances of these DAGs, which are registered, in runs of ten; vacuumed.

    Their pages are as full as a scheduler leaves them, which inserts rows that then grow in place: without that each
    page would have room for one new row, and new ones would be strewn over as many old pages.
    """
    async with conn.transaction():
        fillfactor = await conn.fetchval(_FILLFACTOR)
        await conn.execute(_RUNS, dag_ids, instances // INSTANCES_OF_A_RUN, LONG_AGO)
        await conn.execute("ALTER TABLE task_instance SET (fillfactor = 45)")  # 33 finished rows in each page
        await conn.execute(_INSTANCES, INSTANCES_OF_A_RUN)
        await conn.execute(f"ALTER TABLE task_instance SET (fillfactor = {fillfactor})")
    await conn.execute("VACUUM (ANALYZE) dag_run, task_instance")
    await conn.execute("CHECKPOINT")


async def history(
    size: int,
    *,
    rounds: int = 3,
    shapes: tuple[Shape, ...] = (SHAPES["chain-200"], SHAPES["parallel-500x10"]),
    lead: float | None = None,
) -> Finding:
    """Each shape `rounds` times on an empty database and on one with `size` instances, in turn; compares medians."""
    figures: list[Figure] = []
    problems: list[str] = []
    for shape in shapes:
        empty: list[Result] = []
        full: list[Result] = []
        for _ in range(rounds):
            for results, seed in ((empty, None), (full, history_of(size))):
                result = await run(shape, executor="inline", kind="async", lead=lead, seed=seed, rehearsed=True)
                results.append(result)
        problems += [problem for result in (*empty, *full) for problem in result.problems]
        problems += [
            f"{shape.name}: {count} sequential scans of {table}, which is large"
            for table, count in full[-1].scans.items()
            if count and table in ("dag_run", "task_instance")
        ]
        figures += _compared(shape, empty, full)
    about = f"{size:,} task instances in {size // INSTANCES_OF_A_RUN:,} runs, medians of {rounds} rounds each"
    return Finding("history-1m", about, measure.machine(), figures, tuple(problems))


def _compared(shape: Shape, empty: list[Result], full: list[Result]) -> list[Figure]:
    def ratio(of: Callable[[Result], float]) -> float:
        return median(map(of, full)) / median(map(of, empty))

    return [
        Figure(f"{shape.name}: lag p50, full to empty", ratio(lambda r: r.lag_p50_in_commits), "", most=1.1),
        Figure(f"{shape.name}: throughput, full to empty", ratio(lambda r: r.tasks_per_second), "", least=0.9),
        Figure(
            f"{shape.name}: scheduler's processor time", ratio(lambda r: r.usage.scheduler.cpu_seconds), "", most=1.1
        ),
        Figure(f"{shape.name}: statements", ratio(lambda r: r.statements_per_task), ""),
        Figure(f"{shape.name}: WAL", ratio(lambda r: r.wal_bytes_per_task), ""),
    ]
