"""`airflow.utils.state`: the names of states, as Airflow's enums have them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class TaskInstanceState(StrEnum):
    """The states of task instances; one without a state is None."""

    REMOVED = "removed"
    SCHEDULED = "scheduled"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCESS = "success"
    RESTARTING = "restarting"
    FAILED = "failed"
    UP_FOR_RETRY = "up_for_retry"
    UP_FOR_RESCHEDULE = "up_for_reschedule"
    UPSTREAM_FAILED = "upstream_failed"
    SKIPPED = "skipped"
    DEFERRED = "deferred"


class DagRunState(StrEnum):
    """The states of runs."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"


class JobState(StrEnum):
    """The states of Airflow's jobs."""

    RUNNING = "running"
    SUCCESS = "success"
    RESTARTING = "restarting"
    FAILED = "failed"


class TerminalTIState(StrEnum):
    """The states in which a task instance has ended."""

    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"
    UPSTREAM_FAILED = "upstream_failed"
    REMOVED = "removed"


class IntermediateTIState(StrEnum):
    """The states in which a task instance waits."""

    SCHEDULED = "scheduled"
    QUEUED = "queued"
    RESTARTING = "restarting"
    UP_FOR_RETRY = "up_for_retry"
    UP_FOR_RESCHEDULE = "up_for_reschedule"
    UPSTREAM_FAILED = "upstream_failed"
    DEFERRED = "deferred"


class DagRunTriggeredByType(StrEnum):
    """Who asked for a run."""

    CLI = "cli"
    OPERATOR = "operator"
    REST_API = "rest_api"
    UI = "ui"
    TEST = "test"
    TIMETABLE = "timetable"
    ASSET = "asset"
    BACKFILL = "backfill"


class StateNames:
    """`State`: all states by name, and sets of them. `State.NONE` is None, `State.SHUTDOWN` a text."""

    SUCCESS: Final = TaskInstanceState.SUCCESS
    RUNNING: Final = TaskInstanceState.RUNNING
    FAILED: Final = TaskInstanceState.FAILED
    NONE: Final = None
    REMOVED: Final = TaskInstanceState.REMOVED
    SCHEDULED: Final = TaskInstanceState.SCHEDULED
    QUEUED: Final = TaskInstanceState.QUEUED
    RESTARTING: Final = TaskInstanceState.RESTARTING
    SHUTDOWN: Final = "shutdown"
    UP_FOR_RETRY: Final = TaskInstanceState.UP_FOR_RETRY
    UP_FOR_RESCHEDULE: Final = TaskInstanceState.UP_FOR_RESCHEDULE
    UPSTREAM_FAILED: Final = TaskInstanceState.UPSTREAM_FAILED
    SKIPPED: Final = TaskInstanceState.SKIPPED
    DEFERRED: Final = TaskInstanceState.DEFERRED

    task_states: Final = (None, *TaskInstanceState)
    dag_states: Final = (DagRunState.QUEUED, DagRunState.SUCCESS, DagRunState.RUNNING, DagRunState.FAILED)
    finished: Final = frozenset({SUCCESS, FAILED, SKIPPED, UPSTREAM_FAILED, REMOVED})
    unfinished: Final = frozenset(
        {None, SCHEDULED, QUEUED, RUNNING, RESTARTING, UP_FOR_RETRY, UP_FOR_RESCHEDULE, DEFERRED}
    )
    failed_states: Final = frozenset({FAILED, UPSTREAM_FAILED})
    success_states: Final = frozenset({SUCCESS, SKIPPED})
    running: Final = frozenset({RUNNING, DEFERRED, RESTARTING})
