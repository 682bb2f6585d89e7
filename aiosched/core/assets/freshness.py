"""Whether an asset is as new as it should be: from its own limit, or from the schedules of its producers.

An asset with `fresh_within` is late when its last event is older than that. Of any other, each scheduled run of a
producer should give an event before the next run of that schedule is due. A paused producer and one without a schedule
promise nothing.

An event is about the data of its run: the end of its data interval, else its logical date. So a run of long ago that
runs again, and a manual run without a logical date, keep no promise of a newer run.

Lives here: the rule. Reading the events and the schedules: db/queries/asset_queries.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

DueInstants = Sequence[datetime]  # when runs of one schedule were or will be due, oldest first


class ScheduledRun(NamedTuple):
    """A run that a schedule promises: until when its data is, and when it is due."""

    until: datetime
    due: datetime


class Freshness(StrEnum):
    """The state of an asset."""

    FRESH = "fresh"
    LATE = "late"
    UNKNOWN = "unknown"  # nothing says when an event is expected


@dataclass(frozen=True, slots=True)
class FreshnessStatus:
    """The state of an asset, and by when its next event is expected (in the past if it is late; None: not known)."""

    state: Freshness
    expected_by: datetime | None = None


def freshness(
    *,
    now: datetime,
    last_event: datetime | None,
    fresh_within: timedelta | None = None,
    schedules: Iterable[DueInstants] = (),
    given: Iterable[datetime | None] | None = None,
) -> FreshnessStatus:
    """The state of an asset at `now`.

    `fresh_within` counts before the schedules. Without an event it says nothing yet. Of several schedules the one with
    the earliest expected event counts. `schedules` need the last two due instants before `now` and the next two; what
    came before them is taken as late. `given` has for each of them when the newest run that has given an event was
    due (`last_due`), by default `last_event` for all.
    """
    if fresh_within is not None:
        return _status(now, None if last_event is None else _later(last_event, fresh_within))
    schedules = list(schedules)
    known = [(due, last_event) for due in schedules] if given is None else zip(schedules, given, strict=True)
    promised = [_expected_by(last, sorted(due)) for due, last in known if due]
    expected = [instant for instant in promised if instant is not None]
    if promised and not expected:  # all that was promised has come, and no further run is known
        return FreshnessStatus(Freshness.UNKNOWN if last_event is None else Freshness.FRESH)
    earliest = min(expected, default=None)
    if last_event is None and all(instant > now for due in schedules for instant in due):
        return FreshnessStatus(Freshness.UNKNOWN, earliest)  # nothing is due yet
    return _status(now, earliest)


def last_due(runs: Iterable[ScheduledRun], given: datetime | None) -> datetime | None:
    """When the newest of the runs was due whose data is among what has been given, until `given`; None: of none."""
    return max((run.due for run in runs if given is not None and run.until <= given), default=None)


def _status(now: datetime, expected_by: datetime | None) -> FreshnessStatus:
    if expected_by is None:
        return FreshnessStatus(Freshness.UNKNOWN)
    return FreshnessStatus(Freshness.FRESH if now < expected_by else Freshness.LATE, expected_by)


def _expected_by(last_event: datetime | None, due: DueInstants) -> datetime | None:
    """When the run after the one that gave the last event should have given its own: once the next one is due.

    The instant after the last one, if the schedule ends there, is as far away as that from the one before it.
    """
    missing = next((i for i, instant in enumerate(due) if last_event is None or instant > last_event), None)
    if missing is None:
        return None
    if missing + 1 < len(due):
        return due[missing + 1]
    return _later(due[missing], due[missing] - due[missing - 1]) if missing else None


def _later(instant: datetime, span: timedelta) -> datetime | None:
    """None for an instant that does not exist, after the year 9999."""
    try:
        return instant + span
    except OverflowError:
        return None


def limit_of(seconds: float | None) -> timedelta | None:
    """The limit of an asset as it is stored; None if there is none, or what is stored is no length of time."""
    if seconds is None or not 0 < seconds < timedelta.max.total_seconds():
        return None
    return timedelta(seconds=seconds)
