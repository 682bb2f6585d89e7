"""Automatic retention: history of our own partitions that is older than the setting goes, a little at a time."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Final

from aiosched.db.retention import clean
from aiosched.scheduler.session import Session

logger = logging.getLogger(__name__)

_BATCHES_PER_PASS: Final = 10
_PAUSE: Final = 5.0  # seconds between two passes while there is more
_REST: Final = 3600.0


async def retain(session: Session) -> float | None:
    """One pass; returns how long to rest. Nothing happens unless `scheduler.retention_days` is set."""
    days = session.settings.scheduler.retention_days
    if not days or session.draining:
        return None
    before = session.clock.now() - timedelta(days=days)
    partitions = sorted(session.holdings.partitions)
    removed = await clean(session.db, before, partitions=partitions, batches=_BATCHES_PER_PASS)
    if removed.runs:
        logger.info("removed %d runs that ended before %s", removed.runs, before.isoformat(timespec="minutes"))
        return _PAUSE
    return _REST
