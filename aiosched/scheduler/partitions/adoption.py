"""Attempts on engines: adopting those of a partition that was gained.

They outlive the scheduler that sent them, and belong to whoever owns their partition. Losing those whose worker has
died: loops/engine_attempts.py.
Source: docs/decisions/0036-attempts-on-engines.md.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from aiosched.core.values.messages import AttemptKey, Outcome, Report
from aiosched.db.engines.attempts import SentAttempt, attempts_of
from aiosched.db.server.connection import DatabaseConnection
from aiosched.scheduler.effects.attempt_control import stop_if_unwanted
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)


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
