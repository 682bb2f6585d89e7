"""Remote attempts: those that run in another scheduler than the one that owns their DAG.

A partition may move while its tasks run; a running attempt stays in its process. So there are two
roles, and a scheduler may have both.

- The *sender* gave the partition away while the attempt ran. It sends the attempt's reports to the owner, as rows of
  `task_report`, behind its own fence (loops/remote_attempts.py).
- The *owner* reads these rows, applies them like any report, and deletes them in the transaction that stores the
  result. When the sender's row is gone, it can send no more reports: those already sent are read first, then
  its remaining attempts are lost.

Only the owner writes the instances.

Source: docs/architecture.md, "Who writes what" and "Ownership and fencing".
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import Final

from aiosched.core.values.ids import partition_of
from aiosched.core.values.messages import Outcome, Report
from aiosched.core.values.states import HOLDING_SLOT
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.reports import (
    living,
    queued_attempts,
    read_reports,
    senders,
)
from aiosched.scheduler.failures.isolation import concerning
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

_UNSENT: Final = "its scheduler had queued it, and was interrupted before it handed it out"
MOST_UNAPPLIED: Final = 5_000  # reports of other schedulers in memory


async def receive_remote_reports(session: Session, conn: DatabaseConnection, partitions: Iterable[int]) -> set[int]:
    """Read a page of other schedulers' reports on attempts of `partitions`. Call it with `locks.ownership` held.

    If there are more, they are read when these are applied (`notifications.has_reports`); returns who sent them.
    """
    partitions, unapplied = list(partitions), _unapplied(session)
    if len(unapplied) < MOST_UNAPPLIED:
        left_alone = session.cache.unreadable.runs
        reports, unreadable, is_cut = await read_reports(conn, partitions, but=unapplied, but_runs=left_alone)
        env, ending = session.env, session.env.attempts.ending
        env.attempts.receive_stored(env.engines.remarked(reports))
        env.unreadable_reports.add(unreadable, env.clock.monotonic(), env.metrics)
        for each in unreadable:
            if each.outcome != Outcome.STARTED:
                ending.ended(each.key)
                session.cache.work.room_changed = True
                session.wakeups.enqueueing.wake()
        if reports:
            session.wakeups.evaluation.wake()
        if not is_cut:
            return set()
    session.notifications.has_reports = True
    return await senders(conn, partitions, but=_unapplied(session))


async def requeue_unsent(session: Session, conn: DatabaseConnection, partitions: Collection[int]) -> None:
    """Report, of runs that are left alone, the attempts that an earlier session queued and did not hand out.

    Whoever holds their DAG later, perhaps another scheduler, could not know that they have never begun.
    """
    attempts, env, left_alone = session.env.attempts, session.env, session.cache.unreadable
    places = {run: partition_of(dag_id) for run, dag_id in left_alone.runs.items()}
    runs = [run for run, partition in places.items() if partition in partitions]
    known = attempts.known() | attempts.remote.partitions.keys()
    for key in await queued_attempts(conn, runs, incarnation=env.incarnation):
        if key not in known:
            attempts.remote.partitions[key] = places[key.run]
            attempts.remote.add_report(Report(key=key, outcome=Outcome.STUCK, at=env.clock.now(), reason=_UNSENT))


def _unapplied(session: Session) -> set[int]:
    """The row ids of other schedulers' reports that need not be read: those whose effects are not committed yet, and
    those that cannot be read."""
    unstored = session.cache.unstored
    read = session.env.unreadable_reports.ids()
    read |= {report.inbox_id for report in session.env.attempts.reports if report.inbox_id is not None}
    storing = unstored.storing.messages.read_reports if unstored.storing is not None else ()
    return read.union(unstored.pending.messages.read_reports, storing)


async def lose_attempts_of(session: Session, suspects: Collection[int]) -> None:
    """Lose the attempts of those `suspects` that have left the fleet. Call it with `locks.ownership` held."""
    cache = session.cache
    async with session.env.db.acquire() as conn:
        gone = set(suspects) - await living(conn)
        if gone:
            # everything that they can have sent; who sent more than a page waits for the next view
            gone -= await receive_remote_reports(session, conn, cache.partitions)
            session.wakeups.notifications.wake()
    if not gone:
        return
    stop_waiting_for_ends(session, gone)
    known, now, lost = session.env.attempts.known(), session.env.clock.now(), 0  # including those on engines
    for board in list(cache.boards.values()):
        with concerning(board.run.dag_id, "losing the attempts of a scheduler that is gone"):
            for instance in board:
                if instance.state in HOLDING_SLOT and instance.queued_by in gone and board.key(instance) not in known:
                    board.lose(instance, now, "its scheduler ended while it ran")
                    cache.work.to_evaluate[board] = None
                    lost += 1
    cache.elsewhere -= gone
    session.env.metrics.lost_attempts += lost
    session.wakeups.evaluation.wake()
    if lost:
        logger.info("%d attempts were lost with schedulers %s", lost, ", ".join(map(str, sorted(gone))))


def stop_waiting_for_ends(session: Session, gone: Collection[int] = ()) -> None:
    """Hand out what waited for attempts of the schedulers `gone` to end, or for attempts that take too long to end."""
    env = session.env
    for key in env.attempts.ending.give_up(env.clock.monotonic(), gone) if env.attempts.ending else ():
        if not gone:
            logger.warning("attempt %s was told to end, and its scheduler has not reported that it has", tuple(key))
        session.cache.work.room_changed = True
        session.wakeups.enqueueing.wake()
