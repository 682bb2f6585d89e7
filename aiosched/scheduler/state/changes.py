"""Decisions that are to be stored, and the result of committing them.

Does not live here: collecting them (cache.py), storing them (journal.py), acting on them (effects/after_commit.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

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


class Changes(msgspec.Struct, eq=False):
    """What one transaction stores, and what its effects need to know."""

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
    demands: dict[str, str | None] = {}  # our demand by pool; None: remove it (db/statements/pool_demands.py)
    slots_left_to: set[int] = set()  # incarnations
    read_reports: list[int] = []  # rows of reports of other schedulers that are applied or dropped
    asset_events: list[NewEvent] = []
    deferrals: list[DeferralRow] = []
    undeferred: list[tuple[int, int, int]] = []  # instances whose deferrals are to be deleted
    triggers: list[tuple[Board, Instance]] = []  # instances whose trigger is to be handed out
    callbacks: list[NewCallback] = []
    deadlines: list[DeadlineRow] = []  # of cleared runs
    kept_deadlines: list[tuple[int, datetime]] = []  # runs with deadlines that succeeded, and when
    failing: dict[str, int] = {}  # DAG id of a failed run -> how many consecutive failures pause the DAG

    @property
    def needs_transaction(self) -> bool:
        """Whether it takes more than the one statement of the hot path."""
        rows = self.expanded or self.created or self.tries or self.sources or self.xcoms or self.forget_xcoms
        waits = self.deferrals or self.undeferred or self.deadlines or self.kept_deadlines
        messages = self.callbacks or self.answers or self.asset_events or self.read_reports or self.demands
        return bool(rows or waits or messages or self.failing)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to store."""
        return not (self.instances or self.runs or self.pool_deltas or self.needs_transaction)


class Committed(NamedTuple):
    """Changes that are stored, and the results of their transaction."""

    changes: Changes
    outbox: Mapping[int, int] = MappingProxyType({})  # the partitions of the requested callbacks, by their new ids
    paused: Collection[str] = ()  # DAGs that were paused after too many consecutive failures
    consumers: Collection[int] = ()  # partitions of the DAGs that asset events were queued for
