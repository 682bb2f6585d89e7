"""Timetables that authors wrote, as the scheduler knows them. Source: the semantics reference, section 11.1."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.graph.spec import DagSpec, decode_spec, encode_spec
from aiosched.core.timetables import CustomTimetable, DataInterval, Restriction, scheduled_between, upcoming
from aiosched.core.timetables.custom import ListedRun, ManualStep

DAY = timedelta(days=1)
START = datetime(2026, 1, 1, tzinfo=UTC)


def daily(count: int) -> CustomTimetable:
    """Runs at the end of each day from START on."""
    runs = [ListedRun(START + n * DAY, START + (n + 1) * DAY, START + (n + 1) * DAY) for n in range(count)]
    return CustomTimetable("Daily", runs=tuple(runs))


def at(day: float) -> datetime:
    return START + day * DAY


def starts(timetable: CustomTimetable, *, catchup: bool, now: float, last: float | None = None) -> float | None:
    """Day on which the interval of the next run starts."""
    interval = None if last is None else DataInterval(at(last), at(last + 1))
    run = timetable.next_run(last=interval, restriction=Restriction(START, None, catchup), now=at(now))
    return None if run is None else (run.interval.start - START) / DAY


@pytest.mark.parametrize(
    ("last", "now", "catchup", "expected"),
    [
        (None, 5.5, True, 0),
        (0, 5.5, True, 1),
        (None, -3, True, 0),
        (None, 5.5, False, 4),
        (None, 5, False, 4),
        (2, 5.5, False, 4),
        (4, 5.5, False, 5),
        (5, 5.5, False, 6),
        (None, -3, False, 0),
        (9, 5.5, True, None),
        (9, 100, False, None),
        (None, 100, False, 9),
        (3.5, 0, True, 4),
    ],
)
def test_the_next_run_is_the_first_listed_one_after_the_last_or_without_catchup_the_latest_due(
    last: float | None, now: float, catchup: bool, expected: float | None
) -> None:
    assert starts(daily(10), catchup=catchup, now=now, last=last) == expected


def test_without_a_list_there_is_no_run() -> None:
    assert starts(CustomTimetable("Never"), catchup=True, now=0) is None


def test_runs_to_come_end_with_the_list() -> None:
    found = upcoming(daily(3), restriction=Restriction(START, None, True), now=START, n=10)

    assert [one.run.run_after for one in found] == [at(1), at(2), at(3)]


def test_a_backfill_takes_the_listed_runs_in_its_range() -> None:
    found = scheduled_between(daily(10), at(2), at(4), now=at(20), anchor=START)

    assert [run.logical_date for run in found] == [at(2), at(3), at(4)]


def test_manual_runs_are_about_the_interval_of_their_step_or_of_the_latest_run_before_the_first_step() -> None:
    steps = (ManualStep(at(5), at(4), at(5)), ManualStep(at(7), at(6), at(7)))
    timetable = msgspec.structs.replace(daily(10), manual_steps=steps)

    assert timetable.manual_interval(at(6.5)) == DataInterval(at(4), at(5))
    assert timetable.manual_interval(at(7)) == DataInterval(at(6), at(7))
    assert timetable.manual_interval(at(2.5)) == DataInterval(at(1), at(2))
    assert timetable.manual_interval(at(-1)) == DataInterval(at(-1), at(-1))


def test_manual_runs_are_about_an_interval_at_a_fixed_distance() -> None:
    timetable = CustomTimetable("Shifted", manual_shift=(-86400.0, 0.0))

    assert timetable.manual_interval(at(2.5)) == DataInterval(at(1.5), at(2.5))
    assert CustomTimetable("Exact").manual_interval(at(2.5)) == DataInterval.exact(at(2.5))


def test_it_survives_the_database() -> None:
    timetable = msgspec.structs.replace(
        daily(3), description="days", manual_steps=(ManualStep(at(5), at(4), at(5)),), active_runs_limit=1
    )
    spec = DagSpec(dag_id="d", timetable=timetable)

    assert decode_spec(encode_spec(spec)) == spec
    assert (timetable.summary, daily(1).summary) == ("days", "Daily")


@given(st.integers(0, 40), st.floats(-5, 60), st.booleans())
def test_asked_again_and_again_it_gives_each_run_at_most_once_and_in_order(
    count: int, now: float, catchup: bool
) -> None:
    timetable, seen, last = daily(count), [], None
    while (start := starts(timetable, catchup=catchup, now=now, last=last)) is not None:
        seen.append(start)
        last = start

    assert seen == sorted(set(seen))
    assert not catchup or len(seen) == count
