"""Who may be tried again, and after how long. Source: the semantics reference, sections 2.5 and 22.1."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.values.retries import may_retry, retry_delay, retry_seed

DAY = 86_400.0


@pytest.mark.parametrize(
    ("try_number", "max_tries", "allowed"),
    [
        (1, 0, False),
        (1, 1, True),
        (2, 1, False),
        (1, 2, True),
        (2, 2, True),
        (3, 2, False),
        (4, 5, True),
        (6, 5, False),
    ],
)
def test_a_try_may_be_repeated_while_its_number_is_within_the_retries(
    try_number: int, max_tries: int, allowed: bool
) -> None:
    """Section 2.5."""
    assert may_retry(try_number, max_tries) is allowed


@pytest.mark.parametrize("multiplier", [0.0, 1.0])
@pytest.mark.parametrize("base", [0.0, 0.5, 300.0, 200_000.0])
def test_a_constant_delay_is_exactly_the_base(base: float, multiplier: float) -> None:
    """Source: the semantics reference, section 22.1."""
    assert retry_delay(base, failed_try=7, multiplier=multiplier, maximum=10) == base


@pytest.mark.parametrize(
    ("base", "failed_try", "maximum", "least", "below"),
    [
        (30, 1, None, 30, 60),
        (30, 3, None, 120, 240),
        (30, 5, None, 480, 960),
        (30, 9, 3600, 3600, 3601),
        (30, 50, 3600, 3600, 3601),
        (30, 50_000, 3600, 3600, 3601),
        (0, 1, None, 1, 2),
        (0.5, 1, None, 1, 2),
        (1, 1, None, 1, 2),
        (0, 50_000, None, 1, 2),
        (30, 20, None, DAY, DAY + 1),
    ],
)
def test_the_table_of_exponential_delays_holds(
    base: float, failed_try: int, maximum: float | None, least: float, below: float
) -> None:
    """Source: the semantics reference, section 22.1."""
    delays = {
        retry_delay(base, failed_try=failed_try, multiplier=2, seed=f"task {n}", maximum=maximum) for n in range(50)
    }

    assert all(least <= delay < below for delay in delays)
    assert len(delays) > 1 or below == least + 1 or least == 1, "the jitter tells tasks apart"


@given(st.floats(0, 1e6), st.integers(1, 2000), st.floats(0.01, 100), st.text())
def test_a_delay_is_repeatable_whole_and_within_its_caps(
    base: float, failed_try: int, multiplier: float, seed: str
) -> None:
    """Source: the semantics reference, sections 22.1 and 35 (13)."""
    ask = [retry_delay(base, failed_try=failed_try, multiplier=multiplier, seed=seed) for _ in range(2)]

    assert ask[0] == ask[1]
    if multiplier != 1:
        assert 1 <= ask[0] <= DAY
        assert ask[0] == int(ask[0])


@pytest.mark.parametrize(("maximum", "delay"), [(None, DAY), (60, 60), (3 * DAY, 3 * DAY)])
def test_a_growing_delay_ends_at_a_day_or_where_the_task_says(maximum: float | None, delay: float) -> None:
    """Section 22.1. What a task says is within core.max_task_retry_delay since it was serialized."""
    assert retry_delay(30, failed_try=30, multiplier=2, maximum=maximum) == delay


def test_tries_of_one_task_have_jitters_of_their_own() -> None:
    seed = retry_seed("sales", "load", "scheduled__2026-01-01T00:00:00+00:00")

    excess = {retry_delay(3600, failed_try=n, multiplier=1.0001, seed=seed) - 3600 for n in range(1, 20)}

    assert len(excess) > 10


def test_mapped_siblings_do_not_retry_in_step() -> None:
    assert len({retry_seed("sales", "load", "manual__x", index) for index in (-1, 0, 1, 2)}) == 4
