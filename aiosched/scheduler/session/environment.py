"""The fixed environment of all loops of one incarnation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from aiosched.clock import Clock
from aiosched.config import Settings
from aiosched.core.figures.metrics import Metrics
from aiosched.core.fleet.loads import PartitionLoads
from aiosched.core.run.board import Run
from aiosched.core.values.messages import Executor
from aiosched.db.crypto.secret_confs import SecretConfs
from aiosched.db.server.engine import Database
from aiosched.scheduler.attempts.attempts import Attempts
from aiosched.scheduler.engines.engine_executor import Engines
from aiosched.scheduler.failures.remembered import FailedReports, RequestAttempts, UnreadableReports, Unremovable
from aiosched.scheduler.journal.journal import Journal
from aiosched.scheduler.session.events import Listener


@dataclass(slots=True)
class Observers:
    """Callbacks for events; none of them may raise, except the listener."""

    listener: Listener | None = None
    on_run_end: Callable[[Run], None] = lambda _: None
    on_partitions: Callable[[], None] = lambda: None  # the owned partitions have changed
    on_ready: Callable[[], None] = lambda: None  # the owned partitions have been loaded


@dataclass(slots=True)
class SchedulerEnvironment:
    """See the module docstring. It outlives sessions."""

    db: Database
    settings: Settings
    clock: Clock
    executor: Executor
    attempts: Attempts
    journal: Journal  # the hot path
    side_journal: Journal  # everything else: run creation, requests, callbacks …
    incarnation: int
    metrics: Metrics
    holds_lease: Callable[[], bool]
    observers: Observers
    engines: Engines
    confs: SecretConfs
    requests: RequestAttempts = field(default_factory=RequestAttempts)
    failed_reports: FailedReports = field(default_factory=FailedReports)
    unreadable_reports: UnreadableReports = field(default_factory=UnreadableReports)
    loads: PartitionLoads = field(default_factory=PartitionLoads)
    unremovable: Unremovable = field(default_factory=Unremovable)

    @property
    def journals(self) -> tuple[Journal, Journal]:
        """Both of them."""
        return self.journal, self.side_journal
