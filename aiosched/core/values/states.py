"""The states of task instances and DAG runs, and the transitions of task instances as a table.

Source: the semantics reference, sections 2 and 3. A task instance without a state yet
has the state `None`; in memory it is `TaskState.NONE`, in the database SQL NULL.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from aiosched.errors import InvalidTransition, UnreadableRow


class TaskState(StrEnum):
    """The state of a task instance. `NONE` waits for its dependencies."""

    NONE = "none"
    SCHEDULED = "scheduled"
    QUEUED = "queued"
    RUNNING = "running"
    RESTARTING = "restarting"
    SHUTDOWN = "shutdown"
    UP_FOR_RETRY = "up_for_retry"
    UP_FOR_RESCHEDULE = "up_for_reschedule"
    DEFERRED = "deferred"
    SUCCESS = "success"
    SKIPPED = "skipped"
    FAILED = "failed"
    UPSTREAM_FAILED = "upstream_failed"
    REMOVED = "removed"

    stored: str | None  # the value in the database: SQL NULL for `NONE`

    def __init__(self, value: str) -> None:
        self.stored = None if value == "none" else value

    @classmethod
    def of(cls, stored: str | None) -> TaskState:
        """The state for a database value. Raises UnreadableRow for an unknown one."""
        try:
            return cls.NONE if stored is None else cls(stored)
        except ValueError:
            raise UnreadableRow(f"A task instance is in the state {stored!r}") from None


class RunState(StrEnum):
    """The state of a DAG run."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"

    @classmethod
    def of(cls, stored: str, run: str = "A run") -> RunState:
        """The state for a database value. Raises UnreadableRow, which names the run, for an unknown one."""
        try:
            return cls(stored)
        except ValueError:
            raise UnreadableRow(f"{run} is in the state {stored!r}") from None


class RunType(StrEnum):
    """What created a run; the first part of its run id."""

    SCHEDULED = "scheduled"
    MANUAL = "manual"
    BACKFILL = "backfill"
    ASSET_TRIGGERED = "asset_triggered"


S = TaskState

FINISHED: Final = frozenset({S.SUCCESS, S.FAILED, S.SKIPPED, S.UPSTREAM_FAILED, S.REMOVED})
UNFINISHED: Final = frozenset(S) - FINISHED
ALIVE: Final = UNFINISHED - {S.NONE}  # under way, or waiting for a time
SUCCEEDED: Final = frozenset({S.SUCCESS, S.SKIPPED})
FAILURES: Final = frozenset({S.FAILED, S.UPSTREAM_FAILED})
_SETTLED: Final = frozenset({S.SKIPPED.value, S.UPSTREAM_FAILED.value, S.REMOVED.value})


def began(state: str | None, start: datetime | None, end: datetime | None) -> datetime | None:
    """When a task instance with these stored values began to run; None also for one that never did.

    One that is settled without running is stored with that instant as its start and end (2.4).
    """
    return None if state in _SETTLED and start == end else start


SCHEDULABLE: Final = frozenset({S.NONE, S.UP_FOR_RETRY, S.UP_FOR_RESCHEDULE})
HOLDING_SLOT: Final = frozenset({S.QUEUED, S.RUNNING, S.RESTARTING, S.SHUTDOWN})
ACTIVE_FOR_TASK_LIMITS: Final = HOLDING_SLOT | {S.DEFERRED}
RUN_FINISHED: Final = frozenset({RunState.SUCCESS, RunState.FAILED})


class TaskEvent(StrEnum):
    """What can happen to a task instance."""

    READY = "dependencies met"
    EMPTY = "is a trivial empty task"
    SETTLED_SKIPPED = "its trigger rule or a branch skipped it"
    SETTLED_UPSTREAM_FAILED = "its trigger rule can no longer hold"
    SETTLED_REMOVED = "its task or map index no longer exists"
    SETTLED_EMPTY = "there is nothing to map over"
    SLOT_GRANTED = "slot granted"
    REQUEUED = "stuck in its executor's queue, to be queued again"
    STARTED = "started"
    RETURNED = "returned"
    SKIPPED_ITSELF = "raised the skip signal"
    FAILED_RETRYABLE = "failed, tries left"
    FAILED_FINALLY = "failed, no tries left"
    RESCHEDULED = "asked to be called again later"
    DEFERRED = "waits for a trigger"
    TRIGGERED = "its trigger fired"
    LOST = "its worker or scheduler died"
    RUN_TIMED_OUT = "its run timed out"
    FAIL_FAST_RUNNING = "another task failed in a fail-fast DAG"
    FAIL_FAST_WAITING = "another task failed in a fail-fast DAG, before it started"
    CLEARED = "cleared"
    RESTORED = "its task exists again"
    STOP_REQUESTED = "asked to stop"
    MARKED_SUCCESS = "marked success"
    MARKED_FAILED = "marked failed"
    MARKED_SKIPPED = "marked skipped"


