"""Automatic retention: history of our own partitions that is older than the setting goes, a little at a time.

With the runs go the log files of their attempts that lie on this machine.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from aiosched.db.retention import RunName, clean
from aiosched.executors.log_files import remove_logs
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
    logs = session.settings.logs_folder

    async def remove(runs: Sequence[RunName]) -> int:
        return await asyncio.to_thread(remove_logs_of, logs, runs)

    removed = await clean(session.db, before, partitions=partitions, batches=_BATCHES_PER_PASS, remove_logs=remove)
    if removed.runs:
        logger.info("removed %d runs that ended before %s", removed.runs, before.isoformat(timespec="minutes"))
        return _PAUSE
    return _REST


def remove_logs_of(logs: Path, runs: Sequence[RunName]) -> int:
    """Remove the log files of runs below the folder `logs`; returns how many there were."""
    return sum(remove_logs(logs, dag_id=run.dag_id, run_id=run.run_id) for run in runs)
