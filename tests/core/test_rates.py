"""Rates of pools: never more starts than allowed in any period, whatever arrives, is edited or the clock does."""

from __future__ import annotations

import re
from bisect import bisect_left
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.slots.rates import Rate, RecentStarts, parse_rate
from aiosched.db.schema.tables import RATE_PATTERN
from aiosched.errors import Refused

SECOND = 1_000_000


class Pool:
    """A pool's row, read and written by passes. `started` are the instants of all starts, by a steady clock."""

    def __init__(self, rate: Rate) -> None:
        self.rate, self.log, self.now, self.step = rate, "[]", 1_800_000_000 * SECOND, 0
        self.started: list[int] = []

    def pass_by(self, wanted: int) -> int:
        """One pass of a scheduler that has `wanted` candidates; returns how many it starts."""
        starts = RecentStarts(self.rate, _log(self.log), self.now + self.step)
        taken = 0
        while taken < wanted and starts.left > 0:
            starts.take()
            taken += 1
        if starts.has_changed:
            self.log = starts.stored()
        self.started += [self.now] * taken
        return taken

    def most(self, period: int, first: int = 0) -> int:
        """The most starts in any period of that length, from the `first` one."""
        known = self.started[first:]
        return max((bisect_left(known, at + period) - number for number, at in enumerate(known)), default=0)


def _log(stored: str) -> list[tuple[int, int]]:
    return msgspec.json.decode(stored, type=list[tuple[int, int]])


RATES = st.builds(Rate, st.integers(1, 6), st.sampled_from([1, 5, 60]))
WAITS = st.integers(0, 3 * SECOND) | st.integers(0, 90 * SECOND) | st.sampled_from([0, 1, SECOND, SECOND - 1])


@given(RATES, st.lists(st.tuples(WAITS, st.integers(0, 8)), max_size=40))
def test_no_period_has_more_starts_than_the_rate_allows(rate: Rate, passes: list[tuple[int, int]]) -> None:
    pool = Pool(rate)
    for wait, wanted in passes:
        pool.now += wait
        pool.pass_by(wanted)

    assert pool.most(rate.seconds * SECOND) <= rate.starts


@given(RATES, st.lists(st.tuples(WAITS, st.integers(0, 8), st.integers(0, 10**10)), max_size=40))
def test_a_clock_that_is_set_back_allows_no_more_and_waits_for_one_period_at_most(
    rate: Rate, passes: list[tuple[int, int, int]]
) -> None:
    pool = Pool(rate)
    for wait, wanted, back in passes:
        pool.now += wait
        pool.step -= back
        pool.pass_by(wanted)

    assert pool.most(rate.seconds * SECOND) <= rate.starts
    pool.now += rate.seconds * SECOND
    assert pool.pass_by(rate.starts) == rate.starts


@given(RATES, st.lists(st.tuples(WAITS, st.integers(0, 8), st.none() | RATES), max_size=40))
def test_an_edited_rate_holds_for_all_starts_that_it_remembers(
    rate: Rate, passes: list[tuple[int, int, Rate | None]]
) -> None:
    pool, edited, known = Pool(rate), 0, 0
    for wait, wanted, new in passes:
        pool.now += wait
        if new is not None and new != pool.rate:
            if new.seconds > pool.rate.seconds:  # older starts are not in the log
                known = max(known, pool.now - pool.rate.seconds * SECOND)
            pool.rate, edited = new, len(pool.started)
        begin = max(pool.now - pool.rate.seconds * SECOND + 1, known + 1)
        before = sum(begin <= at for at in pool.started)
        taken = pool.pass_by(wanted)

        assert taken == 0 or before + taken <= pool.rate.starts
    assert pool.most(pool.rate.seconds * SECOND, edited) <= pool.rate.starts


