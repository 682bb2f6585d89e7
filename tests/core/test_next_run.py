"""The next scheduled run, from where a schedule stands. Source: the semantics reference, sections 11.5 and 13.1."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.creation.next_run import (
    LONGEST_PAUSE,
    FailureStreak,
    SchedulePosition,
    coming_runs,
    failure_streak,
    next_scheduled_run,
)
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.timetables import AnyTimetable, ContinuousTimetable, DataInterval, EventsTimetable, NextRun
from aiosched.core.timetables.delta import Delta
from aiosched.core.timetables.interval import CronDataIntervalTimetable
from aiosched.core.timetables.trigger import CronTriggerTimetable
from aiosched.core.values.states import RunState

DAILY, CONTINUOUS = CronDataIntervalTimetable("@daily", "UTC"), ContinuousTimetable()
SECOND, INSTANT = timedelta(seconds=1), timedelta(microseconds=1)
FAILED, SUCCESS, RUNNING = RunState.FAILED, RunState.SUCCESS, RunState.RUNNING


def day(number: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number - 1)


def days(first: int, last: int) -> DataInterval:
    return DataInterval(day(first), day(last))


def a_dag(timetable: AnyTimetable = DAILY, **fields: Any) -> DagSpec:
    options = {"start_date": day(1), "catchup": True} | fields
    return DagSpec(dag_id="d", timetable=timetable, tasks=(TaskSpec(task_id="t", operator="Op"),), **options)


@pytest.mark.parametrize(
    ("timetable", "start", "expected"),
    [
        (DAILY, 30, [31]),
        (CronTriggerTimetable("@daily", "UTC"), 30, [30, 31]),
    ],
)
def test_at_the_end_of_the_calendar_no_more_runs_come(timetable: AnyTimetable, start: int, expected: list[int]) -> None:
    spec = a_dag(timetable, start_date=datetime(9999, 12, start, tzinfo=UTC))

    coming = coming_runs(spec, SchedulePosition(), now=day(1), n=5)

    assert [one.run.run_after for one in coming] == [datetime(9999, 12, number, tzinfo=UTC) for number in expected]


@pytest.mark.parametrize(
    ("last", "taken", "catchup", "expected"),
    [
        (None, (), True, 1),
        (days(1, 2), (1,), True, 2),
        (days(1, 2), (1, 3, 4, 5), True, 2),  # a backfill ahead
        (days(2, 3), (2, 3, 4, 5), True, 6),
        (None, (1, 2), True, 3),  # all by hand, or by a backfill
        (days(1, 2), (1,), False, 9),  # the latest complete one
        (days(1, 2), (1, 9), False, 10),
    ],
)
def test_dates_that_have_a_run_are_passed_over_and_no_others(
    last: DataInterval | None, taken: tuple[int, ...], catchup: bool, expected: int
) -> None:
    position = SchedulePosition(last, frozenset(map(day, taken)))

    run = next_scheduled_run(a_dag(catchup=catchup), position, day(10))

    assert run == NextRun(day(expected + 1), days(expected, expected + 1))


def test_the_next_runs_for_people_leave_out_dates_that_have_a_run() -> None:
    position = SchedulePosition(days(1, 2), frozenset(map(day, (1, 3, 5))))

    coming = coming_runs(a_dag(), position, now=day(10), n=3)

    assert [one.run.logical_date for one in coming] == [day(2), day(4), day(6)]


def test_of_a_continuous_dag_people_see_one_run_to_come() -> None:
    position = SchedulePosition(days(1, 2), frozenset([day(1)]), FailureStreak(3, day(2)))

    coming = coming_runs(a_dag(CONTINUOUS), position, now=day(2), n=5)

    assert [one.run.run_after for one in coming] == [day(2) + 4 * SECOND]


@pytest.mark.parametrize(
    ("last", "taken", "date"),
    [
        (None, (), day(1)),
        (days(1, 2), (day(1),), day(2)),
        (days(2, 2), (day(2),), day(2) + INSTANT),  # it began at its start date: its interval had no length
        (days(1, 2), (day(1), day(2), day(2) + INSTANT), day(2) + 2 * INSTANT),
    ],
)
def test_a_continuous_interval_begins_where_the_last_one_ended_at_the_first_free_date(
    last: DataInterval | None, taken: tuple[datetime, ...], date: datetime
) -> None:
    run = next_scheduled_run(a_dag(CONTINUOUS), SchedulePosition(last, frozenset(taken)), day(5))

    assert run is not None
    assert (run.interval, run.logical_date) == (DataInterval(day(1) if last is None else last.end, day(5)), date)
    assert run.run_after == day(5)


@pytest.mark.parametrize(
    ("states", "streak"),
    [
        ([], None),
        ([SUCCESS, FAILED], None),
        ([RUNNING, FAILED], None),
        ([FAILED, SUCCESS, FAILED], 1),
        ([FAILED, FAILED, FAILED], 3),
        ([FAILED] * 30, 10),
    ],
)
def test_failures_are_counted_back_to_the_last_run_that_has_not_failed(
    states: list[RunState], streak: int | None
) -> None:
    newest_first = [(state, None if state is RUNNING else day(9 - number / 10)) for number, state in enumerate(states)]

    found = failure_streak(newest_first)

    assert found == (None if streak is None else FailureStreak(streak, day(9)))


@given(st.integers(1, 10), st.floats(0, 400))
def test_a_continuous_dag_pauses_longer_after_each_failure_up_to_a_limit(failures: int, later: float) -> None:
    failed_at = day(3)
    position = SchedulePosition(days(1, 2), frozenset([day(1)]), FailureStreak(failures, failed_at))
    now = failed_at + timedelta(seconds=later)

    run = next_scheduled_run(a_dag(CONTINUOUS), position, now)

    pause = min(2 ** (failures - 1) * SECOND, LONGEST_PAUSE)
    due = max(now, failed_at + pause)
    assert run == NextRun(due, DataInterval(day(2), due))


def test_of_listed_events_without_catchup_the_latest_that_has_passed_is_run_however_late() -> None:
    spec = a_dag(EventsTimetable([day(2), day(4), day(6)]), catchup=False)
    position = SchedulePosition(DataInterval.exact(day(2)))

    assert next_scheduled_run(spec, position, day(6.5)) == NextRun(day(6), DataInterval.exact(day(6)))
    assert next_scheduled_run(spec, position, day(3)) == NextRun(day(4), DataInterval.exact(day(4)))


def test_a_changed_schedule_goes_on_after_the_latest_run_and_not_before_it() -> None:
    """Its dates lie before its ticks: the first tick after the latest run would give a date before that run."""
    schedule = CronTriggerTimetable("0 */8 * * *", "UTC", interval=Delta(0, 18_000.0))
    last = DataInterval(day(2) + timedelta(hours=3.5), day(2) + timedelta(hours=4.5))

    run = next_scheduled_run(a_dag(schedule), SchedulePosition(last, frozenset({last.start})), day(2.5))

    assert run is not None
    assert run.logical_date == day(2) + timedelta(hours=11)  # of 16:00; that of 8:00 is 3:00
