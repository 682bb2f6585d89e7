"""What an executor's report does to the row of its task. Source: the semantics reference, sections 19.2, 19.3 and 19.4.

Which reports are taken from which state, and where each leads: test_refused_reports.py.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.run.board import Board, Instance, Run
from aiosched.core.values.messages import Deferral, Outcome, Report, RunInfo
from aiosched.core.values.states import RunState, TaskState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
S = TaskState
WAITS = Deferral(classpath="triggers.Moment", kwargs="{}", next_method="resume")


def board_with(state: TaskState, **fields: Any) -> tuple[Board, Instance]:
    """A task in `state`, in its second try of three (`retries=2`), beside one that keeps the run going."""
    tasks = (TaskSpec(task_id="a", operator="X", retries=2, retry_delay=60.0), TaskSpec(task_id="b", operator="X"))
    usual: dict[str, Any] = {"state": state, "stored_state": state, "try_number": 2, "max_tries": 2}
    row = Instance(0, **usual | fields)
    run = Run(1, "d", "r", 1, "manual", RunState.RUNNING, run_after=NOW, start_date=NOW)
    info = RunInfo(key=1, dag_id="d", run_id="r", run_type="manual", run_after=NOW)
    other = Instance(1, state=S.RUNNING, stored_state=S.RUNNING, try_number=1)
    return Board(Graph(DagSpec(dag_id="d", tasks=tasks)), run, [row, other], info=info), row


def report(board: Board, row: Instance, outcome: Outcome, **fields: Any) -> Report:
    if outcome is Outcome.DEFERRED:
        fields["deferral"] = WAITS
    usual: dict[str, Any] = {"key": board.key(row), "outcome": outcome, "at": LATER, "reason": "why"}
    return Report(**usual | fields)


def test_what_was_restarting_and_has_ended_well_has_all_its_retries_again() -> None:
    board, row = board_with(S.RESTARTING)

    board.apply(report(board, row, Outcome.SUCCESS), LATER)

    assert (row.state, row.max_tries) == (S.NONE, 4)  # try_number + retries


@pytest.mark.parametrize(
    ("fields", "fail_now", "state"),
    [
        pytest.param({}, False, S.UP_FOR_RETRY, id="retries are left"),
        pytest.param({"try_number": 3}, False, S.FAILED, id="none is left"),
        pytest.param({}, True, S.FAILED, id="fail now"),
    ],
)
def test_a_failure_ends_the_try_leaves_its_history_and_forgets_how_it_would_have_gone_on(
    fields: dict[str, Any], fail_now: bool, state: TaskState
) -> None:
    """Section 19.4: `end_date`, a row of history, the deferral's `next_method` cleared."""
    board, row = board_with(S.RUNNING, start_date=NOW, **fields)
    board.apply(report(board, row, Outcome.DEFERRED), NOW)
    row.state = S.RUNNING  # it has gone on

    board.apply(report(board, row, Outcome.FAILED, fail_now=fail_now), LATER)

    assert (row.state, row.start_date, row.end_date) == (state, NOW, LATER)
    assert [(done.key.try_number, done.state) for done in board.effects.rows.tries] == [(row.try_number, "failed")]
    assert row not in board.deferrals


def test_one_that_failed_in_the_queue_keeps_its_empty_start_date() -> None:
    """Section 19.4."""
    board, row = board_with(S.QUEUED)

    board.apply(report(board, row, Outcome.FAILED, unattended=True), LATER)

    assert (row.state, row.start_date, row.end_date) == (S.UP_FOR_RETRY, None, LATER)
