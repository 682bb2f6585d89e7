"""Revoking attempts that their executor does not start in time."""

from __future__ import annotations

import logging
from datetime import datetime

from aiosched.core.values.instants import just_after, later
from aiosched.core.values.messages import AttemptKey, Outcome, Report
from aiosched.core.values.states import TaskState
from aiosched.errors import DagFailure
from aiosched.scheduler.attempts.stuck_attempts import PATIENCE
from aiosched.scheduler.failures.isolation import failure_of
from aiosched.scheduler.memory.decision_context import DecisionContext

logger: logging.Logger = logging.getLogger(__name__)


def check_queue(context: DecisionContext, now: datetime) -> list[DagFailure]:
    """If the oldest queued attempt may be overdue, revoke attempts that did not start in time (strictly).

    Returns the failures of DAGs.
    """
    attempts = context.attempts
    watch = attempts.stuck_attempts
    if watch.check_at is None or watch.check_at > now:
        return []
    dues, failures = [], []
    for key in list(attempts.in_flight):
        since = watch.revoked.get(key)
        try:
            due = _revoke(context, key, now) if since is None else later(since, watch.cleanup + PATIENCE)
        except Exception as error:
            if (board := context.cache.boards.get(key.run)) is None:
                raise
            failures.append(failure_of(error, board.run.dag_id, "an attempt that does not start"))
            continue
        if due is not None and due < now:
            logger.warning("attempt %s was revoked, but its executor has not reported its end", tuple(key))
            attempts.receive(Report(key=key, outcome=Outcome.LOST, at=now))
        elif due is not None:
            dues.append(just_after(due))
    watch.check_at = min(dues, default=None)
    return failures


def _revoke(context: DecisionContext, key: AttemptKey, now: datetime) -> datetime | None:
    """Revoke an attempt if it is overdue; returns when to check it again, None for never."""
    watch, found = context.attempts.stuck_attempts, context.cache.find(key)
    if found is None:  # its run is being loaded
        return later(now, watch.queued_timeout)
    board, instance = found
    if instance.state is not TaskState.QUEUED or instance.try_number != key.try_number or instance.queued_at is None:
        return None
    due = later(instance.queued_at, watch.queued_timeout)
    if due >= now:
        return due
    logger.warning(
        "%s was not started within %g s: its executor is asked to give it up",
        board.graph.task_ids[instance.task], watch.queued_timeout,
        extra={"dag_id": board.run.dag_id, "run_id": board.run.run_id},
    )  # fmt: skip
    watch.revoked[key] = now
    context.attempts.revoke(key)
    return later(now, watch.cleanup + PATIENCE)
