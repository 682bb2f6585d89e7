"""Attempts on engines: adopting those of a partition that was gained, and losing those whose worker has died.

They outlive the scheduler that sent them, and belong to whoever owns their partition. Each has a row until its final
report is stored, in one transaction; so an attempt with neither row nor report is lost.
Source: docs/decisions/0036-attempts-on-engines.md.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from aiosched.core.values.messages import AttemptKey, Outcome, Report
from aiosched.db.engines.attempts import SentAttempt, attempts_of, lose_expired, still_there
from aiosched.db.server.connection import DatabaseConnection
from aiosched.scheduler.effects.attempt_control import stop_if_unwanted
from aiosched.scheduler.session.session import Session

logger = logging.getLogger(__name__)

_NO_TRACE = "it was on an engine, and there is neither its row nor its report"


async def adopt_attempts(session: Session, conn: DatabaseConnection, partitions: Iterable[int]) -> list[AttemptKey]:
    """Adopt the attempts of these partitions on engines: they go on. Call it before their reports are read."""
    attempts, engines = session.env.attempts, session.env.engines
    rows = [row for row in await attempts_of(conn, partitions) if row.key not in attempts.in_flight]
    now = session.env.clock.monotonic()
    for row in rows:
        attempts.adopt(row.key, now, None if row.begun_at is None else _start_of(row))
    engines.take_over(rows)
    if rows:
        engines.adopted_at = now
        session.wakeups.engines.wake()
        logger.info("adopted %d attempts on engines", len(rows))
    return [row.key for row in rows]


def stop_unwanted_adopted(session: Session, adopted: Iterable[AttemptKey]) -> None:
    """Stop those that nobody waits for any more; call it when their partitions are loaded."""
    for key in adopted:
        if key in session.env.attempts.in_flight:  # not those of runs that are left alone
            stop_if_unwanted(session, key)


async def watch_engines(session: Session) -> float | None:
    """One pass: lose the attempts whose worker was silent for too long; returns how long to rest, None for no attempts.

    After an adoption workers get the time of a lease first, since perhaps no server has answered them meanwhile.
    """
    env, attempts = session.env, session.env.attempts
    lease = env.settings.executor.worker_lease
    if not attempts.on_engines:
        return None
    if not session.cache.partitions or env.clock.monotonic() < env.engines.adopted_at + lease:
        return lease / 3
    async with env.db.transaction() as conn:
        lost = await lose_expired(conn, session.cache.partitions, now=env.clock.now())
    if lost:
        logger.warning("%d attempts were lost with their workers on engines", lost)
    await _lose_without_trace(session)
    return lease / 3


async def _lose_without_trace(session: Session) -> None:
    """Somebody has deleted rows by hand: their attempts have nobody who could report.

    Rows are also gone for the moment in which a report waits to be read.
    """
    env, attempts, engines = session.env, session.env.attempts, session.env.engines
    stored = [key for key in attempts.on_engines if engines.is_stored(key)]
    async with env.db.acquire() as conn:
        missing = set(stored) - await still_there(conn, stored)
    now = env.clock.monotonic()
    engines.without_trace = {key: engines.without_trace.get(key, now) for key in missing}
    for key, since in engines.without_trace.items():
        if key in attempts.on_engines and now >= since + env.settings.executor.worker_lease / 3:
            attempts.receive(Report(key=key, outcome=Outcome.LOST, at=env.clock.now(), reason=_NO_TRACE))


def _start_of(row: SentAttempt) -> Report:
    assert row.begun_at is not None
    return Report(
        key=row.key,
        outcome=Outcome.STARTED,
        at=row.begun_at,
        started_at=row.begun_at,
        hostname=row.hostname,
        pid=row.pid,
    )
