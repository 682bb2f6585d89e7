"""Attempts whose result is stored in a report that this scheduler cannot read.

Whoever wrote the report can read it, so the row waits: the partition may move to a scheduler of that version, as it
does in an upgrade. But no attempt waits for ever. It is lost, like one whose worker died, when the scheduler that sent
the report leaves the fleet (handover.py), or when nobody has read the report for ten minutes. A row about an attempt
that nobody waits for any more is deleted, as every late report is.

Source: decision 31.
"""

from __future__ import annotations

import logging
from typing import Final

from aiosched.core.values.messages import Outcome
from aiosched.core.values.states import HOLDING_SLOT
from aiosched.db.statements.reports import UnreadableReport
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

PATIENCE: Final = 600.0  # seconds


def settle_unreadable(session: Session) -> None:
    """Lose attempts whose result nobody has read for long. Call it with `locks.ownership` held and runs loaded."""
    env, cache = session.env, session.cache
    long_ago = env.clock.monotonic() - PATIENCE
    for report, since in env.unreadable_reports.of(cache.partitions):
        if report.key.run in cache.unreadable.runs:
            continue  # the run is left alone, with everything that concerns it
        if _is_awaited(session, report):
            if since > long_ago or report.outcome == Outcome.STARTED:
                continue
            board, instance = cache.get(report.key)
            board.lose(instance, env.clock.now(), "its result cannot be read by this version of aiosched")
            env.metrics.lost_attempts += 1
            cache.work.to_evaluate[board] = None
            logger.error("%s is lost: nobody has read its report for %.0f s", tuple(report.key), PATIENCE)
            session.wakeups.evaluation.wake()
        cache.unstored.delete_report(report.inbox_id)
        env.unreadable_reports.forget(report.inbox_id)
        session.wakeups.enqueueing.wake()


def _is_awaited(session: Session, report: UnreadableReport) -> bool:
    """Whether the attempt of the report still counts as running."""
    found = session.cache.find(report.key)
    if found is None:
        return False
    _, instance = found
    same = instance.try_number == report.key.try_number and instance.queued_by == report.ran_by
    return same and instance.state in HOLDING_SLOT
