"""The loop of the sender of reports: attempts that run here, of DAGs that another scheduler owns by now.

It sends their reports to the owner, as rows of `task_report`, behind its own fence. It also checks periodically whether
the rows still want the attempt, and stops it when they do not (the task was cleared or marked, or its run timed out).
The owner's side: partitions/handover.py.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from aiosched.core.values.messages import Outcome, Report
from aiosched.db.statements.inbox import notify
from aiosched.db.statements.reports import (
    insert_reports,
    wanted_attempts,
)
from aiosched.scheduler.effects.attempt_control import stop_attempt
from aiosched.scheduler.failures.isolation import spare_others
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

_REPORTS_PER_TRANSACTION: Final = 500


async def poll_remote_attempts(session: Session) -> float | None:
    """One pass of the sender: send reports, stop attempts that are no longer wanted; returns how long to rest."""
    env, attempts = session.env, session.env.attempts
    every = env.settings.scheduler.safety_poll
    async with session.locks.ownership:
        if attempts.remote.outgoing:
            await _send(session)
        running = [key for key in attempts.remote.partitions if key in attempts.in_flight]
        if running and attempts.remote.recheck.is_over(env.clock.monotonic(), every):
            wanted = await wanted_attempts(env.db, running, incarnation=env.incarnation)
            for key in running:
                if key not in wanted and key in attempts.in_flight:
                    stop_attempt(session, key)
    session.locks.progress.set()
    if attempts.remote.outgoing:
        return 0.0
    return every if attempts.remote.partitions else None


async def _send(session: Session) -> None:
    """Send the oldest reports. One that cannot be stored is replaced by one that says that its attempt is lost."""
    attempts, told = session.env.attempts, set[int]()
    reports = [attempts.remote.outgoing[i] for i in range(min(len(attempts.remote.outgoing), _REPORTS_PER_TRANSACTION))]
    addressed = [(attempts.remote.partitions[report.key], report) for report in reports]

    async def store(some: Sequence[tuple[int, Report]]) -> None:
        async with session.env.side_journal.transaction() as transaction:
            await insert_reports(transaction.conn, some, incarnation=session.env.incarnation)
        told.update(partition for partition, _ in some)

    def name(each: tuple[int, Report]) -> str:
        return f"attempt {tuple(each[1].key)}, {each[1].outcome.value!r},"

    failed = await spare_others("sending the report", addressed, name, store)
    attempts.remote.sent(reports, instead=[lost for _, report in failed if (lost := _lost_instead(report)) is not None])
    if told:
        await notify(session.env.db, "reports", told)


def _lost_instead(report: Report) -> Report | None:
    """What to send instead of a report that cannot be stored: nothing of a start, and if even this cannot be stored.

    Then the owner of the DAG loses the attempt when this scheduler leaves the fleet.
    """
    if report.outcome in (Outcome.STARTED, Outcome.LOST):
        return None
    reason = f"its report {report.outcome.value!r} could not be stored; the log of the scheduler that ran it says why"
    return Report(key=report.key, outcome=Outcome.LOST, at=report.at, started_at=report.started_at, reason=reason)
