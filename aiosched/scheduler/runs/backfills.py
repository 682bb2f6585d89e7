"""Backfills: requests for them, and when they are completed. Source: the semantics reference, section 29.1.

    backfill_create -> {id, dates: [{logical_date, fate}], from, to, timezone, left_out: {logical_date, reason}}
    backfill_cancel -> {failed: number of queued runs}; backfill_pause, backfill_resume -> {}

All runs of a backfill are created at once, queued, and start under its own limit
(due_runs.py); it needs no client to go on. If they have very many task instances, these follow as the runs
start (incomplete.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

import msgspec

from aiosched.core.creation.backfills import BackfillDate, BackfillOutcome, Rerun, plan_backfill
from aiosched.core.creation.run_creation import (
    automated_run,
    backfill_period,
    backfill_runs,
    tasks_of_run,
    unfinished_date,
)
from aiosched.core.graph.params import resolve_params
from aiosched.core.graph.spec import DagSpec
from aiosched.core.requests.requests import BackfillCancel, BackfillCreate, BackfillPause, BackfillResume
from aiosched.core.run.board import Board
from aiosched.core.timetables.base import NextRun
from aiosched.core.timetables.zones import zone
from aiosched.core.values.instants import stamp
from aiosched.core.values.states import RunState, RunType
from aiosched.db.server.connection import Queryable
from aiosched.db.statements import backfills
from aiosched.db.statements.backfills import Backfill, ExistingRun
from aiosched.errors import NotFound, Refused
from aiosched.scheduler.concurrency.slices import in_slices
from aiosched.scheduler.failures.isolation import for_each_dag
from aiosched.scheduler.memory.cache import OwnedDag, StateCache
from aiosched.scheduler.runs.new_runs import Creation, hold, in_parts, store
from aiosched.scheduler.runs.stored_runs import clear_whole_runs
from aiosched.scheduler.session.session import Session


async def create_backfill(
    session: Session, dag: OwnedDag, request: BackfillCreate, command: int
) -> dict[str, Any] | None:
    """Plan the dates, and store the backfill, all its runs and the answer in one transaction."""
    now, spec, most = session.env.clock.now(), dag.version.spec, session.env.settings.scheduler.max_backfill_runs
    async with session.env.db.acquire() as conn:
        conf = await session.env.confs.checked(conn, spec.params, dict(request.conf))
    request = msgspec.structs.replace(request, conf=conf)
    runs = await compute_dates(spec, request, now, most=most)  # without a connection, which would be idle meanwhile
    dates, existing = await plan_dates(session.env.db, spec, request, runs)
    period = backfill_period(spec, request.first, request.final)
    document = msgspec.json.encode(request.conf).decode()
    async with session.env.side_journal.transaction() as transaction:
        conn = transaction.conn
        number = await backfills.insert_backfill(
            conn,
            dag_id=dag.row.dag_id,
            partition=dag.row.partition,
            first=period.first,
            final=period.final,
            max_active_runs=request.max_active_runs,
            backwards=request.backwards,
            rerun=request.rerun,
            conf=document,
        )
        creations = in_parts(
            creation_of(dag, date, number, request.conf) for date in dates if date.fate is BackfillOutcome.CREATE
        )
        keys = await store(session, conn, creations, now)
        again = [(existing[d.run.logical_date].id, d.order or 0) for d in dates if d.fate is BackfillOutcome.RERUN]
        if again:
            await backfills.take_runs(conn, number, again, document if request.conf else None)
        cleared = await clear_whole_runs(session, transaction, dag, [key for key, _ in again], now)
        await transaction.answer(command, answer_of(spec, request, dates, number, now))
    session.cache.add_backfill(Backfill(number, dag.row.dag_id, request.max_active_runs, is_paused=False))
    session.changed_runs.add_runs(key for key in keys if key is not None)
    hold(session.context, creations, keys, now)
    session.context.settle(dag, cleared)
    return None


async def compute_dates(spec: DagSpec, request: BackfillCreate, now: datetime, *, most: int) -> list[NextRun]:
    """As `dates_of`, all of them; others have their turns meanwhile."""
    return await in_slices(dates_of(spec, request, now, most=most), "the dates of this backfill")


async def plan_dates(
    conn: Queryable, spec: DagSpec, request: BackfillCreate, runs: Sequence[NextRun]
) -> tuple[list[BackfillDate], dict[datetime, ExistingRun]]:
    """The dates of a backfill with their fates, and the runs that exist. Raises Refused."""
    existing = await backfills.existing_runs(conn, spec.dag_id, [run.logical_date for run in runs])
    return fates_of(spec, request, runs, {date: run.state for date, run in existing.items()}), existing


def dates_of(spec: DagSpec, request: BackfillCreate, now: datetime, *, most: int) -> Iterator[NextRun]:
    """The dates of a backfill in order, computed one by one.

    Raises Refused, also for more than `most` dates and for a limit that would let nothing run, or ParamError for its
    conf.
    """
    if request.max_active_runs < 1:
        raise Refused(f"A backfill with max_active_runs={request.max_active_runs} would never run; give it 1 or more.")
    resolve_params(spec.params, request.conf)
    yield from backfill_runs(spec, request.first, request.final, now=now, most=most, backwards=request.backwards)


def fates_of(
    spec: DagSpec, request: BackfillCreate, runs: Sequence[NextRun], existing: Mapping[datetime, RunState]
) -> list[BackfillDate]:
    """The fate of each date, in the order in which they run; `existing` are the states of the runs that exist.

    Raises Refused.
    """
    past = any(task.depends_on_past for task in spec.tasks)
    ordered = runs[::-1] if request.backwards else runs
    return plan_backfill(ordered, existing, Rerun(request.rerun), depends_on_past=past)


def answer_of(
    spec: DagSpec, request: BackfillCreate, dates: Sequence[BackfillDate], number: int | None, now: datetime
) -> dict[str, Any]:
    """The answer about a backfill, or (without a number) about one that would be created.

    `from` and `to` are the first and the last instant that its days mean, with the offsets of the DAG's time zone;
    `left_out` is the first date between them whose data interval has not ended, null if there is none.
    """
    period, place = backfill_period(spec, request.first, request.final), zone(spec.timezone)
    last = max((date.run for date in dates), key=lambda run: run.logical_date, default=None)
    unfinished = unfinished_date(spec, period, last, now)
    return {
        "id": number,
        "dates": [{"logical_date": date.run.logical_date.isoformat(), "fate": date.fate} for date in dates],
        "from": _in(place, period.first).isoformat(),
        "to": _in(place, period.final).isoformat(),
        "timezone": spec.timezone,
        "left_out": None
        if unfinished is None
        else {
            "logical_date": unfinished.logical_date.isoformat(),
            "reason": f"its data interval ends at {stamp(unfinished.interval.end)}, which has not passed",
        },
    }


def _in(place: tzinfo, instant: datetime) -> datetime:
    try:
        return instant.astimezone(place)
    except OverflowError:  # at the edge of the calendar
        return instant


def creation_of(dag: OwnedDag, date: BackfillDate, backfill: int, conf: Mapping[str, Any]) -> Creation:
    """The run that a backfill creates at a date; it waits in state queued."""
    planned = automated_run(date.run, RunType.BACKFILL)
    tasks = tasks_of_run(dag.version.spec, planned)
    return Creation(dag, planned, tasks, "backfill", dict(conf), starts=False, backfill=(backfill, date.order or 0))


async def pause_backfill(session: Session, dag: OwnedDag, request: BackfillPause, command: int) -> None:
    await _set_paused(session, dag, request.id, True, command)


async def resume_backfill(session: Session, dag: OwnedDag, request: BackfillResume, command: int) -> None:
    await _set_paused(session, dag, request.id, False, command)


async def _set_paused(session: Session, dag: OwnedDag, number: int, is_paused: bool, command: int) -> None:
    backfill = find_backfill(dag, number)
    async with session.env.side_journal.transaction() as transaction:
        await backfills.pause_backfill(transaction.conn, backfill.id, is_paused)
        await transaction.answer(command, {})
    backfill.is_paused = is_paused
    session.cache.work.to_start[dag.row.dag_id] = None


async def cancel_backfill(session: Session, dag: OwnedDag, request: BackfillCancel, command: int) -> None:
    """Fail its queued runs; running ones go on (29.1)."""
    backfill = find_backfill(dag, request.id)
    async with session.env.side_journal.transaction() as transaction:
        failed = set(await backfills.cancel_backfill(transaction.conn, backfill.id, session.env.clock.now()))
        await transaction.answer(command, {"failed": len(failed)})
    for run in [run for run in dag.runs.queued if run.key in failed]:
        dag.runs.queued.remove(run)
        session.env.observers.on_run_end(run)
    del dag.runs.backfills[backfill.id]
    session.cache.plan(dag)  # its runs counted towards the limit of asset runs (14.3)


async def complete_backfills(session: Session, now: datetime) -> None:
    """Complete the backfills whose runs have all ended. Call it with `locks.ownership` held."""
    ended = over_now(session.cache, session.cache.unstored.runs_that_end())
    if not ended:
        return

    async def complete(some: Sequence[Backfill]) -> None:
        async with session.env.side_journal.transaction() as transaction:
            for backfill in some:
                await backfills.complete_backfill(transaction.conn, backfill.id, now)
        for backfill in some:
            del session.cache.dags[backfill.dag_id].runs.backfills[backfill.id]

    await for_each_dag(
        "the end of a backfill", ended, lambda backfill: backfill.dag_id, complete, held=session.cache.dags
    )


def over_now(cache: StateCache, ending: Iterable[Board]) -> list[Backfill]:
    """The backfills whose runs have all ended; `ending` are runs whose end is not stored yet."""
    if not cache.work.backfilled:
        return []
    dags = [
        dag for dag_id in cache.work.backfilled if (dag := cache.dags.get(dag_id)) is not None and dag.runs.backfills
    ]
    cache.work.backfilled = {dag.row.dag_id: None for dag in dags}
    finished = [backfill for dag in dags for backfill in dag.runs.finished_backfills()]
    unstored = {board.run.backfill_id for board in ending}
    return [backfill for backfill in finished if backfill.id not in unstored]


def find_backfill(dag: OwnedDag, number: int) -> Backfill:
    """An unfinished backfill of the DAG; raises NotFound."""
    found = dag.runs.backfills.get(number)
    if found is None:
        raise NotFound(f"DAG {dag.row.dag_id!r} has no unfinished backfill {number}; see `aiosched backfill list`.")
    return found
