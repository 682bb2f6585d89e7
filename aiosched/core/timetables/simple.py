"""Timetables that need no grid: none, once, continuous, listed events.

Source: the semantics reference, section 11.5.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import force_setattr

from aiosched.core.timetables.base import LEAST_GRACE, DataInterval, NextRun, Restriction, StoredTimetable
from aiosched.errors import TimetableError


class NullTimetable(StoredTimetable, frozen=True, tag="none"):
    """`schedule=None`: manual runs only."""

    periodic: ClassVar[bool] = False
    can_be_scheduled: ClassVar[bool] = False

    @property
    def summary(self) -> str:
        return "none"


class OnceTimetable(StoredTimetable, frozen=True, tag="once"):
    """`schedule="@once"`: one run at the start date, or at once if there is none. Catchup does not matter."""

    periodic: ClassVar[bool] = False

    @property
    def summary(self) -> str:
        return "@once"

    def next_run(self, *, last: DataInterval | None, restriction: Restriction, now: datetime) -> NextRun | None:
        if last is not None:
            return None
        at = restriction.earliest or now
        if restriction.latest is not None and at > restriction.latest:
            return None
        return _event(at)


class ContinuousTimetable(StoredTimetable, frozen=True, tag="continuous"):
    """`schedule="@continuous"`: the next run as soon as the last has ended, one at a time.

    The interval is from the end of the last one to `now`; so call it again when the active run has ended, and do not
    use an earlier result. Its pause after failures and its logical dates are decided in core/creation/next_run.py.
    """

    periodic: ClassVar[bool] = False
    active_runs_limit: ClassVar[int | None] = 1

    @property
    def summary(self) -> str:
        return "@continuous"

    def next_run(self, *, last: DataInterval | None, restriction: Restriction, now: datetime) -> NextRun | None:
        begin = restriction.earliest or now
        if last is None:
            start, end = begin, max(begin, now)
        elif last.end > now:
            start, end = begin, begin + (last.end - last.start)
        else:
            start, end = last.end, now
        if restriction.latest is not None and end > restriction.latest:
            return None
        interval = DataInterval(start.astimezone(UTC), end.astimezone(UTC))
        return NextRun(run_after=interval.end, interval=interval)


class EventsTimetable(StoredTimetable, frozen=True, omit_defaults=True, tag="events"):
    """Runs at listed instants: bank holidays, rocket launches.

    `event_dates` are aware datetimes in any order. With `restrict_to_events` a manual run belongs to the most recent
    event. `description` is displayed as the schedule. Without catchup only the latest past event gets a run, and the
    first run is not for an event more than 5 minutes ago.
    """

    event_dates: tuple[datetime, ...]
    restrict_to_events: bool = False
    description: str | None = None

    if TYPE_CHECKING:

        def __init__(
            self, event_dates: Iterable[datetime], restrict_to_events: bool = False, description: str | None = None
        ) -> None: ...

    def __post_init__(self) -> None:
        force_setattr(self, "event_dates", tuple(sorted({_aware(event) for event in self.event_dates})))

    @property
    def summary(self) -> str:
        count = len(self.event_dates)
        return self.description or f"{count} event{'' if count == 1 else 's'}"

    def validate(self) -> None:
        """Raise TimetableError if there is no event."""
        if not self.event_dates:
            raise TimetableError("An EventsTimetable without event dates never runs; list some, or use schedule=None.")

    def next_run(self, *, last: DataInterval | None, restriction: Restriction, now: datetime) -> NextRun | None:
        events = self.event_dates
        position = 0 if last is None else bisect_right(events, last.end)
        if restriction.earliest is not None:
            position = max(position, bisect_left(events, restriction.earliest))
        if not restriction.catchup:
            position = max(position, bisect_right(events, now) - 1)
            if last is None:
                position = max(position, bisect_left(events, now - LEAST_GRACE))
        if position >= len(events) or (restriction.latest is not None and events[position] > restriction.latest):
            return None
        return _event(events[position])

    def manual_interval(self, run_after: datetime) -> DataInterval:
        if not self.restrict_to_events or not self.event_dates:
            return DataInterval.exact(run_after)
        past = [event for event in self.event_dates if event <= run_after]
        return DataInterval.exact(past[-1] if past else self.event_dates[0])


def _aware(event: datetime) -> datetime:
    if event.tzinfo is None:
        raise TimetableError(f"The event date {event} has no time zone; write datetime(…, tzinfo=UTC) or another zone.")
    return event.astimezone(UTC)


def _event(at: datetime) -> NextRun:
    interval = DataInterval.exact(at)
    return NextRun(run_after=interval.end, interval=interval)
