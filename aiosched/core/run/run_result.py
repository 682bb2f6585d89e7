"""When a run has ended, and how.

Source: the semantics reference, sections 9.3 and 8.5, and section 34 decision 13.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from aiosched.core.graph.spec import TaskSpec
from aiosched.core.values.states import FAILURES, RunState, TaskState


class RunResult(NamedTuple):
    """The state that a run should have now, and why (None while it runs and on success)."""

    state: RunState
    reason: str | None = None


STILL_RUNNING: Final = RunResult(RunState.RUNNING)
SUCCEEDED: Final = RunResult(RunState.SUCCESS)
TASK_FAILURE: Final = RunResult(RunState.FAILED, "task_failure")
DEADLOCKED: Final = RunResult(RunState.FAILED, "all_tasks_deadlocked")


def judge_run(
    leaf_states: Iterable[TaskState],
    *,
    unfinished: int,
    armed: bool = False,
    runnable: bool = True,
    failed_fast: bool = False,
    undone: bool = False,
) -> RunResult:
    """The result of a run with these states of its effective leaves (`Graph.leaves`) and `unfinished` instances.

    Only leaves decide, except removed ones; a run without leaves is a success. `armed` and `runnable` are the deadlock
    test: armed if no unfinished instance is deferred or of a task that `waits_outside`, runnable if anything is ready,
    under way or has just been settled; a deadlocked run keeps its unfinished instances. `failed_fast`: a final failure
    triggered `fail_fast`, which fails the run whatever the states of its leaves. `undone`: so does an instance that an
    earlier stop of the run left undone.
    """
    if not unfinished:
        return TASK_FAILURE if failed_fast or undone or any(s in FAILURES for s in leaf_states) else SUCCEEDED
    return DEADLOCKED if armed and not runnable else STILL_RUNNING


def waits_outside(task: TaskSpec) -> bool:
    """Whether the task may have to wait for other runs: such a wait is not a deadlock."""
    return (
        task.depends_on_past
        or task.wait_for_downstream
        or task.max_active_tis_per_dag is not None
        or task.max_active_tis_per_dagrun is not None
    )
