"""When an asset is fresh, late or unknown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.assets.freshness import Freshness, FreshnessStatus, freshness

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOURLY = (NOON - HOUR, NOON, NOON + HOUR)  # the next run is due at 13:00


def at(hours: float) -> datetime:
    return NOON + hours * HOUR


@pytest.mark.parametrize(
    ("now", "last_event", "state", "expected_by"),
    [
        (0.5, 0.2, "fresh", 2.0),  # the run of 12:00 gave it; that of 13:00 has until 14:00
        (0.5, 0.0, "fresh", 2.0),
        (0.5, -0.3, "fresh", 1.0),  # that of 11:00 gave it; that of 12:00 has until 13:00
        (1.2, -0.3, "late", 1.0),
        (0.5, -1.5, "late", 0.0),  # that of 11:00 gave none
        (0.5, None, "late", 0.0),
    ],
)
def test_a_scheduled_run_should_give_an_event_before_the_next_one_is_due(
    now: float, last_event: float | None, state: str, expected_by: float
) -> None:
    last = None if last_event is None else at(last_event)

    found = freshness(now=at(now), last_event=last, schedules=[HOURLY])

    assert found == FreshnessStatus(Freshness(state), at(expected_by))


@pytest.mark.parametrize(
    ("now", "last_event", "state", "expected_by"),
    [(0.5, 0.0, "fresh", 1.0), (1.0, 0.0, "late", 1.0), (5, 0.0, "late", 1.0), (0.5, None, "unknown", None)],
)
def test_the_limit_of_an_asset_counts_before_the_schedules(
    now: float, last_event: float | None, state: str, expected_by: float | None
) -> None:
    last = None if last_event is None else at(last_event)

    found = freshness(now=at(now), last_event=last, fresh_within=HOUR, schedules=[(at(-9), at(-8), at(-7))])

    assert found == FreshnessStatus(Freshness(state), None if expected_by is None else at(expected_by))


@pytest.mark.parametrize(
    ("last_event", "schedules", "expected"),
    [
        (None, [], FreshnessStatus(Freshness.UNKNOWN)),
        (at(0), [], FreshnessStatus(Freshness.UNKNOWN)),  # triggered by people or by assets
        (at(0), [()], FreshnessStatus(Freshness.UNKNOWN)),
        (None, [(at(1),)], FreshnessStatus(Freshness.UNKNOWN)),  # the first run is not due yet
        (None, [(at(0), at(1))], FreshnessStatus(Freshness.FRESH, at(1))),  # the first run has until then
        (at(0.1), [(at(-1), at(0))], FreshnessStatus(Freshness.FRESH)),  # the schedule has ended
        (at(0.1), [HOURLY, (at(-30), at(-6), at(18))], FreshnessStatus(Freshness.FRESH, at(2))),  # the earliest
    ],
)
def test_what_nothing_promises_is_unknown(
    last_event: datetime | None, schedules: list[tuple[datetime, ...]], expected: FreshnessStatus
) -> None:
    assert freshness(now=at(0.5), last_event=last_event, schedules=schedules) == expected


_minutes = st.integers(-10_000, 10_000).map(lambda minutes: NOON + timedelta(minutes=minutes))


@given(
    now=_minutes,
    later=st.integers(0, 10_000),
    event=st.none() | _minutes,
    newer=st.integers(0, 10_000),
    fresh_within=st.none() | st.integers(1, 5_000).map(lambda minutes: timedelta(minutes=minutes)),
    schedules=st.lists(st.lists(_minutes, max_size=4, unique=True), max_size=3),
)
def test_time_only_makes_an_asset_late_and_an_event_only_makes_it_fresh(
    now: datetime,
    later: int,
    event: datetime | None,
    newer: int,
    fresh_within: timedelta | None,
    schedules: list[list[datetime]],
) -> None:
    found = freshness(now=now, last_event=event, fresh_within=fresh_within, schedules=schedules)
    after = freshness(
        now=now + timedelta(minutes=later), last_event=event, fresh_within=fresh_within, schedules=schedules
    )

    assert after.expected_by == found.expected_by
    assert (found.state is Freshness.LATE) == (found.expected_by is not None and found.expected_by <= now)
    assert found.state is not Freshness.LATE or after.state is Freshness.LATE
    if event is not None and found.state is Freshness.FRESH:
        event += timedelta(minutes=newer)
        assert freshness(now=now, last_event=event, fresh_within=fresh_within, schedules=schedules).state != "late"
