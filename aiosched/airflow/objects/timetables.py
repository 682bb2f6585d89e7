"""Airflow's timetables of data intervals, which authors also derive classes from.

As they are they make aiosched's own timetables; an author's subclass is a custom timetable with the same runs.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from aiosched.authoring.dag import instants
from aiosched.authoring.dag.custom_timetables import DagRunInfo, TimeRestriction, Timetable
from aiosched.authoring.runtime.context import moment
from aiosched.clock import SystemClock
from aiosched.core import timetables
from aiosched.core.timetables import DataInterval, Restriction
from aiosched.core.values.instants import plain_utc

if TYPE_CHECKING:
    from pendulum import DateTime

_INSTANT: Final = timedelta(microseconds=1)


class _MakesOurs(type):
    """A class with an attribute `ours` of its own makes objects of that class; one derived from it, its own."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        ours = cls.__dict__.get("ours")
        return super().__call__(*args, **kwargs) if ours is None else ours(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        ours = cls.__dict__.get("ours")
        return super().__instancecheck__(instance) or (ours is not None and isinstance(instance, ours))


class _DataIntervals(Timetable, metaclass=_MakesOurs):
    ours: ClassVar[Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._inner = self.ours(*args, **kwargs)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        last = last_automated_data_interval
        run = self._inner.next_run(
            last=None if last is None else DataInterval(plain_utc(last.start), plain_utc(last.end)),
            restriction=Restriction(_plain_or_none(restriction.earliest), _plain_or_none(restriction.latest), True),
            now=SystemClock().now(),  # which does not count when all runs are caught up
        )
        return None if run is None else DagRunInfo(_moment(run.run_after), _moments(run.interval))

    def infer_manual_data_interval(self, *, run_after: datetime) -> DataInterval:
        return _moments(self._inner.manual_interval(plain_utc(run_after)))

    def _get_next(self, current: datetime) -> DateTime | None:
        """The first tick after an instant."""
        return moment(instants.following(self._inner, current))

    def _get_prev(self, current: datetime) -> DateTime | None:
        """The last tick before an instant."""
        return moment(instants.previous(self._inner, current))

    def _align_to_next(self, current: datetime) -> DateTime | None:
        """The instant, if it is a tick, else the next one."""
        return self._get_next(current - _INSTANT)

    def _align_to_prev(self, current: datetime) -> DateTime | None:
        """The instant, if it is a tick, else the last one before it."""
        return self._get_prev(current + _INSTANT)


class CronDataIntervalTimetable(_DataIntervals):
    """Intervals between the ticks of a cron expression."""

    ours = timetables.CronDataIntervalTimetable


class DeltaDataIntervalTimetable(_DataIntervals):
    """Intervals of one length."""

    ours = timetables.DeltaDataIntervalTimetable


def _plain_or_none(at: datetime | None) -> datetime | None:
    return None if at is None else plain_utc(at)


def _moments(interval: DataInterval) -> DataInterval:
    return DataInterval(*map(_moment, interval))


def _moment(at: datetime) -> DateTime:
    return cast("DateTime", moment(at))
