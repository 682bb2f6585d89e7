"""Which task instance a DAG callback shows: the semantics reference, section 23.2."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.instances import CallbackRequest, Instance
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.run.callbacks import dag_callback, task_callback
from aiosched.core.values.states import RunState, TaskState

S = TaskState
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

# a -> b -> c, and d alone
TASKS = (
    TaskSpec(task_id="a", operator="T"),
    TaskSpec(task_id="b", operator="T", upstream=("a",), has_failure_callback=True),
    TaskSpec(task_id="c", operator="T", upstream=("b",), has_retry_callback=True),
    TaskSpec(task_id="d", operator="T"),
)
GRAPH = Graph(DagSpec(dag_id="sales", tasks=TASKS, has_success_callback=True, has_failure_callback=True))


def instances(*states: tuple[TaskState, int | None, int | None]) -> list[Instance]:
    """One a task: its state, and the minutes after noon at which it started and ended."""

    def at(minutes: int | None) -> datetime | None:
        return None if minutes is None else NOON + timedelta(minutes=minutes)

    return [
        Instance(task, state=state, try_number=task + 1, start_date=at(start), end_date=at(end))
        for task, (state, start, end) in enumerate(states)
    ]


@pytest.mark.parametrize(
    ("state", "reason", "rows", "shown"),
    [
        (RunState.SUCCESS, None, [(S.SUCCESS, 0, 9), (S.SUCCESS, 1, 2), (S.SKIPPED, 3, 20), (S.SUCCESS, 0, 8)], "a"),
        (RunState.SUCCESS, None, [(S.SKIPPED, 0, 9), (S.SKIPPED, 1, 2), (S.SKIPPED, 3, 4), (S.SKIPPED, 0, 8)], None),
        (
            RunState.FAILED,
            "task_failure",
            [(S.FAILED, 0, 3), (S.UPSTREAM_FAILED, 9, 9), (S.UPSTREAM_FAILED, 9, 9), (S.FAILED, 0, 8)],
            "d",
        ),
        (
            RunState.FAILED,
            "timed_out",
            [(S.SUCCESS, 0, 50), (S.RUNNING, 9, None), (S.NONE, None, None), (S.DEFERRED, 5, None)],
            "b",
        ),
        (
            RunState.FAILED,
            "all_tasks_deadlocked",
            [(S.SUCCESS, 0, 1), (S.NONE, None, None), (S.NONE, None, None), (S.NONE, None, None)],
            "b",
        ),
        (
            RunState.FAILED,
            "all_tasks_deadlocked",
            [(S.NONE, None, None), (S.NONE, None, None), (S.NONE, None, None), (S.SUCCESS, 0, 1)],
            None,
        ),
    ],
)
def test_the_context_shows_the_task_that_matters(
    state: RunState, reason: str | None, rows: list[tuple[TaskState, int | None, int | None]], shown: str | None
) -> None:
    (request,) = dag_callback(GRAPH, instances(*rows), state, reason)

    assert request.kind == ("dag_success" if state is RunState.SUCCESS else "dag_failure")
    assert request.reason == (reason or "success")
    assert (None if request.task is None else GRAPH.task_ids[request.task]) == shown
    assert request.try_number == (0 if request.task is None else request.task + 1)


def test_of_mapped_instances_the_right_one_is_shown() -> None:
    mapped = [Instance(3, i, S.FAILED, 1, end_date=NOON + timedelta(minutes=-abs(i - 2))) for i in range(5)]

    (request,) = dag_callback(GRAPH, mapped, RunState.FAILED, "task_failure")

    assert (request.task, request.map_index) == (3, 2)


def test_only_declared_callbacks_are_asked_for() -> None:
    graph = Graph(DagSpec(dag_id="sales", tasks=TASKS))

    assert not dag_callback(graph, [], RunState.FAILED, "task_failure")
    assert not dag_callback(graph, [], RunState.SUCCESS, None)
    failed = Instance(1, state=S.RUNNING, try_number=2, reason="lost")
    assert task_callback(graph, failed, "task_failure") == (CallbackRequest("task_failure", "lost", 1, -1, 2),)
    assert not task_callback(graph, failed, "task_retry")
    assert not task_callback(graph, Instance(2), "task_failure")
    assert [request.kind for request in task_callback(graph, Instance(2), "task_retry")] == ["task_retry"]


@pytest.mark.parametrize("reason", ["cancelled", "marked", "marked_success"])
def test_a_run_that_a_person_ended_asks_for_nothing(reason: str) -> None:
    for state in (RunState.SUCCESS, RunState.FAILED):
        assert not dag_callback(GRAPH, [], state, reason)
