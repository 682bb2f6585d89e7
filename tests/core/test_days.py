"""A date without a time is that whole day in a time zone."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from aiosched.core.timetables.days import end_of, period_of, read_day_or_instant, start_after, start_of

TICK = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("zone", "day", "begins", "hours"),
    [
        ("UTC", "2026-08-31", "2026-08-31T00:00", 24),
        ("Europe/Amsterdam", "2026-08-31", "2026-08-30T22:00", 24),
        ("Europe/Amsterdam", "2026-03-29", "2026-03-28T23:00", 23),
        ("Europe/Amsterdam", "2026-10-25", "2026-10-24T22:00", 25),
        ("America/New_York", "2026-03-08", "2026-03-08T05:00", 23),
        ("America/New_York", "2026-11-01", "2026-11-01T04:00", 25),
        ("Asia/Kolkata", "2026-11-01", "2026-10-31T18:30", 24),
        ("+05:45", "2026-11-01", "2026-10-31T18:15", 24),
        ("Australia/Lord_Howe", "2026-04-05", "2026-04-04T13:00", 24.5),
        ("America/Havana", "2026-03-08", "2026-03-08T05:00", 23),  # there is no midnight
        ("America/Havana", "2026-11-01", "2026-11-01T04:00", 25),  # there are two midnights
        ("America/Sao_Paulo", "2018-02-17", "2018-02-17T02:00", 25),  # its last hour comes twice
        ("Nowhere/Town", "2026-08-31", "2026-08-31T00:00", 24),  # a zone that is gone
    ],
)
def test_a_day_is_from_its_first_instant_to_its_last(zone: str, day: str, begins: str, hours: float) -> None:
    given = date.fromisoformat(day)
    first = datetime.fromisoformat(begins).replace(tzinfo=UTC)
    after = first + timedelta(hours=hours)

    assert period_of(given, given, zone) == (first, after - TICK)
    assert start_after(given, zone) == after == start_of(given + timedelta(days=1), zone)


def test_an_instant_is_itself_in_every_zone() -> None:
    instant = datetime(2026, 8, 31, 6, tzinfo=timezone(timedelta(hours=2)))

    for resolve in (start_of, end_of, start_after):
        assert resolve(instant, "Asia/Kolkata") == datetime(2026, 8, 31, 4, tzinfo=UTC)


def test_days_at_the_edge_of_the_calendar_end_there() -> None:
    assert start_of(date.min, "Asia/Kolkata") == datetime.min.replace(tzinfo=UTC)
    assert end_of(date.max, "America/New_York") == datetime.max.replace(tzinfo=UTC) - TICK


def test_what_people_write() -> None:
    assert read_day_or_instant("2026-08-31") == date(2026, 8, 31)
    assert read_day_or_instant("2026-08-31T00:00") == datetime(2026, 8, 31, tzinfo=UTC)
    assert read_day_or_instant("2026-08-31 06:00+02:00") == datetime(2026, 8, 31, 4, tzinfo=UTC)
    for wrong in ("", "soon", "2026-02-30", "31.8.2026"):
        with pytest.raises(ValueError):
            read_day_or_instant(wrong)
    with pytest.raises(OverflowError):
        read_day_or_instant("0001-01-01T00:00+02:00")
