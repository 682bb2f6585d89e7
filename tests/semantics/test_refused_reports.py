"""Which reports of a runner are refused: the text below the table of section 2.3 of the semantics reference.

The table itself is held against the transitions in tests/core/test_states.py. Here nobody is told of a conflict:
a report that does not fit is stale, changes nothing and is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from aiosched.core.values.messages import AttemptKey, Deferral, Outcome, Report
from aiosched.core.values.states import RunState, TaskState
from tests.semantics.boards import LATER, NOW, board_of, of, report, task

S = TaskState
WAITS = Deferral(classpath="x.Trigger", kwargs="{}", next_method="go_on")
FIELDS: dict[Outcome, dict[str, Any]] = {
    Outcome.RESCHEDULED: {"reschedule_at": LATER},
    Outcome.DEFERRED: {"deferral": WAITS},
}

ENDS: Mapping[Outcome, TaskState] = {
    Outcome.SUCCESS: S.SUCCESS,
    Outcome.FAILED: S.UP_FOR_RETRY,
    Outcome.SKIPPED: S.SKIPPED,
    Outcome.RESCHEDULED: S.UP_FOR_RESCHEDULE,
    Outcome.DEFERRED: S.DEFERRED,
    Outcome.LOST: S.NONE,
}
# From each state: what a report leads to. Whatever is not named is refused. The end of a short attempt may come
# before its start; an attempt that was told to stop is taken at its word that it has ended.
TAKEN: Mapping[TaskState, Mapping[Outcome, TaskState]] = {
    S.QUEUED: {Outcome.STARTED: S.RUNNING, Outcome.STUCK: S.SCHEDULED, **ENDS},
    S.RUNNING: {Outcome.STARTED: S.RUNNING, Outcome.STUCK: S.NONE, **ENDS},
    S.RESTARTING: {
        Outcome.STARTED: S.RESTARTING,
        Outcome.STUCK: S.NONE,
        **dict.fromkeys(ENDS, S.NONE),
        Outcome.FAILED: S.UP_FOR_RETRY,
    },
    S.SHUTDOWN: {Outcome.STARTED: S.SHUTDOWN, Outcome.STUCK: S.FAILED, **dict.fromkeys(ENDS, S.FAILED)},
}


@pytest.mark.parametrize("outcome", [*ENDS, Outcome.STARTED, Outcome.STUCK])
@pytest.mark.parametrize("state", sorted(S))
def test_a_report_is_taken_from_an_attempt_that_is_under_way(state: TaskState, outcome: Outcome) -> None:
    board = board_of(task("a", retries=1), task("b"), states={"a": state, "b": S.RUNNING})

    taken = report(board, "a", outcome, **FIELDS.get(outcome, {}))

    expected = TAKEN.get(state, {}).get(outcome)
    assert (taken, of(board, "a").state) == (expected is not None, expected or state)
    assert of(board, "a").try_number == 1


@pytest.mark.parametrize("outcome", [*ENDS, Outcome.STARTED])
def test_a_report_that_comes_twice_is_harmless(outcome: Outcome) -> None:
    board = board_of(task("a", retries=1), task("b"), states={"a": S.RUNNING, "b": S.RUNNING})
    key = board.key(of(board, "a"))
    once = Report(key=key, outcome=outcome, at=NOW, **FIELDS.get(outcome, {}))
    assert board.apply(once, NOW)
    state, tries = of(board, "a").state, len(board.effects.rows.tries)

    board.apply(once, LATER)

    assert (of(board, "a").state, len(board.effects.rows.tries)) == (state, tries)
    assert of(board, "a").end_date in (None, NOW)


@pytest.mark.parametrize("outcome", [*ENDS, Outcome.STARTED])
@pytest.mark.parametrize("change", [{"try_number": 1}, {"try_number": 3}, {"map_index": 0}, {"task_index": 9}])
def test_what_another_try_reports_is_gone(outcome: Outcome, change: dict[str, int]) -> None:
    board = board_of(task("a", retries=1), states={"a": S.RUNNING}, tries=2)
    key: AttemptKey = board.key(of(board, "a"))._replace(**change)

    assert not board.apply(Report(key=key, outcome=outcome, at=NOW, **FIELDS.get(outcome, {})), NOW)
    assert of(board, "a").state is S.RUNNING


@pytest.mark.parametrize("run_state", [RunState.SUCCESS, RunState.FAILED])
@pytest.mark.parametrize("outcome", [*ENDS, Outcome.STARTED])
def test_what_is_reported_to_a_run_that_is_over_is_gone(outcome: Outcome, run_state: RunState) -> None:
    board = board_of(task("a"), states={"a": S.RUNNING}, run_state=run_state)

    assert not report(board, "a", outcome, **FIELDS.get(outcome, {}))
    assert of(board, "a").state is S.RUNNING
