"""The loop of schedules that are data: it asks for the runs that are due, as anybody else does, by the inbox.

Each scheduler looks at those of its partitions. What is read is moved on by a guarded statement with the requests in
it: however many schedulers see a schedule due, one asks for its run. Which instants are due is decided in
core/creation/durable_schedules.py. What fails about one schedule stays with it: it is its `error`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from aiosched.core.creation.durable_schedules import MOST_AT_ONCE, due_instants
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.dag_schedules import (
    Firing,
    StoredSchedule,
    due_schedules,
    fire_schedules,
    next_schedule,
)
from aiosched.scheduler.effects.deadlines import AGAIN
from aiosched.scheduler.failures.isolation import is_unforeseen, spare_others
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

_AT_ONCE: Final = 500  # schedules
_MOST_BYTES: Final = 8_000_000  # of the confs that are read, and of those in a statement beyond one for each schedule
_REST_OF_REQUEST: Final = 200  # bytes


async def fire_due(session: Session) -> float | None:
    """Ask for the runs that are due; returns how long to rest."""
    env = session.env
    every = env.settings.scheduler.safety_poll
    if session.membership.draining:
        return every
    async with session.locks.ownership, env.db.acquire() as conn:
        partitions = sorted(session.cache.partitions)
        now = env.clock.now()
        at = await next_schedule(conn, partitions)
        if at is None or at > now:
            return every if at is None else min(max((at - now).total_seconds(), 0.001), every)
        due = await due_schedules(conn, partitions, now, limit=_AT_ONCE, most_bytes=_MOST_BYTES)

        async def fire(firings: Sequence[Firing]) -> None:
            await _fire(conn, firings, now)

        firings = [firing_of(one, now, _MOST_BYTES // len(due)) for one in due]
        stuck = await spare_others("firing", firings, lambda one: " ".join(one.schedule[:2]), fire)
        at = await next_schedule(conn, partitions, after=now) if stuck else now
    session.notifications.has_requests = True
    session.wakeups.notifications.wake()
    return every if at is None else min((at - now).total_seconds(), every)


async def _fire(conn: DatabaseConnection, firings: Sequence[Firing], now: datetime) -> None:
    """Store them. One that the database does not take by itself is tried again a minute later, and says why."""
    try:
        await fire_schedules(conn, firings)
    except Exception as error:
        if len(firings) > 1 or not is_unforeseen(error):
            raise
        schedule, said = firings[0].schedule, _said(error)
        await fire_schedules(conn, [Firing(schedule, (), now + AGAIN, f"{said}; it is tried again every minute")])
        logger.error("the schedule %s failed: %s", schedule.name, said, extra={"dag_id": schedule.dag_id})


def firing_of(schedule: StoredSchedule, now: datetime, most_bytes: int = _MOST_BYTES) -> Firing:
    """What a schedule does now, in requests of about so many bytes. One that cannot be computed stops, and says why."""
    most = max(1, min(MOST_AT_ONCE, most_bytes // (len(schedule.conf) + _REST_OF_REQUEST)))
    try:
        found = due_instants(schedule.terms, schedule.last_at, now, most)
        return Firing(schedule, found.instants, found.next_at)
    except Exception as error:  # also of a row that was edited by hand
        logger.error("the schedule %s has stopped: %s", schedule.name, error, extra={"dag_id": schedule.dag_id})
        return Firing(schedule, (), None, _said(error))


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
