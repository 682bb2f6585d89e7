"""One incarnation: its lease, its journals and its sessions.

A session runs the loops until something fails. Any failure of the database (a lost connection, a
deadlock, a right that is withdrawn) ends only the session: it is discarded, and the next one reads
everything again, for as long as it takes. So does an unforeseen error that concerns one DAG, which
is then in quarantine (partitions/quarantine.py), and any other one, for some minutes (outage.py).
The loss of the lease ends the incarnation.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from aiosched.core.values.ids import PARTITIONS
from aiosched.db.server.engine import Database
from aiosched.db.server.sequences import put_forward
from aiosched.db.statements.ownership import FleetView, release, set_draining
from aiosched.db.statements.pool_demands import withdraw_demands
from aiosched.errors import DagFailure, FencedOut
from aiosched.scheduler.concurrency.supervision import keep_running
from aiosched.scheduler.concurrency.wakeup import Wakeup, run_loop
from aiosched.scheduler.effects.after_commit import after_commit
from aiosched.scheduler.effects.attempt_control import stop_unwanted
from aiosched.scheduler.failures.isolation import ReportFailure, ending, failures_in, report_failures_in
from aiosched.scheduler.loops.alerts import AlertLoop
from aiosched.scheduler.loops.asset_watchers import poll_watchers
from aiosched.scheduler.loops.audit_syslog import AuditSyslog
from aiosched.scheduler.loops.broadcast import publish_changes
from aiosched.scheduler.loops.callbacks import poll_outbox
from aiosched.scheduler.loops.engine_attempts import watch_engines
from aiosched.scheduler.loops.enqueueing import enqueue
from aiosched.scheduler.loops.evaluation import evaluate
from aiosched.scheduler.loops.notifications import receive_notifications
from aiosched.scheduler.loops.remote_attempts import poll_remote_attempts
from aiosched.scheduler.loops.retention import retain
from aiosched.scheduler.loops.run_creation import create_runs
from aiosched.scheduler.loops.schedules import fire_due
from aiosched.scheduler.loops.stored_xcoms import remove_stored_xcoms
from aiosched.scheduler.membership.lease import Lease
from aiosched.scheduler.membership.outage import Patience, is_explained, summary
from aiosched.scheduler.memory.cache import Versions
from aiosched.scheduler.memory.changes import Changes, Committed, SideEffects
from aiosched.scheduler.memory.known_position import KnownPosition
from aiosched.scheduler.partitions.ownership import apply_view
from aiosched.scheduler.partitions.quarantine import put_into_quarantine
from aiosched.scheduler.partitions.recounting import recount_refused
from aiosched.scheduler.partitions.set_aside_reports import set_aside
from aiosched.scheduler.requests.inbox import apply_requests
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.05  # seconds before the first retry; doubled for each further one, up to LAST_PAUSE
LAST_PAUSE: Final = 2.0
_LONG_LIFE: Final = 5.0  # a session that lived for more seconds than this resets the pause

Step = Callable[[], Awaitable[float | None]]


class Incarnation:
    """See the module docstring. `make_session` builds a new session; `on_session` is called with each one."""

    def __init__(
        self,
        lease: Lease,
        make_session: Callable[[], Session],
        on_session: Callable[[Session], None],
        patience: Patience,
        known_position: KnownPosition,
    ) -> None:
        self._lease, self._known_position = lease, known_position
        self._make_session = make_session
        self._on_session = on_session
        self._patience = patience
        self._view: FleetView | None = None
        self._since = 0.0  # monotonic second at which the session began
        self._view_changed = Wakeup()
        self._lost = False
        self._stopping = False
        self._failures: list[DagFailure] = []  # that are not stored yet
        self._failed_reports: list[ReportFailure] = []  # those of them that are about reports
        self.session: Session | None = None

    def receive_view(self, view: FleetView | None) -> None:
        """Take the fleet view that the lease thread has read; None: the lease is lost."""
        self._view = view
        if view is None:
            self._lost = True
            if self.session is not None:
                self.session.env.db.drop_connections()  # a statement that hangs would keep its loop
        self._view_changed.wake()

    def poll_now(self) -> None:
        """Have the lease thread read the fleet now."""
        self._lease.poll_now()

    def stop(self) -> None:
        """End the loops after their current pass."""
        self._stopping = True
        self._view_changed.stop()
        if self.session is not None:
            self.session.wakeups.stop_all()
            self.session.locks.loaded.set()  # nobody loads anything now: loops that wait for it end

    async def run(self) -> None:
        """Run sessions until stopped. Raises FencedOut when the lease is lost, and what outlasts the patience."""
        pause = _FIRST_PAUSE
        failed = set[str]()  # DAGs that the session before has failed about
        versions: Versions = {}
        while not self._stopping:
            began = time.monotonic()
            session = self.session = self._make_session()
            session.cache.versions, versions = versions, {}
            self._on_session(session)
            try:
                await self._compare(session)
                await session.env.journal.settle()
                await session.env.side_journal.settle()
                await recount_refused(session.env)
                self._since = time.monotonic()
                await self._store_failures(session)
                await _withdraw_demands(session)
                await self._run_loops(session)
            except Exception as error:
                if time.monotonic() - began > _LONG_LIFE:
                    pause = _FIRST_PAUSE
                    self._patience.reset()
                if self._lost or not self._lease.trusted() or _is_fenced(error):
                    raise FencedOut("This scheduler has lost its lease; it registers again.") from error
                if failures := failures_in(error):
                    failed_again = not failed.isdisjoint(each.dag_id for each in failures)
                    failed = {each.dag_id for each in failures}
                    self._failures += failures
                    self._failed_reports += report_failures_in(error)
                    versions = session.cache.versions  # they never change, and reading them again takes long
                    if not failed_again:
                        continue
                elif self._patience.is_over(error, now=time.monotonic()):
                    raise
                if _is_out_of_time(error):
                    session.env.db.allow_longer_statements()
                session.env.metrics.recoveries += 1
                trace = None if is_explained(error) else error
                logger.warning("%s; reading everything again", summary(error), exc_info=trace)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LAST_PAUSE)
            finally:
                session.close()

    async def _compare(self, session: Session) -> None:
        """Before anything is written: does the database still have what this scheduler has seen stored?"""
        async with session.env.db.acquire() as conn:
            await self._known_position.compare(conn)

    async def _store_failures(self, session: Session) -> None:
        """Put DAGs into quarantine, except those that can go on because a report is set aside."""
        failed, self._failed_reports = self._failed_reports, []
        go_on = await set_aside(session, failed)
        self._failures = [failure for failure in self._failures if failure.dag_id not in go_on]
        await put_into_quarantine(session, self._failures)
        self._failures = []

    async def _run_loops(self, session: Session) -> None:
        async with asyncio.TaskGroup() as group:
            wakeups = session.wakeups
            loops: tuple[tuple[str, Step, Wakeup], ...] = (
                ("run creation", partial(create_runs, session), wakeups.creation),
                ("evaluation", partial(evaluate, session.context), wakeups.evaluation),
                ("enqueueing", partial(enqueue, session), wakeups.enqueueing),
                ("attempts for others", partial(poll_remote_attempts, session), wakeups.remote_attempts),
            )
            auxiliary: tuple[tuple[str, Step, Wakeup], ...] = (
                ("callbacks and deadlines", partial(poll_outbox, session), wakeups.callbacks),
                ("retention", partial(retain, session), wakeups.retention),
                ("attempts on engines", partial(watch_engines, session), wakeups.engines),
                ("files of XComs", partial(remove_stored_xcoms, session), wakeups.stored_xcoms),
                ("asset watchers", partial(poll_watchers, session), wakeups.watchers),
                (
                    "audit log",
                    partial(AuditSyslog(session.env.settings.audit.syslog).send_some, session),
                    wakeups.audit,
                ),
                ("alerts", partial(AlertLoop().evaluate, session), wakeups.alerts),
                ("schedules", partial(fire_due, session), wakeups.schedules),
                ("changes for browsers", partial(publish_changes, session), wakeups.broadcast),
            )
            for name, step, wakeup in loops:
                group.create_task(_essential(session, _gated(session, step, wakeup)), name=name)
            for name, step, wakeup in auxiliary:
                work = partial(_gated, session, step, wakeup)
                group.create_task(keep_running(name, work, session.env.metrics, wakeup), name=name)
            group.create_task(_essential(session, self._follow_fleet(session)), name="ownership")
            group.create_task(_essential(session, receive_notifications(session)), name="notifications")

    async def _follow_fleet(self, session: Session) -> None:
        """Follow the fleet: gain, load and give back partitions."""
        self._view_changed.wake()

        async def step() -> float | None:
            if self._lost:
                raise FencedOut("This scheduler was taken over.")
            if self._view is None:
                return None
            view, self._view = self._view, None
            if view.at < self._since:  # older than the session: a commit settled since then may have moved partitions
                self._lease.poll_now()
                return None
            async with session.locks.ownership:
                before = set(session.cache.partitions)
                busy = await apply_view(session, view)
                if busy:
                    self._lease.poll_now()
                if session.cache.partitions - before:
                    while await apply_requests(session):
                        pass
                    _hand_out_unsent(session)
                if session.cache.partitions != before:
                    session.wakeups.schedules.wake()
                    session.env.observers.on_partitions()
                if (session.cache.partitions or not busy) and not session.locks.ready.is_set():
                    stop_unwanted(session)
                    session.locks.ready.set()
                    session.env.observers.on_ready()
            session.locks.progress.set()
            if session.locks.ready.is_set() and not session.locks.loaded.is_set():
                session.locks.loaded.set()
                session.wakeups.wake_all()
            return None

        self._lease.poll_now()
        await run_loop(step, self._view_changed)


async def _essential(session: Session, loop: Awaitable[None]) -> None:
    """Run a loop that ends the session when it fails."""
    with ending(session.cache.unstored.discard):
        await loop


def _gated(session: Session, step: Step, wakeup: Wakeup) -> Awaitable[None]:
    """A loop whose passes wait while partitions are being loaded: requests come before creations and starts."""

    async def gated() -> float | None:
        await session.locks.loaded.wait()
        return None if wakeup.stopping else await step()

    return run_loop(gated, wakeup)


def _hand_out_unsent(session: Session) -> None:
    """Hand out the attempts that an earlier session had queued but not handed out."""
    unsent, session.context.unsent = session.context.unsent, []
    if unsent:
        after_commit(session, Committed(Changes(effects=SideEffects(claimed=unsent))))


async def _withdraw_demands(session: Session) -> None:
    """Withdraw the pool demands of an earlier session."""
    async with session.env.db.acquire() as conn:
        await put_forward(conn)
        await withdraw_demands(conn, session.env.incarnation)


async def give_up(db: Database, incarnation: int) -> None:
    """Mark this scheduler as draining, and release its partitions."""
    async with db.acquire() as conn:
        await set_draining(conn, incarnation)
        await release(conn, incarnation, range(PARTITIONS))


def _is_fenced(error: BaseException) -> bool:
    """Whether the fence rejected a transaction. That may happen before the lease thread notices the take-over."""
    if isinstance(error, BaseExceptionGroup):
        return any(_is_fenced(each) for each in error.exceptions)
    return isinstance(error, FencedOut)


def _is_out_of_time(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_is_out_of_time(each) for each in error.exceptions)
    return isinstance(error, TimeoutError)
