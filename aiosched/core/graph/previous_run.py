"""Whether the previous run allows a task to start.

Pure. The scheduler finds that run (scheduler/partitions/previous_run.py, `previous_types` here); the board decides what
a task does while it waits. Source: the semantics reference, section 6, and section 34 decisions 9 and 12.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from aiosched.core.graph.spec import TaskSpec
from aiosched.core.values.states import SUCCEEDED, RunType, TaskState

_NOT_MANUAL: Final = frozenset(RunType) - {RunType.MANUAL}
PASSED: Final = SUCCEEDED | {TaskState.REMOVED}  # an index without a value any more holds nobody back


class PreviousRun(Protocol):
    """The previous run, as far as it matters: a `Board` or a `StoredRun`."""

    def all_succeeded(self, task_id: str) -> bool | None:
        """Whether all instances of the task are success or skipped, or removed; None if it has none in that run."""
        ...


class StoredRun:
    """A previous run that does not change: its states by task id."""

    __slots__ = ("_succeeded",)

    def __init__(self, states: Iterable[tuple[str, TaskState]]) -> None:
        self._succeeded: dict[str, bool] = {}
        for task_id, state in states:
            self._succeeded[task_id] = self._succeeded.get(task_id, True) and state in PASSED

    def all_succeeded(self, task_id: str) -> bool | None:
        return self._succeeded.get(task_id)


class IncompleteRun:
    """A previous run whose task instances are not all stored yet, so that none has started."""

    __slots__ = ()

    def all_succeeded(self, task_id: str) -> bool | None:
        return False


@dataclass(frozen=True, slots=True)
class EarlierRuns:
    """What a run knows about earlier runs.

    previous     the previous run; None: there is none
    at           the logical date of that run
    seen_before  tasks that have instances at any earlier logical date
    opens        it is the first run of its backfill: nothing before counts
    """

    previous: PreviousRun | None = None
    at: datetime | None = None
    seen_before: frozenset[str] = frozenset()
    opens: bool = False


def previous_types(catchup: bool) -> frozenset[RunType]:
    """The types of runs that count as a previous run, which is the latest with an earlier logical date (6.1)."""
    return _NOT_MANUAL if catchup else frozenset(RunType)


def waits_for_past(task: TaskSpec, downstream: Iterable[str], past: EarlierRuns, *, catchup: bool) -> str | None:
    """Why `task` cannot start yet, as one line of text; None if earlier runs do not hold it back.

    `downstream` are the ids of its direct downstream tasks. Source: sections 6.2 and 6.3.
    """
    if not (task.depends_on_past or task.wait_for_downstream) or past.opens or past.previous is None:
        return None
    if catchup and task.start_date is not None and past.at is not None and task.start_date > past.at:
        return None
    succeeded = past.previous.all_succeeded(task.task_id)
    if succeeded is None:
        if task.ignore_first_depends_on_past and task.task_id not in past.seen_before:
            return None
        return "the previous run does not have this task (depends_on_past)"
    if not succeeded:
        return "has not succeeded in the previous run (depends_on_past)"
    if task.wait_for_downstream:
        for task_id in downstream:
            if past.previous.all_succeeded(task_id) is False:
                return f"{task_id} has not succeeded in the previous run (wait_for_downstream)"
    return None


@dataclass(frozen=True, slots=True)
class Lookback:
    """The tasks of a DAG that depend on the previous run. A `Graph` without such tasks has None.

    tasks      their indexes
    concerned  task id -> the indexes of the tasks that depend on its instances in the previous run
    """

    tasks: tuple[int, ...]
    concerned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def compile_lookback(tasks: tuple[TaskSpec, ...], downstream: tuple[tuple[int, ...], ...]) -> Lookback | None:
    """Those of `tasks` that depend on the previous run; None if there are none."""
    looking = tuple(i for i, task in enumerate(tasks) if task.depends_on_past or task.wait_for_downstream)
    if not looking:
        return None
    concerned: dict[str, list[int]] = {}
    for index in looking:
        watched = (index, *downstream[index]) if tasks[index].wait_for_downstream else (index,)
        for other in watched:
            concerned.setdefault(tasks[other].task_id, []).append(index)
    return Lookback(looking, {task_id: tuple(found) for task_id, found in concerned.items()})
