"""Reports that fail whenever they are applied or stored: after three times in a row they are set aside.

A report that fails puts its DAG into quarantine, and waits. If it were applied again and again, the DAG would stay
there for ever. So it is moved to `set_aside_report`, with the error, for people, and its DAG goes on. Its result is
lost to its run, and so its attempt is treated as a lost one when the run is loaded: it runs again, spends no retry, and
fails with the third loss in a row. A trigger whose event is set aside counts as one that failed; a start that is set
aside costs nothing.

Source: docs/architecture.md, "Quarantine".
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence

from aiosched.core.run.board import Board, Instance
from aiosched.core.run.deferral import trigger_key
from aiosched.core.values.messages import Outcome, Report
from aiosched.core.values.states import HOLDING_SLOT, TaskState
from aiosched.core.values.texts import storable
from aiosched.db.statements.reports import delete_reports, delete_starts
from aiosched.db.statements.set_aside import Ends, SetAside, set_reports_aside
from aiosched.scheduler.failures.isolation import ReportFailure, spare_others
from aiosched.scheduler.memory.decision_context import DecisionContext
from aiosched.scheduler.session.session import Session
from aiosched.version import __version__

logger: logging.Logger = logging.getLogger(__name__)


async def set_aside(session: Session, failed: Sequence[ReportFailure]) -> set[str]:
    """Set aside those of the failed reports that have failed too often; returns the DAGs that can go on for that.

    Call it before the session loads anything.
    """
    env, kept = session.env, list[ReportFailure]()

    async def move(some: Sequence[ReportFailure]) -> None:
        rows = [_row(session, failure) for failure in some]
        ids = [row.report.inbox_id for row in rows if row.report.inbox_id is not None]
        starts = [row.report.key for row in rows if row.report.outcome is Outcome.STARTED]
        async with env.side_journal.transaction() as transaction:
            await set_reports_aside(transaction.conn, rows, env.clock.now(), version=__version__)
            await delete_reports(transaction.conn, ids)
            await delete_starts(transaction.conn, starts)  # its sender may remember one that is a row, too
        kept.extend(some)

    if worn_out := env.failed_reports.count(failed):
        await spare_others("setting aside a report", worn_out, lambda failure: str(tuple(failure.report.key)), move)
    gone = {id(failure.report) for failure in kept}  # those that waited in memory
    env.attempts.reports = deque(report for report in env.attempts.reports if id(report) not in gone)
    for failure in kept:
        report = failure.report
        logger.error(
            "the report %r of attempt %s could not be processed %d times: it is set aside in set_aside_report, and %s. "
            "This is a bug in aiosched, please report it",
            report.outcome.value, tuple(report.key), env.failed_reports.of(failure),
            "the attempt goes on" if report.outcome is Outcome.STARTED else "its attempt counts as lost",
            extra={"dag_id": failure.dag_id}, exc_info=failure.__cause__,
        )  # fmt: skip
        env.failed_reports.forget_report(failure)
        if report.outcome is Outcome.STARTED:
            env.attempts.begun.pop(report.key, None)
    env.metrics.reports_set_aside += len(kept)
    return {failure.dag_id for failure in kept} - {failure.dag_id for failure in failed if failure not in kept}


def _row(session: Session, failure: ReportFailure) -> SetAside:
    cause, report = failure.__cause__, failure.report
    by = session.env.incarnation if report.ran_by is None else report.ran_by
    times = session.env.failed_reports.of(failure)
    return SetAside(report, by, times, storable(f"{type(cause).__name__}: {cause}"))


def settle_set_aside(context: DecisionContext, board: Board, ends: Ends, instance: Instance) -> bool:
    """End what the instance of a run that was just read waits for, if the report of its end is set aside."""
    key, now = board.key(instance), context.clock.now()
    if instance.state in HOLDING_SLOT and (why := ends.get((key, instance.queued_by))) is not None:
        board.lose(instance, now, why)
        context.metrics.lost_attempts += 1
        return True
    if instance.state is TaskState.DEFERRED and (why := ends.get((trigger_key(key), None))) is not None:
        return board.apply(Report(key=trigger_key(key), outcome=Outcome.FAILED, at=now, reason=why), now)
    return False
