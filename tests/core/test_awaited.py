"""Queued runs that running ones wait for: who they are, and that they start first. Source: sections 6 and 14."""

from __future__ import annotations

from datetime import timedelta

import pytest

from aiosched.core.creation.awaited import NONE_AWAITED, AwaitedRuns, WaitingRun, find_awaited, who_waits_for
from aiosched.core.creation.run_creation import runs_to_start
from aiosched.core.graph.instances import Run
from tests.core.queued_runs import NOW, a_run


def still(waits_for: int | None, group: int | None = None) -> WaitingRun:
    return WaitingRun(group, waits_for, stands_still=True)


def test_a_queued_run_is_awaited_directly_or_through_running_and_queued_ones() -> None:
    running = {5: still(4), 4: still(3), 9: WaitingRun(None)}

    assert find_awaited(running, {3: 2, 2: 1}) == AwaitedRuns({2: 4, 3: 4}, frozenset({2}), frozenset())
    assert who_waits_for(2, running, {3: 2, 2: 1}) == 5
    assert who_waits_for(1, {9: WaitingRun(None)}, {}) is None


def test_nobody_waits_for_a_run_behind_one_that_is_at_work() -> None:
    assert find_awaited({5: still(4), 4: WaitingRun(None)}, {3: None}) is NONE_AWAITED
    assert find_awaited({5: still(4)}, {}) is NONE_AWAITED  # the run before is over


def test_one_that_follows_a_run_which_is_not_over_is_none_of_the_first() -> None:
    found = find_awaited({5: still(4), 3: WaitingRun(None)}, {4: 3})

    assert (found.by, found.first) == ({4: 5}, frozenset())


def test_a_limit_stands_still_when_all_its_running_runs_do() -> None:
    running = {5: still(4), 6: still(5), 7: still(6, group=1), 8: WaitingRun(1)}

    assert find_awaited(running, {4: None}).still == {None}


def started(*queued: Run, running: int, limit: int = 2, awaited: AwaitedRuns) -> list[int]:
    decision = runs_to_start(queued, now=NOW, limits={None: limit}, running={None: running}, awaited=awaited)
    assert {run.key for run in queued} == {run.key for run in decision.started} | decision.waiting.keys()
    return [run.key for run in decision.started]


ONE, TWO, THREE = map(a_run, (1, 2, 3))
FOR_THREE = AwaitedRuns({3: 9}, frozenset({3}), frozenset({None}))


@pytest.mark.parametrize(
    ("running", "limit", "awaited", "who"),
    [
        (2, 2, NONE_AWAITED, []),
        (1, 2, NONE_AWAITED, [1]),
        (1, 2, FOR_THREE, [3]),
        (2, 2, FOR_THREE, [3]),
        (4, 2, FOR_THREE, [3]),
        (1, 3, FOR_THREE, [3, 1]),
        (2, 0, FOR_THREE, []),
        (2, 2, AwaitedRuns({3: 9}, frozenset({3})), []),
        (2, 2, AwaitedRuns({3: 9}, frozenset(), frozenset({None})), []),
        (2, 2, AwaitedRuns({2: 9, 3: 9}, frozenset({2, 3}), frozenset({None})), [2]),
        (1, 2, AwaitedRuns({2: 9, 3: 9}, frozenset({2, 3}), frozenset({None})), [2]),
    ],
)
def test_awaited_runs_go_first_and_one_of_them_beyond_a_limit_that_stands_still(
    running: int, limit: int, awaited: AwaitedRuns, who: list[int]
) -> None:
    assert started(ONE, TWO, THREE, running=running, limit=limit, awaited=awaited) == who


def test_it_waits_for_its_time_as_any_other() -> None:
    later = a_run(3, NOW + timedelta(hours=1))

    assert started(ONE, later, running=2, awaited=FOR_THREE) == []
