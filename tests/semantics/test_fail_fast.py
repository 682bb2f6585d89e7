"""Fail-fast and run timeouts, for a task in any state. Source: the semantics reference, sections 22.5 and 21.1.

How a fail-fast run ends is decision 13 (test_decisions.py); retries set nothing off: tests/core/test_board_ends.py.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.run.board import Board, Instance, Run
from aiosched.core.values.messages import Outcome, Report, RunInfo
from aiosched.core.values.states import RunState, TaskState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
S = TaskState


def board_with(*rows: Instance, **of_first: Any) -> Board:
    """Tasks without arrows, one for each of `rows`; the first one has these options, too."""
    number = max(row.task for row in rows) + 1
    tasks = [TaskSpec(task_id=f"t{n}", operator="X", **(of_first if n == 0 else {})) for n in range(number)]
    run = Run(1, "d", "r", 1, "manual", RunState.RUNNING, run_after=NOW, start_date=NOW)
    info = RunInfo(key=1, dag_id="d", run_id="r", run_type="manual", run_after=NOW)
    return Board(Graph(DagSpec(dag_id="d", tasks=tuple(tasks), fail_fast=True)), run, rows, info=info)


def one(task: int, state: TaskState, map_index: int = -1) -> Instance:
    return Instance(task, map_index, state, int(state is not S.NONE), stored_state=state)


def fail(board: Board, row: Instance, **fields: Any) -> None:
    assert board.apply(Report(key=board.key(row), outcome=Outcome.FAILED, at=NOW, reason="boom", **fields), NOW)
    board.evaluate(NOW)


AFTER_FAIL_FAST = {S.SUCCESS: S.SUCCESS, S.FAILED: S.FAILED, S.RUNNING: S.FAILED}  # all others: skipped


@pytest.mark.parametrize("state", list(S))
def test_after_a_final_failure_what_runs_fails_and_all_others_are_skipped(state: TaskState) -> None:
    bad, other = one(0, S.RUNNING), one(1, state)

    fail(board_with(bad, other), bad)

    assert (bad.state, other.state) == (S.FAILED, AFTER_FAIL_FAST.get(state, S.SKIPPED))


def test_a_failure_for_good_sets_it_off_whatever_retries_are_left() -> None:
    bad, other = one(0, S.RUNNING), one(1, S.RUNNING)

    fail(board_with(bad, other, retries=5), bad, fail_now=True)

    assert (bad.state, other.state) == (S.FAILED, S.FAILED)


def test_mapped_siblings_are_spared() -> None:
    bad, sibling, other = one(0, S.RUNNING, 0), one(0, S.RUNNING, 1), one(1, S.SCHEDULED)

    fail(board_with(bad, sibling, other), bad)

    assert (sibling.state, other.state) == (S.RUNNING, S.SKIPPED)


@pytest.mark.parametrize("state", list(S))
def test_when_a_run_times_out_all_that_is_unfinished_is_skipped(state: TaskState) -> None:
    """Section 21.1: also None, scheduled, queued, running and deferred."""
    row = one(0, state)
    board = board_with(row, one(1, S.RUNNING))

    board.time_out(NOW)

    unfinished = state not in (S.SUCCESS, S.FAILED, S.SKIPPED, S.UPSTREAM_FAILED, S.REMOVED)
    assert row.state is (S.SKIPPED if unfinished else state)
    assert (board.run.state, board.run.reason, board.run.end_date) == (RunState.FAILED, "timed_out", NOW)
