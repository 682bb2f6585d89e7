"""Days of the week, and the time zone of a task."""

from __future__ import annotations

from collections.abc import Collection
from datetime import tzinfo
from enum import IntEnum
from typing import TYPE_CHECKING

from aiosched.core.timetables import zone

if TYPE_CHECKING:
    from aiosched.authoring.tasks.operator import BaseOperator


class WeekDay(IntEnum):
    """A day of the week, by its ISO number."""

    MONDAY = 1
    TUESDAY = 2
    WEDNESDAY = 3
    THURSDAY = 4
    FRIDAY = 5
    SATURDAY = 6
    SUNDAY = 7


def week_days(value: str | WeekDay | Collection[str | WeekDay], task: BaseOperator) -> frozenset[int]:
    """The ISO numbers of one or several days; raises DagError for other values."""
    try:
        listed = [value] if isinstance(value, str | WeekDay) else list(value)
        days = {day if isinstance(day, WeekDay) else WeekDay[day.strip().upper()] for day in listed}
    except (KeyError, AttributeError, TypeError):
        days = set()
    if not days:
        raise task.fail(f"Task {task.task_id!r}: week_day={value!r} is wrong. Give names of days, such as 'Monday'.")
    return frozenset(map(int, days))


def zone_of(task: BaseOperator) -> tzinfo:
    """The time zone of the task's DAG; UTC without one."""
    return zone(task.dag.zone_name if task.dag is not None else "UTC")
