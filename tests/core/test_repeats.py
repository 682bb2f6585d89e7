"""Which tries may repeat one that the database has lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from aiosched.core.graph.instances import Instance
from aiosched.core.run.repeats import Repeats

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def instance(try_number: int, *, task: int = 0, map_index: int = -1) -> Instance:
    found = Instance(task=task, map_index=map_index)
    found.try_number = try_number
    return found


def test_the_first_try_of_each_instance_may_repeat_one_however_often_it_is_handed_out() -> None:
    repeats = Repeats(NOON)

    assert repeats.may_repeat(instance(1))
    assert repeats.may_repeat(instance(1))  # called again after a deferral, or not handed out at first
    assert not repeats.may_repeat(instance(2))
    assert repeats.may_repeat(instance(3, task=1))
    assert repeats.may_repeat(instance(1, task=1, map_index=4))


@pytest.mark.parametrize(
    ("queued", "ended", "retry_may_repeat"),
    [
        (None, None, True),
        (NOON - MINUTE, None, True),
        (NOON - MINUTE, NOON - MINUTE, True),
        (NOON, None, False),
        (None, NOON + MINUTE, False),
    ],
)
def test_a_try_of_which_the_rows_know_that_it_was_made_since_then_is_the_first(
    queued: datetime | None, ended: datetime | None, retry_may_repeat: bool
) -> None:
    repeats, stored = Repeats(NOON), instance(1)
    stored.queued_at, stored.end_date = queued, ended

    repeats.recall(stored)

    assert repeats.may_repeat(instance(2)) is retry_may_repeat
