"""Figures over time: a minute of them, their quantiles, and how finely a range is shown."""

from __future__ import annotations

import bisect
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.figures.histograms import BUCKETS, SECONDS, increase, quantile
from aiosched.core.figures.minutes import MOST_POOLS, minute_of, start_of_minute
from aiosched.core.figures.ranges import LONGEST, MOST_POINTS, range_before

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def figures(ended: int, lag: list[int], **more: Any) -> dict[str, Any]:
    return {"finished": {"success": ended}, "histograms": {"task_lag": {"buckets": lag}}, **more}


def test_a_minute_is_what_has_happened_between_two_snapshots() -> None:
    before = figures(7, [2, 0, 0, 0], parsing={"busy_seconds": 1.5})
    now = figures(
        10, [3, 2, 0, 0], parsing={"busy_seconds": 1.75}, tasks={"scheduled": 4, "queued": 1, "running": 2},
        waiting={"etl": 3}, pools={"etl": {"queued": 1, "running": 2}, "idle": {"queued": 0, "running": 1}},
    )  # fmt: skip

    minute = minute_of(now, before, at=NOON, incarnation=5, scheduler="a", memory=1000)

    assert (minute.ended, minute.task_lag, minute.commits) == (3, [1, 2], [])
    assert (minute.waiting, minute.queued, minute.running) == (4, 1, 2)
    assert (minute.parsing, minute.memory) == (0.25, 1000)
    assert minute.pools == {"etl": (1, 3)}


def test_a_minute_has_at_most_fifty_pools_the_busiest() -> None:
    waiting = {f"p{number}": number for number in range(200)}

    minute = minute_of({"waiting": waiting}, {}, at=NOON, incarnation=1, scheduler="a", memory=None)

    assert len(minute.pools) == MOST_POOLS
    assert min(waiting for _, waiting in minute.pools.values()) == 150


def test_a_parser_that_begins_anew_takes_no_time_back() -> None:
    before, now = figures(0, [], parsing={"busy_seconds": 9.0}), figures(0, [], parsing={"busy_seconds": 1.0})

    assert minute_of(now, before, at=NOON, incarnation=1, scheduler="a", memory=None).parsing == 0


def test_an_increase_has_no_zeros_at_its_end() -> None:
    assert increase([1, 5, 2, 7], [1, 2, 2, 7]) == [0, 3]
    assert increase([0, 0], []) == []


@given(st.lists(st.floats(0.0, 52.0), min_size=1), st.sampled_from([0.5, 0.99]))
def test_a_quantile_is_in_the_bucket_of_the_value(values: list[float], share: float) -> None:
    buckets = [0] * BUCKETS
    for value in values:
        buckets[bisect.bisect_left(SECONDS, value)] += 1

    found = quantile(buckets, share)

    exact = sorted(values)[max(-(-int(share * 1000) * len(values) // 1000), 1) - 1]
    place = bisect.bisect_left(SECONDS, exact)
    assert found is not None
    assert (SECONDS[place - 1] if place else 0.0) <= found <= SECONDS[min(place, len(SECONDS) - 1)]


def test_without_values_there_is_no_quantile() -> None:
    assert quantile([], 0.5) is None
    assert quantile([0, 0], 0.99) is None


def test_what_is_longer_than_the_last_bound_counts_as_it() -> None:
    assert quantile([0] * (BUCKETS - 1) + [4], 0.5) == SECONDS[-1]


@pytest.mark.parametrize(
    ("hours", "step", "of_hours"), [(1, 60, False), (24, 300, False), (168, 3600, True), (2000, 86_400, True)]
)
def test_a_longer_range_has_longer_steps(hours: int, step: int, of_hours: bool) -> None:
    span = range_before(NOON + timedelta(minutes=7, seconds=3), timedelta(hours=hours))

    assert span.step.total_seconds() == step
    assert span.of_hours is of_hours


@given(st.timedeltas(timedelta(hours=1), 2 * LONGEST), st.timedeltas(timedelta(0), timedelta(days=20_000)))
def test_no_range_has_too_many_steps(length: timedelta, since: timedelta) -> None:
    at = NOON + since

    span = range_before(at, length)

    assert (span.until - span.since) / span.step <= MOST_POINTS
    assert span.until - span.step < at <= span.until
    assert span.since <= at - min(length, LONGEST) + span.step
    assert start_of_minute(span.since) == span.since