@given(st.integers(25, 45), st.integers(20_000, 38_000), st.integers(0, 2**32))
def test_a_long_log_is_short_in_the_row_and_still_exact(many: int, longest: int, seed: int) -> None:
    rate, dice = Rate(many * 10, 5), Random(seed)
    pool = Pool(rate)
    for _ in range(600):
        pool.now += dice.randint(0, longest)
        pool.pass_by(dice.randint(1, 2))

        assert len(_log(pool.log)) <= 260
    assert pool.most(rate.seconds * SECOND) <= rate.starts


@given(RATES, st.lists(st.tuples(WAITS, st.integers(0, 8)), max_size=20), st.integers(0, 20))
def test_the_next_start_is_at_the_instant_that_is_named(rate: Rate, passes: list[tuple[int, int]], ahead: int) -> None:
    pool = Pool(rate)
    for wait, wanted in passes:
        pool.now += wait
        pool.pass_by(wanted)

    named = RecentStarts(rate, _log(pool.log), pool.now).next_at(ahead)
    for _ in range(ahead):  # each starts as soon as it may
        pool.now = RecentStarts(rate, _log(pool.log), pool.now).next_at()
        assert pool.pass_by(1) == 1
    before = RecentStarts(rate, _log(pool.log), max(named - 1, pool.now))
    assert RecentStarts(rate, _log(pool.log), named).left > 0
    assert named == pool.now or before.left <= 0


def test_the_starts_of_a_pass_count_for_what_it_says_next() -> None:
    starts = RecentStarts(Rate(2, 60), [(10 * SECOND, 1)], 20 * SECOND)
    starts.take()

    assert (starts.left, starts.in_period, starts.next_at(), starts.next_at(1)) == (0, 2, 70 * SECOND, 80 * SECOND)


def test_a_lowered_rate_waits_until_enough_starts_are_a_period_ago() -> None:
    starts = RecentStarts(Rate(3, 60), [(at * SECOND, 1) for at in range(10)], 20 * SECOND)

    assert starts.left == -7
    assert starts.next_at() == (7 + 60) * SECOND


@pytest.mark.parametrize("log", ["", "{}", "[1]", '[["a", 1]]', "[[1]]", "null", '[[1.5, "x"]]', "[[1, 1e400]]"])
def test_a_log_that_cannot_be_read_counts_as_full_for_a_period(log: str) -> None:
    starts = RecentStarts.of("5/min", log, 1000.0)

    assert (starts.left, starts.has_changed) == (0, True)
    assert RecentStarts.of("5/min", starts.stored(), 1060.0).left == 5


@pytest.mark.parametrize(
    ("text", "rate", "shown", "period"),
    [
        ("100/min", Rate(100, 60), "100/min", "minute"),
        (" 5 / 30 s ", Rate(5, 30), "5/30s", "30 s"),
        ("60/3600s", Rate(60, 3600), "60/h", "hour"),
        ("7/48h", Rate(7, 172_800), "7/2day", "2 days"),
        ("1/Minute", Rate(1, 60), "1/min", "minute"),
        ("9999999/99999day", Rate(9_999_999, 99_999 * 86_400), "9999999/99999day", "99999 days"),
    ],
)
def test_rates_as_people_write_them(text: str, rate: Rate, shown: str, period: str) -> None:
    assert (parse_rate(text), str(rate), rate.period) == (rate, shown, period)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "100",
        "0/min",
        "1/0s",
        "-1/s",
        "1.5/s",
        "1/ms",
        "1/month",
        "١/s",
        "10000000/s",
        "1/100000s",
        "/min",
    ],
)
def test_what_is_no_rate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Refused, match=re.escape("such as 100/min, 5/30s or 1000/day")):
        parse_rate(text)


@given(st.from_regex(RATE_PATTERN, fullmatch=True))
def test_whatever_the_column_admits_can_be_read(text: str) -> None:
    assert parse_rate(text).seconds > 0


@given(st.builds(Rate, st.integers(1, 9_999_999), st.integers(1, 99_999)))
def test_the_column_admits_each_rate_as_it_is_stored(rate: Rate) -> None:
    assert re.fullmatch(RATE_PATTERN, str(rate))
    assert parse_rate(str(rate)) == rate
