"""Putting DAGs into quarantine, and taking them up again.

An unforeseen error about one DAG ends the session. The DAG's row is stored before the next session loads anything, and
that one leaves the DAG alone. What runs of it goes on; its reports wait like those of remote attempts (handover.py).
When its pause is over, a new session holds it again. If it fails again, the pause is doubled; if it does not for ten
minutes, its failures are forgotten. Source: docs/architecture.md, "Quarantine".
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from aiosched.core.values.ids import partition_of
from aiosched.core.values.texts import storable
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements import quarantine
from aiosched.db.statements.quarantine import PROBATION, Failure
from aiosched.errors import DagFailure, Refused
from aiosched.scheduler.session.events import SchedulerEvent
from aiosched.scheduler.session.session import Session
from aiosched.version import __version__

logger: logging.Logger = logging.getLogger(__name__)

_MOST_CHARACTERS: Final = 20_000  # of a traceback


async def put_into_quarantine(session: Session, failures: Iterable[DagFailure]) -> None:
    """Store the failures of the session before; call it before this one loads anything."""
    found = [_stored_failure(failure) for failure in failures]
    if not found:
        return
    env, now = session.env, session.env.clock.now()
    async with env.side_journal.transaction() as transaction:
        rows = await quarantine.put(transaction.conn, found, now, version=__version__, incarnation=env.incarnation)
    env.metrics.quarantines += len(rows)
    listener = env.observers.listener
    for row in rows:
        if listener is not None:
            event = SchedulerEvent("dag_quarantined", now, row.dag_id, "", "quarantined", reason=str(row))
            try:
                listener(event)
            except Exception:
                logger.exception("the listener failed on %s", event.kind, extra={"dag_id": row.dag_id})


async def read_quarantine(session: Session, conn: DatabaseConnection, partitions: Iterable[int]) -> set[str]:
    """Read which DAGs of `partitions` are left alone; those whose pause is over are taken up again."""
    held, now = session.cache.quarantine, session.env.clock.now()
    again = held.read(await quarantine.load(conn, partitions), now, __version__)
    if again:
        await quarantine.take_up(conn, again, now)
        logger.warning("out of quarantine, tried again: %s", ", ".join(row.dag_id for row in again))
    return set(held.dags)


async def release(session: Session, dag_id: str, number: int) -> None:
    """End a DAG's pause, and answer the request with this number. Raises Refused if the DAG is not in quarantine."""
    env, now = session.env, session.env.clock.now()
    async with env.side_journal.transaction() as transaction:
        if not await quarantine.release(transaction.conn, dag_id, now):
            raise Refused(f"DAG {dag_id!r} is not in quarantine; `aiosched doctor` lists those that are.")
        await transaction.answer(number, {})
    session.notifications.changed_dags.add(partition_of(dag_id))
    session.wakeups.notifications.wake()


async def forget_failures(session: Session) -> None:
    """Forget the failures of DAGs that have worked since they were taken up. Call it with `locks.ownership` held."""
    held, now = session.cache.quarantine, session.env.clock.now()
    if held.tried:
        gone = await quarantine.forget(session.env.db, held.tried, now - timedelta(seconds=PROBATION))
        for dag_id in gone:
            del held.tried[dag_id]
            session.env.failed_reports.forget(dag_id)
            logger.info("works again: its failures are forgotten", extra={"dag_id": dag_id})


def _stored_failure(failure: DagFailure) -> Failure:
    cause = failure.__cause__ or failure
    lines = "".join(traceback.format_exception(cause))[-_MOST_CHARACTERS:]
    logger.error(
        "%s: the DAG is in quarantine, nothing of it is decided for now; `aiosched dags release %s` tries it again\n%s",
        failure, failure.dag_id, lines, extra={"dag_id": failure.dag_id},
    )  # fmt: skip
    return Failure(failure.dag_id, failure.place, storable(f"{type(cause).__name__}: {cause}"), storable(lines))
