"""A clock that jumps, or that differs from the database's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from aiosched.core.fleet.clocks import NOTICED, ClockWatch, difference_in_words, from_database

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (
            3600,
            "forward, or the machine was suspended: by 1 h, from 2026-11-20 12:00:01 UTC to 2026-11-20 13:00:01 UTC",
        ),
        (-3600, "back: by 1 h, from 2026-11-20 12:00:01 UTC to 2026-11-20 11:00:01 UTC"),
        (NOTICED, "forward, or the machine was suspended: by 10.0 s"),
    ],
)
def test_a_jump_is_found_once_with_both_times(by: float, said: str) -> None:
    watch = ClockWatch()
    assert watch.look(NOON, 100.0) is None
    jump = watch.look(NOON + seconds(1 + by), 101.0)
    assert said in str(jump)
    assert watch.look(NOON + seconds(2 + by), 102.0) is None


def test_what_is_no_jump() -> None:
    watch = ClockWatch()
    watch.look(NOON, 0.0)
    assert watch.look(NOON + seconds(7200), 7200.0) is None, "nobody looked for two hours: the loop was blocked"
    for number in range(1, 1000):  # NTP lets it run slower
        assert watch.look(NOON + seconds(7200 + number * 0.9), 7200.0 + number) is None
    assert watch.look(NOON + seconds(7200 + 900 - NOTICED + 1.0), 7200.0 + 1000) is None


def test_a_clock_that_stays_behind_its_jump_is_compared_with_itself() -> None:
    watch = ClockWatch()
    watch.look(NOON, 0.0)
    assert watch.look(NOON - seconds(3600), 1.0) is not None
    back = watch.look(NOON + seconds(2), 2.0)
    assert back is not None
    assert back.seconds == 3601
    assert "created now: a, b" in back.meaning("a, b")


def test_the_time_that_an_answer_took_is_no_difference_from_the_database() -> None:
    assert from_database(NOON, NOON + seconds(30), NOON + seconds(60)) == 0.0
    assert from_database(NOON, NOON - seconds(40), NOON + seconds(60)) == 40.0
    assert from_database(NOON, NOON + seconds(100), NOON + seconds(60)) == -40.0


def test_a_difference_names_both_times_and_its_effect() -> None:
    assert difference_in_words(9.9, NOON) is None
    assert difference_in_words(-9.9, NOON) is None
    assert difference_in_words(3600, NOON) == (
        "has a clock that is 1 h ahead of the database's (2026-11-20 13:00:00 UTC, there 2026-11-20 12:00:00 UTC): its "
        "scheduled runs are created that much too early, or the database's clock is wrong"
    )
    assert "90.0 s" not in str(difference_in_words(-90, NOON))
    assert "1 m 30 s behind" in str(difference_in_words(-90, NOON))
