"""Delivering callbacks that the scheduler decided on: at least once, each with an id.

A request is stored by the transaction that stores its reason (a run that ended, a try that failed
without a worker to run its callbacks, a missed deadline or SLA), so there is exactly one. After the
commit it is handed to the executor as an attempt that holds no task slot; only a few run at a time, and those that
hang do not keep others from running (core/slots/fairness.py).
The outcome of a delivery:

- It ran (SUCCESS, or FAILED because a callback raised or its DAG is gone): the request is
  deleted. A failure is logged and not repeated, because the request's other callbacks did run, and
  the callback's side effects before it raised have happened.
- It was lost with its worker or scheduler, or killed its process: it is delivered again, up to three times in all.
  After that it is logged, and its row stays in `callback_outbox` with `given_up_at` and `error`, until its run is
  removed. `aiosched doctor` names it.

Requests to announce an alert go the same way; what follows is in effects/alert_delivery.py, which has failed ones
tried again.

Source: the semantics reference, sections 16.2 (4), 23.1 and 23.2, and section 34 decision 14.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any, Final

from aiosched.core.run.board import Run
from aiosched.core.slots.fairness import next_callbacks
from aiosched.core.values.messages import Attempt, AttemptKey, CallbackCall, Outcome, Report
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements import outbox
from aiosched.db.statements.outbox import Delivery, WaitingCallback
from aiosched.db.statements.runs import load_readable_runs
from aiosched.scheduler.effects import alert_delivery
from aiosched.scheduler.effects.deadlines import fire_deadlines
from aiosched.scheduler.effects.slas import record_missed_slas
from aiosched.scheduler.failures.isolation import spare_others
from aiosched.scheduler.memory.version_reading import readable_versions
from aiosched.scheduler.memory.versions import run_info
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

MOST_DELIVERIES: Final = 3
_AT_ONCE: Final = 4


async def poll_outbox(session: Session) -> float | None:
    """One pass: deadlines, SLAs, reports of callbacks, deliveries; returns how long to rest."""
    callbacks, clock = session.env.attempts.callbacks, session.env.clock
    rests = [await fire_deadlines(session), await record_missed_slas(session)]
    if callbacks.reports or to_deliver(session):
        async with session.locks.ownership:  # no partition may leave meanwhile: its next owner would deliver them, too
            await _deliver(session)
        session.locks.progress.set()
        if to_deliver(session):
            return 0.0
    if session.outbox.waiting:
        rests.append(callbacks.slow_in(clock.monotonic()))
    return min((seconds for seconds in rests if seconds is not None), default=None)


def to_deliver(session: Session) -> dict[int, WaitingCallback]:
    """The requests to deliver now, so that no DAG occupies all places."""
    if session.membership.draining or not session.outbox.waiting:
        return {}
    waiting, callbacks = session.outbox.waiting, session.env.attempts.callbacks
    slow = callbacks.slow(session.env.clock.monotonic())
    return waiting.get(next_callbacks(waiting.by_dag, callbacks.running(), _AT_ONCE, slow=slow))


async def _deliver(session: Session) -> None:
    """Store the outcomes of deliveries and hand out the next ones. Call it with `locks.ownership` held."""
    attempts, now = session.env.attempts, session.env.clock.now()
    reports, chosen = list(attempts.callbacks.reports), to_deliver(session)
    async with session.env.side_journal.transaction() as transaction:
        await alert_delivery.settle(transaction.conn, [r for r in _ran(reports) if alert_delivery.is_alert(r)], now)
        again = await _settle(session, transaction.conn, reports)
    for report in reports:
        attempts.callbacks.reports.popleft()
        number = report.key.try_number
        running = attempts.callbacks.end(number)
        if running is not None and number in again:
            session.outbox.waiting.add({number: running.request})

    async def begin(callbacks: Sequence[int]) -> None:
        async with session.env.side_journal.transaction() as transaction:
            ready = await _prepare(session, transaction.conn, callbacks)
        for callback in callbacks:
            session.outbox.waiting.remove(callback, chosen[callback].dag_id)
        attempts.callbacks.begin(chosen, ready, session.env.clock.monotonic())
        session.env.executor.submit(session.env.confs.open_for_tasks(ready.values()))

    if chosen:
        for number in await spare_others("the delivery", list(chosen), lambda number: f"callback {number}", begin):
            session.outbox.waiting.remove(number, chosen[number].dag_id)  # its row stays; the next session tries again


async def _settle(session: Session, conn: DatabaseConnection, reports: Collection[Report]) -> set[int]:
    """Store the outcomes of deliveries; returns the ids of those to deliver again."""
    callbacks = session.env.attempts.callbacks
    ran, running = _ran(reports), callbacks.by_id
    of_runs = {number: one for number, one in running.items() if one.call.kind != alert_delivery.KIND}
    lost = [(report.key.try_number, report.reason or "its worker died") for report in reports if _lost(report)]
    for report in ran:
        if report.outcome is not Outcome.SUCCESS and (one := of_runs.get(report.key.try_number)) is not None:
            extra = _whose(one.call, one.attempt.run.dag_id, one.attempt.run.run_id)
            logger.warning("callback %d (%s) failed: %s", one.call.id, one.call.kind, report.reason, extra=extra)
    if ran:
        await outbox.delete_callbacks(conn, [report.key.try_number for report in ran])
    if not lost:
        return set()
    verdicts = await outbox.fail_deliveries(conn, lost, most=MOST_DELIVERIES)
    for callback, reason in lost:
        if not verdicts.get(callback, True) and (one := of_runs.get(callback)) is not None:
            _log_given_up(one.call, one.attempt.run.dag_id, one.attempt.run.run_id, reason)
    return {callback for callback, again in verdicts.items() if again}


async def _prepare(session: Session, conn: DatabaseConnection, chosen: Collection[int]) -> dict[int, Attempt]:
    """Count the deliveries and make their attempts, by id. A request whose run was deleted is deleted, too."""
    if not chosen:
        return {}
    deliveries = await outbox.begin_deliveries(conn, list(chosen), most=MOST_DELIVERIES)
    of_alerts = {delivery.id for delivery in deliveries if delivery.kind == alert_delivery.KIND}
    ready = await alert_delivery.prepare(
        session, conn, [delivery.id for delivery in deliveries if delivery.id in of_alerts and not delivery.given_up]
    )
    deliveries = [delivery for delivery in deliveries if delivery.id not in of_alerts]
    found, unreadable = await load_readable_runs(conn, {delivery.run for delivery in deliveries})
    runs = {run.key: run for run in found}
    await readable_versions(session.cache, conn, {run.version_id for run in runs.values()})
    orphans = [delivery.id for delivery in deliveries if delivery.run not in runs and delivery.run not in unreadable]
    if orphans:
        await outbox.delete_callbacks(conn, orphans)
    for delivery in deliveries:
        if delivery.given_up:
            run = runs.get(delivery.run)
            run_id = None if run is None else run.run_id
            _log_given_up(delivery.call(), delivery.dag_id, run_id, "its scheduler ended while it ran")
        elif delivery.run in unreadable:
            session.env.metrics.count_unreadable()
            logger.error("callback %d is kept for another scheduler: %s", delivery.id, unreadable[delivery.run])
        elif delivery.run in runs:
            ready[delivery.id] = _attempt(session, delivery, runs[delivery.run])
    return ready


def _attempt(session: Session, delivery: Delivery, run: Run) -> Attempt:
    cache = session.cache  # an unreadable version will do: the callback needs only its number and file
    known = cache.versions.get(run.version_id)
    version = cache.unreadable.versions[run.version_id] if known is None else known[0]
    dag = cache.dags.get(run.dag_id)
    newest = None if dag is None else dag.version
    if delivery.kind == "sla_miss" and newest is not None:
        version = newest  # it concerns the DAG, not that run
    return Attempt(
        key=AttemptKey(run.key, -1, -1, delivery.id),
        run=run_info(run, version, newest, team=delivery.team),
        task_id=delivery.task_id or "",
        is_async=False,
        max_tries=0,
        callback=delivery.call(),
    )


def _ran(reports: Collection[Report]) -> list[Report]:
    return [report for report in reports if not _lost(report)]


def _lost(report: Report) -> bool:
    return report.outcome is Outcome.LOST or report.unattended


def _log_given_up(call: CallbackCall, dag_id: str, run_id: str | None, reason: str) -> None:
    logger.error(
        "callback %d (%s) was lost %d times and is not delivered again: %s; "
        "its row stays in callback_outbox until its run is removed",
        call.id, call.kind, MOST_DELIVERIES, reason, extra=_whose(call, dag_id, run_id),
    )  # fmt: skip


def _whose(call: CallbackCall, dag_id: str, run_id: str | None) -> dict[str, Any]:
    """The fields of a log line about a callback. Those of a run or a DAG show a task, but are not about it."""
    fields: dict[str, Any] = {"dag_id": dag_id, "run_id": run_id}
    if call.kind.startswith("task_"):
        index = call.map_index if call.map_index >= 0 else None
        fields |= {"task_id": call.task_id, "map_index": index, "try": call.try_number}
    return fields
