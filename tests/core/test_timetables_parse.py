"""From `schedule=` to a timetable and from there to JSON and back; and what wrong schedules are told.

Source: the semantics reference, section 11.1 (what a schedule argument means, presets, cron fields, time zones).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import msgspec
import pendulum
import pytest
from dateutil.relativedelta import FR, relativedelta

from aiosched.core.graph.spec import DagSpec, decode_spec, encode_spec
from aiosched.core.timetables import (
    PRESETS,
    AnyTimetable,
    ContinuousTimetable,
    CronDataIntervalTimetable,
    CronTriggerTimetable,
    Delta,
    DeltaDataIntervalTimetable,
    DeltaTriggerTimetable,
    EventsTimetable,
    MultipleCronTriggerTimetable,
    NullTimetable,
    OnceTimetable,
    parse_schedule,
    schedule_timezone,
    timezone_name,
    zone,
)
from aiosched.errors import TimetableError

AMSTERDAM = ZoneInfo("Europe/Amsterdam")
HOUR = timedelta(hours=1)

EVERY_KIND: list[AnyTimetable] = [
    NullTimetable(),
    OnceTimetable(),
    ContinuousTimetable(),
    CronDataIntervalTimetable("0 6 * * *", AMSTERDAM),
    DeltaDataIntervalTimetable(timedelta(minutes=90)),
    DeltaDataIntervalTimetable(relativedelta(months=1, hours=2)),
    CronTriggerTimetable("30 16 * * MON", timezone="Europe/Amsterdam", interval=HOUR),
    CronTriggerTimetable("@daily", "UTC", run_immediately=True),
    MultipleCronTriggerTimetable(["0 10 * * *", "0 12 * * *"], timezone="UTC", run_immediately=HOUR),
    DeltaTriggerTimetable(HOUR, interval=relativedelta(days=1)),
    EventsTimetable([datetime(2026, 1, 5, tzinfo=UTC)], restrict_to_events=True, description="launches"),
]


def test_several_cron_expressions_may_be_written_one_after_the_other() -> None:
    listed = MultipleCronTriggerTimetable(["0 10 * * *", "30 15 * * FRI"], "UTC", interval=HOUR)

    assert MultipleCronTriggerTimetable("0 10 * * *", "30 15 * * FRI", timezone="UTC", interval=HOUR) == listed
    assert MultipleCronTriggerTimetable(["0 10 * * *", "30 15 * * FRI"], timezone="UTC", interval=HOUR) == listed
    assert MultipleCronTriggerTimetable("0 10 * * *", timezone="UTC").crons == ("0 10 * * *",)
    assert msgspec.convert(msgspec.to_builtins(listed), MultipleCronTriggerTimetable) == listed


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (None, NullTimetable()),
        ("@once", OnceTimetable()),
        ("@continuous", ContinuousTimetable()),
        (" @Once ", OnceTimetable()),
        ("  0   6 * * * ", CronDataIntervalTimetable("0 6 * * *", "Asia/Tokyo")),
        ("0 6 * * * 30", CronDataIntervalTimetable("0 6 * * * 30", "Asia/Tokyo")),
        (HOUR, DeltaDataIntervalTimetable(HOUR)),
        (relativedelta(months=3), DeltaDataIntervalTimetable(relativedelta(months=3))),
        (EVERY_KIND[6], EVERY_KIND[6]),
    ],
)
def test_what_a_schedule_means(schedule: object, expected: AnyTimetable) -> None:
    assert parse_schedule(schedule, timezone="Asia/Tokyo") == expected


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_keeps_its_name_and_ticks_as_its_expression(preset: str) -> None:
    timetable, spelled = CronDataIntervalTimetable(preset, "UTC"), CronDataIntervalTimetable(PRESETS[preset], "UTC")
    t = datetime(2026, 5, 17, 13, 31, tzinfo=UTC)

    assert timetable.summary == preset
    assert timetable.manual_interval(t) == spelled.manual_interval(t)


def test_a_cron_string_is_read_in_the_zone_given_else_in_that_of_the_start_date_else_in_utc() -> None:
    start = datetime(2026, 1, 1, tzinfo=AMSTERDAM)

    assert parse_schedule("@daily", timezone="Asia/Tokyo", start_date=start).timezone == "Asia/Tokyo"  # type: ignore[union-attr]
    assert parse_schedule("@daily", start_date=start).timezone == "Europe/Amsterdam"  # type: ignore[union-attr]
    assert parse_schedule("@daily").timezone == "UTC"  # type: ignore[union-attr]


WRONG = [
    ("@dayly", r"'@dayly' is not a schedule; did you mean '@daily'\?"),
    ("daily", r"did you mean '@daily'\?"),
    ("@Montly", r"did you mean '@monthly'\?"),
    ("@onec", r"did you mean '@once'\?"),
    ("@fortnight", r"use a preset \(@once, @continuous, @hourly, .*\) or a cron expression of five fields"),
    ("99 0 * * *", r"'99 0 \* \* \*' cannot be understood: its minute field '99' .* within 0-59; correct that field"),
    ("0 24 * * *", r"its hour field '24' .* within 0-23"),
    ("0 0 32 * *", r"its day-of-month field '32'"),
    ("0 0 * 13 *", r"its month field '13'"),
    ("0 0 * * FOO", r"its day-of-week field 'FOO'"),
    ("0 0 * * * 60", r"its second field '60'"),
    ("*/0 * * * *", r"its minute field '\*/0'"),
    ("H * * * *", r"its minute field 'H'"),
    ("0 R * * *", r"its hour field 'R'"),
    ("0 0 * *", r"has 4 fields; it needs five fields \(minute hour .*\), or six with the seconds last"),
    ("0 0 * * * 0 2026", r"has 7 fields"),
    ("0 0 0 * * *", r"day-of-month field '0'.* Seconds are the last of six fields: did you mean '0 0 \* \* \* 0'\?"),
    ("0 30 6 * * MON-FRI", r"hour field '30'.* did you mean '30 6 \* \* MON-FRI 0'\?"),
    ("*/10 0 0 1 1 ?", r"day-of-month .*|month .* did you mean '0 0 1 1 \? \*/10'\?"),
    ("0 0 0 * * ? *", r"has 7 fields.* There is no field for years; seconds are the last .* '0 0 \* \* \? 0'\?"),
    ("0 6 * * 5L", r"day-of-week field '5L'.* The last Fri of a month is L5: did you mean '0 6 \* \* L5'\?"),
    ("0 6 * * sunL", r"The last Sun of a month is L0: did you mean '0 6 \* \* L0'\?"),
    ("0 0 6 ? * 5L", r"Seconds are the last of six fields; the last Fri .* did you mean '0 6 \? \* L5 0'\?"),
    ("0 99 0 * * *", r"its hour field '99' .* correct that field\.$"),
    ("0 0 31 2 *", r"'0 0 31 2 \*' never happens: .*; correct its day-of-month and month fields"),
    ("", r"write schedule=None for manual runs only"),
    ("None", r"write schedule=None for manual runs only"),
    (5, r"schedule=5 is not a schedule; use None, a preset"),
    (timedelta(0), r"0 seconds between runs does not move forward; use a positive one"),
    (timedelta(hours=-1), r"-1 hour between runs does not move forward"),
    (relativedelta(months=1, days=-28), r"does not move forward"),
    (relativedelta(day=31), r"fixes the day, which is not a distance .*'0 0 L \* \*'"),
    (relativedelta(weekday=FR), r"fixes the weekday"),
    (CronTriggerTimetable("@dayly", "UTC"), r"did you mean '@daily'\?"),
    (CronTriggerTimetable("@daily", "UTC", interval=-HOUR), r"interval of -1 hour would end before it starts"),
    (MultipleCronTriggerTimetable([], "UTC"), r"needs at least one cron expression"),
    (MultipleCronTriggerTimetable(["@daily", "x"], "UTC"), r"'x' is not a schedule"),
    (DeltaTriggerTimetable(timedelta(0)), r"does not move forward"),
]


@pytest.mark.parametrize(("schedule", "message"), WRONG)
def test_a_wrong_schedule_is_told_what_is_wrong_and_what_to_do(schedule: object, message: str) -> None:
    with pytest.raises(TimetableError, match=message):
        parse_schedule(schedule)


def test_an_unknown_zone_is_told_its_neighbours() -> None:
    with pytest.raises(TimetableError, match="no time zone 'Europe/Amsterdan'; did you mean 'Europe/Amsterdam'"):
        parse_schedule("@daily", timezone="Europe/Amsterdan")
    with pytest.raises(TimetableError, match=r"no time zone '\.\./etc/passwd'; use an IANA name"):
        zone("../etc/passwd")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("Europe/Amsterdam", "Europe/Amsterdam"),
        (AMSTERDAM, "Europe/Amsterdam"),
        (pendulum.timezone("Europe/Amsterdam"), "Europe/Amsterdam"),
        (pendulum.UTC, "UTC"),
        (UTC, "UTC"),
        (timezone(timedelta(hours=2)), "+02:00"),
        (timezone(-timedelta(hours=3, minutes=30)), "-03:30"),
        (pendulum.FixedTimezone(7200), "+02:00"),
        (timezone(timedelta(0)), "UTC"),
    ],
)
def test_a_zone_is_stored_by_its_name(value: str | tzinfo, name: str) -> None:
    assert timezone_name(value) == name
    t = datetime(2026, 7, 1, tzinfo=UTC)
    assert isinstance(value, str) or t.astimezone(zone(name)).utcoffset() == t.astimezone(value).utcoffset()


def test_the_zone_of_a_schedule_is_that_of_its_start_date() -> None:
    assert schedule_timezone(datetime(2026, 1, 1, tzinfo=AMSTERDAM)) == "Europe/Amsterdam"
    assert schedule_timezone(datetime(2026, 1, 1)) == "UTC"  # noqa: DTZ001
    assert schedule_timezone(None) == "UTC"


@pytest.mark.parametrize("timetable", EVERY_KIND, ids=lambda timetable: type(timetable).__name__)
def test_every_timetable_survives_storage(timetable: AnyTimetable) -> None:
    stored = encode_spec(DagSpec(dag_id="d", timetable=timetable))

    loaded = decode_spec(stored)

    assert loaded.timetable == timetable
    assert encode_spec(loaded) == stored
    assert hash(loaded.timetable) == hash(timetable)


@pytest.mark.parametrize("timetable", EVERY_KIND, ids=lambda timetable: type(timetable).__name__)
def test_every_timetable_keeps_the_contract(timetable: AnyTimetable) -> None:
    timetable.validate()

    assert timetable.summary
    assert isinstance(timetable.periodic, bool)
    assert timetable.manual_interval(datetime(2026, 1, 1, tzinfo=UTC)).end.tzinfo is UTC


def test_the_stored_form_is_what_people_would_write() -> None:
    assert msgspec.json.decode(msgspec.json.encode(EVERY_KIND[6])) == {
        "kind": "cron_trigger",
        "cron": "30 16 * * MON",
        "timezone": "Europe/Amsterdam",
        "interval": {"seconds": 3600.0},
    }


@pytest.mark.parametrize(
    ("delta", "words"),
    [
        (timedelta(days=1), "1 day"),
        (timedelta(hours=6), "6 hours"),
        (timedelta(weeks=2), "2 weeks"),
        (timedelta(days=1, minutes=30), "1 day 30 minutes"),
        (timedelta(seconds=90.5), "1 minute 30.5 seconds"),
        (relativedelta(months=1), "1 month"),
        (relativedelta(years=1, months=2, days=14), "1 year 2 months 14 days"),
        (relativedelta(weeks=1), "1 week"),
        (timedelta(0), "0 seconds"),
    ],
)
def test_a_delta_reads_as_words(delta: timedelta | relativedelta, words: str) -> None:
    assert str(Delta.of(delta)) == words
    assert DeltaDataIntervalTimetable(delta).summary == words


def test_a_relativedelta_without_months_is_exact_time() -> None:
    assert Delta.of(relativedelta(days=1, hours=2)) == Delta.of(timedelta(hours=26))


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("0 6 * * *", CronTriggerTimetable("0 6 * * *", "UTC")),
        ("@daily", CronTriggerTimetable("@daily", "UTC")),
        (timedelta(hours=6), DeltaTriggerTimetable(timedelta(hours=6))),
        ("@once", OnceTimetable()),
        (None, NullTimetable()),
        (CronDataIntervalTimetable("0 6 * * *", "UTC"), CronDataIntervalTimetable("0 6 * * *", "UTC")),
    ],
)
def test_at_tick_what_authors_write_makes_runs_at_the_tick(schedule: object, expected: object) -> None:
    assert parse_schedule(schedule, timezone="UTC", at_tick=True) == expected
