"""Missed SLAs of tasks: recorded at the instant at which they are missed, each with one callback request.

Each DAG with an SLA has a timer for the next instant at which a schedule date may become a miss. Then the rows
say which tasks are done, and core/creation/slas.py decides what is missed. A miss and its callback request are
stored in one transaction, so neither is lost or stored twice, even when a DAG changes its owner: a scheduler that
starts or takes over checks at once. A miss does not change its run. Paused DAGs are not checked: dates that pass
meanwhile count at the first check after the pause, unless the task was done for a later date by then.

Source: the semantics reference, section 23.3.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from aiosched.core.creation.slas import missed_dates, next_check, slas_of
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.slas import DatedRun, Miss, done_tasks, newest_misses, newest_runs, record_misses
from aiosched.scheduler.effects.deadlines import AGAIN
from aiosched.scheduler.failures.isolation import spare_others
from aiosched.scheduler.memory.version_reading import readable_versions
from aiosched.scheduler.session.session import Session

if TYPE_CHECKING:
    from aiosched.scheduler.memory.cache import OwnedDag

logger: logging.Logger = logging.getLogger(__name__)

_DAGS_AT_ONCE: Final = 50  # in one transaction: walking their schedules takes some milliseconds
_RUN_LIMITS: Final = (10, 1000)  # how many newest runs are searched for one with the task done: first few, then many

TaskOfDag = tuple[str, str]  # DAG id, task id


def watch_slas(session: Session, dags: Iterable[OwnedDag]) -> None:
    """Check those DAGs that have SLAs at once: they were just loaded, or have changed."""
    if not session.env.settings.core.check_slas:
        return
    for dag in dags:
        if slas_of(dag.version.spec):
            session.outbox.slas.check_at(dag.row.dag_id, session.env.clock.now())
            session.wakeups.callbacks.wake()


async def record_missed_slas(session: Session) -> float | None:
    """Record what is missed now and request its callbacks; returns the seconds until the next check."""
    watch, now = session.outbox.slas, session.env.clock.now()
    due = watch.due(now)
    for first in range(0, len(due), _DAGS_AT_ONCE):
        async with session.locks.ownership:  # a partition must not leave before its callback requests are in memory
            some = due[first : first + _DAGS_AT_ONCE]
            for dag_id in await spare_others("the check of the SLAs", some, str, partial(_check, session, now=now)):
                watch.check_at(dag_id, now + AGAIN)
    earliest = watch.earliest
    return None if earliest is None else max((earliest - session.env.clock.now()).total_seconds(), 0.001)


async def _check(session: Session, dag_ids: Sequence[str], *, now: datetime) -> None:
    cache = session.cache
    held = [dag for dag_id in dag_ids if (dag := cache.dags.get(dag_id)) is not None]
    dags = [dag for dag in held if dag.row.partition in cache.partitions]
    for dag in dags:
        if (at := next_check(dag.version.spec, now)) is not None:
            session.outbox.slas.check_at(dag.row.dag_id, at)
    if active := [dag for dag in dags if dag.creates_runs]:
        await _record(session, active, now)


async def _record(session: Session, dags: Sequence[OwnedDag], now: datetime) -> None:
    slas = {(dag.row.dag_id, task_id): sla for dag in dags for task_id, sla in slas_of(dag.version.spec).items()}
    by_id = {dag.row.dag_id: dag for dag in dags}
    async with session.env.side_journal.transaction() as transaction:
        # memory before rows: what leaves memory meanwhile is in the rows
        held = {(dag_id, task_id): _done_in_memory(by_id[dag_id], task_id) for dag_id, task_id in slas}
        done, newest = await _latest_done(session, transaction.conn, list(slas))
        recorded = await newest_misses(transaction.conn, list(slas))
        misses = []
        for (dag_id, task_id), sla in slas.items():
            dag, task = by_id[dag_id], (dag_id, task_id)
            latest = _latest(done.get(task), held[task])
            dates = missed_dates(dag.version.spec, sla, done=latest, recorded=recorded.get(task), now=now)
            misses += [Miss(dag.row.partition, dag_id, task_id, date) for date in dates]
        if not misses:
            return
        notify = {dag_id: run.key for dag_id, run in newest.items() if by_id[dag_id].version.spec.tells_missed_slas}
        new, callbacks = await record_misses(transaction.conn, misses, now, notify=notify)
    session.outbox.waiting.add(callbacks)
    for dag_id in dict.fromkeys(dag_id for dag_id, _ in new):
        late = dict.fromkeys(task_id for other, task_id in new if other == dag_id)
        logger.warning("SLA missed by %s", ", ".join(late), extra={"dag_id": dag_id})


async def _latest_done(
    session: Session, conn: DatabaseConnection, tasks: Sequence[TaskOfDag]
) -> tuple[dict[TaskOfDag, datetime], dict[str, DatedRun]]:
    """The latest logical date of each task that is done, as stored, and the newest run of each DAG."""
    done: dict[TaskOfDag, datetime] = {}
    newest: dict[str, DatedRun] = {}
    for limit in _RUN_LIMITS:
        left: dict[str, list[str]] = {}
        for dag_id, task_id in tasks:
            if (dag_id, task_id) not in done:
                left.setdefault(dag_id, []).append(task_id)
        if not left:
            break
        runs = await newest_runs(conn, sorted(left), limit=limit)
        await readable_versions(session.cache, conn, {run.version_id for run in runs})
        places: dict[tuple[int, int], tuple[TaskOfDag, datetime]] = {}
        for run in runs:  # newest first
            newest.setdefault(run.dag_id, run)
            version = session.cache.versions.get(run.version_id)
            for task_id in left[run.dag_id]:
                if version is None:  # it cannot be read here: count the task as done rather than raise an alarm
                    task = run.dag_id, task_id
                    done[task] = max(run.logical_date, done.get(task, run.logical_date))
                elif (index := version[1].index.get(task_id)) is not None:
                    places[run.key, index] = ((run.dag_id, task_id), run.logical_date)
        for place in await done_tasks(conn, list(places)):
            task, date = places[place]
            done[task] = max(date, done.get(task, date))
    return done, newest


def _done_in_memory(dag: OwnedDag, task_id: str) -> datetime | None:
    """As `_latest_done`, for the runs that are held: their decisions may not be stored yet."""
    boards = (*dag.runs.running.values(), *dag.runs.ending.values())
    return max((b.run.logical_date for b in boards if b.run.logical_date and b.all_succeeded(task_id)), default=None)


def _latest(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((date for date in (one, other) if date is not None), default=None)
