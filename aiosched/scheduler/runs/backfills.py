"""Backfills: requests for them, and when they are completed. Source: the semantics reference, section 29.1.

    backfill_create   {from, to, rerun, max_active_runs, backwards, conf, dry_run}
                      -> {id, dates: [{logical_date, fate}]}
    backfill_pause    {id} -> {}
    backfill_resume   {id} -> {}
    backfill_cancel   {id} -> {failed: number of queued runs}

All runs of a backfill are created at once, queued, and start under its own limit
(due_runs.py); it needs no client to go on. If they have very many task instances, these follow as the runs
start (incomplete.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from aiosched.core.creation.backfills import BackfillDate, Fate, plan_backfill
from aiosched.core.creation.run_creation import automated_run, backfill_runs, tasks_of_run
from aiosched.core.graph.params import resolve_params
from aiosched.core.graph.spec import DagSpec
from aiosched.core.requests.requests import BackfillCancel, BackfillCreate, BackfillPause, BackfillResume
from aiosched.core.run.board import Board
from aiosched.core.timetables.base import NextRun
from aiosched.core.values.states import RunState, RunType
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements import backfills
from aiosched.db.statements.backfills import Backfill, ExistingRun
from aiosched.errors import NotFound, Refused
from aiosched.scheduler.runs.new_runs import Creation, hold, in_parts, store
from aiosched.scheduler.runs.stored_runs import clear_whole_runs, settle
from aiosched.scheduler.session.isolation import for_each_dag
from aiosched.scheduler.session.session import Session
from aiosched.scheduler.session.slices import in_slices
from aiosched.scheduler.state.cache import OwnedDag, StateCache


async def create_backfill(
    session: Session, dag: OwnedDag, request: BackfillCreate, command: int
) -> dict[str, Any] | None:
    """Plan the dates; unless it is a dry run, store the backfill, all its runs and the answer in one transaction."""
    now, spec, most = session.env.clock.now(), dag.version.spec, session.env.settings.scheduler.max_backfill_runs
    async with session.env.db.acquire() as conn:
        conf = await session.env.confs.checked(conn, spec.params, request.conf)
    request = msgspec.structs.replace(request, conf=conf)
    runs = await compute_dates(spec, request, now, most=most)  # without a connection, which would be idle meanwhile
    async with session.env.db.acquire() as conn:
        dates, existing = await plan_dates(conn, spec, request, runs)
    if request.dry_run:  # sent by an older aiosched; newer ones read the preview themselves
        return {"id": None, "dates": shown(dates)}
    document = msgspec.json.encode(request.conf).decode()
    async with session.env.command_journal.transaction() as transaction:
        conn = transaction.conn
        number = await backfills.insert_backfill(
            conn,
            dag_id=dag.row.dag_id,
            partition=dag.row.partition,
            first=request.first,
            final=request.final,
            max_active_runs=request.max_active_runs,
            backwards=request.backwards,
            rerun=request.rerun,
            conf=document,
        )
        creations = in_parts(creation_of(dag, date, number, request.conf) for date in dates if date.fate is Fate.CREATE)
        keys = await store(session, conn, creations, now)
        again = [(existing[d.run.logical_date].id, d.order or 0) for d in dates if d.fate is Fate.RERUN]
        if again:
            await backfills.take_runs(conn, number, again, document if request.conf else None)
        cleared = await clear_whole_runs(session, transaction, dag, [key for key, _ in again], now)
        await transaction.answer(command, {"id": number, "dates": shown(dates)})
    session.cache.add_backfill(Backfill(number, dag.row.dag_id, request.max_active_runs, is_paused=False))
    session.broadcast.add_runs(key for key in keys if key is not None)
    hold(session.context, creations, keys, now)
    settle(session.context, dag, cleared)
    return None


async def compute_dates(spec: DagSpec, request: BackfillCreate, now: datetime, *, most: int) -> list[NextRun]:
    """As `dates_of`, all of them; others have their turns meanwhile."""
    return await in_slices(dates_of(spec, request, now, most=most), "the dates of this backfill")


async def plan_dates(
    conn: DatabaseConnection, spec: DagSpec, request: BackfillCreate, runs: Sequence[NextRun]
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
    return plan_backfill(ordered, existing, request.rerun, depends_on_past=past)


def shown(dates: Iterable[BackfillDate]) -> list[dict[str, Any]]:
    """The dates as the answer shows them."""
    return [{"logical_date": date.run.logical_date.isoformat(), "fate": date.fate} for date in dates]


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
    async with session.env.command_journal.transaction() as transaction:
        await backfills.pause_backfill(transaction.conn, backfill.id, is_paused)
        await transaction.answer(command, {})
    backfill.is_paused = is_paused
    session.cache.work.to_start[dag.row.dag_id] = None


async def cancel_backfill(session: Session, dag: OwnedDag, request: BackfillCancel, command: int) -> None:
    """Fail its queued runs; running ones go on (29.1)."""
    backfill = find_backfill(dag, request.id)
    async with session.env.command_journal.transaction() as transaction:
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
        async with session.env.command_journal.transaction() as transaction:
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
