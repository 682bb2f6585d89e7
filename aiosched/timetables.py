"""Timetables for DAG files: `from aiosched.timetables import CronTriggerTimetable`.

With a string or timedelta as `schedule`, a run starts at the END of its data interval. With a trigger timetable, it
starts AT the scheduled time. `Timetable` is the base class of custom timetables: classes in a DAG file, or in an
installed package with an entry point in the group `aiosched.timetables`. The latter are imported from this module by
the name of their entry point.
"""

from __future__ import annotations

from typing import Any

from aiosched.authoring.dag.custom_timetables import DagRunInfo, TimeRestriction, Timetable
from aiosched.core.timetables import (
    AssetOrTimeSchedule,
    AssetTriggeredTimetable,
    ContinuousTimetable,
    CronDataIntervalTimetable,
    CronPartitionTimetable,
    CronTriggerTimetable,
    DataInterval,
    DeltaDataIntervalTimetable,
    DeltaTriggerTimetable,
    EventsTimetable,
    MultipleCronTriggerTimetable,
    NullTimetable,
    OnceTimetable,
    PartitionedAssetTimetable,
    PartitionedAtRuntime,
)

__all__ = [
    "AssetOrTimeSchedule",
    "AssetTriggeredTimetable",
    "ContinuousTimetable",
    "CronDataIntervalTimetable",
    "CronPartitionTimetable",
    "CronTriggerTimetable",
    "DagRunInfo",
    "DataInterval",
    "DeltaDataIntervalTimetable",
    "DeltaTriggerTimetable",
    "EventsTimetable",
    "MultipleCronTriggerTimetable",
    "NullTimetable",
    "OnceTimetable",
    "PartitionedAssetTimetable",
    "PartitionedAtRuntime",
    "TimeRestriction",
    "Timetable",
]


def __getattr__(name: str) -> Any:
    from importlib.metadata import entry_points

    for found in entry_points(group="aiosched.timetables", name=name):
        return found.load()
    raise AttributeError(
        f"There is no timetable {name!r}: neither in this module nor among the installed entry points "
        "aiosched.timetables."
    )
