"""Backfills: requests for them, and when they are over. Source: the semantics reference, section 29.1.

    backfill_create   {from, to, rerun, max_active_runs, backwards, conf, dry_run}
                      -> {id, dates: [{logical_date, fate}]}
    backfill_pause    {id} -> {}
    backfill_resume   {id} -> {}
    backfill_cancel   {id} -> {failed: number of queued runs}

All runs of a backfill are created at once, queued, and start under its own limit
(due_runs.py); it runs on without a client.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from aiosched.core.backfills import Fate, PlannedDate, plan_backfill, rerun_of
from aiosched.core.params import resolve_params
from aiosched.core.run_creation import automated_run, backfill_runs, tasks_of_run
from aiosched.core.states import RunType
from aiosched.db import backfills as statements
from aiosched.db.backfills import Backfill
from aiosched.db.inbox import Command, CommandResult, answer_commands
from aiosched.errors import NotFound, Refused
from aiosched.scheduler.holdings import OwnedDag
from aiosched.scheduler.new_runs import Creation, hold, store
from aiosched.scheduler.session import Session
from aiosched.scheduler.stored_runs import clear_whole_runs, settle

DEFAULT_MAX_ACTIVE_RUNS: Final = 10


async def create_backfill(session: Session, dag: OwnedDag, command: Command) -> dict[str, Any] | None:
    """Plan the dates; unless it is a dry run, store the backfill with all its runs and the answer at once."""
    args, now, spec = command.args, session.clock.now(), dag.version.spec
    first, final = _instant(args["from"]), _instant(args["to"])
    backwards = bool(args.get("backwards"))
    limit = int(args.get("max_active_runs", DEFAULT_MAX_ACTIVE_RUNS))
    if limit < 1:
        raise Refused(f"A backfill with max_active_runs={limit} would never run; give it 1 or more.")
    conf = dict(args.get("conf") or {})
    resolve_params(spec.params, conf)
    rerun = rerun_of(str(args.get("rerun") or "missing"))
    runs = backfill_runs(spec, first, final, now=now, backwards=backwards)
    async with session.db.acquire() as conn:
        existing = await statements.existing_runs(conn, dag.row.dag_id, [run.logical_date for run in runs])
    past = any(task.depends_on_past for task in spec.tasks)
    states = {date: run.state for date, run in existing.items()}
    dates = plan_backfill(runs, states, rerun, depends_on_past=past)
    shown = [{"logical_date": d.run.logical_date.isoformat(), "fate": d.fate} for d in dates]
    if args.get("dry_run"):
        return {"id": None, "dates": shown}
    document = msgspec.json.encode(conf).decode()
    async with session.writer.transaction() as transaction:
        conn = transaction.conn
        number = await statements.insert_backfill(
            conn,
            dag_id=dag.row.dag_id,
            partition=dag.row.partition,
            first=first,
            final=final,
            max_active_runs=limit,
            backwards=backwards,
            rerun=rerun,
            conf=document,
        )
        creations = [_creation(dag, date, number, conf) for date in dates if date.fate is Fate.CREATE]
        keys = await store(session, conn, creations, now)
        again = [(existing[d.run.logical_date].id, d.order or 0) for d in dates if d.fate is Fate.RERUN]
        if again:
            await statements.take_runs(conn, number, again, document if conf else None)
        cleared = await clear_whole_runs(session, transaction, dag, [key for key, _ in again], now)
        answer = CommandResult("applied", {"id": number, "dates": shown})
        await answer_commands(conn, [(command.id, answer)], incarnation=session.incarnation)
    dag.backfills[number] = Backfill(number, dag.row.dag_id, limit, is_paused=False)
    hold(session, creations, keys, now)
    settle(session, dag, cleared)
    return None


def _creation(dag: OwnedDag, date: PlannedDate, backfill: int, conf: Mapping[str, Any]) -> Creation:
    planned = automated_run(date.run, RunType.BACKFILL)
    tasks = tasks_of_run(dag.version.spec, planned)
    return Creation(dag, planned, tasks, "backfill", dict(conf), starts=False, backfill=(backfill, date.order or 0))


async def pause_backfill(session: Session, dag: OwnedDag, command: Command) -> dict[str, Any]:
    return await _set_paused(session, dag, command, True)


async def resume_backfill(session: Session, dag: OwnedDag, command: Command) -> dict[str, Any]:
    return await _set_paused(session, dag, command, False)


async def _set_paused(session: Session, dag: OwnedDag, command: Command, is_paused: bool) -> dict[str, Any]:
    backfill = _find(dag, command)
    async with session.writer.transaction() as transaction:
        await statements.pause_backfill(transaction.conn, backfill.id, is_paused)
    backfill.is_paused = is_paused
    session.holdings.to_start[dag.row.dag_id] = None
    return {}


async def cancel_backfill(session: Session, dag: OwnedDag, command: Command) -> dict[str, Any]:
    """Its queued runs fail, running ones go on (29.1)."""
    backfill = _find(dag, command)
    async with session.writer.transaction() as transaction:
        failed = set(await statements.cancel_backfill(transaction.conn, backfill.id, session.clock.now()))
    for run in [run for run in dag.queued if run.key in failed]:
        dag.queued.remove(run)
        session.on_run_end(run)
    del dag.backfills[backfill.id]
    return {"failed": len(failed)}


async def complete_backfills(session: Session, now: datetime) -> None:
    """Note the end of backfills whose runs are all over. Call it with `session.books` held."""
    over = [b for dag in session.holdings.dags.values() if dag.backfills for b in dag.finished_backfills()]
    if over:  # not before the end of their last runs is stored
        ending = {board.run.backfill_id for board in session.ending()}
        over = [backfill for backfill in over if backfill.id not in ending]
    if not over:
        return
    async with session.writer.transaction() as transaction:
        for backfill in over:
            await statements.complete_backfill(transaction.conn, backfill.id, now)
    for backfill in over:
        del session.holdings.dags[backfill.dag_id].backfills[backfill.id]


def _find(dag: OwnedDag, command: Command) -> Backfill:
    number = int(command.args["id"])
    found = dag.backfills.get(number)
    if found is None:
        raise NotFound(f"DAG {dag.row.dag_id!r} has no unfinished backfill {number}; see `aiosched backfill list`.")
    return found


def _instant(value: str) -> datetime:
    return datetime.fromisoformat(value)
