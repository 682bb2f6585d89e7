"""The timetables that DAG authors name: `from aiosched.timetables import CronTriggerTimetable`.

A string or timedelta as `schedule` means an interval: the run starts at the END of the period that it is about.
Trigger timetables start a run AT the tick.
"""

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
    "DataInterval",
    "DeltaDataIntervalTimetable",
    "DeltaTriggerTimetable",
    "EventsTimetable",
    "MultipleCronTriggerTimetable",
    "NullTimetable",
    "OnceTimetable",
]
