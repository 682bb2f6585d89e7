"""Which callbacks the scheduler requests, and the task instance that they show.

Pure. A request is stored in the transaction that stores its reason (db/statements/outbox.py), and delivered after the
commit (scheduler/loops/callbacks.py). Callbacks of tries that a worker ran to the end are not requested here: the
worker ran them.

Source: the semantics reference, sections 23.1 and 23.2, and section 34 decision 14.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.instances import CallbackRequest, Instance
from aiosched.core.graph.spec import TaskSpec
from aiosched.core.values.states import FINISHED, RunState, TaskState

BY_A_USER: Final = frozenset(
    {"cancelled", "marked", "marked_success"}
)  # reasons of runs that a user ended: no callback
KINDS: Final = (  # of callbacks that this aiosched can run
    "dag_success", "dag_failure", "task_success", "task_skipped", "task_failure", "task_retry", "deadline", "sla_miss",
    "alert",
)  # fmt: skip
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


def dag_callback(
    graph: Graph, instances: Iterable[Instance], state: RunState, reason: str | None
) -> Sequence[CallbackRequest]:
    """The request for a run that ends now; empty when its DAG has no such callback, or a user ended the run.

    For a run that times out, pass the instances as they were before they were skipped.
    """
    failed = state is RunState.FAILED
    spec = graph.spec
    if reason in BY_A_USER or not (spec.has_failure_callback if failed else spec.has_success_callback):
        return ()
    shown = _SHOWN.get(reason or "", _latest_end)(graph, list(instances), failed)
    request = CallbackRequest(kind="dag_failure" if failed else "dag_success", reason=reason or "success")
    if shown is not None:
        request = request._replace(task=shown.task, map_index=shown.map_index, try_number=shown.try_number)
    return (request,)


def task_callback(graph: Graph, instance: Instance, kind: str) -> Sequence[CallbackRequest]:
    """The request for a try that ended without a worker to run its callbacks; its reason is the instance's.

    `kind` is how it ended: task_success, task_skipped, task_failure or task_retry.
    """
    if not _WANTED[kind](graph.tasks[instance.task]):
        return ()
    return (CallbackRequest(kind, instance.reason, instance.task, instance.map_index, instance.try_number),)


_WANTED: Final[dict[str, Callable[[TaskSpec], bool]]] = {
    "task_success": lambda task: task.has_success_callback,
    "task_skipped": lambda task: task.has_skipped_callback,
    "task_failure": lambda task: task.has_failure_callback,
    "task_retry": lambda task: task.has_retry_callback,
}


def _latest_end(graph: Graph, instances: Sequence[Instance], failed: bool) -> Instance | None:
    wanted = TaskState.FAILED if failed else TaskState.SUCCESS
    found = [i for i in instances if i.state is wanted]
    return max(found, key=lambda i: i.end_date or _LONG_AGO, default=None)


def _latest_start(graph: Graph, instances: Sequence[Instance], failed: bool) -> Instance | None:
    found = [i for i in instances if i.state not in FINISHED]
    return max(found, key=lambda i: i.start_date or _LONG_AGO, default=None)


def _first_stuck(graph: Graph, instances: Sequence[Instance], failed: bool) -> Instance | None:
    finished = {i.task for i in instances if i.state in FINISHED}
    stuck = (i for i in instances if i.state not in FINISHED)
    return next((i for i in stuck if finished.intersection(graph.upstream[i.task])), None)


_SHOWN: Final[dict[str, Callable[[Graph, Sequence[Instance], bool], Instance | None]]] = {
    "timed_out": _latest_start,
    "all_tasks_deadlocked": _first_stuck,
}
