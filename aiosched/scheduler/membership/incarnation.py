"""One incarnation: its lease, its journals, and the sessions between one doubt and the next.

A session runs the loops until something fails. What the database may cause (a lost
connection, a deadlock, rows that are not as expected) ends the session only: it is
forgotten and everything is read again. The loss of the lease ends the incarnation.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from aiosched.core.values.ids import PARTITIONS
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_retryable
from aiosched.db.statements.inbox import NEWS_CHANNEL, read_news
from aiosched.db.statements.ownership import FleetView, release, set_draining
from aiosched.db.statements.pool_demands import withdraw_demands
from aiosched.errors import FencedOut, StaleRows
from aiosched.scheduler.effects.broadcast import publish_changes
from aiosched.scheduler.effects.outbox import poll_outbox
from aiosched.scheduler.effects.retention import retain
from aiosched.scheduler.effects.triggers import sweep_triggers
from aiosched.scheduler.effects.watchers import poll_watchers
from aiosched.scheduler.membership.lease import Lease
from aiosched.scheduler.partitions.drift import DriftSweep
from aiosched.scheduler.partitions.handover import poll_remote_attempts, receive_remote_reports
from aiosched.scheduler.partitions.loading import reload_dags
from aiosched.scheduler.partitions.ownership import apply_view
from aiosched.scheduler.requests.commands import apply_commands
from aiosched.scheduler.runs.asset_runs import check_assets
from aiosched.scheduler.runs.run_creation import create_runs
from aiosched.scheduler.session import Session
from aiosched.scheduler.slots.enqueueing import enqueue
from aiosched.scheduler.slots.evaluation import evaluate
from aiosched.scheduler.state.versions import forget_versions
from aiosched.scheduler.state.wakeup import Wakeup, run_loop

logger = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.05  # seconds before the database is tried again, doubled up to the last
_LAST_PAUSE: Final = 2.0
_LONG_LIFE: Final = 5.0  # seconds after which a session's end is no sign of lasting trouble

Step = Callable[[Session], Awaitable[float | None]]


class Incarnation:
    """See the module docstring. `make_session` builds a fresh session; `on_session` hears of each one."""

    def __init__(
        self, lease: Lease, make_session: Callable[[], Session], on_session: Callable[[Session], None]
    ) -> None:
        self._lease = lease
        self._make_session = make_session
        self._on_session = on_session
        self._view: FleetView | None = None
        self._since = 0.0  # monotonic second at which the session began
        self._seen = Wakeup()
        self._lost = False
        self._stopping = False
        self.session: Session | None = None

    def see(self, view: FleetView | None) -> None:
        """What the lease thread saw; None: the lease is lost."""
        self._view = view
        self._lost |= view is None
        self._seen.wake()

    def look(self) -> None:
        """Look at the fleet now: there is something to tell it, or to do."""
        self._lease.look()

    def stop(self) -> None:
        """End the loops after their present pass."""
        self._stopping = True
        self._seen.stop()
        if self.session is not None:
            for wakeup in self.session.wakeups:
                wakeup.stop()

    async def run(self) -> None:
        """Run sessions until stopped. Raises FencedOut when the lease is lost, and what is no database's fault."""
        pause = _FIRST_PAUSE
        while not self._stopping:
            began = time.monotonic()
            session = self.session = self._make_session()
            self._on_session(session)
            try:
                await session.journal.settle()
                await session.command_journal.settle()
                self._since = time.monotonic()
                await _demand_nothing(session)
                await self._run_loops(session)
            except Exception as error:
                if self._lost or not self._lease.trusted() or _is_fenced(error):
                    raise FencedOut("The lease of this scheduler is lost; it begins anew.") from error
                if not _is_passing(error):
                    raise
                session.metrics.recoveries += 1
                logger.warning("%s; reading everything again", _summary(error))
                lived = time.monotonic() - began
                pause = _FIRST_PAUSE if lived > _LONG_LIFE else min(pause * 2, _LAST_PAUSE)
                await asyncio.sleep(pause)
            finally:
                session.close()

    async def _run_loops(self, session: Session) -> None:
        async with asyncio.TaskGroup() as group:
            loops: tuple[tuple[str, Step, Wakeup], ...] = (
                ("run creation", create_runs, session.creation),
                ("evaluation", evaluate, session.evaluation),
                ("enqueueing", enqueue, session.enqueueing),
                ("callbacks and deadlines", poll_outbox, session.callbacks),
                ("retention", retain, session.retention),
                ("attempts for others", poll_remote_attempts, session.lending),
                ("asset watchers", poll_watchers, session.watching),
                ("news for browsers", publish_changes, session.broadcast.wakeup),
            )
            for name, step, wakeup in loops:
                group.create_task(_gated(session, step, wakeup), name=name)
            group.create_task(self._own(session), name="ownership")
            group.create_task(_listen(session), name="news")

    async def _own(self, session: Session) -> None:
        """Follow the fleet: gain, load and give back partitions."""
        self._seen.wake()

        async def step() -> float | None:
            if self._lost:
                raise FencedOut("This scheduler was taken over.")
            if self._view is None:
                return None
            view, self._view = self._view, None
            if view.at < self._since:  # from before whatever we had sent was settled: partitions may have moved by it
                self._lease.look()
                return None
            async with session.ownership_lock:
                before = set(session.cache.partitions)
                busy = await apply_view(session, view)
                if busy:
                    self._lease.look()
                if session.cache.partitions - before:
                    while await apply_commands(session):
                        pass
                    session.hand_out_unsent()
                if session.cache.partitions != before:
                    session.on_partitions()
                if session.cache.partitions or not busy:
                    if not session.ready.is_set():
                        session.stop_unwanted()
                    session.ready.set()
                    session.on_ready()
            session.progress.set()
            if session.ready.is_set() and not session.loaded.is_set():
                session.loaded.set()
                session.wake_all()
            return None

        self._lease.look()
        await run_loop(step, self._seen)


