"""Receives the NOTIFYs of other schedulers, web servers and the parser, and makes the reads that they cause."""

from __future__ import annotations

import contextlib
from typing import Final

from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.inbox import NOTIFY_CHANNEL, read_notification
from aiosched.errors import DatabaseUnreachable
from aiosched.scheduler.concurrency.period import Period
from aiosched.scheduler.concurrency.wakeup import run_loop
from aiosched.scheduler.effects.triggers import sweep_triggers
from aiosched.scheduler.failures.isolation import ending
from aiosched.scheduler.memory.version_reading import forget_versions
from aiosched.scheduler.partitions.drift import DriftSweep
from aiosched.scheduler.partitions.handover import receive_remote_reports
from aiosched.scheduler.partitions.loading import reload_dags
from aiosched.scheduler.partitions.quarantine import forget_failures
from aiosched.scheduler.partitions.recounting import RecountSweep
from aiosched.scheduler.partitions.unreadable_reports import settle_unreadable
from aiosched.scheduler.requests.inbox import apply_requests
from aiosched.scheduler.runs.asset_runs import check_assets
from aiosched.scheduler.session.session import Session

_RELOADING_SHARE: Final = 0.1  # of the time, for reading DAGs again that were announced one after the other
_NEXT_PAGE: Final = 0.02  # seconds until more reports of other schedulers are read, while these are applied


async def receive_notifications(session: Session) -> None:
    """Act on NOTIFYs; read the inbox and the DAGs every `safety_poll` seconds in case one was lost."""
    conn = await session.env.db.connect(application_name="aiosched notifications")
    drift, recount, asset_cleanup = DriftSweep(), RecountSweep(), Period()
    settings = session.env.settings
    try:
        await conn.add_listener(NOTIFY_CHANNEL, lambda *received: _receive(session, str(received[-1])))
        conn.add_termination_listener(lambda *_: session.wakeups.notifications.wake())

        async def step() -> float | None:
            _raise_if_closed(conn)
            await session.locks.loaded.wait()
            if session.wakeups.notifications.stopping:
                return None
            every = settings.scheduler.safety_poll
            async with session.locks.ownership:
                overdue = session.notifications.safety_poll.is_over(session.env.clock.monotonic(), every)
                if overdue:
                    recheck_pools(session)
                await _reload_changed(session, overdue=overdue)
                has_requests, session.notifications.has_requests = session.notifications.has_requests, False
                if has_requests or overdue:
                    while await apply_requests(session):
                        pass
                if session.notifications.has_reports or overdue:
                    session.notifications.has_reports = False
                    async with session.env.db.acquire() as reading:
                        await receive_remote_reports(session, reading, session.cache.partitions)
                    settle_unreadable(session)
            if overdue:
                await check_assets(session, asset_cleanup)
                await drift.step(session)
                await recount.step(session)
                async with session.locks.ownership:
                    await sweep_triggers(session)
                    await forget_failures(session)
                    forget_versions(session.cache)
            session.locks.progress.set()
            if session.notifications.has_reports:
                return _NEXT_PAGE
            return min(every, _seconds_to_reload(session)) if session.notifications.changed_dags else every

        with ending(session.cache.unstored.discard):  # at once, and not after closing the connection
            await run_loop(step, session.wakeups.notifications)
    finally:
        with contextlib.suppress(OSError):
            await conn.close(timeout=1.0)


async def _reload_changed(session: Session, *, overdue: bool) -> None:
    """Read the DAGs of the partitions that were announced; `overdue`: of all.

    A partition is read as a whole, and the first pass over many files announces all of them with each transaction. So
    the next reading waits until all of them together take no more than their share of the time.
    """
    news, clock = session.notifications, session.env.clock
    if not overdue and (not news.changed_dags or _seconds_to_reload(session) > 0):
        return
    changed, news.changed_dags = news.changed_dags, set()
    began = clock.monotonic()
    await reload_dags(session, session.cache.partitions if overdue else changed)
    ended = clock.monotonic()
    news.reload_from = ended + (ended - began) * (1 / _RELOADING_SHARE - 1)


def _seconds_to_reload(session: Session) -> float:
    return max(session.notifications.reload_from - session.env.clock.monotonic(), 0.0)


def _receive(session: Session, payload: str) -> None:
    kind, partitions = read_notification(payload)
    if kind == "watch":
        session.changed_runs.wanted()
        return
    if kind != "reports":
        session.notifications.has_requests = True
    if kind == "dags":
        session.notifications.changed_dags |= partitions or session.cache.partitions
    elif kind == "assets":
        session.cache.work.assets |= partitions or session.cache.partitions
        session.wakeups.creation.wake()
    elif kind == "reports":
        is_loading = not session.locks.loaded.is_set()
        session.notifications.has_reports |= is_loading or not partitions.isdisjoint(session.cache.partitions)
    elif kind == "slots":  # here `partitions` are incarnations
        if session.env.incarnation in partitions:
            recheck_pools(session)
        return
    elif kind == "attempts":
        attempts = session.env.attempts
        attempts.remote.recheck.last = None  # now
        session.wakeups.remote_attempts.wake()
        return
    elif kind == "pools":
        recheck_pools(session)
    session.wakeups.notifications.wake()


def recheck_pools(session: Session) -> None:
    """A pool was changed, or another scheduler yielded slots to us: what waits may fit now."""
    session.env.journal.forget_pools()
    session.cache.work.used_up.clear()
    session.has_more_room()


def _raise_if_closed(conn: DatabaseConnection) -> None:
    if conn.is_closed():
        raise DatabaseUnreachable("The connection that listens for notifications was closed")
