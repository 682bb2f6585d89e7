"""Attempts that run in another scheduler than the one that owns their DAG.

A partition moves whenever it should, whatever runs in it; a running attempt stays in the process it
is in. So there are two ends, and a scheduler may be both.

- Whoever *lent* an attempt (gave its partition away while it ran) sends what becomes of it to the owner: a row of
  `task_report`, behind the sender's fence. It also looks now and then whether the rows still want the attempt, and
  stops it when they do not (it was cleared, marked, its run timed out).
- The owner reads the rows, applies them as any report, and deletes them in the transaction that stores what
  follows. When the other scheduler's row is gone, no report of it can come any more: those that it had sent are
  read first, then the rest of its attempts is lost.

Either way the owner alone writes the instances.

Source: docs/architecture.md, "Who writes what" and "Ownership and fencing".
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import Final

from aiosched.core.values.states import HOLDING_SLOT
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements import reports as report_statements
from aiosched.db.statements.inbox import notify
from aiosched.scheduler.session import Session

logger = logging.getLogger(__name__)

_REPORTS_PER_TRANSACTION: Final = 500


async def poll_remote_attempts(session: Session) -> float | None:
    """One pass of the lender: send reports, stop what nobody wants any more; returns how long to rest."""
    attempts = session.attempts
    async with session.ownership_lock:
        if attempts.outgoing:
            await _send(session)
        if (running := [key for key in attempts.remote_attempts if key in attempts.in_flight]) and attempts.doubted(
            session.clock.monotonic(), session.settings.scheduler.safety_poll
        ):
            async with session.db.acquire() as conn:
                wanted = await report_statements.wanted_attempts(conn, running, incarnation=session.incarnation)
            for key in running:
                if key not in wanted and key in attempts.in_flight:
                    session.stop_attempt(key)
    session.progress.set()
    if attempts.outgoing:
        return 0.0
    return session.settings.scheduler.safety_poll if attempts.remote_attempts else None


async def _send(session: Session) -> None:
    attempts = session.attempts
    reports = [attempts.outgoing[i] for i in range(min(len(attempts.outgoing), _REPORTS_PER_TRANSACTION))]
    addressed = [(attempts.remote_attempts[report.key], report) for report in reports]
    async with session.command_journal.transaction() as transaction:
        await report_statements.insert_reports(transaction.conn, addressed, incarnation=session.incarnation)
    attempts.sent(reports)
    async with session.db.acquire() as conn:
        await notify(conn, "reports", {partition for partition, _ in addressed})


async def receive_remote_reports(session: Session, conn: DatabaseConnection, partitions: Iterable[int]) -> None:
    """Read what other schedulers tell of attempts of `partitions`. Call it with `session.ownership_lock` held."""
    reports = await report_statements.read_reports(conn, partitions, but=session.reading)
    session.attempts.reports.extend(reports)
    if reports:
        session.evaluation.wake()


async def lose_attempts_of(session: Session, suspects: Collection[int]) -> None:
    """Schedulers that ran attempts of ours are not seen any more. Call it with `session.ownership_lock` held."""
    cache = session.cache
    async with session.db.acquire() as conn:
        gone = set(suspects) - await report_statements.living(conn)
        if gone:
            await receive_remote_reports(session, conn, cache.partitions)  # all that they can ever have sent
    if not gone:
        return
    known, now, lost = session.attempts.known(), session.clock.now(), 0
    for board in list(cache.boards.values()):
        for instance in board:
            if instance.state in HOLDING_SLOT and instance.queued_by in gone and board.key(instance) not in known:
                board.lose(instance, now, "its scheduler ended while it ran")
                cache.to_evaluate[board] = None
                lost += 1
    cache.elsewhere -= gone
    session.metrics.lost_attempts += lost
    session.evaluation.wake()
    if lost:
        logger.info("%d attempts were lost with schedulers %s", lost, ", ".join(map(str, sorted(gone))))