E = TaskEvent


def _table() -> dict[tuple[TaskState, TaskEvent], TaskState]:
    table: dict[tuple[TaskState, TaskEvent], TaskState] = {}

    def rule(sources: frozenset[TaskState] | set[TaskState], event: TaskEvent, target: TaskState) -> None:
        table.update({(source, event): target for source in sources})

    rule(SCHEDULABLE, E.READY, S.SCHEDULED)
    rule({S.DEFERRED}, E.TRIGGERED, S.SCHEDULED)
    rule({S.NONE}, E.EMPTY, S.SUCCESS)
    settled_for_good = {S.RUNNING, S.SHUTDOWN, S.SUCCESS, S.FAILED, S.SKIPPED}  # a branch skips all others
    rule(frozenset(S) - settled_for_good, E.SETTLED_SKIPPED, S.SKIPPED)
    rule(SCHEDULABLE, E.SETTLED_UPSTREAM_FAILED, S.UPSTREAM_FAILED)
    rule(frozenset(S) - {S.REMOVED}, E.SETTLED_REMOVED, S.REMOVED)
    rule(frozenset(S) - {S.SKIPPED}, E.SETTLED_EMPTY, S.SKIPPED)
    rule({S.SCHEDULED}, E.SLOT_GRANTED, S.QUEUED)
    rule({S.QUEUED}, E.REQUEUED, S.SCHEDULED)
    rule({S.QUEUED, S.RESTARTING}, E.STARTED, S.RUNNING)
    executing = {S.QUEUED, S.RUNNING}  # a short attempt reports its end before its start was stored
    ending = executing | {S.DEFERRED}  # a trigger can end its task
    rule(ending, E.RETURNED, S.SUCCESS)
    rule(ending, E.SKIPPED_ITSELF, S.SKIPPED)
    rule(ending | {S.RESTARTING}, E.FAILED_RETRYABLE, S.UP_FOR_RETRY)
    rule(ending | {S.SHUTDOWN}, E.FAILED_FINALLY, S.FAILED)
    rule(executing, E.RESCHEDULED, S.UP_FOR_RESCHEDULE)
    rule(executing | {S.NONE, S.SCHEDULED}, E.DEFERRED, S.DEFERRED)
    rule(HOLDING_SLOT, E.LOST, S.NONE)
    rule(UNFINISHED, E.RUN_TIMED_OUT, S.SKIPPED)
    rule({S.RUNNING}, E.FAIL_FAST_RUNNING, S.FAILED)
    rule((UNFINISHED - {S.RUNNING}) | {S.UPSTREAM_FAILED, S.REMOVED}, E.FAIL_FAST_WAITING, S.SKIPPED)
    rule(frozenset(S) - {S.RUNNING}, E.CLEARED, S.NONE)
    table[S.RUNNING, E.CLEARED] = S.RESTARTING
    rule({S.REMOVED}, E.RESTORED, S.NONE)
    rule({S.RUNNING, S.QUEUED}, E.STOP_REQUESTED, S.SHUTDOWN)
    rule(frozenset(S), E.MARKED_SUCCESS, S.SUCCESS)
    rule(frozenset(S), E.MARKED_FAILED, S.FAILED)
    rule(frozenset(S), E.MARKED_SKIPPED, S.SKIPPED)
    return table


TRANSITIONS: Final = MappingProxyType(_table())


def advance(state: TaskState, event: TaskEvent) -> TaskState:
    """The state after `event`; raises InvalidTransition naming the possible events."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        possible = ", ".join(sorted(e.name for s, e in TRANSITIONS if s is state)) or "nothing"
        raise InvalidTransition(
            f"{event.name} cannot happen to a {state} task instance; possible: {possible}"
        ) from None
