"""When runs happen: timetables are data (stored in the serialized DAG) and pure rules.

base.py       the interface of timetables         parse.py      from `schedule=` to a timetable
simple.py     none, once, continuous, events      interval.py   runs at the end of their period
trigger.py    runs at the tick                    delta.py      exact and calendar distances
cron.py       expressions on the wall clock       wallclock.py  ticks in a zone, clock changes
custom.py     runs listed by code of an author    zones.py      time zones by name
upcoming.py   the next runs, backfills            assets.py     runs by asset events, or by both
days.py       whole days, as people name them
partitions.py runs that produce partitions        key_*.py      partition keys: mappers, windows, formats
"""

from aiosched.core.timetables.assets import (
    AssetOrTimeSchedule,
    AssetTriggeredTimetable,
    PartitionedAssetTimetable,
    condition_of,
)
from aiosched.core.timetables.base import DataInterval, NextRun, Partition, Restriction
from aiosched.core.timetables.cron import PRESETS
from aiosched.core.timetables.custom import CustomTimetable
from aiosched.core.timetables.delta import Delta
from aiosched.core.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from aiosched.core.timetables.parse import AnyTimetable, ScheduleArg, parse_schedule
from aiosched.core.timetables.partitions import CronPartitionTimetable, PartitionedAtRuntime
from aiosched.core.timetables.simple import ContinuousTimetable, EventsTimetable, NullTimetable, OnceTimetable
from aiosched.core.timetables.trigger import (
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    MultipleCronTriggerTimetable,
)
from aiosched.core.timetables.upcoming import (
    UpcomingRun,
    clock_note,
    first_unfinished,
    is_trigger,
    scheduled_between,
    timed,
    upcoming,
)
from aiosched.core.timetables.zones import schedule_timezone, timezone_name, zone

__all__ = [
    "PRESETS",
    "AnyTimetable",
    "AssetOrTimeSchedule",
    "AssetTriggeredTimetable",
    "ContinuousTimetable",
    "CronDataIntervalTimetable",
    "CronPartitionTimetable",
    "CronTriggerTimetable",
    "CustomTimetable",
    "DataInterval",
    "Delta",
    "DeltaDataIntervalTimetable",
    "DeltaTriggerTimetable",
    "EventsTimetable",
    "MultipleCronTriggerTimetable",
    "NextRun",
    "NullTimetable",
    "OnceTimetable",
    "Partition",
    "PartitionedAssetTimetable",
    "PartitionedAtRuntime",
    "Restriction",
    "ScheduleArg",
    "UpcomingRun",
    "clock_note",
    "condition_of",
    "first_unfinished",
    "is_trigger",
    "parse_schedule",
    "schedule_timezone",
    "scheduled_between",
    "timed",
    "timezone_name",
    "upcoming",
    "zone",
]
