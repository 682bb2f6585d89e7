"""Retry policies, from the task's function to the row. Source: the semantics reference, section 22.4."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched import DAG, PythonOperator
from aiosched.core.graph.graph import Graph
from aiosched.core.graph.new_instances import new_instances
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.run.board import Board, Run
from aiosched.core.timetables.parse import parse_schedule
from aiosched.core.values.messages import Outcome, Report, RunInfo
from aiosched.core.values.states import RunState, TaskState
from aiosched.errors import DagError, FailTask, SkipTask
from aiosched.executors.dag_test import run_dag_test

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _raises(error: BaseException) -> Callable[[], None]:
    def fails() -> None:
        raise error

    return fails


def _broken(error: BaseException, context: Any) -> None:
    raise RuntimeError("the policy broke")


@pytest.mark.parametrize(
    ("error", "policy", "state", "tries", "called"),
    [
        pytest.param(ValueError(), lambda e, c: None, "failed", 3, ["retry", "retry", "failure"], id="default"),
        pytest.param(ValueError(), lambda e, c: True, "failed", 3, ["retry", "retry", "failure"], id="allow"),
        pytest.param(ValueError(), lambda e, c: False, "failed", 1, ["failure"], id="fail"),
        pytest.param(ValueError(), lambda e, c: 5, "failed", 3, ["retry", "retry", "failure"], id="delay"),
        pytest.param(
            ValueError(), lambda e, c: c["ti"].try_number < 2, "failed", 2, ["retry", "failure"], id="sees the context"
        ),
        pytest.param(
            ValueError(), lambda e, c: not isinstance(e, ValueError), "failed", 1, ["failure"], id="sees the exception"
        ),
        pytest.param(ValueError(), _broken, "failed", 3, ["retry", "retry", "failure"], id="it raises"),
        pytest.param(ValueError(), lambda e, c: "soon", "failed", 3, ["retry", "retry", "failure"], id="no answer"),
        pytest.param(ValueError(), lambda e, c: -1, "failed", 3, ["retry", "retry", "failure"], id="below zero"),
        pytest.param(FailTask(), lambda e, c: True, "failed", 1, ["failure"], id="fail now is not asked"),
        pytest.param(SkipTask(), lambda e, c: True, "skipped", 1, [], id="a skip is not asked"),
    ],
)
async def test_what_a_retry_policy_makes_of_a_failure(
    error: BaseException, policy: Any, state: str, tries: int, called: list[str]
) -> None:
    seen: list[str] = []
    with DAG("d", schedule=None) as dag:
        PythonOperator(
            task_id="t",
            python_callable=_raises(error),
            retries=2,
            retry_delay=timedelta(days=1),
            retry_policy=policy,
            on_retry_callback=lambda context: seen.append("retry"),
            on_failure_callback=lambda context: seen.append("failure"),
        )

    run = await run_dag_test(dag)

    assert (run.task("t").state, run.task("t").try_number, seen) == (TaskState(state), tries, called)


def test_a_retry_policy_must_be_a_function() -> None:
    with pytest.raises(DagError, match="retry_policy='never' is wrong: give a function"):
        PythonOperator(task_id="t", python_callable=print, retry_policy="never")


@pytest.mark.parametrize(
    ("seconds", "due"),
    [
        (None, NOON + timedelta(minutes=5)),
        (0.0, NOON),
        (90.0, NOON + timedelta(seconds=90)),
    ],
)
def test_the_delay_of_a_policy_is_that_of_the_next_try_alone(seconds: float | None, due: datetime) -> None:
    board = a_board(TaskSpec(task_id="t", operator="T", retries=2, retry_delay=300.0))

    fail(board, NOON, seconds)
    first = board.find(0, -1).next_at
    board.evaluate(NOON + timedelta(hours=1))
    fail(board, NOON + timedelta(hours=1), None)

    assert first == due
    assert board.find(0, -1).next_at == NOON + timedelta(hours=1, minutes=5)


@pytest.mark.parametrize("multiplier", [0.0, 2.0])
def test_a_delay_beyond_the_calendar_stops_nothing(multiplier: float) -> None:
    task = TaskSpec(task_id="t", operator="T", retries=2, retry_delay=1e12, retry_exponential_backoff=multiplier)
    board = a_board(task)

    fail(board, NOON, None)

    assert board.find(0, -1).state is TaskState.UP_FOR_RETRY
    assert board.find(0, -1).next_at > NOON


def a_board(task: TaskSpec) -> Any:
    graph = Graph(DagSpec(dag_id="d", timetable=parse_schedule(None), tasks=(task,)))
    run = Run(key=1, dag_id="d", run_id="r", version_id=1, run_type="manual", state=RunState.QUEUED, run_after=NOON)
    board = Board(
        graph,
        run,
        new_instances(graph, (0,)),
        info=RunInfo(key=1, dag_id="d", run_id="r", run_type="manual", run_after=NOON),
    )
    board.start(NOON)
    board.evaluate(NOON)
    return board


def fail(board: Any, at: datetime, seconds: float | None) -> None:
    """The attempt that waits for a slot gets it and fails."""
    instance = board.find(0, -1)
    board.grant(instance, at, 1)
    board.apply(Report(key=board.key(instance), outcome=Outcome.FAILED, at=at, retry_delay=seconds), at)
