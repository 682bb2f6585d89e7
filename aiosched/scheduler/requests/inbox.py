"""Requests from the inbox, applied by the owner of their DAG.

    trigger    -> {run_id, id}
    cancel_run -> {run_id}
    emit_asset -> {name, at}  (of no DAG)
    pause, unpause, delete_dag, release_dag -> {}

    clear, mark_tasks, mark_run: see clearing.py; backfill_…: see backfills.py; set_note: see notes.py;
    schedule_set, schedule_pause, schedule_resume, schedule_remove: see schedules.py
    answer_input: see answers.py; continue_schedule: see continuing.py; render: see rendering.py, answered later

A request is either applied, or refused with {"error": …}; core/requests declares the kinds and their options. The
answer is stored in the transaction that stores the effects, so no crash can apply a request twice or answer it without
effect, and a request that is withdrawn has none. Any other exception is a bug in aiosched: it is logged, answered as
such, and everything is read again, since it is not known how far applying the request got.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar

import asyncpg

from aiosched.core.requests.requests import CancelRun, DeleteDag, EmitAsset, Pause, ReleaseDag, Trigger, Unpause
from aiosched.core.requests.stored import decode
from aiosched.core.values.commands import command_line
from aiosched.core.values.ids import partition_of
from aiosched.core.values.states import RUN_FINISHED
from aiosched.db.server.failures import is_of_database
from aiosched.db.statements import inbox, runs
from aiosched.db.statements.inbox import RequestResult, WaitingRequest
from aiosched.db.statements.schedules import schedule_positions
from aiosched.db.upkeep.dag_deletion import delete_dag
from aiosched.errors import (
    AioschedError,
    DagError,
    DagFailure,
    InternalError,
    NotFound,
    Refused,
    StaleRows,
)
from aiosched.scheduler.failures.remembered import MOST_ATTEMPTS
from aiosched.scheduler.memory.cache import OwnedDag
from aiosched.scheduler.partitions.loading import plan_next, reload_dags, set_paused
from aiosched.scheduler.partitions.quarantine import release
from aiosched.scheduler.requests import clearing, schedules
from aiosched.scheduler.requests.answers import answer_input
from aiosched.scheduler.requests.continuing import continue_schedule
from aiosched.scheduler.requests.notes import set_note
from aiosched.scheduler.requests.preview import is_preview
from aiosched.scheduler.requests.rendering import render
from aiosched.scheduler.requests.runs_meant import no_run
from aiosched.scheduler.requests.triggers import PlannedRuns, PlannedTrigger, create_triggered, plan_trigger
from aiosched.scheduler.runs import backfills
from aiosched.scheduler.runs.asset_runs import emit_event
from aiosched.scheduler.runs.queued_ends import fail_queued
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

R = TypeVar("R")

_REQUESTS_PER_PASS: Final = 200
_POISONOUS: Final = (
    f"{MOST_ATTEMPTS} schedulers died or stalled while they applied it, so no other one tries. "
    "Please report it with the request and the schedulers' logs."
)


async def apply_requests(session: Session) -> bool:
    """Apply the waiting requests for our partitions, in the order they were made; returns whether more may wait.

    Those that are made meanwhile do not count: each is announced.

    Call it with `locks.ownership` held. Raises StaleRows if one of them hits a bug; those after it still wait.
    """
    begun = session.env.attempts.renderings  # which are answered later
    applied = session.cache.unstored.answers()  # read before the query: an answer may be committed while it runs
    requests = await inbox.waiting_requests(session.env.db, sorted(session.cache.partitions), limit=_REQUESTS_PER_PASS)
    is_full = len(requests) == _REQUESTS_PER_PASS
    requests = [row for row in requests if row.id not in applied and row.id not in begun]
    if not requests:
        return False
    done: list[int] = []
    for together in _passes(requests):
        async with _counted(session, together):
            buggy = await _apply_in_turn(session, together, done)
        if buggy is not None:
            break
    await inbox.announce_applied(session.env.db, done)
    session.env.requests.forget(done)
    if buggy is not None:
        raise StaleRows(f"The request {buggy.verb!r} hit a bug in aiosched")
    if all(row.verb == "trigger" for row in requests):  # they have woken what runs need
        session.wakeups.creation.wake()
    else:
        session.wakeups.wake_all()
    return is_full


async def _apply_in_turn(
    session: Session, requests: Sequence[WaitingRequest], done: list[int]
) -> WaitingRequest | None:
    """Apply requests in their order; returns one that hit a bug, after which none is applied.

    The runs of triggers in a row are stored together. The ids of answered requests are added to `done`.
    """
    waiting = PlannedRuns()
    for row in requests:
        if not _can_wait(session, row, waiting) and (buggy := await _store_runs(session, waiting.take(), done)):
            return buggy
        outcome = await _guarded(row, _apply(session, row, waiting))
        if isinstance(outcome, PlannedTrigger):
            if not waiting.fits(outcome) and (buggy := await _store_runs(session, waiting.take(), done)):
                return buggy
            waiting.add(outcome)
        elif await _answer(session, row, outcome, done):
            return row
    return await _store_runs(session, waiting.take(), done)


def _can_wait(session: Session, row: WaitingRequest, waiting: PlannedRuns) -> bool:
    """Whether applying the request changes nothing for runs that wait to be stored, nor their DAGs in memory."""
    if row.verb != "trigger" or _is_outdated(session, row):
        return False
    dag = session.cache.dags.get(row.dag_id or "")
    args = row.args if isinstance(row.args, Mapping) else {}
    if waiting.have_key(row.dag_id, args.get("unique")):
        return False
    return dag is None or not (args.get("unpause") and dag.row.is_paused)


async def _store_runs(session: Session, planned: Sequence[PlannedTrigger], done: list[int]) -> WaitingRequest | None:
    """Store planned runs, each by itself if that does not work; returns the request of one that hit a bug."""
    if len(planned) > 1:
        try:
            answers = await create_triggered(session, planned)
        except (OverflowError, asyncpg.DataError):  # of one of them
            pass
        else:
            for one, answer in zip(planned, answers, strict=True):
                await _answer(session, one.row, answer, done)
            return None
    for one in planned:
        if await _answer(session, one.row, await _guarded(one.row, _create_one(session, one)), done):
            return one.row
    return None


async def _create_one(session: Session, one: PlannedTrigger) -> RequestResult | None:
    return (await create_triggered(session, [one]))[0]


async def _answer(session: Session, row: WaitingRequest, answer: RequestResult | None, done: list[int]) -> bool:
    """Store the answer to a request, unless it is stored (None); returns whether the request hit a bug."""
    if answer is not None:
        async with session.env.side_journal.transaction() as transaction:
            await transaction.store_answer(row.id, answer)
    error = None if answer is None else answer.error
    words = "applied" if error is None else f"refused: {' '.join(str(error).split()):.500}"
    logger.info("%s by %s is %s", row.verb, row.requested_by, words, extra={"dag_id": row.dag_id})
    done.append(row.id)
    return answer is not None and answer.is_bug


def _passes(requests: Sequence[WaitingRequest]) -> list[Sequence[WaitingRequest]]:
    """All requests at once, unless an owner did not survive one of them: then each by itself, to find out which."""
    return [[row] for row in requests] if any(row.attempts for row in requests) else [requests]


@contextlib.asynccontextmanager
async def _counted(session: Session, requests: Sequence[WaitingRequest]) -> AsyncIterator[None]:
    """Store that these requests are begun; if this process ends in the block, its successor knows."""
    attempts = session.env.requests
    begun = attempts.begin(row for row in requests if not attempts.is_poisonous(row))
    try:
        await inbox.count_attempts(session.env.db, begun)  # perhaps stored, too, if it raises
        yield
    finally:
        attempts.survive(begun)


async def _apply(session: Session, row: WaitingRequest, waiting: PlannedRuns) -> RequestResult | PlannedTrigger | None:
    """Apply a request; returns the answer to store, or None if it is stored already. A run is only planned."""
    if session.env.requests.is_poisonous(row):
        logger.error("the request %s by %s is refused: %s", row.verb, row.requested_by, _POISONOUS)
        return RequestResult("refused", {"error": f"{row.verb}: {_POISONOUS}", "exit_code": Refused.exit_code})
    request = decode(row.verb, row.args)
    if is_preview(request):
        raise Refused("A request with dry_run is not applied: whoever asks reads from the rows what it would touch.")
    if isinstance(request, EmitAsset):
        return await emit_event(session, request, row.id)
    if isinstance(request, ReleaseDag):
        await release(session, row.dag_id or "", row.id)
        return None
    session.cache.quarantine.refuse_dag(row.dag_id)
    dag = await _dag_of(session, row)
    if dag is None or row.verb in ("trigger", "backfill_create"):
        session.cache.unreadable.refuse_dag(row.dag_id)
    if dag is None:
        raise NotFound(f"There is no DAG {row.dag_id!r}; see `aiosched dags list`.")
    if isinstance(request, Trigger):
        one = await plan_trigger(session, dag, request, row, waiting.others(dag))
        if isinstance(one, PlannedTrigger) and request.unpause and dag.row.is_paused:
            await _unpause_for(session, one)
        return one
    result = await HANDLERS[row.verb](session, dag, request, row.id)
    return None if result is None else RequestResult("applied", result)


async def _guarded(row: WaitingRequest, work: Awaitable[R]) -> R | RequestResult:
    """What `work` for a request returns, or the refusal to store."""
    try:
        return await work
    except (Refused, NotFound, DagError) as error:
        return RequestResult("refused", {"error": str(error), "exit_code": _exit_code(error)})
    except (OverflowError, asyncpg.DataError) as error:  # a number or a text that PostgreSQL cannot store
        return RequestResult("refused", {"error": f"{row.verb}: unusable arguments ({error!r})", "exit_code": 2})
    except Exception as error:
        if isinstance(error, DagFailure | ExceptionGroup) or is_of_database(error):
            raise
        logger.exception("the request %s by %s hit a bug", row.verb, row.requested_by)
        message = f"{row.verb} hit a bug in the scheduler ({error!r}); its log has the details. Please report it."
        return RequestResult("refused", {"error": message, "exit_code": InternalError.exit_code})


async def _dag_of(session: Session, row: WaitingRequest) -> OwnedDag | None:
    """The DAG of a request, at least as new as when the request was made, whether or not a change was announced yet.

    So a run that is triggered after a new version was stored has that version.
    """
    if _is_outdated(session, row):
        partition = partition_of(row.dag_id or "")
        session.notifications.changed_dags.discard(partition)
        await reload_dags(session, {partition})
    return session.cache.dags.get(row.dag_id or "")


def _is_outdated(session: Session, row: WaitingRequest) -> bool:
    """Whether the DAG of a request is to be read again."""
    dag = session.cache.dags.get(row.dag_id or "")
    held = None if dag is None else (dag.row.version_id, dag.row.is_stale, dag.row.has_import_errors)
    return partition_of(row.dag_id or "") in session.notifications.changed_dags or held != row.dag


def _exit_code(error: AioschedError) -> int:
    return error.exit_code if isinstance(error, (NotFound, Refused)) else Refused.exit_code


async def _unpause_for(session: Session, one: PlannedTrigger) -> None:
    """Unpause the DAG of a run, unless it exists already: then it is refused, and the DAG stays paused."""
    dag, planned = one.creation.dag, one.creation.planned
    taken = await runs.find_run(
        session.env.db, dag.row.dag_id, run_id=planned.run_id, logical_date=planned.logical_date
    )
    if taken is None:
        await _set_paused(session, dag, False)


async def _pause(session: Session, dag: OwnedDag, _: Pause, number: int) -> None:
    await _set_paused(session, dag, True, answering=number)


async def _unpause(session: Session, dag: OwnedDag, _: Unpause, number: int) -> None:
    await _set_paused(session, dag, False, answering=number)


async def _set_paused(session: Session, dag: OwnedDag, is_paused: bool, *, answering: int | None = None) -> None:
    async with session.env.side_journal.transaction() as transaction:
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
            session.context.answer(number, RequestResult("applied", {"run_id": run_id}))
            session.context.apply_effects(board)
            session.cache.work.to_evaluate[board] = None  # its teardowns may start now
            return
    for run in list(dag.runs.queued):
        if run.run_id == run_id:
            await fail_queued(session, run, "cancelled", now, answering=number)
            return
    found = await runs.find_run(session.env.db, dag.row.dag_id, run_id=run_id)
    if found is None:
        raise no_run(dag.row.dag_id, run_id)
    if not (ended := found.state in RUN_FINISHED):
        session.cache.unreadable.refuse_run(found)
    raise Refused(
        f"Run {run_id!r} is {found.state} already." if ended else f"Run {run_id!r} is just starting; try again."
    )


async def _delete_dag(session: Session, dag: OwnedDag, _: DeleteDag, number: int) -> None:
    if dag.runs.running:
        raise Refused(
            f"DAG {dag.row.dag_id!r} has {len(dag.runs.running)} running runs; cancel them first "
            f"(`{command_line('runs cancel', dag.row.dag_id)} …`)."
        )
    async with session.env.side_journal.transaction() as transaction:
        await delete_dag(transaction.conn, dag.row.dag_id)
        await transaction.answer(number, {})
    session.cache.drop_dag(dag.row.dag_id)


# (session, DAG, request, its number) -> the result, or None if the function has stored the answer already
Handler = Callable[[Session, OwnedDag, Any, int], Awaitable[dict[str, Any] | None]]

HANDLERS: Final[Mapping[str, Handler]] = MappingProxyType(
    {
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
        "schedule_set": schedules.set_schedule,
        "schedule_pause": schedules.pause_schedule,
        "schedule_resume": schedules.resume_schedule,
        "schedule_remove": schedules.remove_schedule,
        "backfill_create": backfills.create_backfill,
        "backfill_pause": backfills.pause_backfill,
        "backfill_resume": backfills.resume_backfill,
        "backfill_cancel": backfills.cancel_backfill,
    }
)
