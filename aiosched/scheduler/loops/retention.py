"""Automatic retention: removes history of our own partitions that is older than the setting, a little at a time.

Removing a run also removes the log files of its attempts, on this machine and in remote storage. Log files have their
own setting, too, which goes by their age in the file system and also covers runs that other schedulers own or that no
longer exist; in remote storage, the owner of partition 0 looks for old ones once a day.

A run that cannot be removed is left out, named once in the log, and tried again after growing pauses.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from aiosched.core.audit.kinds import AuditKind
from aiosched.db.audit.entries import record
from aiosched.db.audit.reading import purge
from aiosched.db.people.state_stores import delete_expired
from aiosched.db.statements.module_sources import forget_unnamed
from aiosched.db.statements.rendered_fields import forget_rendered
from aiosched.db.upkeep.retention import RUNS_PER_BATCH, NotRemoved, RunName, clean, unfinished_runs
from aiosched.errors import RemoteStorageError
from aiosched.remote.log_files import old_run_folders, remove_run_folders, run_folder
from aiosched.remote.logs import AttemptLogs
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

_BATCHES_PER_PASS: Final = 20
_SHARE: Final = 0.25  # of the time, for removing history while more of it is too old than one pass removes
_STATES_PER_PASS: Final = 5_000
ENTRIES_PER_PASS: Final = 5_000  # of the audit log
_RENDERED_PER_PASS: Final = 500  # runs
_MOST_NAMED: Final = 5  # in one line of the log
_FOLDERS_PER_STEP: Final = 1_000
PAUSE: Final = 5.0  # seconds until the next pass while there is more to remove, at most
_LITTLE: Final = 60.0  # the same after a pass that has removed all history that was too old
_DAY: Final = 86_400.0
REST: Final = 3600.0  # seconds until the next pass otherwise


async def retain(session: Session) -> float | None:
    """One pass; returns how long to rest: None when there is no other pass."""
    settings = session.env.settings
    if session.membership.draining:
        return None
    if 0 in session.cache.partitions and await _remove_expired(session):
        return PAUSE
    if 0 in session.cache.partitions and await _remove_audit(session, settings.audit.retention_days):
        return PAUSE
    if settings.core.num_dag_runs_to_retain_rendered_fields and await _forget_rendered(session):
        return PAUSE
    if 0 in session.cache.partitions:
        await _forget_module_sources(session)
    if not (settings.scheduler.retention_days or settings.logs.retention_days):
        return REST
    if settings.scheduler.retention_days:
        pause = await _remove_history(session, settings.scheduler.retention_days)
        if pause is not None:
            return pause
    if settings.logs.retention_days and settings.logs_folder.is_dir():
        await _remove_old_logs(session, settings.logs_folder, settings.logs.retention_days)
    if settings.logs.retention_days and settings.logs.remote is not None and 0 in session.cache.partitions:
        await _remove_old_remote_logs(session, settings.logs.retention_days)
    return REST


async def _remove_expired(session: Session) -> bool:
    """Remove some expired values of state stores; returns whether there may be more."""
    async with session.env.db.acquire(unhurried=True) as conn:
        return await delete_expired(conn, limit=_STATES_PER_PASS) >= _STATES_PER_PASS


async def _remove_audit(session: Session, days: float) -> bool:
    """Remove some old entries of the audit log; returns whether there may be more."""
    if not days:
        return False
    before = session.env.clock.now() - timedelta(days=days)
    async with session.env.db.transaction(unhurried=True) as conn:
        number = await purge(conn, before, limit=ENTRIES_PER_PASS)
        if number:
            await record(conn, AuditKind.AUDIT_REMOVED, number=number, before=before)
    if number:
        logger.info("removed %d entries of the audit log of before %s", number, before.isoformat(timespec="minutes"))
    return number >= ENTRIES_PER_PASS


async def _forget_rendered(session: Session) -> bool:
    """Delete rendered template fields of all but the newest runs of our DAGs; returns whether there may be more."""
    keep, partitions = session.env.settings.core.num_dag_runs_to_retain_rendered_fields, session.cache.partitions
    async with session.env.db.acquire(unhurried=True) as conn:
        return bool(await forget_rendered(conn, sorted(partitions), keep=keep, runs=_RENDERED_PER_PASS))


async def _forget_module_sources(session: Session) -> None:
    """Remove the texts of modules that no version names any more, once a day."""
    env = session.env
    if (
        env.unremovable.modules_looked_at is not None
        and env.clock.monotonic() < env.unremovable.modules_looked_at + _DAY
    ):
        return
    async with env.db.acquire(unhurried=True) as conn:
        await forget_unnamed(conn)
    env.unremovable.modules_looked_at = env.clock.monotonic()


async def _remove_history(session: Session, days: float) -> float | None:
    """Remove some finished runs; returns the seconds until more are to be removed, None if there were none.

    Where many end, many get too old, and the pause is short: removing keeps up, and takes its share of the time.
    """
    began = session.env.clock.monotonic()
    before = session.env.clock.now() - timedelta(days=days)
    partitions = sorted(session.cache.partitions)
    logs = await asyncio.to_thread(AttemptLogs.of, session.env.settings)

    async def remove(runs: Sequence[RunName]) -> int:
        return await asyncio.to_thread(remove_logs_of, logs, runs)

    kept, now, failed = session.env.unremovable, session.env.clock.monotonic(), list[NotRemoved]()
    removed = await clean(
        session.env.db, before,
        partitions=partitions, batches=_BATCHES_PER_PASS, remove_logs=remove, but=kept.left_out(now), failed=failed,
    )  # fmt: skip
    if new := kept.settle(failed, now):
        session.env.metrics.not_removed += len(new)
        logger.warning(
            "%d of the old runs or rows cannot be removed, all others are; they are tried again later: %s%s",
            len(new), ", ".join(map(str, new[:_MOST_NAMED])), ", …" if len(new) > _MOST_NAMED else "",
            exc_info=new[0].error,
        )  # fmt: skip
    if removed.runs:
        logger.info("removed %d runs that ended before %s", removed.runs, before.isoformat(timespec="minutes"))
    if failed:  # it is left out for a while
        return PAUSE
    if removed.runs < _BATCHES_PER_PASS * RUNS_PER_BATCH:
        return _LITTLE if removed.runs else None
    return min((session.env.clock.monotonic() - began) * (1 / _SHARE - 1), PAUSE)


async def _remove_old_logs(session: Session, logs: Path, days: float) -> None:
    """Remove the logs of finished runs that wrote nothing for so many days, by the clock of the file system."""
    number, folders = 0, old_run_folders(logs, time.time() - days * 86_400)
    while old := await asyncio.to_thread(list, itertools.islice(folders, _FOLDERS_PER_STEP)):
        async with session.env.db.acquire(unhurried=True) as conn:
            unfinished = await unfinished_runs(conn)
        kept = {run_folder(logs, dag_id=run.dag_id, run_id=run.run_id) for run in unfinished}
        number += await asyncio.to_thread(remove_run_folders, [folder for folder in old if folder not in kept])
    if number:
        logger.info("removed the logs of %d runs that have been over for %g days (logs.retention_days)", number, days)


async def _remove_old_remote_logs(session: Session, days: float) -> None:
    """The same in remote storage, once a day, by the clock of the store."""
    env = session.env
    if env.unremovable.logs_looked_at is not None and env.clock.monotonic() < env.unremovable.logs_looked_at + _DAY:
        return
    async with env.db.acquire(unhurried=True) as conn:
        unfinished = await unfinished_runs(conn)
    kept = {run_folder(Path(), dag_id=run.dag_id, run_id=run.run_id).as_posix() for run in unfinished}
    before = time.time() - days * _DAY
    try:
        logs = await asyncio.to_thread(AttemptLogs.of, env.settings)
        number = await asyncio.to_thread(logs.remove_old, before, kept.__contains__)
    except RemoteStorageError as error:
        logger.warning("old task logs in remote storage cannot be removed, this is tried again later: %s", error)
        return
    env.unremovable.logs_looked_at = env.clock.monotonic()
    if number:
        logger.info("removed the logs of %d runs from %s (logs.retention_days)", number, logs.where)


def remove_logs_of(logs: AttemptLogs, runs: Sequence[RunName]) -> int:
    """Remove the log files of runs, here and in remote storage; returns how many there were."""
    return sum(logs.remove(run_folder(Path(), dag_id=run.dag_id, run_id=run.run_id).as_posix()) for run in runs)
