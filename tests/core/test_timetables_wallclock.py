"""Cron ticks on the line of real time, above all where clocks change. Source: the semantics reference, section 12.1."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime, timedelta

import pytest
from croniter import croniter
from hypothesis import assume, example, given
from hypothesis import strategies as st

from aiosched.core.timetables.cron import parse_cron
from aiosched.core.timetables.wallclock import WallClock, wall_clock
from tests.core.timetable_oracle import ticks

DAY = timedelta(days=1)

# A zone and the UTC day around which its clocks change.
CHANGES = [
    ("Europe/Amsterdam", "2026-03-29"),
    ("Europe/Amsterdam", "2026-10-25"),
    ("America/New_York", "2026-03-08"),
    ("America/New_York", "2026-11-01"),
    ("Australia/Lord_Howe", "2026-04-04"),  # half an hour back
    ("Australia/Lord_Howe", "2026-10-03"),  # half an hour forward
    ("Asia/Kathmandu", "1985-12-31"),  # a quarter of an hour forward, at midnight
    ("Pacific/Apia", "2011-12-30"),  # a whole day skipped
    ("America/Havana", "2026-03-08"),  # midnight does not exist
    ("America/St_Johns", "2010-11-07"),  # 00:01 becomes 23:01 of the day before
    ("Africa/Casablanca", "2026-02-15"),
    ("UTC", "2026-03-29"),
]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def forward(clock: WallClock, start: datetime, end: datetime) -> list[datetime]:
    found, tick = [], clock.ceil(start)
    while tick < end:
        found.append(tick)
        tick = clock.next_tick(tick)
    return found


def backward(clock: WallClock, start: datetime, end: datetime) -> list[datetime]:
    found, tick = [], clock.prev_tick(end)
    while tick >= start:
        found.append(tick)
        tick = clock.prev_tick(tick)
    return found[::-1]


def numbers(low: int, high: int) -> st.SearchStrategy[str]:
    """One cron field without names."""
    single = st.integers(low, high)
    listed = st.lists(single, min_size=1, max_size=3, unique=True).map(lambda ns: ",".join(map(str, ns)))
    ranged = st.tuples(single, single).map(lambda ends: f"{min(ends)}-{max(ends)}")
    return st.one_of(listed, ranged, st.integers(2, 12).map(lambda step: f"*/{step}"))


minutes = st.one_of(st.just("0"), st.just("30"), st.just("*"), numbers(0, 59))
hours = st.one_of(st.just("*"), st.integers(0, 4).map(str), numbers(0, 22))
days = st.sampled_from(["* * *", "* * *", "* * *", "1,8,25,29,30,31 * *", "* * 0,5", "30 12 5", "* 3,4,10 *"])
expressions = st.tuples(minutes, hours, days).filter(lambda parts: parts[:2] != ("*", "*")).map(" ".join)


@given(st.sampled_from(CHANGES), expressions)
@example(("Europe/Amsterdam", "2026-10-25"), "* * * * *")
@example(("Australia/Lord_Howe", "2026-10-03"), "* * * * *")
def test_ticks_around_a_clock_change_are_those_that_a_walk_over_all_minutes_finds(
    change: tuple[str, str], expression: str
) -> None:
    zone, day = change
    start, end = at(day) - timedelta(hours=14), at(day) + timedelta(hours=26)  # that day, wherever it is
    clock = wall_clock(expression, zone)

    walked = ticks(expression, zone, start, end)
    assume(zone != "Pacific/Apia" or len(walked) < 100)  # each tick there looks through all those of the skipped day

    assert forward(clock, start, end) == walked
    assert backward(clock, start, end) == walked


@given(st.sampled_from(CHANGES), expressions, st.integers(0, 3 * 24 * 3600))
def test_floor_and_ceil_of_any_instant_are_the_ticks_next_to_it(
    change: tuple[str, str], expression: str, second: int
) -> None:
    zone, day = change
    start, end = at(day) - 2 * DAY, at(day) + 3 * DAY
    t = at(day) - DAY + timedelta(seconds=second)
    clock = wall_clock(expression, zone)
    walked = ticks(expression, zone, start, end)

    below = [tick for tick in walked if tick <= t]
    above = [tick for tick in walked if tick >= t]

    assert not below or clock.floor(t) == below[-1]
    assert not above or clock.ceil(t) == above[0]


any_days = st.sampled_from(
    ["* * *", "1 * *", "L * *", "31 * *", "29 2 *", "* * 1-5", "13 * 5", "1 */3 *", "* * 5#2", "* * L5", "15W * *"]
)


@given(
    st.tuples(minutes, numbers(0, 23), any_days, st.sampled_from(["", " 0", " 30", " */20"])),
    st.datetimes(datetime(2020, 1, 1), datetime(2031, 1, 1)),  # noqa: DTZ001
)
def test_where_clocks_stand_still_ticks_are_those_of_croniter(parts: tuple[str, str, str, str], wall: datetime) -> None:
    minute, hour, day, second = parts
    expression = f"{minute} {hour} {day}{second}"
    assume(not re.search(r"\b(\d+)-\1\b", expression))  # for croniter `5-5` means `*`
    cron, wall = parse_cron(expression), wall.replace(microsecond=0)

    assert cron.after(wall) == croniter(expression, wall).get_next(datetime)
    assert cron.before(wall) == croniter(expression, wall).get_prev(datetime)


@pytest.mark.parametrize(
    "expression", ["0 5-5 * * *", "0-0 5 * * *", "0 5-5/3 * * *", "0 5 * JAN-JAN *", "0 5 1-1 1-1 *"]
)
def test_a_range_from_a_number_to_itself_is_that_number(expression: str) -> None:
    clock = wall_clock(expression, "UTC")

    assert clock.next_tick(at("2025-12-31T12:00")) == at("2026-01-01T05:00")
    assert clock.prev_tick(at("2026-01-01T12:00")) == at("2026-01-01T05:00")


def test_an_instant_between_two_seconds_is_after_the_second_that_began() -> None:
    clock = wall_clock("* * * * * */10", "UTC")
    t = at("2026-01-01T00:00:10.000001")

    assert clock.prev_tick(t) == at("2026-01-01T00:00:10")
    assert clock.next_tick(t) == at("2026-01-01T00:00:20")


SPRING_EXAMPLES = [  # Europe/Amsterdam: 02:00 to 03:00 of 29 March 2026 do not exist
    ("30 2 * * *", ["28T01:30", "29T01:30", "30T00:30"]),
    ("0 0 * * *", ["27T23:00", "28T23:00", "29T22:00", "30T22:00"]),
    ("15,30 2,3 29 3 *", ["29T01:15", "29T01:30"]),  # 02:15 moves onto 03:15, 02:30 onto 03:30
    ("30 2 29 3 *", ["29T01:30"]),
    ("15 3 29 3 *", ["29T01:15"]),
    ("30 * 29 3 *", ["28T23:30", "29T00:30", *(f"29T{hour:02}:30" for hour in range(1, 22))]),
]


@pytest.mark.parametrize(("expression", "expected"), SPRING_EXAMPLES)
def test_ticks_in_a_skipped_hour_move_forward_by_the_gap(expression: str, expected: list[str]) -> None:
    clock = wall_clock(expression, "Europe/Amsterdam")

    found = forward(clock, at("2026-03-27T23:00"), at("2026-03-30T23:00"))

    assert found == [at(f"2026-03-{text}") for text in expected]


def test_a_tick_moved_past_its_follower_comes_after_it() -> None:
    # 02:30 (which becomes 03:30) and 03:15, both daily: on the day of the change in the other order
    early, late = wall_clock("30 2 * * *", "Europe/Amsterdam"), wall_clock("15 3 * * *", "Europe/Amsterdam")
    both = wall_clock("15,30 2-3 * * *", "Europe/Amsterdam")

    assert late.ceil(at("2026-03-29T00:00")) < early.ceil(at("2026-03-29T00:00"))
    assert forward(both, at("2026-03-29T00:00"), at("2026-03-29T12:00")) == [
        at("2026-03-29T01:15"),
        at("2026-03-29T01:30"),
    ]


def test_a_day_that_a_zone_skips_has_no_tick_of_its_own() -> None:
    clock = wall_clock("0 12 * * *", "Pacific/Apia")  # 30 December 2011 was left out

    found = forward(clock, at("2011-12-29T00:00"), at("2012-01-02T00:00"))

    assert found == [at("2011-12-29T22:00"), at("2011-12-30T22:00"), at("2011-12-31T22:00"), at("2012-01-01T22:00")]


@given(st.sampled_from(CHANGES), st.integers(0, 59), st.integers(0, 23))
def test_a_daily_schedule_has_one_tick_for_every_day_that_exists(
    change: tuple[str, str], minute: int, hour: int
) -> None:
    zone, day = change
    clock = wall_clock(f"{minute} {hour} * * *", zone)

    found = forward(clock, at(day) - 4 * DAY, at(day) + 4 * DAY)
    gaps = {later - earlier for earlier, later in itertools.pairwise(found)}

    assert all(timedelta(hours=22) < gap < timedelta(hours=26) for gap in gaps)
