"""Decisions that are to be stored, and the result of committing them.

Does not live here: collecting them (cache.py), storing them (journal.py), acting on them (effects/after_commit.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from aiosched.core.graph.instances import MapLabel, RenderedFields, TrySource
from aiosched.core.run.board import Board, FinishedTry, Instance
from aiosched.core.values.messages import AttemptKey, Report
from aiosched.db.assets.assets import NewAssetEvent
from aiosched.db.engines.attempts import NewAttempt
from aiosched.db.statements.deadlines import DeadlineRow
from aiosched.db.statements.inbox import NewRequest, RequestResult
from aiosched.db.statements.journal import InstanceChange, RunChange, XComRow
from aiosched.db.statements.outbox import NewCallback, WaitingCallback
from aiosched.db.statements.triggers import DeferralRow


class TaskChanges(msgspec.Struct, eq=False):
    """Rows of task instances, and of what belongs to them."""

    instances: list[InstanceChange] = []
    expanded: list[tuple[int, int]] = []  # (run, task) whose map index -1 becomes 0
    collapsed: list[tuple[int, int]] = []  # (run, task) whose map index 0 becomes -1
    created: list[tuple[int, int, int, int]] = []  # new rows of task instances
    tries: list[FinishedTry] = []
    sources: list[TrySource] = []
    rendered: list[RenderedFields] = []
    labels: list[MapLabel] = []
    xcoms: list[XComRow] = []
    forget_xcoms: list[tuple[int, int, int]] = []
    deferrals: list[DeferralRow] = []
    undeferred: list[tuple[int, int, int]] = []  # instances whose deferrals are to be deleted

    @property
    def needs_transaction(self) -> bool:
        """Whether there is more to store than changed instances."""
        more = self.expanded or self.created or self.tries or self.sources or self.xcoms or self.forget_xcoms
        return bool(more or self.collapsed or self.deferrals or self.undeferred or self.rendered or self.labels)


class RunChanges(msgspec.Struct, eq=False):
    """Rows of runs, and of what belongs to them."""

    changed: list[RunChange] = []
    deadlines: list[DeadlineRow] = []  # of cleared runs
    kept_deadlines: list[tuple[int, datetime]] = []  # runs with deadlines that succeeded, and when
    failing: dict[str, int] = {}  # DAG id of a failed run -> how many consecutive failures pause the DAG

    @property
    def needs_transaction(self) -> bool:
        """Whether there is more to store than changed runs."""
        return bool(self.deadlines or self.kept_deadlines or self.failing)


class PoolChanges(msgspec.Struct, eq=False):
    """Rows of pools, by the pool's name."""

    deltas: dict[str, int] = {}  # of the slots that are used
    demands: dict[str, str | None] = {}  # ours; None: remove it (db/statements/pool_demands.py)
    starts: dict[str, str] = {}  # the recent ones of pools with a rate (core/slots/rates.py)


class MessageChanges(msgspec.Struct, eq=False):
    """Rows of the queues between processes."""

    callbacks: list[NewCallback] = []
    asset_events: list[NewAssetEvent] = []
    answers: list[tuple[int, RequestResult]] = []  # to requests, by their id
    requests: list[NewRequest] = []  # that follow from those that are answered
    read_reports: list[int] = []  # rows of reports of other schedulers that are applied or dropped
    attempts: list[NewAttempt] = []  # for engines, those of the claims of this batch

    @property
    def needs_transaction(self) -> bool:
        """Whether there is more to store than attempts for engines, and the reports that are deleted with them."""
        more = self.callbacks or self.asset_events or self.answers or self.requests
        return bool(more or (self.read_reports and not self.attempts))


class SideEffects(msgspec.Struct, eq=False):
    """What is done once the rows are committed (effects/after_commit.py); nothing of it is stored."""

    claimed: list[tuple[Board, Instance]] = []
    cancelled: list[AttemptKey] = []
    started: list[Board] = []
    finished: list[Board] = []
    reports: list[Report] = []
    dropped: list[Report] = []  # reports that nobody needs, by decisions that this transaction stores
    triggers: list[tuple[Board, Instance]] = []  # instances whose trigger is to be handed out
    slots_left_to: set[int] = set()  # incarnations
    next_starts: dict[str, float] = {}  # pools whose rate is used up while tasks wait -> seconds until another start

    @property
    def received(self) -> list[Report]:
        """The reports to apply again if this is not committed."""
        return [*self.reports, *self.dropped]


class Changes(msgspec.Struct, eq=False):
    """What one transaction stores, and the effects that follow it."""

    tasks: TaskChanges = msgspec.field(default_factory=TaskChanges)
    runs: RunChanges = msgspec.field(default_factory=RunChanges)
    pools: PoolChanges = msgspec.field(default_factory=PoolChanges)
    messages: MessageChanges = msgspec.field(default_factory=MessageChanges)
    effects: SideEffects = msgspec.field(default_factory=SideEffects)

    @property
    def needs_transaction(self) -> bool:
        """Whether it takes more than the one statement of the hot path."""
        more = self.tasks.needs_transaction or self.runs.needs_transaction
        return bool(more or self.pools.demands or self.pools.starts or self.messages.needs_transaction)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to store."""
        return not (self.tasks.instances or self.runs.changed or self.pools.deltas or self.needs_transaction)


class Committed(NamedTuple):
    """Changes that are stored, and the results of their transaction."""

    changes: Changes
    outbox: Mapping[int, WaitingCallback] = MappingProxyType({})  # the requested callbacks by their new ids
    paused: Collection[str] = ()  # DAGs that were paused after too many consecutive failures
    consumers: Collection[int] = ()  # partitions of the DAGs that asset events were queued for
    engine_rows: Mapping[AttemptKey, int] = MappingProxyType({})  # ids of the stored attempts for engines
