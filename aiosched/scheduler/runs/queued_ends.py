"""The end of queued runs that will not start: cancelled by a person, or expired."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from aiosched.core.run.board import Run
from aiosched.db.statements import runs
from aiosched.scheduler.failures.isolation import for_each_dag
from aiosched.scheduler.partitions.previous_run import invalidate_past
from aiosched.scheduler.runs.due_runs import choose_expired
from aiosched.scheduler.runs.incomplete import complete
from aiosched.scheduler.session.session import Session


async def fail_queued(session: Session, run: Run, reason: str, now: datetime, *, answering: int | None = None) -> None:
    """End a queued run as failed, and store the answer to the request for it, if there is one."""
    dag = session.cache.dags[run.dag_id]
    dag.runs.queued.remove(run)
    async with session.env.side_journal.transaction() as transaction:
        await complete(session.cache, transaction.conn, [run])
        await runs.fail_queued_run(transaction.conn, run.key, now, reason)
        if answering is not None:
            await transaction.answer(answering, {"run_id": run.run_id})
    session.env.observers.on_run_end(run)
    invalidate_past(session.context, run)
    session.cache.plan(dag)  # there is room for another run


async def end_expired(session: Session, due: Iterable[str], now: datetime) -> None:
    """End the queued runs that have expired, of the DAGs `due` and those to be looked at."""

    async def end(some: Sequence[Run]) -> None:
        for run in some:
            await fail_queued(session, run, "expired", now)

    if expired := choose_expired(session.cache, due, now):
        await for_each_dag("the expiry of runs", expired, lambda run: run.dag_id, end, held=session.cache.dags)
