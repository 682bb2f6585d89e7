"""The loop of schedules that are data: it asks for the runs that are due, as anybody else does, by the inbox.

Each scheduler looks at those of its partitions. What is read is moved on by a guarded statement with the requests in
it: however many schedulers see a schedule due, one asks for its run. Which instants are due is decided in
core/creation/durable_schedules.py.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Final

from aiosched.core.creation.durable_schedules import due_instants
from aiosched.db.statements.dag_schedules import (
    Firing,
    StoredSchedule,
    due_schedules,
    fire_schedules,
    next_schedule,
)
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

_AT_ONCE: Final = 500  # schedules


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
        due = await due_schedules(conn, partitions, now, limit=_AT_ONCE)
        await fire_schedules(conn, [_firing(one, now) for one in due])
    session.notifications.has_requests = True
    session.wakeups.notifications.wake()
    return 0.0


def _firing(schedule: StoredSchedule, now: datetime) -> Firing:
    """What a schedule does now. One that cannot be computed stops, and says why."""
    try:
        found = due_instants(schedule.terms, schedule.last_at, now)
        return Firing(schedule, found.instants, found.next_at)
    except Exception as error:  # also of a row that was edited by hand
        logger.error("the schedule %s has stopped: %s", schedule.name, error, extra={"dag_id": schedule.dag_id})
        return Firing(schedule, (), None, f"{type(error).__name__}: {error}")
