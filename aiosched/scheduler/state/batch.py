"""What one transaction of the journal stores, and what may be done once it is committed.

Does not live here: gathering it (cache.py), storing it (journal.py), acting on it (session.py).
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from aiosched.core.graph.instances import TrySource
from aiosched.core.run.board import Board, FinishedTry, Instance
from aiosched.core.values.messages import AttemptKey, Report
from aiosched.db.statements.assets import NewEvent
from aiosched.db.statements.deadlines import DeadlineRow
from aiosched.db.statements.inbox import CommandResult
from aiosched.db.statements.journal import InstanceChange, RunChange, XComRow
from aiosched.db.statements.outbox import NewCallback
from aiosched.db.statements.triggers import DeferralRow


class Batch(msgspec.Struct, eq=False):
    """What one transaction stores, and what may be done once it is committed."""

    instances: list[InstanceChange] = []
    expanded: list[tuple[int, int]] = []  # (run, task) whose map index -1 becomes 0
    created: list[tuple[int, int, int, int]] = []  # new rows of task instances
    runs: list[RunChange] = []
    tries: list[FinishedTry] = []
    sources: list[TrySource] = []
    xcoms: list[XComRow] = []
    forget_xcoms: list[tuple[int, int, int]] = []
    pool_deltas: dict[str, int] = {}
    claimed: list[tuple[Board, Instance]] = []
    cancelled: list[AttemptKey] = []
    finished: list[Board] = []
    started: list[Board] = []
    reports: list[Report] = []
    answers: list[tuple[int, CommandResult]] = []  # to requests, by their id
    demands: dict[str, str | None] = {}  # by pool, what it is to say of us (db/statements/pool_demands.py)
    wake: set[int] = set()  # incarnations that slots were left to
    heard: list[int] = []  # rows of reports of other schedulers, done with
    asset_events: list[NewEvent] = []
    consumers: frozenset[int] = frozenset()  # partitions of the DAGs that these events were queued for
    deferrals: list[DeferralRow] = []
    undeferred: list[tuple[int, int, int]] = []  # whose deferrals are to be forgotten
    triggers: list[tuple[Board, Instance]] = []  # wait for a trigger that is to be run
    callbacks: list[NewCallback] = []
    outbox: dict[int, int] = {}  # the partitions of these callbacks, by their new ids
    deadlines: list[DeadlineRow] = []  # of cleared runs
    kept: list[tuple[int, datetime]] = []  # runs with deadlines that succeeded, and when
    failing: dict[str, int] = {}  # DAG id of a failed run -> how many in a row pause it
    paused: list[str] = []  # DAGs that were paused by that

    @property
    def needs_transaction(self) -> bool:
        """Whether it takes more than the one hot statement."""
        rows = self.expanded or self.created or self.tries or self.sources or self.xcoms or self.forget_xcoms
        waits = self.deferrals or self.undeferred or self.deadlines or self.kept or self.heard or self.demands
        return bool(rows or waits or self.callbacks or self.failing or self.answers or self.asset_events)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to store."""
        return not (self.instances or self.runs or self.pool_deltas or self.needs_transaction)
