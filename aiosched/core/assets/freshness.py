"""Whether an asset is as new as it should be: from its own limit, or from the schedules of its producers.

An asset with `fresh_within` is late when its last event is older than that. Of any other, each scheduled run of a
producer should give an event before the next run of that schedule is due. A paused producer and one without a schedule
promise nothing.

Lives here: the rule. Reading the events and the schedules: db/queries/asset_queries.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

DueInstants = Sequence[datetime]  # when runs of one schedule were or will be due, oldest first


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
) -> FreshnessStatus:
    """The state of an asset at `now`.

    `fresh_within` counts before the schedules. Without an event it says nothing yet. Of several schedules the one with
    the earliest expected event counts. `schedules` need the last two due instants before `now` and the next one; what
    came before them is taken as late.
    """
    if fresh_within is not None:
        return _status(now, None if last_event is None else _later(last_event, fresh_within))
    promised = [_expected_by(last_event, sorted(due)) for due in schedules if due]
    expected = [instant for instant in promised if instant is not None]
    if promised and not expected:  # all that was promised has come, and no further run is known
        return FreshnessStatus(Freshness.UNKNOWN if last_event is None else Freshness.FRESH)
    return _status(now, min(expected, default=None))


def _status(now: datetime, expected_by: datetime | None) -> FreshnessStatus:
    if expected_by is None:
        return FreshnessStatus(Freshness.UNKNOWN)
    return FreshnessStatus(Freshness.FRESH if now < expected_by else Freshness.LATE, expected_by)


def _expected_by(last_event: datetime | None, due: DueInstants) -> datetime | None:
    """When the run after the one that gave the last event should have given its own: once the next one is due.

    The instant after the last known one is as far away as that from the one before it.
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
