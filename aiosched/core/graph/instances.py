"""Runs and task instances in memory, and the effects of decisions about them.

Lives here: the plain mutable rows that a board works on, and the effects that it collects. Does not live here: any
decision (board.py), how rows are read and stored (db).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from aiosched.core.values.messages import AttemptKey, StoredXCom, XComValue
from aiosched.core.values.states import HOLDING_SLOT, RunState, TaskState

_NOT_DONE: Final = frozenset({TaskState.SKIPPED, TaskState.FAILED, TaskState.UPSTREAM_FAILED})


class Instance(msgspec.Struct, eq=False, gc=False):
    """One task instance. `stored_*` are the values that the database has (or that were sent to it).

    The garbage collector leaves instances alone: there may be a million of them, and none refers to anything.
    """

    task: int
    map_index: int = -1
    state: TaskState = TaskState.NONE
    try_number: int = 0
    max_tries: int = 0
    losses: int = 0
    queued_by: int | None = None
    scheduled_at: datetime | None = None
    queued_at: datetime | None = None
    start_date: datetime | None = None
    end_date: datetime | None = None
    next_at: datetime | None = None
    reason: str | None = None
    is_stopped: bool = False  # by the end of its run, see `is_undone`
    stored_state: TaskState = TaskState.NONE
    stored_try: int = 0
    holds_pool: bool = False  # whether its pool slots count as used in the database


def is_undone(instance: Instance) -> bool:
    """Whether a stop of its run ended the instance, or something before it: no run that goes on is green without it."""
    return instance.is_stopped and instance.state in _NOT_DONE


@dataclass(slots=True, eq=False)
class Run:
    """A DAG run's row. Instants are aware UTC.

    A `reason` before its end says how it will end, whatever its tasks do: it continues only for its teardowns.
    """

    key: int
    dag_id: str
    run_id: str
    version_id: int
    run_type: str
    state: RunState
    run_after: datetime
    logical_date: datetime | None = None
    interval_start: datetime | None = None
    interval_end: datetime | None = None
    queued_at: datetime | None = None
    start_date: datetime | None = None
    end_date: datetime | None = None
    conf: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    backfill_id: int | None = None
    backfill_order: int | None = None  # 1 for the first run of its backfill
    clear_number: int = 0  # how often it was cleared
    is_incomplete: bool = False  # some of its task instances are not stored yet: it must not start
    is_as_created: bool = False  # nothing has changed its task instances since they were stored: no need to read them
    stored_state: RunState = RunState.QUEUED
    partition_key: str | None = None  # of the partition of assets that it is about
    partition_date: datetime | None = None
    unique_key: str | None = None  # while it is unfinished, requests with this key make no other run
    priority: int = 0  # it starts before those with less, and its tasks weigh so much more
    traceparent: str | None = None  # of the span in which somebody asked for it
    expires_at: datetime | None = None  # it fails if it has not started by then


class StartTerms(NamedTuple):
    """What a later request with its unique key changes of a run that waits to start."""

    run_after: datetime
    conf: dict[str, Any]
    priority: int
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class FinishedTry:
    """An attempt that the instance's row will no longer describe: failed or lost."""

    key: AttemptKey
    state: str  # failed, lost
    queued_by: int | None
    queued_at: datetime | None
    start_date: datetime | None
    end_date: datetime | None
    reason: str | None
    details: str | None = None
    hostname: str | None = None
    pid: int | None = None


class TrySource(NamedTuple):
    """The code that a try ran: that of a version, or code whose version is not known (yet)."""

    run_id: int
    task_index: int
    map_index: int
    try_number: int
    version_id: int | None
    source_hash: str | None


class RenderedFields(NamedTuple):
    """The template fields of a try as they were rendered, as a JSON object; secrets are masked."""

    run_id: int
    task_index: int
    map_index: int
    try_number: int
    fields: str


class MapLabel(NamedTuple):
    """What is shown instead of the map index of an instance: its rendered `map_index_template`."""

    run_id: int
    task_index: int
    map_index: int
    label: str


class CallbackRequest(NamedTuple):
    """A callback to run in a worker. `task` is the index of the task that it concerns or shows, or None."""

    kind: str  # as in core.messages.CallbackCall
    reason: str | None
    task: int | None = None
    map_index: int = -1
    try_number: int = 0


class RowEffects(msgspec.Struct, eq=False):
    """What decisions about one run have left to store. An instance can be in several of these."""

    changed: dict[Instance, None] = {}  # rows to store
    lazy: dict[Instance, None] = {}  # rows that can wait for the next commit
    later: deque[Instance] = msgspec.field(default_factory=deque)  # wait for a slot; their rows can wait for long
    expanded: list[Instance] = []  # their rows have map index -1, which becomes 0
    collapsed: list[Instance] = []  # the other way round
    created: list[Instance] = []  # rows to insert, before any change is stored
    tries: list[FinishedTry] = []
    sources: list[TrySource] = []
    rendered: list[RenderedFields] = []  # stored with the next change: they need no commit of their own
    labels: list[MapLabel] = []  # the same
    xcoms: list[tuple[Instance, XComValue | StoredXCom]] = []
    forget_xcoms: list[Instance] = []  # a new try starts without the old values
    deferrals: dict[Instance, None] = {}  # whose deferral is to be stored or deleted
    callbacks: list[CallbackRequest] = []
    run_changed: bool = False

    def __bool__(self) -> bool:
        """Whether there is something to store now."""
        return bool(
            self.changed
            or self.later
            or self.tries
            or self.sources
            or self.xcoms
            or self.run_changed
            or self.deferrals
            or self.callbacks
            or self.expanded
            or self.collapsed
            or self.created
        )


class SlotEffects(msgspec.Struct, eq=False):
    """What decisions about one run mean for those who wait for slots, and for the times of the next decisions."""

    ready: list[Instance] = []  # wait for a slot from now on
    withdrawn: list[Instance] = []  # no longer wait for a slot
    released: list[Instance] = []  # gave their slot back
    inactive: list[Instance] = []  # no longer count against their task's own limits
    timers: list[tuple[datetime, Instance]] = []  # evaluate again then


class Effects(msgspec.Struct, eq=False):
    """The effects of decisions about one run, until they are applied and stored."""

    rows: RowEffects = msgspec.field(default_factory=RowEffects)
    slots: SlotEffects = msgspec.field(default_factory=SlotEffects)
    cancelled: dict[AttemptKey, int | None] = {}  # attempts to stop, and who runs them (None: triggers)
    triggers: list[Instance] = []  # wait for a trigger that is to be run


def held_pool(instance: Instance) -> bool:
    """Whether the instance's pool slots count as used in the database."""
    stored = instance.stored_state
    return stored in HOLDING_SLOT or (stored is TaskState.DEFERRED and instance.holds_pool)


def holds_pool(instance: Instance, pool: str, include_deferred: Collection[str]) -> bool:
    """Whether they count from now on. Whether the pool includes deferred tasks is checked when a task defers."""
    if instance.state is TaskState.DEFERRED:
        return instance.holds_pool if instance.stored_state is TaskState.DEFERRED else pool in include_deferred
    return instance.state in HOLDING_SLOT


def is_due(instance: Instance, now: datetime) -> bool:
    """Whether the instant that an instance waits for has come: for a retry it must be strictly in the past."""
    if instance.next_at is None:
        return True
    return instance.next_at < now if instance.state is TaskState.UP_FOR_RETRY else instance.next_at <= now
