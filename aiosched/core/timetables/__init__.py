"""When runs happen."""

from aiosched.core.timetables.base import DataInterval, NextRun, Restriction, Timetable
from aiosched.core.timetables.simple import NullTimetable

AnyTimetable = NullTimetable

__all__ = ["AnyTimetable", "DataInterval", "NextRun", "NullTimetable", "Restriction", "Timetable"]
