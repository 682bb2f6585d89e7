"""How a run ends: the four rules in their order (the semantics reference, section 9.3), and decision 13."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from aiosched.core.run.run_result import judge_run, waits_outside
from aiosched.core.values.states import RunState, TaskState
from tests.core.graph_builders import task

S, K, F, UF, GONE = (
    TaskState.SUCCESS,
    TaskState.SKIPPED,
    TaskState.FAILED,
    TaskState.UPSTREAM_FAILED,
    TaskState.REMOVED,
)


@pytest.mark.parametrize(
    ("leaves", "result"),
    [
        ([S, K], (RunState.SUCCESS, None)),
        ([K, K], (RunState.SUCCESS, None)),
        ([], (RunState.SUCCESS, None)),
        ([GONE], (RunState.SUCCESS, None)),
        ([S, GONE], (RunState.SUCCESS, None)),
        ([S, F], (RunState.FAILED, "task_failure")),
        ([K, UF], (RunState.FAILED, "task_failure")),
        ([GONE, F], (RunState.FAILED, "task_failure")),
    ],
)
def test_the_leaves_decide_once_nothing_is_unfinished(
    leaves: Sequence[TaskState], result: tuple[RunState, str | None]
) -> None:
    assert judge_run(leaves, unfinished=0) == result


@pytest.mark.parametrize(
    ("armed", "runnable", "result"),
    [
        (True, False, (RunState.FAILED, "all_tasks_deadlocked")),
        (True, True, (RunState.RUNNING, None)),
        (False, False, (RunState.RUNNING, None)),
        (False, True, (RunState.RUNNING, None)),
    ],
)
def test_an_unfinished_run_fails_only_when_it_is_deadlocked(
    armed: bool, runnable: bool, result: tuple[RunState, str | None]
) -> None:
    assert judge_run([F], unfinished=1, armed=armed, runnable=runnable) == result


def test_a_run_goes_on_while_something_is_unfinished_although_a_leaf_failed() -> None:
    assert judge_run([F, S], unfinished=2).state is RunState.RUNNING


def test_a_fail_fast_run_fails_although_its_leaves_were_skipped() -> None:
    assert judge_run([K, K], unfinished=0, failed_fast=True) == (RunState.FAILED, "task_failure")
    assert judge_run([K, K], unfinished=1, failed_fast=True).state is RunState.RUNNING, "teardowns go on"


@pytest.mark.parametrize(
    "fields",
    [
        {"depends_on_past": True},
        {"wait_for_downstream": True},
        {"max_active_tis_per_dag": 1},
        {"max_active_tis_per_dagrun": 1},
    ],
)
def test_a_task_that_may_wait_for_other_runs_is_no_sign_of_a_deadlock(fields: dict[str, int]) -> None:
    assert waits_outside(task("a", **fields))
    assert not waits_outside(task("a"))
