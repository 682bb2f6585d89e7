"""From a request in the outbox to a notifier, and back to the alert that the message is about.

The notifier runs where callbacks run: in the executor of the scheduler that owns partition 0, without a slot.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

import msgspec

from aiosched.core.alerts.messages import facts_of
from aiosched.core.values.messages import Attempt, AttemptKey, CallbackCall, Outcome, Report, RunInfo
from aiosched.db.alerts import alerts
from aiosched.db.alerts.alerts import Notice
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.outbox import delete_callbacks
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

KIND: Final = "alert"
NO_RUN: Final = 0  # as run of an attempt: no run has this key, and watchers of assets have negative ones
_OF_NO_DAG: Final = "aiosched"  # as DAG of an alert that concerns none, in the context of its notifier


def is_alert(report: Report) -> bool:
    """Whether a report is about the delivery of an alert."""
    return report.key.run == NO_RUN


async def prepare(session: Session, conn: DatabaseConnection, callbacks: Collection[int]) -> dict[int, Attempt]:
    """The attempts that deliver these requests, by id. What cannot be delivered is settled: the rule shows why."""
    if not callbacks:
        return {}
    notices = await alerts.notices_of(conn, callbacks)
    notifiers = {notifier.name: notifier for notifier in session.env.settings.alerts.notifiers}
    ready: dict[int, Attempt] = {}
    for callback, notice in notices.items():
        if (notifier := notifiers.get(notice.notifier)) is None:
            error = (
                f"there is no notifier {notice.notifier!r} in the setting alerts.notifiers: add it, or choose another"
            )
            await alerts.note_failed(conn, callback, error, session.env.clock.now())
        else:
            given = {"notifier": notifier.kind, "arguments": notifier.arguments, "alert": _facts(notice)}
            ready[callback] = _attempt(callback, notice, json.dumps(given))
    if gone := [callback for callback in callbacks if callback not in ready]:  # perhaps with their rule
        await delete_callbacks(conn, gone)
    return ready


async def settle(conn: DatabaseConnection, reports: Sequence[Report], now: datetime) -> None:
    """Store the outcomes of deliveries that ran. Call it before their requests are deleted."""
    for report in reports:
        if report.outcome is Outcome.SUCCESS:
            await alerts.note_delivered(conn, report.key.try_number, now)
        else:
            reason = report.reason or "its notifier failed"
            logger.warning("an alert could not be delivered, and is tried again: %s", reason)
            await alerts.note_failed(conn, report.key.try_number, reason, now)


def _facts(notice: Notice) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(asdict(notice))
    return facts_of(built)


def _attempt(callback: int, notice: Notice, given: str) -> Attempt:
    dag_id = notice.dag_ids[0] if notice.dag_ids else _OF_NO_DAG
    run = RunInfo(
        key=NO_RUN, dag_id=dag_id, run_id=notice.run_id or f"alert_{notice.alert}", run_type="manual",
        run_after=notice.opened_at, team="",
    )  # fmt: skip
    call = CallbackCall(id=callback, kind=KIND, reason=notice.message, notice=given)
    return Attempt(
        key=AttemptKey(NO_RUN, -1, -1, callback), run=run, task_id="", is_async=False, max_tries=0, callback=call
    )
