"""The positions of schedules: few dates are read, and the next runs are the same as with all of them."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from aiosched.core.creation.next_run import coming_runs, next_scheduled_run
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.timetables.parse import parse_schedule
from aiosched.db.server.engine import Database
from aiosched.db.statements import schedules
from aiosched.db.statements.schedules import BY_TIMETABLE, schedule_positions
from aiosched.parsing.store import register_specs

NOW = datetime(2026, 1, 20, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)

ADD_RUNS = """
    INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, logical_date,
                         data_interval_start, data_interval_end, run_after, queued_at, created_by)
    SELECT d.dag_id, 'run_' || extract(epoch FROM date), d.partition, d.version_id, 'manual', $3, 'success', date, date,
           date + $4, date + $4, date, 1
      FROM dag AS d, unnest($2::timestamptz[]) AS date WHERE d.dag_id = $1
"""


def spec(name: str, schedule: str, *, catchup: bool, start: datetime = NOW - 20 * 24 * HOUR) -> DagSpec:
    tasks = (TaskSpec(task_id="a", operator="Empty"),)
    return DagSpec(dag_id=name, timetable=parse_schedule(schedule), start_date=start, catchup=catchup, tasks=tasks)


async def add(db: Database, specs: list[DagSpec]) -> None:
    async with db.transaction() as conn:
        await register_specs(conn, specs, now=NOW)


async def add_runs(db: Database, dag_id: str, dates: list[datetime], by: str, length: timedelta = HOUR) -> None:
    await db.execute(ADD_RUNS, dag_id, dates, by, length)


async def test_next_runs_are_those_that_all_dates_give(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs by hand, by a backfill and by the schedule, at and between its dates, before and after now."""
    monkeypatch.setattr(schedules, "MOST_TAKEN", 3)
    rng = random.Random(1)
    names = [f"{schedule}/{n}" for schedule in ("@hourly", "@daily", "@continuous", "@once") for n in range(12)]
    specs = [spec(name, name.split("/")[0], catchup=int(name.split("/")[1]) % 2 == 0) for name in names]
    await add(db, specs)
    for each in specs:
        hours = rng.sample(range(-480, 48), rng.randrange(40))
        dates = [NOW.replace(minute=0) + hour * HOUR + rng.choice((0, 0, 1)) * timedelta(minutes=1) for hour in hours]
        made = rng.randrange(len(dates) + 1) if rng.random() < 0.7 else 0
        await add_runs(db, each.dag_id, dates[:made], BY_TIMETABLE)
        await add_runs(db, each.dag_id, dates[made:], "api")

    async with db.acquire() as conn:
        some, all_of_them = await schedule_positions(conn, specs, NOW), await schedule_positions(conn, specs, None)

    left_out = 0
    for each in specs:
        position, whole = some[each.dag_id], all_of_them[each.dag_id]
        left_out += len(whole.taken) - len(position.taken)
        assert position.taken <= whole.taken
        assert next_scheduled_run(each, position, NOW) == next_scheduled_run(each, whole, NOW)
        assert next_scheduled_run(each, position, NOW + HOUR) == next_scheduled_run(each, whole, NOW + HOUR)
        assert coming_runs(each, position, now=NOW, n=5) == coming_runs(each, whole, now=NOW, n=5)
    assert left_out > 100


@pytest.mark.parametrize("catchup", [True, False])
async def test_many_runs_by_hand_before_the_next_date_are_not_read(db: Database, catchup: bool) -> None:
    each = spec("d", "@daily", catchup=catchup, start=NOW - 24 * HOUR)
    await add(db, [each])
    await add_runs(db, "d", [NOW - 30 * 24 * HOUR + n * timedelta(minutes=1) for n in range(5000)], "api")

    async with db.acquire() as conn:
        position = (await schedule_positions(conn, [each], NOW))["d"]

    assert position.taken == frozenset()
