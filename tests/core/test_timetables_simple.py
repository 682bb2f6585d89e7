"""Timetables without a grid: none, once, continuous, listed events. Tables of the semantics reference, section 11.5."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from aiosched.core.timetables import (
    AnyTimetable,
    ContinuousTimetable,
    DataInterval,
    EventsTimetable,
    NextRun,
    NullTimetable,
    OnceTimetable,
    Restriction,
)
from aiosched.errors import TimetableError

once, continuous = OnceTimetable(), ContinuousTimetable()
launches = EventsTimetable([datetime(2026, 1, day, 9, tzinfo=UTC) for day in (20, 5, 12)])


def at(text: str) -> datetime:
    """An instant of 2026 in UTC."""
    return datetime.fromisoformat(f"2026-{text}").replace(tzinfo=UTC)


def interval(start: str, end: str | None = None) -> DataInterval:
    return DataInterval(at(start), at(end or start))


def ask(
    timetable: AnyTimetable,
    *,
    start: str | None = "01-01",
    end: str | None = None,
    catchup: bool = True,
    last: DataInterval | None = None,
    now: str = "01-10",
) -> NextRun | None:
    restriction = Restriction(None if start is None else at(start), None if end is None else at(end), catchup)
    return timetable.next_run(last=last, restriction=restriction, now=at(now))


def test_none_never_runs_by_itself() -> None:
    assert ask(NullTimetable()) is None
    assert NullTimetable().manual_interval(at("01-10")) == interval("01-10")


@pytest.mark.parametrize("catchup", [True, False])
@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("01-01", None, "01-01"),
        ("02-01", None, "02-01"),  # a start to come is waited for
        (None, None, "01-10"),
        ("01-05", "01-05", "01-05"),
        ("01-05", "01-04", None),
        (None, "01-04", None),
    ],
)
def test_once_runs_at_the_start_date_or_now(
    start: str | None, end: str | None, expected: str | None, catchup: bool
) -> None:
    run = ask(once, start=start, end=end, catchup=catchup)

    assert run == (None if expected is None else NextRun(run_after=at(expected), interval=interval(expected)))


def test_once_does_not_run_again() -> None:
    assert ask(once, last=interval("01-01")) is None


def test_continuous_reaches_from_the_start_to_now_and_on_from_there() -> None:
    first = ask(continuous)
    assert first == NextRun(run_after=at("01-10"), interval=interval("01-01", "01-10"))

    second = ask(continuous, last=first.interval, now="01-10T00:05")

    assert second == NextRun(run_after=at("01-10T00:05"), interval=interval("01-10", "01-10T00:05"))


@pytest.mark.parametrize(
    ("start", "last", "expected"),
    [
        ("02-01", None, interval("02-01")),  # waits for the start
        (None, None, interval("01-10")),
        ("01-01", interval("01-09", "01-12"), interval("01-01", "01-04")),  # the last end lies ahead
    ],
)
def test_continuous_at_the_edges(start: str | None, last: DataInterval | None, expected: DataInterval) -> None:
    run = ask(continuous, start=start, last=last)

    assert run == NextRun(run_after=expected.end, interval=expected)


def test_continuous_ends_with_the_end_date() -> None:
    assert ask(continuous, end="01-10") is not None
    assert ask(continuous, end="01-09") is None


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({}, "01-05T09:00"),
        ({"start": None}, "01-05T09:00"),
        ({"start": "01-05T09:00"}, "01-05T09:00"),
        ({"start": "01-05T09:01"}, "01-12T09:00"),
        ({"catchup": False}, "01-12T09:00"),
        ({"catchup": False, "now": "01-12T09:00"}, "01-12T09:00"),
        ({"catchup": False, "start": "01-15"}, "01-20T09:00"),
        ({"last": interval("01-12T09:00")}, "01-20T09:00"),
        ({"last": interval("01-20T09:00")}, None),
        ({"last": interval("01-12T09:00"), "end": "01-20T09:00"}, "01-20T09:00"),
        ({"last": interval("01-12T09:00"), "end": "01-20"}, None),
    ],
)
def test_the_next_event(given_: dict[str, object], expected: str | None) -> None:
    run = ask(launches, **given_)  # type: ignore[arg-type]

    assert run == (None if expected is None else NextRun(run_after=at(expected), interval=interval(expected)))


@pytest.mark.parametrize(
    ("restricted", "now", "expected"),
    [
        (False, "01-13", "01-13"),
        (True, "01-13", "01-12T09:00"),
        (True, "01-12T09:00", "01-12T09:00"),
        (True, "01-02", "01-05T09:00"),
    ],
)
def test_a_manual_run_may_be_tied_to_an_event(restricted: bool, now: str, expected: str) -> None:
    timetable = EventsTimetable(launches.event_dates, restrict_to_events=restricted)

    assert timetable.manual_interval(at(now)) == interval(expected)


def test_events_are_sorted_unique_and_in_utc() -> None:
    tokyo = timezone(timedelta(hours=9))
    timetable = EventsTimetable([at("01-05T09:00"), datetime(2026, 1, 5, 18, tzinfo=tokyo), at("01-02")])

    assert timetable.event_dates == (at("01-02"), at("01-05T09:00"))
    assert timetable.summary == "2 events"
    assert EventsTimetable([at("01-02")], description="launch days").summary == "launch days"


def test_events_need_dates_with_a_zone() -> None:
    with pytest.raises(TimetableError, match=r"2026-01-05 00:00:00 has no time zone; write datetime\(…, tzinfo=UTC\)"):
        EventsTimetable([datetime(2026, 1, 5)])  # noqa: DTZ001
    with pytest.raises(TimetableError, match="without event dates never runs"):
        EventsTimetable([]).validate()
