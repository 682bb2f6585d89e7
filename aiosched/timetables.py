"""The timetables that DAG authors name: `from aiosched.timetables import CronTriggerTimetable`.

A string or timedelta as `schedule` means an interval: the run starts at the END of the period that it is about.
Trigger timetables start a run AT the tick. `Timetable` is the base of timetables of your own: a class in a DAG
file, or in an installed package that names it in its entry points of the group `aiosched.timetables`; such
a class is imported from here by the name of its entry point.
"""

from __future__ import annotations

from typing import Any

from aiosched.authoring.dag.custom_timetables import DagRunInfo, TimeRestriction, Timetable
from aiosched.core.timetables import (
    AssetOrTimeSchedule,
    AssetTriggeredTimetable,
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
)

__all__ = [
    "AssetOrTimeSchedule",
    "AssetTriggeredTimetable",
    "ContinuousTimetable",
    "CronDataIntervalTimetable",
    "CronTriggerTimetable",
    "DagRunInfo",
    "DataInterval",
    "DeltaDataIntervalTimetable",
    "DeltaTriggerTimetable",
    "EventsTimetable",
    "MultipleCronTriggerTimetable",
    "NullTimetable",
    "OnceTimetable",
    "TimeRestriction",
    "Timetable",
]


def __getattr__(name: str) -> Any:
    from importlib.metadata import entry_points

    for found in entry_points(group="aiosched.timetables", name=name):
        return found.load()
    raise AttributeError(
        f"There is no timetable {name!r}: neither here nor among the entry points aiosched.timetables of what is "
        "installed."
    )
