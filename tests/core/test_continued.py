"""Which run of a timetable the last run of another scheduler is. docs/migration.md, "Schedules go on"."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched.core.creation.continued import RunElsewhere, continued_run
from aiosched.core.creation.next_run import SchedulePosition, next_scheduled_run
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.timetables import CronTriggerTimetable, DeltaTriggerTimetable, parse_schedule
from aiosched.core.values.states import RunState

START = datetime(2026, 3, 1, tzinfo=UTC)
NOW = datetime(2026, 4, 2, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def at(day: int, hour: int = 0, month: int = 3) -> datetime:
    return datetime(2026, month, day, hour, tzinfo=UTC)


def spec_of(timetable: Any) -> DagSpec:
    return DagSpec(dag_id="d", timetable=timetable, tasks=(TaskSpec(task_id="a", operator="E"),), start_date=START,
                   catchup=True)  # fmt: skip


def cron(text: str, zone: str = "UTC") -> Any:
    from aiosched.core.timetables import CronDataIntervalTimetable

    return CronDataIntervalTimetable(text, zone)


@pytest.mark.parametrize(
    ("timetable", "logical_date", "run_after", "next_due"),
    [
        (cron("0 0 * * *"), at(10), at(11), at(12)),
        (cron("0 0 * * *"), at(11), at(11), at(12)),  # Airflow 3: the logical date is when it is due
        (cron("0 0 * * *"), at(10), None, at(12)),  # 1.10: it does not say when
        (cron("0 6 * * *", "Europe/Berlin"), at(27, 5), at(28, 5), at(29, 4)),  # clocks go forward
        (parse_schedule(DAY), at(10), at(11), at(12)),
        (parse_schedule(DAY), at(11), at(11), at(12)),
        (CronTriggerTimetable("0 0 * * *", "UTC"), at(10), at(11), at(12)),
        (CronTriggerTimetable("0 0 * * *", "UTC"), at(11), at(11), at(12)),
        (DeltaTriggerTimetable(DAY), at(11), at(11), at(12)),
        (cron("0 0 * * 1"), at(10, 3), None, at(16)),  # the schedule was another one then
        (parse_schedule("@once"), at(1), at(1), None),
    ],
)
def test_the_next_run_is_the_one_that_is_due_after_it(
    timetable: Any, logical_date: datetime, run_after: datetime | None, next_due: datetime | None
) -> None:
    spec, last = spec_of(timetable), RunElsewhere(logical_date, run_after, RunState.SUCCESS)

    found = continued_run(spec, last, SchedulePosition(), NOW)

    assert not isinstance(found, str)
    position = SchedulePosition().after(found[1])
    following = next_scheduled_run(spec, position, NOW)
    assert (None if following is None else following.run_after) == next_due
    assert isinstance(continued_run(spec, last, position, NOW), str), "a second time there is nothing to do"
