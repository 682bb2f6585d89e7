"""Trigger timetables: runs happen at the tick. The tables are those of the semantics reference, section 11.4."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from dateutil.relativedelta import relativedelta

from aiosched.core.timetables import (
    AnyTimetable,
    CronTriggerTimetable,
    DataInterval,
    DeltaTriggerTimetable,
    MultipleCronTriggerTimetable,
    NextRun,
    Restriction,
)

HOUR = timedelta(hours=1)


def at(text: str) -> datetime:
    """An instant in UTC; the year 2026 may be left out."""
    return datetime.fromisoformat(text if text[4:5] == "-" else f"2026-{text}").replace(tzinfo=UTC)


def ran(tick: str) -> DataInterval:
    """The empty interval of a run at `tick`."""
    return DataInterval(at(tick), at(tick))


def ask(
    timetable: AnyTimetable,
    *,
    start: str | None = "01-01T00:00",
    end: str | None = None,
    catchup: bool = False,
    last: str | None = None,
    now: str = "01-10T12:00",
) -> NextRun | None:
    restriction = Restriction(None if start is None else at(start), None if end is None else at(end), catchup)
    return timetable.next_run(last=None if last is None else ran(last), restriction=restriction, now=at(now))


daily = CronTriggerTimetable("0 0 * * *", "UTC")
hourly = CronTriggerTimetable("0 * * * *", "UTC")
six_hours = DeltaTriggerTimetable(timedelta(hours=6))
twice = MultipleCronTriggerTimetable(["0 10 * * *", "0 12 * * *"], "UTC")
immediately = CronTriggerTimetable("0 0 * * *", "UTC", run_immediately=True)
not_immediately = CronTriggerTimetable("0 0 * * *", "UTC", run_immediately=False)
within_an_hour = CronTriggerTimetable("0 0 * * *", "UTC", run_immediately=HOUR)
every_ten_minutes = CronTriggerTimetable("*/10 * * * *", "UTC")


def case(name: str, timetable: AnyTimetable, expected: str | None, **given_: Any) -> Any:
    return pytest.param(timetable, given_, expected, id=name)


CASES = [
    case("catchup, first: at the start of the day", daily, "01-01T00:00", catchup=True),
    case("a start between ticks is rounded up", daily, "01-02T00:00", start="01-01T10:30", catchup=True),
    case("no catchup: the tick that passed is due", daily, "01-10T00:00"),
    case("no catchup, at the tick", daily, "01-10T00:00", now="01-10T00:00"),
    case("no catchup, before the start", daily, "01-01T00:00", now="2025-12-31T12:00"),
    case("at the end date", daily, "01-03T00:00", end="01-03T00:00", catchup=True, last="01-02T00:00"),
    case("past the end date", daily, None, end="01-03T00:00", catchup=True, last="01-03T00:00"),
    case("downtime, catchup", hourly, "07-26T21:00", last="07-26T20:00", now="07-27T00:30", catchup=True),
    case("downtime, no catchup", hourly, "07-27T00:00", last="07-26T20:00", now="07-27T00:30"),
    case("latest tick has run, no catchup", hourly, "07-27T01:00", last="07-27T00:00", now="07-27T00:30"),
    case("delta, catchup, first", six_hours, "01-01T10:30", start="01-01T10:30", catchup=True),
    case("delta, catchup", six_hours, "01-01T16:30", start="01-01T10:30", catchup=True, last="01-01T10:30"),
    case("delta, catchup, third", six_hours, "01-01T22:30", start="01-01T10:30", catchup=True, last="01-01T16:30"),
    case("delta, no catchup: start's grid", six_hours, "01-10T10:30", start="01-01T10:30", now="01-10T12:47"),
    case(
        "delta, no catchup, has run",
        six_hours,
        "01-10T16:30",
        start="01-01T10:30",
        now="01-10T12:47",
        last="01-10T10:30",
    ),
    case("delta, no catchup, before the start", six_hours, "01-01T10:30", start="01-01T10:30", now="2025-12-31T00:00"),
    case("delta, no start", six_hours, "01-10T12:00", start=None),
    case("delta, past the end date", six_hours, None, end="01-05T00:00"),
    case("no start, tick just passed", daily, "01-10T00:00", start=None, now="01-10T00:03"),
    case("no start, tick long passed", daily, "01-11T00:00", start=None),
    case("no start, catchup, tick long passed", daily, "01-11T00:00", start=None, catchup=True),
    case("no start, a tenth of the distance", daily, "01-10T00:00", start=None, now="01-10T02:24"),
    case("no start, over a tenth of the distance", daily, "01-11T00:00", start=None, now="01-10T02:24:01"),
    case("no start, five minutes at least", every_ten_minutes, "01-10T00:00", start=None, now="01-10T00:05"),
    case("no start, over five minutes", every_ten_minutes, "01-10T00:10", start=None, now="01-10T00:05:01"),
    case("no start, not immediately: as if unset", not_immediately, "01-11T00:00", start=None),
    case("no start, not immediately, just passed", not_immediately, "01-10T00:00", start=None, now="01-10T02:24"),
    case("no start, immediately", immediately, "01-10T00:00", start=None),
    case("no start, within the grace time", within_an_hour, "01-10T00:00", start=None, now="01-10T01:00"),
    case("no start, past the grace time", within_an_hour, "01-11T00:00", start=None, now="01-10T01:00:01"),
    case("with start, immediately does not matter", immediately, "01-10T00:00", now="01-10T23:00"),
    case("several: the latest that passed", twice, "01-10T12:00", now="01-10T13:00"),
    case("several: then the earliest to come", twice, "01-11T10:00", now="01-10T13:00", last="01-10T12:00"),
    case("several, catchup: the earliest", twice, "01-01T10:00", catchup=True),
    case("several, catchup: the next", twice, "01-01T12:00", catchup=True, last="01-01T10:00"),
    case("several: past the end date", twice, None, end="01-05T00:00", now="01-10T13:00"),
    case(
        "several: one of them past the end date",
        twice,
        "01-05T10:00",
        catchup=True,
        end="01-05T11:00",
        last="01-04T12:00",
    ),
]


@pytest.mark.parametrize(("timetable", "given_", "expected"), CASES)
def test_the_next_tick(timetable: AnyTimetable, given_: dict[str, Any], expected: str | None) -> None:
    run = ask(timetable, **given_)

    assert run == (None if expected is None else NextRun(run_after=at(expected), interval=ran(expected)))


def test_the_interval_reaches_back_from_the_tick() -> None:
    timetable = CronTriggerTimetable("30 16 * * MON", "UTC", interval=HOUR)

    run = ask(timetable, catchup=True)

    assert run is not None
    assert run.run_after == at("01-05T16:30")
    assert run.interval == DataInterval(at("01-05T15:30"), at("01-05T16:30"))
    assert run.logical_date == at("01-05T15:30")


@pytest.mark.parametrize(
    ("timetable", "start"),
    [
        (daily, "01-10T00:07"),
        (CronTriggerTimetable("0 0 * * *", "UTC", interval=HOUR), "01-09T23:07"),
        (MultipleCronTriggerTimetable("0 0 * * *", "UTC", interval=HOUR), "01-09T23:07"),
        (DeltaTriggerTimetable(HOUR, interval=relativedelta(months=1)), "2025-12-10T00:07"),
    ],
)
def test_a_manual_run_gets_the_interval_before_it(timetable: AnyTimetable, start: str) -> None:
    assert timetable.manual_interval(at("01-10T00:07")) == DataInterval(at(start), at("01-10T00:07"))


def test_two_expressions_with_a_tick_at_one_instant_give_one_run() -> None:
    timetable = MultipleCronTriggerTimetable(["0 12 * * *", "0 */6 * * *"], "UTC")
    found: list[str] = []
    last: str | None = None
    for _ in range(5):
        run = ask(timetable, catchup=True, last=last)
        assert run is not None
        last = run.run_after.replace(tzinfo=None).isoformat()
        found.append(last[8:13])

    assert found == ["01T00", "01T06", "01T12", "01T18", "02T00"]


@pytest.mark.parametrize(
    "ticks",
    [
        ["03-28T01:30", "03-29T01:30", "03-30T00:30"],
        ["10-24T00:30", "10-25T01:30", "10-26T01:30"],
    ],
)
def test_ticks_over_a_clock_change_are_the_interval_ends(ticks: list[str]) -> None:
    timetable = CronTriggerTimetable("30 2 * * *", "Europe/Amsterdam")

    found = [ask(timetable, start=ticks[0], catchup=True, last=last) for last in [None, *ticks[:-1]]]

    assert [run and run.run_after for run in found] == [at(tick) for tick in ticks]
