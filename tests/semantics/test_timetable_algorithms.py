"""The algorithms of timetables, word by word, against a calendar of their own.

Source: the semantics reference, sections 11.2 (interval) and 11.4 (trigger), with decision 10 for deltas. The worked
examples: tests/core/test_timetables_interval.py and test_timetables_trigger.py; clock changes: section 12 there.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from croniter import croniter
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.timetables import (
    CronDataIntervalTimetable,
    CronTriggerTimetable,
    DataInterval,
    DeltaDataIntervalTimetable,
    NextRun,
    Restriction,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
Step = Callable[[datetime], datetime]


class Calendar:
    """The ticks of a cron expression in UTC, by croniter."""

    def __init__(self, cron: str) -> None:
        self.cron = cron

    def next(self, t: datetime) -> datetime:
        return croniter(self.cron, t).get_next(datetime)

    def prev(self, t: datetime) -> datetime:
        return croniter(self.cron, t).get_prev(datetime)

    def _is_tick(self, t: datetime) -> bool:
        return self.prev(self.next(t)) == t

    def ceil(self, t: datetime) -> datetime:
        return t if self._is_tick(t) else self.next(t)

    def floor(self, t: datetime) -> datetime:
        return t if self._is_tick(t) else self.prev(t)


def interval_run(
    ticks: Calendar, earliest: datetime | None, latest: datetime | None, catchup: bool, last: DataInterval | None,
    now: datetime,
) -> NextRun | None:  # fmt: skip
    e = None if earliest is None else ticks.ceil(earliest)
    if not catchup:
        p = ticks.prev(now)
        newest = p if ticks.next(p) == now else ticks.prev(p)
        e = newest if e is None else max(newest, e)
    if last is None:
        if e is None:
            return None
        start = e
    else:
        start = ticks.floor(last.end) if e is None else max(ticks.floor(last.end), e)
        if start <= last.start:
            start = ticks.next(start)
    if latest is not None and start > latest:
        return None
    return NextRun(ticks.next(start), DataInterval(start, ticks.next(start)))


def trigger_run(
    ticks: Calendar, earliest: datetime | None, latest: datetime | None, catchup: bool, last: DataInterval | None,
    now: datetime,
) -> NextRun | None:  # fmt: skip
    def first_run() -> datetime:
        grace = max((ticks.next(now) - ticks.floor(now)) / 10, timedelta(minutes=5))
        return ticks.floor(now) if now - ticks.floor(now) <= grace else ticks.ceil(now)

    if catchup:
        tick = ticks.next(last.end) if last is not None else first_run() if earliest is None else ticks.ceil(earliest)
    else:
        after = ticks.next(last.end) if last is not None else first_run() if earliest is None else ticks.floor(now)
        tick = max(ticks.floor(now), after, *([] if earliest is None else [ticks.ceil(earliest)]))
    if latest is not None and tick > latest:
        return None
    return NextRun(tick, DataInterval(tick, tick))


CRONS = ["0 0 * * *", "30 12 * * *", "0 * * * *", "*/10 * * * *", "0 0 * * 0", "0 0 1 * *", "15 3 1,15 * *"]
minutes = st.integers(0, 100 * 24 * 60).map(lambda n: START + timedelta(minutes=n))
on_the_hour = st.integers(0, 100 * 24).map(lambda n: START + timedelta(hours=n))
instants = minutes | on_the_hour


@pytest.mark.parametrize("kind", ["interval", "trigger"])
@given(
    cron=st.sampled_from(CRONS),
    before=st.none() | st.tuples(st.sampled_from(CRONS), instants),  # under which schedule the last run was
    earliest=st.none() | instants,
    latest=st.none() | instants,
    catchup=st.booleans(),
    now=instants,
)
def test_the_next_run_is_that_of_the_algorithm(
    kind: str,
    cron: str,
    before: tuple[str, datetime] | None,
    earliest: datetime | None,
    latest: datetime | None,
    catchup: bool,
    now: datetime,
) -> None:
    last = None
    if before is not None:
        old, tick = Calendar(before[0]), Calendar(before[0]).ceil(before[1])
        last = DataInterval(tick, old.next(tick)) if kind == "interval" else DataInterval(tick, tick)
    algorithm = interval_run if kind == "interval" else trigger_run
    timetable = (CronDataIntervalTimetable if kind == "interval" else CronTriggerTimetable)(cron, "UTC")

    found = timetable.next_run(last=last, restriction=Restriction(earliest, latest, catchup), now=now)

    assert found == algorithm(Calendar(cron), earliest, latest, catchup, last, now)


@given(
    seconds=st.integers(60, 40 * 24 * 3600),
    last=st.none() | instants,
    earliest=st.none() | instants,
    latest=st.none() | instants,
    now=instants,
)
def test_with_catchup_a_fixed_delta_steps_from_the_start_or_from_where_it_was(
    seconds: int, last: datetime | None, earliest: datetime | None, latest: datetime | None, now: datetime
) -> None:
    d = timedelta(seconds=seconds)
    before = None if last is None else DataInterval(last - d, last)
    starts = [t for t in (last, earliest) if t is not None]
    expected = None
    if starts and (latest is None or max(starts) <= latest):
        expected = NextRun(max(starts) + d, DataInterval(max(starts), max(starts) + d))

    found = DeltaDataIntervalTimetable(d).next_run(
        last=before, restriction=Restriction(earliest, latest, catchup=True), now=now
    )

    assert found == expected
