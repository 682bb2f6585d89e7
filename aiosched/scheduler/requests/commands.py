"""Requests from the inbox, applied by the owner of their DAG.

    trigger      {conf, logical_date, run_id, run_after, unpause} -> {run_id, id}
    pause        {}                                               -> {}
    unpause      {}                                               -> {}
    cancel_run   {run_id}                                         -> {run_id}
    delete_dag   {}                                               -> {}
    release_dag  {}                                               -> {}
    emit_asset   {name, extra}  (of no DAG)                       -> {name, at}

    clear, mark_tasks, mark_run: see clearing.py; backfill_…: see backfills.py; set_note: see notes.py;
    answer_input: see answers.py; continue_schedule: see continuing.py; render: see rendering.py, answered later

A verb is either applied, or refused with {"error": …}; core/requests defines its arguments. The answer is stored in
the transaction that stores the verb's effects, so no crash can apply a request twice or answer it without effect, and
a request that is withdrawn has none. Any other exception in a verb is a bug in aiosched: it is logged,
answered as such, and everything is read again, since it is not known how far the verb got.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import asyncpg

from aiosched.core.creation.run_creation import check_manual_run, check_run_type
from aiosched.core.requests.requests import CancelRun, DeleteDag, EmitAsset, Pause, ReleaseDag, Trigger, Unpause
from aiosched.core.requests.stored import decode
from aiosched.core.values.ids import partition_of
from aiosched.core.values.states import RUN_FINISHED, RunType
from aiosched.db.server.failures import is_retryable
from aiosched.db.statements import inbox, runs
from aiosched.db.statements.dags import import_error
from aiosched.db.statements.inbox import Command, CommandResult
from aiosched.db.statements.schedules import schedule_positions
from aiosched.db.upkeep.dag_deletion import delete_dag
from aiosched.errors import (
    AioschedError,
    DagError,
    DagFailure,
    DatabaseError,
    InternalError,
    NotFound,
    Refused,
    StaleRows,
)
from aiosched.scheduler.partitions.loading import plan_next, reload_dags, set_paused
from aiosched.scheduler.partitions.previous_run import invalidate_past
from aiosched.scheduler.partitions.quarantine import release
from aiosched.scheduler.requests import clearing
from aiosched.scheduler.requests.answers import answer_input
from aiosched.scheduler.requests.continuing import continue_schedule
from aiosched.scheduler.requests.notes import set_note
from aiosched.scheduler.requests.rendering import render
from aiosched.scheduler.runs import backfills
from aiosched.scheduler.runs.asset_runs import emit_event
from aiosched.scheduler.runs.due_runs import requested_run
from aiosched.scheduler.runs.incomplete import complete
from aiosched.scheduler.runs.new_runs import create, in_parts
from aiosched.scheduler.session.request_attempts import MOST_ATTEMPTS
from aiosched.scheduler.session.session import Session
from aiosched.scheduler.state.cache import OwnedDag

logger = logging.getLogger(__name__)

_COMMANDS_PER_PASS: Final = 200
_POISONOUS: Final = (
    f"{MOST_ATTEMPTS} schedulers died or stalled while they applied it, so no other one tries. "
    "Please report it with the request and the schedulers' logs."
)


async def apply_commands(session: Session) -> int:
    """Apply the waiting requests for our partitions, in the order they were made; returns how many.

    Call it with `locks.ownership` held. Raises StaleRows if one of them hits a bug; those after it still wait.
    """
    begun = session.env.attempts.renderings  # which are answered later
    applied = session.cache.unstored.answers()  # read before the query: an answer may be committed while it runs
    async with session.env.db.acquire() as conn:
        commands = await inbox.waiting_commands(conn, sorted(session.cache.partitions), limit=_COMMANDS_PER_PASS)
    commands = [command for command in commands if command.id not in applied and command.id not in begun]
    if not commands:
        return 0
    done: list[int] = []
    met_bug = False
    for together in _passes(commands):
        async with _counted(session, together):
            for command in together:
                answer = await _apply(session, command)
                if answer is not None:
                    async with session.env.command_journal.transaction() as transaction:
                        await transaction.store_answer(command.id, answer)
                state = "applied" if answer is None else answer.state
                logger.info("%s %s by %s", command.verb, state, command.requested_by, extra={"dag_id": command.dag_id})
                done.append(command.id)
                if met_bug := answer is not None and answer.is_bug:
                    break
        if met_bug:
            break
    async with session.env.db.acquire() as conn:
        await inbox.announce_applied(conn, done)
    session.env.requests.forget(done)
    if met_bug:
        raise StaleRows(f"The request {command.verb!r} hit a bug in aiosched")
    session.wakeups.wake_all()
    return len(done)


def _passes(commands: Sequence[Command]) -> list[Sequence[Command]]:
    """All requests at once, unless an owner did not survive one of them: then each by itself, to find out which."""
    return [[command] for command in commands] if any(command.attempts for command in commands) else [commands]


@contextlib.asynccontextmanager
async def _counted(session: Session, commands: Sequence[Command]) -> AsyncIterator[None]:
    """Store that these requests are begun; if this process ends in the block, its successor knows."""
    attempts = session.env.requests
    begun = attempts.begin(command for command in commands if not attempts.is_poisonous(command))
    try:
        async with session.env.db.acquire() as conn:
            await inbox.count_attempts(conn, begun)  # perhaps stored, too, if it raises
        yield
    finally:
        attempts.survive(begun)


async def _apply(session: Session, command: Command) -> CommandResult | None:
    """Apply a request; returns the answer to store, or None if the verb stores it itself."""
    if session.env.requests.is_poisonous(command):
        logger.error("the request %s by %s is refused: %s", command.verb, command.requested_by, _POISONOUS)
        return CommandResult("refused", {"error": f"{command.verb}: {_POISONOUS}", "exit_code": Refused.exit_code})
    try:
        request = decode(command.verb, command.args)
        if isinstance(request, EmitAsset):
            return await emit_event(session, request, command.id)
        if isinstance(request, ReleaseDag):
            await release(session, command.dag_id or "", command.id)
            return None
        session.cache.quarantine.refuse_dag(command.dag_id)
        dag = await _dag_of(session, command)
        if dag is None or command.verb in ("trigger", "backfill_create"):
            session.cache.unreadable.refuse_dag(command.dag_id)
        if dag is None:
            raise NotFound(f"There is no DAG {command.dag_id!r}; see `aiosched dags list`.")
        result = await VERBS[command.verb](session, dag, request, command.id)
        return None if result is None else CommandResult("applied", result)
    except (Refused, NotFound, DagError) as error:
        return CommandResult("refused", {"error": str(error), "exit_code": _exit_code(error)})
    except (OverflowError, asyncpg.DataError) as error:  # a number or a text that PostgreSQL cannot store
        return CommandResult("refused", {"error": f"{command.verb}: unusable arguments ({error!r})", "exit_code": 2})
    except Exception as error:
        if isinstance(error, DagFailure | DatabaseError | ExceptionGroup) or is_retryable(error):
            raise
        logger.exception("the request %s by %s hit a bug", command.verb, command.requested_by)
        message = f"{command.verb} hit a bug in the scheduler ({error!r}); its log has the details. Please report it."
        return CommandResult("refused", {"error": message, "exit_code": InternalError.exit_code})


async def _dag_of(session: Session, command: Command) -> OwnedDag | None:
    """The DAG of a request, at least as new as when the request was made, whether or not a change was announced yet.

    So a run that is triggered after a new version was stored has that version.
    """
    dag_id = command.dag_id or ""
    partition, changed, dag = partition_of(dag_id), session.notifications.changed_dags, session.cache.dags.get(dag_id)
    held = None if dag is None else (dag.row.version_id, dag.row.is_stale, dag.row.has_import_errors)
    if partition in changed or held != command.dag:
        changed.discard(partition)
        await reload_dags(session, {partition})
    return session.cache.dags.get(dag_id)


def _exit_code(error: AioschedError) -> int:
    return error.exit_code if isinstance(error, (NotFound, Refused)) else Refused.exit_code


async def _trigger(session: Session, dag: OwnedDag, request: Trigger, number: int) -> None:
    await _check_file(session, dag)
    check_run_type(dag.version.spec, RunType.MANUAL)
    now = session.env.clock.now()
    async with session.env.db.acquire() as conn:
        conf = await session.env.confs.checked(conn, dag.version.spec.params, request.conf)
    creation = requested_run(
        dag,
        now,
        conf=conf,
        run_id=request.run_id,
        logical_date=request.logical_date,
        run_after=request.run_after,
        triggered_by=request.triggered_by,
        allowed_run_id=re.compile(session.env.settings.scheduler.allowed_run_id_pattern),
        may_start=not session.membership.draining,
        partition_key=request.partition_key,
        unpauses=request.unpause,
    )
    planned = creation.planned
    if request.unpause and dag.row.is_paused:
        async with session.env.db.acquire() as conn:
            taken = await runs.find_run(conn, dag.row.dag_id, run_id=planned.run_id, logical_date=planned.logical_date)
        if taken is None:  # else the run is refused below, and the DAG stays paused
            await _set_paused(session, dag, False)
    (run,) = await create(session, in_parts([creation]), now, answering=number)
    if run is None:
        what = f"run id {planned.run_id!r}" + (
            f" or logical date {planned.logical_date.isoformat()}" if planned.logical_date else ""
        )
        raise Refused(f"DAG {dag.row.dag_id!r} has a run with the {what} already; choose another.")


async def _check_file(session: Session, dag: OwnedDag) -> None:
    """Raise Refused, with the import error, for a DAG that takes no runs because of its file."""
    row, reason = dag.row, None
    if row.has_import_errors and row.file is not None:
        async with session.env.db.acquire() as conn:
            reason = await import_error(conn, row.file)
    check_manual_run(row.dag_id, is_stale=row.is_stale, has_import_errors=row.has_import_errors, import_error=reason)


async def _pause(session: Session, dag: OwnedDag, _: Pause, number: int) -> None:
    await _set_paused(session, dag, True, answering=number)


async def _unpause(session: Session, dag: OwnedDag, _: Unpause, number: int) -> None:
    await _set_paused(session, dag, False, answering=number)


async def _set_paused(session: Session, dag: OwnedDag, is_paused: bool, *, answering: int | None = None) -> None:
    async with session.env.command_journal.transaction() as transaction:
        if answering is not None:
            await transaction.answer(answering, {})
        if dag.row.is_paused == is_paused:
            return
        await runs.set_paused(transaction.conn, dag.row.dag_id, is_paused)
        now = session.env.clock.now()
        positions = await schedule_positions(transaction.conn, [dag.version.spec], now)
    session.cache.put_dag(set_paused(dag, is_paused), dag.version)
    plan_next(session.context, dag, positions[dag.row.dag_id])


async def _cancel_run(session: Session, dag: OwnedDag, request: CancelRun, number: int) -> None:
    run_id = request.run_id
    now = session.env.clock.now()
    for board in dag.runs.running.values():
        if board.run.run_id == run_id:
            board.cancel(now)
            session.context.answer(number, CommandResult("applied", {"run_id": run_id}))
            session.context.apply_effects(board)
            session.cache.work.to_evaluate[board] = None  # its teardowns may start now
            return
    for run in list(dag.runs.queued):
        if run.run_id == run_id:
            dag.runs.queued.remove(run)
            async with session.env.command_journal.transaction() as transaction:
                await complete(session.cache, transaction.conn, [run])
                await runs.fail_queued_run(transaction.conn, run.key, now, "cancelled")
                await transaction.answer(number, {"run_id": run_id})
            session.env.observers.on_run_end(run)
            invalidate_past(session.context, run)
            session.cache.plan(dag)  # there is room for another run
            return
    async with session.env.db.acquire() as conn:
        found = await runs.find_run(conn, dag.row.dag_id, run_id=run_id)
    if found is None:
        raise NotFound(f"DAG {dag.row.dag_id!r} has no run {run_id!r}; see `aiosched dags runs {dag.row.dag_id}`.")
    if not (ended := found.state in RUN_FINISHED):
        session.cache.unreadable.refuse_run(found)
    raise Refused(
        f"Run {run_id!r} is {found.state} already." if ended else f"Run {run_id!r} is just starting; try again."
    )


async def _delete_dag(session: Session, dag: OwnedDag, _: DeleteDag, number: int) -> None:
    if dag.runs.running:
        raise Refused(
            f"DAG {dag.row.dag_id!r} has {len(dag.runs.running)} running runs; cancel them first "
            f"(`aiosched runs cancel {dag.row.dag_id} …`)."
        )
    async with session.env.command_journal.transaction() as transaction:
        await delete_dag(transaction.conn, dag.row.dag_id)
        await transaction.answer(number, {})
    session.cache.drop_dag(dag.row.dag_id)


# (session, DAG, request, id of its row) -> the result, or None if the verb has stored the answer already
Verb = Callable[[Session, OwnedDag, Any, int], Awaitable[dict[str, Any] | None]]

VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        "trigger": _trigger,
        "pause": _pause,
        "unpause": _unpause,
        "cancel_run": _cancel_run,
        "delete_dag": _delete_dag,
        "clear": clearing.clear,
        "mark_tasks": clearing.mark_tasks,
        "mark_run": clearing.mark_run,
        "set_note": set_note,
        "answer_input": answer_input,
        "render": render,
        "continue_schedule": continue_schedule,
        "backfill_create": backfills.create_backfill,
        "backfill_pause": backfills.pause_backfill,
        "backfill_resume": backfills.resume_backfill,
        "backfill_cancel": backfills.cancel_backfill,
    }
)
