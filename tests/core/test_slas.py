"""Missed SLAs: the semantics reference, section 23.3."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.creation.slas import MOST_AT_ONCE, missed_dates, next_check, slas_of
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.timetables.parse import parse_schedule

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
INSTANT = timedelta(microseconds=1)


def hourly(sla: float | None = 600.0, *, schedule: object = "@hourly", **options: Any) -> DagSpec:
    options = {"start_date": START, **options}
    timetable = parse_schedule(schedule, start_date=options["start_date"])
    tasks = (TaskSpec(task_id="t", operator="X", sla=sla), TaskSpec(task_id="free", operator="X"))
    return DagSpec(dag_id="d", timetable=timetable, tasks=tasks, **options)


def hours(*numbers: float) -> list[datetime]:
    return [START + number * HOUR for number in numbers]


def missed(spec: DagSpec, now: float, *, done: float | None = 0, recorded: float | None = None) -> list[float]:
    """The misses of `t` at `now`; all in hours since START."""
    at = [None if number is None else START + number * HOUR for number in (done, recorded)]
    sla = spec.tasks[0].sla
    assert sla is not None
    found = missed_dates(spec, sla, done=at[0], recorded=at[1], now=START + now * HOUR)
    return [(date - START) / HOUR for date in found]


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        pytest.param(1.9, [], id="the first date after it is not tested"),
        pytest.param(2.0, [], id="the second is not due yet"),
        pytest.param(2 + 1 / 6, [], id="at the very instant it is not passed yet"),
        pytest.param(2.2, [2], id="once it has passed it is a miss"),
        pytest.param(4.2, [2, 3, 4], id="and so is every further one"),
    ],
)
def test_dates_from_the_second_after_the_latest_done_are_missed_when_their_sla_has_passed(
    now: float, expected: list[float]
) -> None:
    assert missed(hourly(), now) == expected


def test_nothing_is_late_before_the_task_was_done_once() -> None:
    assert missed(hourly(), 100, done=None) == []


def test_a_miss_is_recorded_once() -> None:
    assert missed(hourly(), 4.2, recorded=3) == [4]
    assert missed(hourly(), 4.2, recorded=4) == []


def test_a_record_from_before_the_latest_success_changes_nothing() -> None:
    assert missed(hourly(), 8.2, done=5, recorded=2) == [7, 8]
    assert missed(hourly(), 8.2, done=5, recorded=6) == [7, 8]


def test_a_run_between_two_schedule_dates_counts_from_its_own_date() -> None:
    assert missed(hourly(), 3.2, done=0.5) == [2, 3]


def test_no_date_after_the_end_date_is_late() -> None:
    assert missed(hourly(end_date=START + 3 * HOUR), 9) == [2, 3]


def test_many_misses_are_recorded_some_at_a_time_oldest_first() -> None:
    first = missed(hourly(), 1000)

    assert first == [2 + number for number in range(MOST_AT_ONCE)]
    assert missed(hourly(), 1000, recorded=first[-1])[0] == first[-1] + 1


@pytest.mark.parametrize("schedule", [None, "@once", "@continuous"])
def test_a_dag_without_schedule_dates_has_no_slas(schedule: object) -> None:
    spec = hourly(schedule=schedule)

    assert slas_of(spec) == {}
    assert next_check(spec, START) is None


@pytest.mark.parametrize("schedule", ["@hourly", HOUR, "0 * * * *"], ids=str)
@pytest.mark.parametrize(
    ("now", "expected"), [(0.1, 1 / 6), (1 / 6, 1 / 6), (0.2, 1 + 1 / 6), (7.5, 8 + 1 / 6)], ids=str
)
def test_the_next_look_is_just_after_the_next_sla_of_a_date(schedule: object, now: float, expected: float) -> None:
    assert next_check(hourly(schedule=schedule), START + now * HOUR) == START + expected * HOUR + INSTANT


def test_of_several_slas_the_earliest_is_looked_at() -> None:
    spec = hourly(sla=600)
    tasks = (*spec.tasks, TaskSpec(task_id="u", operator="X", sla=60))

    assert next_check(DagSpec(dag_id="d", timetable=spec.timetable, tasks=tasks), START) == START + HOUR / 60 + INSTANT


@pytest.mark.parametrize("sla", [1e12, 3e11])
def test_an_sla_beyond_the_calendar_is_never_missed(sla: float) -> None:
    assert next_check(hourly(sla), START) is None
    assert missed(hourly(sla), 1e5) == []


def test_a_delta_without_start_date_has_a_grid_that_stands_still() -> None:
    spec = hourly(schedule=HOUR, start_date=None)
    now = START + timedelta(minutes=7)

    look = next_check(spec, now)

    assert look == START + timedelta(minutes=10) + INSTANT
    assert look is not None
    assert next_check(spec, look) == look + HOUR


@given(
    sla=st.integers(0, 20_000),
    done=st.integers(0, 50),
    schedule=st.sampled_from(["@hourly", "*/7 * * * *", timedelta(minutes=25)]),
    now=st.integers(0, 100_000),
)
def test_looking_at_every_next_look_records_what_one_look_at_the_end_would(
    sla: int, done: int, schedule: object, now: int
) -> None:
    spec, end = hourly(float(sla), schedule=schedule), START + timedelta(seconds=now)
    at, latest, found = end - 2 * HOUR, START + done * HOUR, list[datetime]()

    def look(moment: datetime, recorded: datetime | None) -> list[datetime]:
        return missed_dates(spec, float(sla), done=latest, recorded=recorded, now=moment)

    while (more := look(at, found[-1] if found else None)) or at <= end:
        found += more
        if at == end and not more:
            break
        following = next_check(spec, at)
        assert following is not None
        assert following > at
        at = min(end, following) if not more else at

    whole, recorded = list[datetime](), None
    while more := look(end, recorded):
        whole += more
        recorded = whole[-1]
    assert found == whole
    assert all(date + timedelta(seconds=sla) < end for date in found)


@given(
    sla=st.integers(0, 20_000),
    done=st.one_of(st.none(), st.integers(0, 100_000)),
    minutes=st.sampled_from([1, 7, 60, 1440]),
    now=st.integers(0, 100_000),
)
def test_one_look_records_what_the_walk_of_airflow_finds(sla: int, done: int | None, minutes: int, now: int) -> None:
    """The walk of section 23.3, written down as it stands there."""
    spec, step = hourly(float(sla), schedule=timedelta(minutes=minutes)), timedelta(minutes=minutes)
    at, latest = START + timedelta(seconds=now), None if done is None else START + timedelta(seconds=done)

    found, recorded = list[datetime](), None
    while more := missed_dates(spec, float(sla), done=latest, recorded=recorded, now=at):
        found += more
        recorded = more[-1]

    walked: list[datetime] = []
    if latest is not None:
        date = START + (latest - START) // step * step + step  # the first one after D is not tested
        while date < at:
            date += step
            if date + timedelta(seconds=sla) < at:
                walked.append(date)
    assert found == walked
