"""Schedules that are data: which instants are due, and what one can be (core/creation/durable_schedules.py)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.creation.durable_schedules import MOST_AT_ONCE, Terms, check_terms, due_instants
from aiosched.errors import Refused, TimetableError

NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)  # the day before the clocks of Amsterdam go forward
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def terms(**options: Any) -> Terms:
    given: dict[str, Any] = {"cron": None, "every": None, "at": None, "timezone": "UTC", "start": None, "end": None}
    return Terms(**(given | {"catchup": False, "since": NOON} | options))


def test_a_cron_expression_follows_the_clock_of_its_zone() -> None:
    daily = terms(cron="0 6 * * *", timezone="Europe/Amsterdam")

    first = due_instants(daily, None, NOON)
    assert first == ((), NOON + timedelta(hours=16))  # 06:00 of summer time
    assert due_instants(daily, None, NOON + DAY) == ((NOON + timedelta(hours=16),), NOON + timedelta(hours=40))


def test_without_catchup_the_last_missed_instant_counts_and_with_it_each() -> None:
    hourly = terms(every=3600.0)
    late = NOON + timedelta(hours=5, minutes=30)

    assert due_instants(hourly, NOON, late) == ((NOON + 5 * HOUR,), NOON + 6 * HOUR)
    assert due_instants(hourly._replace(catchup=True), NOON, late) == (
        tuple(NOON + n * HOUR for n in range(1, 6)),
        NOON + 6 * HOUR,
    )


def test_many_missed_instants_come_in_several_passes() -> None:
    found = due_instants(terms(every=60.0, catchup=True), NOON, NOON + DAY)

    assert len(found.instants) == MOST_AT_ONCE
    assert found.next_at == found.instants[-1] + timedelta(minutes=1)


def test_a_clock_that_goes_back_repeats_nothing() -> None:
    hourly = terms(every=3600.0)
    assert due_instants(hourly, NOON + 5 * HOUR, NOON) == ((), NOON + 6 * HOUR)
    assert due_instants(terms(at=NOON), NOON, NOON - DAY) == ((), None)


def test_one_instant_and_an_end() -> None:
    assert due_instants(terms(at=NOON + HOUR), None, NOON) == ((), NOON + HOUR)
    assert due_instants(terms(at=NOON - DAY), None, NOON) == ((NOON - DAY,), None)
    assert due_instants(terms(every=3600.0, end=NOON + HOUR), NOON, NOON + DAY).next_at is None
    assert due_instants(terms(every=60.0, start=NOON + DAY), None, NOON) == ((), NOON + DAY)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "one of cron, every and at, not none"),
        ({"cron": "* * * * *", "every": 1.0}, "not 2 of them"),
        ({"every": 0.0}, r"every 0\.1 seconds at most"),
        ({"every": 1e308}, r"once in a hundred years at least, not every 1e\+308 seconds"),
        ({"every": -1.0}, "at most, not every -1"),
        ({"every": float("nan")}, "not every nan"),
        ({"every": float("inf")}, "not every inf"),
        ({"cron": "@continuous"}, "is a schedule of a DAG"),
        ({"at": datetime(2026, 1, 1)}, "has no time zone"),  # noqa: DTZ001  what is refused
        ({"at": NOON, "start": NOON}, "has no `start`"),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(map(str, value)),
)
def test_what_cannot_be_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused, match=told):
        check_terms("n", terms(**options))


@pytest.mark.parametrize("name", ["", "a b", "ü", "n" * 201, "a/b", ".", ".."])
def test_a_name_begins_ids_of_runs(name: str) -> None:
    with pytest.raises(Refused, match="The name of a schedule begins the ids of its runs"):
        check_terms(name, terms(every=1.0))


def test_words_of_timetables_name_what_is_wrong() -> None:
    for wrong in ({"cron": "61 * * * *"}, {"cron": "0 0 * * *", "timezone": "Mars/Olympus"}):
        with pytest.raises(TimetableError):
            check_terms("n", terms(**wrong))


@given(
    st.floats(0.1, 1e6), st.booleans(), st.lists(st.timedeltas(timedelta(0), timedelta(days=3)), min_size=1, max_size=8)
)
def test_no_instant_comes_twice_and_all_are_on_the_grid(every: float, catchup: bool, steps: list[timedelta]) -> None:
    now, last, seen = NOON, None, list[datetime]()
    for step in steps:
        now += step
        found = due_instants(terms(every=every, catchup=catchup), last, now)
        assert all(at <= now for at in found.instants)
        assert found.next_at is not None
        seen += found.instants
        last = seen[-1] if seen else None
        assert last is None or found.next_at > last
    assert seen == sorted(set(seen))
