"""From a DAG's `schedule=` to a timetable. Source: the semantics reference, section 11.1."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo

from dateutil.relativedelta import relativedelta

from aiosched.core.assets.conditions import AssetExpression
from aiosched.core.timetables.assets import (
    AssetOrTimeSchedule,
    AssetTriggeredTimetable,
    StandsForAssets,
    TimedTimetable,
    asset_condition,
)
from aiosched.core.timetables.cron import nearest_words
from aiosched.core.timetables.custom import StandsForTimetable
from aiosched.core.timetables.delta import Delta
from aiosched.core.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from aiosched.core.timetables.simple import ContinuousTimetable, NullTimetable, OnceTimetable
from aiosched.core.timetables.trigger import CronTriggerTimetable, DeltaTriggerTimetable
from aiosched.core.timetables.zones import schedule_timezone
from aiosched.errors import TimetableError

AnyTimetable = TimedTimetable | AssetTriggeredTimetable | AssetOrTimeSchedule
"""Every timetable that a serialized DAG can have; `kind` distinguishes them in the JSON."""

ScheduleArg = (
    str
    | timedelta
    | relativedelta
    | Delta
    | AnyTimetable
    | StandsForTimetable
    | StandsForAssets
    | AssetExpression
    | Sequence[StandsForAssets]
    | None
)
"""What `DAG(schedule=…)` takes."""


def parse_schedule(
    schedule: object,
    *,
    timezone: str | tzinfo | None = None,
    start_date: datetime | None = None,
    at_tick: bool = False,
) -> AnyTimetable:
    """The timetable for `schedule` (see `ScheduleArg`), validated.

    Cron strings, presets and deltas become interval timetables (decision 1), or with `at_tick` trigger timetables, as
    in Airflow 3 (section 38.2). A cron string is read in `timezone`; if
    that is None, in the start date's zone, else in UTC. One asset, a list of them (all are required) or an expression
    of assets is a condition. Raises TimetableError, naming the expression, the problem and the remedy.
    """
    zone = schedule_timezone(start_date) if timezone is None else timezone
    timetable = _parse_value(schedule, zone, at_tick=at_tick)
    timetable.validate()
    return timetable


def _parse_value(schedule: object, timezone: str | tzinfo, *, at_tick: bool) -> AnyTimetable:
    if schedule is None:
        return NullTimetable()
    if isinstance(schedule, AssetOrTimeSchedule):
        return _parse_asset_or_time(schedule, timezone, at_tick=at_tick)
    if isinstance(schedule, AnyTimetable):
        return schedule
    if isinstance(schedule, str):
        return _parse_text(schedule, timezone, at_tick=at_tick)
    if isinstance(schedule, (timedelta, relativedelta, Delta)):
        return DeltaTriggerTimetable(schedule) if at_tick else DeltaDataIntervalTimetable(schedule)
    if isinstance(schedule, StandsForTimetable):
        return schedule.to_timetable()
    condition = asset_condition(schedule)
    if condition is not None:
        return AssetTriggeredTimetable(condition)
    raise TimetableError(
        f"schedule={schedule!r} is not a schedule; use None, a preset such as '@daily', a cron expression, "
        "a timedelta, an asset or a timetable object."
    )


def _parse_asset_or_time(
    schedule: AssetOrTimeSchedule, timezone: str | tzinfo, *, at_tick: bool
) -> AssetOrTimeSchedule:
    if isinstance(schedule.timetable, TimedTimetable):
        return schedule
    timed = _parse_value(schedule.timetable, timezone, at_tick=at_tick)
    if not isinstance(timed, TimedTimetable):
        raise TimetableError(
            f"AssetOrTimeSchedule(timetable={timed.summary!r}) does not follow the clock; give it '@daily', say."
        )
    return AssetOrTimeSchedule(timed, schedule.assets)


def _parse_text(schedule: str, timezone: str | tzinfo, *, at_tick: bool) -> AnyTimetable:
    word = schedule.strip().lower()
    if word == "@once":
        return OnceTimetable()
    if word == "@continuous":
        return ContinuousTimetable()
    if word in {"", "none", "@none", "null"}:
        raise TimetableError(f"schedule={schedule!r} is not a schedule; write schedule=None for manual runs only.")
    if word.startswith("@") and " " in word and (remedy := nearest_words(word.split()[0])):
        raise TimetableError(f"{schedule!r} is not a schedule; {remedy}")
    return CronTriggerTimetable(schedule, timezone) if at_tick else CronDataIntervalTimetable(schedule, timezone)
