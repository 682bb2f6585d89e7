"""What one transaction of the journal stores, and what may be done once it is committed.

Does not live here: gathering it (holdings.py), storing it (journal.py), acting on it (session.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from aiosched.core.board import Board, FinishedTry, Instance
from aiosched.core.messages import AttemptKey, Report
from aiosched.db.assets import NewEvent
from aiosched.db.deadlines import DeadlineRow
from aiosched.db.inbox import CommandResult
from aiosched.db.journal import InstanceChange, RunChange, XComRow
from aiosched.db.outbox import NewCallback
from aiosched.db.triggers import DeferralRow


@dataclass(slots=True)
class Batch:
    """What one transaction stores, and what may be done once it is committed."""

    instances: list[InstanceChange] = field(default_factory=list)
    expanded: list[tuple[int, int]] = field(default_factory=list)  # (run, task) whose map index -1 becomes 0
    created: list[tuple[int, int, int, int]] = field(default_factory=list)  # new rows of task instances
    runs: list[RunChange] = field(default_factory=list)
    tries: list[FinishedTry] = field(default_factory=list)
    xcoms: list[XComRow] = field(default_factory=list)
    forget_xcoms: list[tuple[int, int, int]] = field(default_factory=list)
    pool_deltas: dict[str, int] = field(default_factory=dict)
    claimed: list[tuple[Board, Instance]] = field(default_factory=list)
    cancelled: list[AttemptKey] = field(default_factory=list)
    finished: list[Board] = field(default_factory=list)
    started: list[Board] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    answers: list[tuple[int, CommandResult]] = field(default_factory=list)  # to requests, by their id
    demands: dict[str, str | None] = field(default_factory=dict)  # by pool, what it is to say of us (db/demands.py)
    wake: set[int] = field(default_factory=set)  # incarnations that slots were left to
    heard: list[int] = field(default_factory=list)  # rows of reports of other schedulers, done with
    asset_events: list[NewEvent] = field(default_factory=list)
    consumers: frozenset[int] = frozenset()  # partitions of the DAGs that these events were queued for
    deferrals: list[DeferralRow] = field(default_factory=list)
    undeferred: list[tuple[int, int, int]] = field(default_factory=list)  # whose deferrals are to be forgotten
    triggers: list[tuple[Board, Instance]] = field(default_factory=list)  # wait for a trigger that is to be run
    callbacks: list[NewCallback] = field(default_factory=list)
    outbox: dict[int, int] = field(default_factory=dict)  # the partitions of these callbacks, by their new ids
    deadlines: list[DeadlineRow] = field(default_factory=list)  # of cleared runs
    kept: list[tuple[int, datetime]] = field(default_factory=list)  # runs with deadlines that succeeded, and when
    failing: dict[str, int] = field(default_factory=dict)  # DAG id of a failed run -> how many in a row pause it
    paused: list[str] = field(default_factory=list)  # DAGs that were paused by that

    @property
    def needs_transaction(self) -> bool:
        """Whether it takes more than the one hot statement."""
        rows = self.expanded or self.created or self.tries or self.xcoms or self.forget_xcoms
        waits = self.deferrals or self.undeferred or self.deadlines or self.kept or self.heard or self.demands
        return bool(rows or waits or self.callbacks or self.failing or self.answers or self.asset_events)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to store."""
        return not (self.instances or self.runs or self.pool_deltas or self.needs_transaction)
