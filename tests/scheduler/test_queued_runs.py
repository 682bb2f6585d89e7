"""The queued runs of a DAG: in the order in which they may start, however many there are.

Source: the semantics reference, section 14.1.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.run.board import Run
from aiosched.core.values.states import RunState
from aiosched.scheduler.state.dag_runs import QueuedRuns

NOW = datetime(2026, 1, 10, tzinfo=UTC)


def run(key: int, *, days: int = 0, backfill: int | None = None, order: int | None = None) -> Run:
    """A queued run that may start `days` after NOW."""
    after = NOW + timedelta(days=days)
    return Run(
        key=key,
        dag_id="d",
        run_id=f"r{key}",
        version_id=1,
        run_type="manual" if backfill is None else "backfill",
        state=RunState.QUEUED,
        run_after=after,
        logical_date=None,
        interval_start=None,
        interval_end=None,
        queued_at=NOW,
        start_date=None,
        backfill_id=backfill,
        backfill_order=order,
    )


def queued(*runs: Run) -> QueuedRuns:
    found = QueuedRuns()
    for each in runs:
        found.append(each)
    return found


def keys(runs: list[Run]) -> list[int]:
    return [each.key for each in runs]


def test_runs_of_no_backfill_come_by_the_instant_from_which_they_may_start_then_by_age() -> None:
    waiting = queued(run(3), run(2), run(1, days=-1))

    assert keys(waiting.first(None, 2, NOW)) == [1, 2]


def test_the_runs_of_a_backfill_come_by_their_order_number() -> None:
    waiting = queued(run(1, backfill=7, order=3), run(2, backfill=7, order=1), run(3, backfill=7, order=2))

    assert keys(waiting.first(7, 3, NOW)) == [2, 3, 1]


def test_each_group_is_apart() -> None:
    waiting = queued(run(1), run(2, backfill=7, order=1), run(3, backfill=8, order=1))

    assert set(waiting.groups()) == {None, 7, 8}
    assert [waiting.count(group) for group in (None, 7, 9)] == [1, 1, 0]
    assert keys(waiting.first(8, 5, NOW)) == [3]


def test_the_earliest_run_that_may_not_start_yet_is_named_after_those_that_may() -> None:
    waiting = queued(run(1), run(2, days=2), run(3, days=1))

    assert keys(waiting.first(None, 5, NOW)) == [1, 3]


def test_without_room_nothing_is_looked_at() -> None:
    assert queued(run(1)).first(None, 0, NOW) == []


def test_a_run_that_does_not_wait_cannot_be_removed() -> None:
    with pytest.raises(KeyError):
        queued(run(1)).remove(run(2))


@given(st.lists(st.tuples(st.integers(-2, 2), st.sampled_from([None, 7])), max_size=12), st.data())
def test_what_is_left_after_removals_is_what_was_not_removed(
    plan: list[tuple[int, int | None]], data: st.DataObject
) -> None:
    runs = [run(key, days=days, backfill=backfill, order=key) for key, (days, backfill) in enumerate(plan)]
    waiting = queued(*runs)
    gone = data.draw(st.lists(st.sampled_from(runs), unique_by=lambda r: r.key)) if runs else []

    for each in gone:
        waiting.remove(each)

    left = [each for each in runs if each not in gone]
    assert len(waiting) == len(left)
    assert sorted(keys(list(waiting))) == keys(left)
    assert set(waiting.groups()) == {each.backfill_id for each in left}
