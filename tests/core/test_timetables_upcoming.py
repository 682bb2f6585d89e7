"""What `dags next` shows, and which runs a range of dates holds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from dateutil.relativedelta import relativedelta

from aiosched.core.timetables import (
    AnyTimetable,
    ContinuousTimetable,
    CronDataIntervalTimetable,
    CronTriggerTimetable,
    DataInterval,
    DeltaDataIntervalTimetable,
    DeltaTriggerTimetable,
    EventsTimetable,
    MultipleCronTriggerTimetable,
    NullTimetable,
    OnceTimetable,
    Restriction,
    scheduled_between,
    upcoming,
)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def at(text: str) -> datetime:
    """An instant in UTC; the year 2026 may be left out."""
    return datetime.fromisoformat(text if text[4:5] == "-" else f"2026-{text}").replace(tzinfo=UTC)


def notes(timetable: AnyTimetable, start: str, n: int) -> list[str | None]:
    return [u.note for u in upcoming(timetable, restriction=Restriction(at(start), None, True), now=at(start), n=n)]


AMSTERDAM = "Europe/Amsterdam"


@pytest.mark.parametrize(
    ("timetable", "start", "expected"),
    [
        (
            CronDataIntervalTimetable("@daily", AMSTERDAM),
            "03-27T23:00",
            [None, "23 h interval: clocks go forward", None],
        ),
        (CronDataIntervalTimetable("@daily", AMSTERDAM), "10-23T22:00", [None, "25 h interval: clocks go back", None]),
        (
            CronDataIntervalTimetable("30 2 * * *", AMSTERDAM),
            "03-28T01:30",
            ["24 h interval: clocks go forward, 02:30 becomes 03:30", None],
        ),
        (
            CronDataIntervalTimetable("30 2 * * *", AMSTERDAM),
            "10-24T00:30",
            ["25 h interval: clocks go back, of two 02:30 the second counts", None],
        ),
        (CronDataIntervalTimetable("@hourly", AMSTERDAM), "03-29T00:00", ["1 h interval: clocks go forward", None]),
        (
            CronDataIntervalTimetable("45 1 * * *", "Australia/Lord_Howe"),
            "04-03T14:45",
            ["24.5 h interval: clocks go back, of two 01:45 the second counts", None],
        ),
        (
            CronTriggerTimetable("30 2 * * *", AMSTERDAM),
            "03-28T01:30",
            [None, "24 h since the last tick: clocks go forward, 02:30 becomes 03:30", None],
        ),
        (DeltaDataIntervalTimetable(DAY), "03-27T23:00", [None, None, None]),
    ],
)
def test_clock_changes_are_noted(timetable: AnyTimetable, start: str, expected: list[str | None]) -> None:
    assert notes(timetable, start, len(expected)) == expected


def test_upcoming_runs_follow_the_last_one() -> None:
    last = DataInterval(at("01-05"), at("01-06"))
    coming = upcoming(
        CronDataIntervalTimetable("@daily", "UTC"),
        restriction=Restriction(at("01-01"), None, catchup=False),
        now=at("01-10T12:00"),
        n=3,
        last=last,
    )

    assert [u.run.logical_date for u in coming] == [at("01-09"), at("01-10"), at("01-11")]


@pytest.mark.parametrize(
    ("timetable", "count"),
    [
        (NullTimetable(), 0),
        (OnceTimetable(), 1),
        (ContinuousTimetable(), 1),
        (EventsTimetable([at("02-01"), at("02-02")]), 2),
        (DeltaTriggerTimetable(HOUR), 5),
        (MultipleCronTriggerTimetable(["@daily", "@hourly"], "UTC"), 5),
    ],
)
def test_the_list_ends_where_the_timetable_ends(timetable: AnyTimetable, count: int) -> None:
    coming = list(upcoming(timetable, restriction=Restriction(at("01-01"), None, True), now=at("01-10"), n=5))

    assert len(coming) == count
    assert all(earlier.run.run_after < later.run.run_after for earlier, later in pairwise(coming))


@pytest.mark.parametrize(
    ("timetable", "start", "ends"),
    [
        (CronDataIntervalTimetable("@daily", "UTC"), "9999-12-30", ["9999-12-31"]),
        (CronDataIntervalTimetable("@daily", "UTC"), "9999-12-31", []),
        (CronDataIntervalTimetable("@yearly", "UTC"), "9998-01-01", ["9999-01-01"]),
        (CronDataIntervalTimetable("0 0 29 2 *", "UTC"), "9992-02-29", ["9996-02-29"]),
        (CronDataIntervalTimetable("@daily", AMSTERDAM), "9999-12-29T23:00", ["9999-12-30T23:00"]),
        (CronTriggerTimetable("@daily", "UTC"), "9999-12-30", ["9999-12-30", "9999-12-31"]),
        (MultipleCronTriggerTimetable(["@daily"], "UTC"), "9999-12-30", ["9999-12-30", "9999-12-31"]),
        (DeltaDataIntervalTimetable(DAY), "9999-12-30", ["9999-12-31"]),
        (DeltaDataIntervalTimetable(relativedelta(months=1)), "9999-11-30", ["9999-12-30"]),
        (DeltaTriggerTimetable(relativedelta(years=1)), "9999-06-01", ["9999-06-01"]),
    ],
)
def test_the_list_ends_where_the_calendar_ends(timetable: AnyTimetable, start: str, ends: list[str]) -> None:
    coming = upcoming(timetable, restriction=Restriction(at(start), None, True), now=at("01-10"), n=5)

    assert [(u.run.run_after, u.note) for u in coming] == [(at(end), None) for end in ends]


def dates(
    timetable: AnyTimetable, first: str, final: str, *, now: str = "02-01", anchor: str | None = "01-01T10:30"
) -> list[str]:
    runs = scheduled_between(timetable, at(first), at(final), now=at(now), anchor=at(anchor) if anchor else None)
    return [run.logical_date.strftime("%m-%dT%H:%M") for run in runs]


@pytest.mark.parametrize(
    ("timetable", "first", "final", "expected"),
    [
        (CronDataIntervalTimetable("@daily", "UTC"), "01-03", "01-05", ["01-03T00:00", "01-04T00:00", "01-05T00:00"]),
        (CronDataIntervalTimetable("@daily", "UTC"), "01-03T00:01", "01-04T23:59", ["01-04T00:00"]),
        (CronDataIntervalTimetable("@daily", "UTC"), "2025-12-31", "01-01", ["12-31T00:00", "01-01T00:00"]),
        (CronDataIntervalTimetable("@daily", "UTC"), "01-30", "02-03", ["01-30T00:00"]),  # 31 ends now, not before
        (CronTriggerTimetable("@daily", "UTC"), "01-03", "01-04", ["01-03T00:00", "01-04T00:00"]),
        (CronTriggerTimetable("@daily", "UTC", interval=HOUR), "01-03", "01-05", ["01-03T23:00", "01-04T23:00"]),
        (DeltaDataIntervalTimetable(DAY), "01-03", "01-05", ["01-03T10:30", "01-04T10:30"]),
        (DeltaDataIntervalTimetable(DAY), "2025-12-30", "01-01", ["12-30T10:30", "12-31T10:30"]),
        (DeltaTriggerTimetable(DAY), "01-03", "01-05", ["01-03T10:30", "01-04T10:30"]),
        (DeltaDataIntervalTimetable(relativedelta(months=1)), "2025-11-15", "2025-12-31", ["12-01T10:30"]),
        (EventsTimetable([at("01-05"), at("01-07"), at("01-09")]), "01-06", "01-09", ["01-07T00:00", "01-09T00:00"]),
        (CronDataIntervalTimetable("30 2 * * *", AMSTERDAM), "01-03", "01-04", ["01-03T01:30"]),
    ],
)
def test_the_dates_of_a_range_are_the_logical_dates_in_it(
    timetable: AnyTimetable, first: str, final: str, expected: list[str]
) -> None:
    assert dates(timetable, first, final) == expected


def test_without_a_start_date_the_grid_of_a_delta_begins_with_the_range() -> None:
    assert dates(DeltaDataIntervalTimetable(DAY), "01-03T07:00", "01-05", anchor=None) == ["01-03T07:00", "01-04T07:00"]
