"""Interval timetables: runs cover a period and start at its end.

The tables are those of the semantics reference, sections 11.3, 12.1, 12.2 and 12.3, with decision 10 for deltas;
the algorithm is that of section 11.2.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from dateutil.relativedelta import relativedelta
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.timetables import (
    AnyTimetable,
    CronDataIntervalTimetable,
    DataInterval,
    DeltaDataIntervalTimetable,
    NextRun,
    Restriction,
)

START = "2026-01-01T00:00"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MONTH = relativedelta(months=1)


def at(text: str) -> datetime:
    """An instant in UTC; the year 2026 may be left out."""
    return datetime.fromisoformat(text if text[4:5] == "-" else f"2026-{text}").replace(tzinfo=UTC)


def interval(start: str, end: str) -> DataInterval:
    return DataInterval(at(start), at(end))


def ask(
    timetable: AnyTimetable,
    *,
    start: str | None = START,
    end: str | None = None,
    catchup: bool = False,
    last: DataInterval | None = None,
    now: str = "01-10T12:00",
) -> NextRun | None:
    restriction = Restriction(None if start is None else at(start), None if end is None else at(end), catchup)
    return timetable.next_run(last=last, restriction=restriction, now=at(now))


def caught_up(timetable: AnyTimetable, start: str, n: int) -> list[DataInterval]:
    """The first `n` intervals with catchup."""
    found: list[DataInterval] = []
    for _ in range(n):
        run = ask(timetable, start=start, catchup=True, last=found[-1] if found else None)
        assert run is not None
        found.append(run.interval)
    return found


daily = CronDataIntervalTimetable("0 0 * * *", "UTC")
hourly = CronDataIntervalTimetable("0 * * * *", "UTC")
noonish = CronDataIntervalTimetable("30 12 * * *", "UTC")
weekly = CronDataIntervalTimetable("@weekly", "UTC")
every_day = DeltaDataIntervalTimetable(DAY)
half_hourly = DeltaDataIntervalTimetable(timedelta(minutes=30))
monthly = DeltaDataIntervalTimetable(MONTH)

NINTH = interval("01-09T00:00", "01-10T00:00")
FIRST = "01-01T00:00 01-02T00:00"
EVENING = interval("07-26T20:00", "07-26T21:00")


def case(name: str, timetable: AnyTimetable, expected: str | None, **given_: Any) -> Any:
    return pytest.param(timetable, given_, expected, id=name)


CASES = [
    case("catchup, first", daily, FIRST, catchup=True),
    case("a start between ticks is rounded up", daily, "01-02T00:00 01-03T00:00", start="01-01T10:30", catchup=True),
    case("no catchup, due this instant", daily, "01-09T00:00 01-10T00:00", now="01-10T00:00"),
    case("no catchup, a second later", daily, "01-09T00:00 01-10T00:00", now="01-10T00:00:01"),
    case("no catchup, a second before", daily, "01-08T00:00 01-09T00:00", now="01-09T23:59:59"),
    case("no catchup, before the start", daily, FIRST, now="2025-12-31T12:00"),
    case("no catchup, within the first period", daily, FIRST, now="01-01T12:00"),
    case("no catchup, no start", daily, "01-09T00:00 01-10T00:00", start=None),
    case("catchup, no start", daily, None, start=None, catchup=True),
    case("schedule becomes hourly", hourly, "01-10T00:00 01-10T01:00", catchup=True, last=NINTH),
    case("schedule moves to 12:30", noonish, "01-09T12:30 01-10T12:30", catchup=True, last=NINTH),
    case("schedule becomes weekly", weekly, "01-11T00:00 01-18T00:00", catchup=True, last=NINTH),
    case("after downtime, catchup", hourly, "07-26T21:00 07-26T22:00", catchup=True, last=EVENING, now="07-27T00:30"),
    case("after downtime, no catchup", hourly, "07-26T23:00 07-27T00:00", last=EVENING, now="07-27T00:30"),
    case("delta, catchup, first", every_day, "01-01T10:30 01-02T10:30", start="01-01T10:30", catchup=True),
    case("delta, no catchup: the start date's grid", every_day, "01-09T10:30 01-10T10:30", start="01-01T10:30"),
    case(
        "delta, no catchup, due this instant",
        every_day,
        "01-09T10:30 01-10T10:30",
        start="01-01T10:30",
        now="01-10T10:30",
    ),
    case(
        "delta, no catchup, within the first period",
        every_day,
        "01-01T10:30 01-02T10:30",
        start="01-01T10:30",
        now="01-01T11:00",
    ),
    case(
        "delta, no catchup, before the start",
        every_day,
        "01-01T10:30 01-02T10:30",
        start="01-01T10:30",
        now="2025-12-01T11:00",
    ),
    case("delta, no catchup, 30 min", half_hourly, "01-10T12:10 01-10T12:40", start="01-01T10:10", now="01-10T12:47"),
    case(
        "delta, no catchup, after a gap",
        every_day,
        "01-09T10:30 01-10T10:30",
        start="01-01T10:30",
        last=interval("01-03T10:30", "01-04T10:30"),
    ),
    case("delta, no start: the epoch's grid", every_day, "01-09T00:00 01-10T00:00", start=None),
    case("delta, catchup, no start", every_day, None, start=None, catchup=True),
    case("months, no catchup", monthly, "04-28T00:00 05-28T00:00", start="01-31T00:00", now="06-15T00:00"),
    case(
        "months, no catchup, first clipped", monthly, "01-31T00:00 02-28T00:00", start="01-31T00:00", now="02-28T00:00"
    ),
    case("31st of the month", CronDataIntervalTimetable("0 0 31 * *", "UTC"), "01-31T00:00 03-31T00:00", catchup=True),
    case(
        "leap day",
        CronDataIntervalTimetable("0 0 29 2 *", "UTC"),
        "2024-02-29 2028-02-29",
        start="2024-01-01",
        catchup=True,
    ),
    case(
        "last day of the month", CronDataIntervalTimetable("0 0 L * *", "UTC"), "01-31T00:00 02-28T00:00", catchup=True
    ),
    case(
        "last day of the month, then the next one",
        CronDataIntervalTimetable("0 0 L * *", "UTC"),
        "02-28T00:00 03-31T00:00",
        catchup=True,
        last=interval("01-31T00:00", "02-28T00:00"),
    ),
    case(
        "day of month or weekday",
        CronDataIntervalTimetable("0 0 13 * FRI", "UTC"),
        "01-13T00:00 01-16T00:00",
        start="01-10T00:00",
        catchup=True,
    ),
    case(
        "six fields, seconds last",
        CronDataIntervalTimetable("0 0 * * * 30", "UTC"),
        "01-01T00:00:30 01-02T00:00:30",
        catchup=True,
    ),
]


@pytest.mark.parametrize(("timetable", "given_", "expected"), CASES)
def test_the_next_interval(timetable: AnyTimetable, given_: dict[str, Any], expected: str | None) -> None:
    run = ask(timetable, **given_)

    if expected is None:
        assert run is None
    else:
        start, end = map(at, expected.split())
        assert run == NextRun(run_after=end, interval=DataInterval(start, end))
        assert run.logical_date == start


@pytest.mark.parametrize("end", ["01-03T00:00", "01-03T12:00"])
def test_the_last_interval_is_the_last_that_starts_by_the_end_date(end: str) -> None:
    run = ask(daily, end=end, catchup=True, last=interval("01-02T00:00", "01-03T00:00"))

    assert run is not None
    assert run.run_after == at("01-04T00:00")
    assert ask(daily, end=end, catchup=True, last=run.interval) is None


def test_months_drift_to_the_shortest_day_and_stay_there() -> None:
    starts = [start.date().isoformat() for start, _ in caught_up(monthly, "01-31T00:00", 4)]

    assert starts == ["2026-01-31", "2026-02-28", "2026-03-28", "2026-04-28"]


@pytest.mark.parametrize(
    ("timetable", "at_", "expected"),
    [
        (daily, "01-10T12:00", NINTH),
        (daily, "01-10T00:00", NINTH),
        (every_day, "01-10T12:00", interval("01-09T12:00", "01-10T12:00")),
        (monthly, "03-31T00:00", interval("02-28T00:00", "03-31T00:00")),
        (
            CronDataIntervalTimetable("30 2 * * *", "Europe/Amsterdam"),
            "03-29T12:00",
            interval("03-28T01:30", "03-29T01:30"),
        ),
        (
            CronDataIntervalTimetable("30 2 * * *", "Europe/Amsterdam"),
            "03-29T01:30",
            interval("03-28T01:30", "03-29T01:30"),
        ),
        (
            CronDataIntervalTimetable("30 2 * * *", "Europe/Amsterdam"),
            "10-25T01:00",
            interval("10-23T00:30", "10-24T00:30"),
        ),
    ],
)
def test_a_manual_run_gets_the_period_before_it(timetable: AnyTimetable, at_: str, expected: DataInterval) -> None:
    assert timetable.manual_interval(at(at_)) == expected


# Clock changes. Intervals are contiguous, so a row lists the bounds: UTC, month-dayThour:minute.
CLOCKS = [
    ("Europe/Amsterdam", "0 0 * * *", ["03-27T23:00", "03-28T23:00", "03-29T22:00", "03-30T22:00"]),
    ("Europe/Amsterdam", "30 2 * * *", ["03-28T01:30", "03-29T01:30", "03-30T00:30"]),
    ("Europe/Amsterdam", "30 2 * * *", ["10-24T00:30", "10-25T01:30", "10-26T01:30"]),
    ("Europe/Amsterdam", "30 * * * *", ["10-24T23:30", "10-25T00:30", "10-25T01:30", "10-25T02:30"]),
    ("Europe/Amsterdam", "0 * * * *", ["03-28T23:00", "03-29T00:00", "03-29T01:00", "03-29T02:00"]),
    ("Europe/Amsterdam", "*/30 * * * *", ["10-25T00:00", "10-25T00:30", "10-25T01:00", "10-25T01:30", "10-25T02:00"]),
    ("Europe/Amsterdam", "0 */2 * * *", ["10-24T20:00", "10-24T22:00", "10-25T01:00", "10-25T03:00"]),
    ("Europe/Amsterdam", "0 */2 * * *", ["03-28T21:00", "03-28T23:00", "03-29T01:00", "03-29T02:00", "03-29T04:00"]),
    ("Europe/Amsterdam", "0 */2 * * *", ["03-28T23:00", "03-29T01:00"]),  # a start at the last tick before is a tick
    ("America/New_York", "30 2 * * *", ["03-07T07:30", "03-08T07:30", "03-09T06:30"]),
    ("America/New_York", "30 1 * * *", ["10-31T05:30", "11-01T06:30", "11-02T06:30"]),
    ("America/New_York", "0 0 * * *", ["10-31T04:00", "11-01T04:00", "11-02T05:00"]),
    ("America/New_York", "0 * * * *", ["11-01T04:00", "11-01T05:00", "11-01T06:00", "11-01T07:00"]),
    ("America/New_York", "0 0 * * 0", ["03-01T05:00", "03-08T05:00", "03-15T04:00"]),
    ("Australia/Lord_Howe", "45 1 * * *", ["04-02T14:45", "04-03T14:45", "04-04T15:15", "04-05T15:15"]),
    ("Australia/Lord_Howe", "15 2 * * *", ["10-02T15:45", "10-03T15:45", "10-04T15:15"]),  # 02:15 becomes 02:45
]


@pytest.mark.parametrize(("zone", "cron", "bounds"), CLOCKS)
def test_intervals_over_a_clock_change(zone: str, cron: str, bounds: list[str]) -> None:
    timetable = CronDataIntervalTimetable(cron, zone)

    found = caught_up(timetable, bounds[0], len(bounds) - 1)

    assert found == [interval(start, end) for start, end in pairwise(bounds)]


@pytest.mark.parametrize(("zone", "cron", "bounds"), CLOCKS)
def test_without_catchup_the_same_intervals_come_one_by_one(zone: str, cron: str, bounds: list[str]) -> None:
    timetable = CronDataIntervalTimetable(cron, zone)
    moments = [at(bound) + timedelta(minutes=1) for bound in bounds[1:]]

    asked = [
        timetable.next_run(last=None, restriction=Restriction(at("2025-01-01"), None, catchup=False), now=now)
        for now in moments
    ]

    assert [run and run.interval for run in asked] == [interval(start, end) for start, end in pairwise(bounds)]


@pytest.mark.parametrize(
    ("zone", "now", "expected"),
    [
        ("Europe/Amsterdam", "03-30T12:00", interval("03-28T23:00", "03-29T22:00")),
        ("America/New_York", "11-02T12:00", interval("11-01T04:00", "11-02T05:00")),
    ],
)
def test_without_catchup_the_latest_complete_day_may_have_23_or_25_hours(
    zone: str, now: str, expected: DataInterval
) -> None:
    run = ask(CronDataIntervalTimetable("0 0 * * *", zone), now=now)

    assert run is not None
    assert run.interval == expected


def test_a_delta_keeps_absolute_time_over_a_clock_change() -> None:
    spring = datetime(2026, 3, 28, tzinfo=ZoneInfo("Europe/Amsterdam"))
    catchup, no_catchup = (Restriction(spring, None, catchup=choice) for choice in (True, False))
    now = at("03-30T12:00")

    first = every_day.next_run(last=None, restriction=catchup, now=now)
    assert first is not None
    second = every_day.next_run(last=first.interval, restriction=catchup, now=now)
    latest = every_day.next_run(last=None, restriction=no_catchup, now=now)

    assert first.interval == interval("03-27T23:00", "03-28T23:00")
    assert second is not None
    assert second.interval == interval("03-28T23:00", "03-29T23:00")
    assert latest == second


def test_a_delta_of_a_day_over_the_autumn_change_ends_an_hour_earlier_on_the_clock() -> None:
    """24 October 00:00 in Amsterdam; the second interval ends on 25 October at 23:00."""
    assert caught_up(every_day, "10-23T22:00", 2) == [
        interval("10-23T22:00", "10-24T22:00"),
        interval("10-24T22:00", "10-25T22:00"),
    ]


zones = st.sampled_from(
    ["Europe/Amsterdam", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "America/Havana"]
)
crons = st.sampled_from(
    [
        "0 0 * * *",
        "30 2 * * *",
        "15 1,2,3 * * *",
        "*/30 * * * *",
        "*/20 1-4 * * *",
        "0 */2 * * *",
        "45 1 * * 0",
        "@hourly",
    ]
)
years = {"Asia/Kathmandu": 1985, "Pacific/Apia": 2011}
minutes_of_a_year = st.integers(0, 366 * 24 * 60)


@given(zones, crons, minutes_of_a_year)
def test_caught_up_intervals_are_contiguous_and_never_empty(zone: str, cron: str, minute: int) -> None:
    start = datetime(years.get(zone, 2026), 1, 1, tzinfo=UTC) + timedelta(minutes=minute)

    found = caught_up(CronDataIntervalTimetable(cron, zone), start.isoformat()[:19], 60)

    assert found[0].start >= start
    assert all(interval.start < interval.end for interval in found)
    assert all(earlier.end == later.start for earlier, later in pairwise(found))


@given(zones, crons, minutes_of_a_year, st.booleans())
def test_without_catchup_the_interval_is_the_latest_complete_one(
    zone: str, cron: str, minute: int, with_last: bool
) -> None:
    now = datetime(years.get(zone, 2026), 1, 1, tzinfo=UTC) + timedelta(minutes=minute, seconds=7)
    timetable = CronDataIntervalTimetable(cron, zone)
    restriction = Restriction(now - 900 * DAY, None, catchup=False)
    long_ago = timetable.manual_interval(now - 100 * DAY)

    run = timetable.next_run(last=long_ago if with_last else None, restriction=restriction, now=now)

    assert run is not None
    assert run.interval.end <= now
    after = timetable.next_run(last=run.interval, restriction=restriction, now=now)
    assert after is not None
    assert after.interval.start == run.interval.end
    assert after.interval.end > now


hours = st.integers(0, 5 * 24)


@given(
    st.one_of(
        st.integers(1, 40).map(lambda n: DeltaDataIntervalTimetable(n * HOUR)),
        st.builds(CronDataIntervalTimetable, crons, zones),
    ),
    hours,
    st.one_of(st.just(0), st.integers(0, 80)),
    st.tuples(hours, hours).map(sorted),
    st.one_of(st.none(), hours),
)
def test_a_planned_run_stays_planned_until_it_is_due(
    timetable: AnyTimetable, last_start: int, length: int, instants: list[int], start: int | None
) -> None:
    year = at(START)
    last = DataInterval(year + last_start * HOUR, year + (last_start + length) * HOUR)
    earlier, later = (year + hours * HOUR for hours in instants)
    restriction = Restriction(None if start is None else year + start * HOUR, None, catchup=False)

    planned = timetable.next_run(last=last, restriction=restriction, now=earlier)
    again = timetable.next_run(last=last, restriction=restriction, now=later)

    assert planned is not None
    assert again == planned or (again is not None and planned.run_after <= later)


def test_a_delta_after_a_run_of_length_zero_goes_on_at_the_next_point_of_its_grid() -> None:
    run = ask(
        DeltaDataIntervalTimetable(5 * HOUR),
        start=START,
        last=interval("01-01T16:00", "01-01T16:00"),
        now="01-01T17:00",
    )

    assert run is not None
    assert run.interval == interval("01-01T20:00", "01-02T01:00")


@given(st.integers(1, 100_000), st.integers(0, 10_000_000), st.integers(0, 10_000_000))
def test_a_delta_stays_on_the_grid_of_its_start_date(seconds: int, start: int, later: int) -> None:
    delta, begin = timedelta(seconds=seconds), at(START) + timedelta(seconds=start)
    now = begin + timedelta(seconds=later)

    run = DeltaDataIntervalTimetable(delta).next_run(
        last=None, restriction=Restriction(begin, None, catchup=False), now=now
    )

    assert run is not None
    assert (run.interval.start - begin) % delta == timedelta(0)
    assert run.interval.end - run.interval.start == delta
    assert run.interval.end <= now < run.interval.end + delta or run.interval.start == begin
