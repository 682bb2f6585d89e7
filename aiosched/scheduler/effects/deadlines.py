"""Deadlines of runs: written when a run is created, missed when their time has passed (strictly).

A missed deadline does not change the run: it is marked as missed and its callback is requested, in one
transaction. When a run succeeds in time, the transaction that ends it prunes its deadlines;
those of a failed run stay and can still be missed. Pending deadlines are kept on one heap of
due times; the rows decide, so an outdated entry does no harm.

Source: the semantics reference, sections 23.4 and 23.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from aiosched.core.creation.deadlines import AVERAGE_RUNTIME, least_runs
from aiosched.core.graph.spec import DagSpec
from aiosched.core.values.instants import just_after
from aiosched.core.values.states import RunState
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.deadlines import DeadlineRow, average_runtime, load_pending, mark_missed, store_deadlines
from aiosched.db.statements.outbox import NewCallback, insert_callbacks
from aiosched.scheduler.failures.isolation import spare_others
from aiosched.scheduler.memory.deadline_rows import deadlines_of
from aiosched.scheduler.session.session import Session

AGAIN: Final = timedelta(minutes=1)  # until what could not be stored for an unforeseen reason is tried again


async def plan_deadlines(
    session: Session,
    conn: DatabaseConnection,
    runs: Sequence[tuple[int, DagSpec, int, datetime | None]],
    now: datetime,
) -> None:
    """Write the deadlines of (run key, DAG, partition, logical date), in the transaction that creates these runs."""
    averages: dict[tuple[str, int], timedelta | None] = {}
    for spec in {spec.dag_id: spec for _, spec, _, _ in runs}.values():
        for index, deadline in enumerate(spec.deadlines):
            if deadline.reference == AVERAGE_RUNTIME:
                averages[spec.dag_id, index] = await average_runtime(
                    conn, spec.dag_id, max_runs=deadline.max_runs, min_runs=least_runs(deadline)
                )
    rows = [row for run in runs for row in deadlines_of(*run, now, averages)]
    await store_deadlines(conn, rows)
    watch_deadlines(session, rows)


def watch_deadlines(session: Session, rows: Sequence[DeadlineRow]) -> None:
    """Check these deadlines when their time has passed. Rows that no longer exist by then do no harm."""
    for row in rows:
        session.outbox.deadlines.add(just_after(row.deadline_time), row)
    if rows:
        session.wakeups.callbacks.wake()


async def load_deadlines(session: Session, conn: DatabaseConnection, partitions: set[int]) -> None:
    """Put the pending deadlines of `partitions` on the heap."""
    watch_deadlines(session, await load_pending(conn, partitions))


async def fire_deadlines(session: Session) -> float | None:
    """Mark what is missed now and request its callbacks; returns the seconds to the next deadline."""
    deadlines = session.outbox.deadlines
    if deadlines.earliest is not None and deadlines.earliest <= session.env.clock.now():
        async with session.locks.ownership:  # a partition must not leave before its callback requests are in memory
            await _fire(session)
    earliest = deadlines.earliest
    return None if earliest is None else max((earliest - session.env.clock.now()).total_seconds(), 0.001)


async def _fire(session: Session) -> None:
    now, ends = session.env.clock.now(), _successes_not_stored(session)
    due = [
        row
        for row in session.outbox.deadlines.due(now)
        if row.partition in session.cache.partitions and not _is_kept(row, ends.get(row.run_id))
    ]

    async def miss(rows: Sequence[DeadlineRow]) -> None:
        async with session.env.side_journal.transaction() as transaction:
            missed = await mark_missed(transaction.conn, [(row.run_id, row.deadline_index) for row in rows], now)
            requests = [missed_callback(partition, dag_id, run, index) for run, index, partition, dag_id in missed]
            stored = await insert_callbacks(transaction.conn, requests) if requests else {}
        session.outbox.waiting.add(stored)

    if due:
        for row in await spare_others("a missed deadline", due, lambda row: f"run {row.run_id}", miss):
            session.outbox.deadlines.add(now + AGAIN, row)


def missed_callback(partition: int, dag_id: str, run: int, index: int) -> NewCallback:
    """The callback that is requested when a deadline of a run (by its key) is missed."""
    return NewCallback(partition, "deadline", dag_id, run, deadline_index=index, reason="deadline_missed")


def _successes_not_stored(session: Session) -> dict[int, datetime | None]:
    """When each run succeeded whose success is not stored yet: its transaction will prune the deadlines that it met."""
    ended = [board.run for board in session.cache.unstored.runs_that_end()]
    return {run.key: run.end_date for run in ended if run.state is RunState.SUCCESS}


def _is_kept(row: DeadlineRow, success: datetime | None) -> bool:
    """Whether the run succeeded in time (23.5)."""
    return success is not None and success <= row.deadline_time
