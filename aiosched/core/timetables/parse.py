"""From what a DAG's `schedule=` holds to a timetable. Source: the semantics reference, section 11.1."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import Final

from dateutil.relativedelta import relativedelta

from aiosched.core.timetables.cron import nearest_words
from aiosched.core.timetables.delta import Delta
from aiosched.core.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from aiosched.core.timetables.simple import ContinuousTimetable, EventsTimetable, NullTimetable, OnceTimetable
from aiosched.core.timetables.trigger import (
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    MultipleCronTriggerTimetable,
)
from aiosched.core.timetables.zones import schedule_timezone
from aiosched.errors import TimetableError

AnyTimetable = (
    NullTimetable
    | OnceTimetable
    | ContinuousTimetable
    | CronDataIntervalTimetable
    | DeltaDataIntervalTimetable
    | CronTriggerTimetable
    | MultipleCronTriggerTimetable
    | DeltaTriggerTimetable
    | EventsTimetable
)
"""Every timetable that a serialized DAG may hold; `kind` tells them apart in the JSON."""

ScheduleArg = str | timedelta | relativedelta | Delta | AnyTimetable | None
"""What `DAG(schedule=…)` takes."""

_TIMETABLES: Final = (
    NullTimetable,
    OnceTimetable,
    ContinuousTimetable,
    CronDataIntervalTimetable,
    DeltaDataIntervalTimetable,
    CronTriggerTimetable,
    MultipleCronTriggerTimetable,
    DeltaTriggerTimetable,
    EventsTimetable,
)


def parse_schedule(
    schedule: object, *, timezone: str | tzinfo | None = None, start_date: datetime | None = None
) -> AnyTimetable:
    """The timetable that `schedule` (see `ScheduleArg`) means, validated.

    Cron strings, presets and deltas become interval timetables (decision 1). A cron
    string is read in `timezone`; where that is None, in the start date's zone, else in UTC.
    Raises TimetableError, naming the expression, what is wrong with it and the remedy.
    """
    timetable = _understand(schedule, schedule_timezone(start_date) if timezone is None else timezone)
    timetable.validate()
    return timetable


def _understand(schedule: object, timezone: str | tzinfo) -> AnyTimetable:
    if schedule is None:
        return NullTimetable()
    if isinstance(schedule, _TIMETABLES):
        return schedule
    if isinstance(schedule, str):
        return _understand_text(schedule, timezone)
    if isinstance(schedule, (timedelta, relativedelta, Delta)):
        return DeltaDataIntervalTimetable(schedule)
    raise TimetableError(
        f"schedule={schedule!r} is no schedule; use None, a preset such as '@daily', a cron expression, "
        "a timedelta or a timetable object."
    )


def _understand_text(schedule: str, timezone: str | tzinfo) -> AnyTimetable:
    word = schedule.strip().lower()
    if word == "@once":
        return OnceTimetable()
    if word == "@continuous":
        return ContinuousTimetable()
    if word in {"", "none", "@none", "null"}:
        raise TimetableError(f"schedule={schedule!r} is no schedule; write schedule=None for manual runs only.")
    if word.startswith("@") and " " in word and (remedy := nearest_words(word.split()[0])):
        raise TimetableError(f"{schedule!r} is no schedule; {remedy}")
    return CronDataIntervalTimetable(schedule, timezone)