async def _gated(session: Session, step: Step, wakeup: Wakeup) -> None:
    """Run a loop whose passes wait while partitions are loaded: commands come before creations and starts."""

    async def gated() -> float | None:
        await session.loaded.wait()
        return await step(session)

    await run_loop(gated, wakeup)


async def _listen(session: Session) -> None:
    """Hear NOTIFYs, and look at the inbox and the DAGs every `safety_poll` seconds in case one got lost."""
    conn, sweep = await session.db.connect(application_name="aiosched news"), DriftSweep()
    try:
        await conn.add_listener(NEWS_CHANNEL, lambda *heard: _hear(session, str(heard[-1])))
        conn.add_termination_listener(lambda *_: session.notifications.wake())

        async def step() -> float | None:
            _raise_if_closed(conn)
            await session.loaded.wait()
            changed, session.changed_dags = session.changed_dags, set()
            every = session.settings.scheduler.safety_poll
            async with session.ownership_lock:
                overdue = session.news_overdue(every)
                if overdue:
                    recheck_pools(session)
                if changed or overdue:
                    await reload_dags(session, changed or session.cache.partitions)
                while await apply_commands(session):
                    pass
                if session.has_reports or overdue:
                    session.has_reports = False
                    async with session.db.acquire() as reading:
                        await receive_remote_reports(session, reading, session.cache.partitions)
            if overdue:
                await check_assets(session)
                await sweep.step(session)
                async with session.ownership_lock:
                    await sweep_triggers(session)
                    forget_versions(session.cache)
            session.progress.set()
            return every

        await run_loop(step, session.notifications)
    finally:
        with contextlib.suppress(OSError):
            await conn.close(timeout=1.0)


def _hear(session: Session, payload: str) -> None:
    kind, partitions = read_news(payload)
    if kind == "watch":
        session.broadcast.wanted()
        return
    if kind == "dags":
        session.changed_dags |= partitions or session.cache.partitions
    elif kind == "assets":
        session.cache.asset_news |= partitions or session.cache.partitions
        session.creation.wake()
    elif kind == "reports":
        session.has_reports |= not session.loaded.is_set() or not partitions.isdisjoint(session.cache.partitions)
    elif kind == "slots":  # for which incarnations
        if session.incarnation in partitions:
            recheck_pools(session)
        return
    elif kind == "attempts":
        session.attempts.doubts_at = None
        session.lending.wake()
        return
    elif kind == "pools":
        recheck_pools(session)
    session.notifications.wake()


def recheck_pools(session: Session) -> None:
    """Somebody changed a pool, or left slots to us: what waits may fit now."""
    session.journal.forget_pools()
    if len(session.cache.waiting):
        session.cache.room_changed = True
        session.enqueueing.wake()


async def _demand_nothing(session: Session) -> None:
    """What an earlier session waited for is not known any more."""
    async with session.db.acquire() as conn:
        await withdraw_demands(conn, session.incarnation)


def _raise_if_closed(conn: DatabaseConnection) -> None:
    if conn.is_closed():
        raise ConnectionResetError("The connection that listens for news was closed")


async def give_up(db: Database, incarnation: int) -> None:
    """Tell the fleet that this scheduler takes no partition any more, and free those it has."""
    async with db.acquire() as conn:
        await set_draining(conn, incarnation)
        await release(conn, incarnation, range(PARTITIONS))


def _is_fenced(error: BaseException) -> bool:
    """Whether the fence has stopped a transaction, even before the lease thread has noticed the take-over."""
    if isinstance(error, BaseExceptionGroup):
        return any(_is_fenced(each) for each in error.exceptions)
    return isinstance(error, FencedOut)


def _is_passing(error: BaseException) -> bool:
    """Whether reading everything again may help: the database's faults, and rows that were not as expected."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_passing(each) for each in error.exceptions)
    return isinstance(error, StaleRows) or is_retryable(error)


def _summary(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
