"""The unfinished runs of a DAG, and its queued ones in the order in which they may start, however many there are.

Source: the semantics reference, sections 14.1 to 14.3.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.creation.run_keys import KeyRoom
from aiosched.core.graph.instances import StartTerms
from aiosched.core.graph.spec import RunKeySpec
from aiosched.core.run.board import Run
from aiosched.core.values.states import RunState
from aiosched.db.statements.backfills import Backfill
from aiosched.scheduler.memory.dag_runs import DagRuns, QueuedRuns

NOW = datetime(2026, 1, 10, tzinfo=UTC)


def run(
    key: int, *, days: int = 0, backfill: int | None = None, order: int | None = None, state: RunState = RunState.QUEUED
) -> Run:
    """A run, a queued one unless said otherwise, that may start `days` after NOW."""
    after = NOW + timedelta(days=days)
    return Run(
        key=key,
        dag_id="d",
        run_id=f"r{key}",
        version_id=1,
        run_type="manual" if backfill is None else "backfill",
        state=state,
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


def test_a_run_of_a_backfill_does_not_wait_for_one_before_it_that_may_not_start_yet() -> None:
    waiting = queued(*(run(key, days=days, backfill=7, order=key) for key, days in enumerate((3, 0, 2, 4, -1), 1)))

    assert keys(waiting.first(7, 2, NOW)) == [2, 5, 3]  # and then the earliest of the others


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(-1, 1)), max_size=12), st.integers(1, 4), st.data())
def test_the_first_are_those_of_most_priority_that_may_start_whenever_one_looks(
    plan: list[tuple[int, int]], most: int, data: st.DataObject
) -> None:
    runs = [run(key, days=days) for key, (days, _) in enumerate(plan)]
    for each, (_, priority) in zip(runs, plan, strict=True):
        each.priority = priority
    waiting = queued(*runs)

    for day in data.draw(st.lists(st.integers(-3, 3), max_size=3).map(sorted)):
        now = NOW + timedelta(days=day)
        due = sorted((each for each in runs if each.run_after <= now), key=lambda r: (-r.priority, r.run_after, r.key))
        later = sorted((each for each in runs if each.run_after > now), key=lambda r: (r.run_after, r.key))
        assert keys(waiting.first(None, most, now)) == keys(due[:most]) + keys(later[:1])
        if due:
            waiting.remove(due[0])
            runs.remove(due[0])


def test_a_queued_run_is_found_by_its_key() -> None:
    waiting = queued(run(1), run(2, days=-1), run(3, backfill=7, order=2))

    assert [found and found.key for found in map(waiting.find, (1, 2, 3, 4))] == [1, 2, 3, None]


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


# -- runs by key ------------------------------------------------------------------------------

Plan = list[tuple[int, int, "str | None"]]  # days, priority, tenant


def greedy(runs: list[Run], running: list[Run], spec: RunKeySpec, most: int, now: datetime) -> list[int]:
    """The keys of those that start, by looking at all."""
    room, found = KeyRoom(spec, (each.conf for each in running)), list[int]()
    for each in sorted((e for e in runs if e.run_after <= now), key=lambda r: (-r.priority, r.run_after, r.key)):
        if len(found) < most and room.held(each.conf) is None:
            room.take(each.conf)
            found.append(each.key)
    return found


@given(
    st.lists(st.tuples(st.integers(-2, 2), st.integers(-1, 1), st.sampled_from(["a", "b", "c", None])), max_size=14),
    st.integers(1, 3),
    st.integers(1, 4),
    st.data(),
)
def test_those_whose_key_has_room_are_chosen_as_if_all_were_looked_at(
    plan: Plan, per_key: int, limit: int, data: st.DataObject
) -> None:
    runs, running, spec = [run(key, days=days) for key, (days, _, _) in enumerate(plan)], list[Run](), None
    for each, (_, priority, tenant) in zip(runs, plan, strict=True):
        each.priority, each.conf = priority, {} if tenant is None else {"tenant": tenant}
    waiting = queued(*runs)

    for day in data.draw(st.lists(st.integers(-3, 3), min_size=1, max_size=6).map(sorted)):
        now, room = NOW + timedelta(days=day), None
        if data.draw(st.integers(0, 4)) or spec is None:
            spec = RunKeySpec(("tenant",), data.draw(st.integers(1, per_key)))  # the DAG may have changed
            room = KeyRoom(spec, (each.conf for each in running))
        free = max(limit - len(running), 0)
        chosen = [each for each in waiting.first(None, free, now, room) if each.run_after <= now]

        unlimited = spec if room is not None else RunKeySpec(("tenant",), 100)
        assert keys(chosen) == greedy(runs, running, unlimited, free, now)
        assert sorted(keys(list(waiting))) == keys(runs)
        assert len(waiting) == waiting.count(None) == len(runs)
        for each in chosen:
            waiting.remove(each)
            runs.remove(each)
            running.append(each)
        for each in data.draw(st.lists(st.sampled_from(running), unique_by=id)) if running else []:
            running.remove(each)
        for each in data.draw(st.lists(st.sampled_from(runs), unique_by=id)) if runs else []:
            waiting.move(each, StartTerms(each.run_after, {"tenant": "moved"}, each.priority, None))


def test_a_hundred_thousand_runs_of_one_key_are_looked_at_once() -> None:
    class Counting(KeyRoom):
        def held(self, conf: Any) -> str | None:
            looked.append(1)
            return super().held(conf)

        def copy(self) -> KeyRoom:
            return self

    looked, spec = list[int](), RunKeySpec(("tenant",))
    busy = [run(key) for key in range(100_000)]
    for each in busy:
        each.conf = {"tenant": "busy"}
    waiting = queued(*busy, other := run(100_000))
    for _ in range(10):
        assert waiting.first(None, 5, NOW, Counting(spec, [{"tenant": "busy"}])) == [other]

    assert len(looked) == 100_000 + 10


# -- all unfinished runs ----------------------------------------------------------------------


def test_of_the_runs_that_cannot_be_read_those_that_run_take_a_place() -> None:
    running = [run(key, state=RunState.RUNNING, backfill=backfill) for key, backfill in ((1, None), (2, None), (3, 7))]
    runs = DagRuns(unread=[*running, run(4)], queued=queued(run(5), run(6, backfill=7)))

    assert runs.under_way() == running
    assert runs.active() == 3  # of no backfill: 1, 2 and 5


def test_a_backfill_is_over_when_nothing_of_it_waits_starts_or_is_left_alone() -> None:
    runs = DagRuns(
        queued=queued(run(1, backfill=6)),
        unread=[run(2, backfill=7), run(3, backfill=8, state=RunState.RUNNING), run(4)],
        backfills={number: Backfill(number, "d", 1, is_paused=False) for number in (6, 7, 8, 9)},
    )

    assert [backfill.id for backfill in runs.finished_backfills()] == [9]
    runs.starting.add(5)  # whose it is shows when it is read
    assert runs.finished_backfills() == []


def test_runs_expire_in_the_order_of_their_instants_and_only_while_they_wait() -> None:
    runs = [run(key, days=key) for key in range(1, 5)]
    for each, hours in zip(runs, (3, 1, 2, None), strict=True):
        each.expires_at = None if hours is None else NOW + timedelta(hours=hours)
    waiting = queued(*runs)

    assert (waiting.expired(NOW), waiting.next_expiry(NOW)) == ([], NOW + timedelta(hours=1))
    waiting.remove(runs[1])
    waiting.remove(runs[3])
    assert keys(waiting.expired(NOW + timedelta(hours=2))) == [3]
    assert waiting.next_expiry(NOW + timedelta(hours=2)) == NOW + timedelta(hours=3)
    waiting.move(runs[2], StartTerms(NOW, {"n": 1}, 0, None))
    assert keys(waiting.expired(NOW + timedelta(days=1))) == [1]
    assert waiting.next_expiry(NOW + timedelta(days=1)) is None


def test_what_people_let_run_again_does_not_expire() -> None:
    again = run(1)
    again.expires_at, again.clear_number = NOW, 1
    waiting = queued(again)

    assert waiting.expired(NOW) == []
    waiting.remove(again)
    assert len(waiting) == 0
