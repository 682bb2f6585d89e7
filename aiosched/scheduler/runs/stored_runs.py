"""Changing runs on request: those that are held in memory, and queued and finished ones, which are not.

Those that are not held are read, changed and stored in transactions of their own; memory is updated after the commit.
The journal stores the others. So an interrupted request is applied again from the beginning: nothing that it queued
has started. Does not live here: what is changed (scheduler/requests/clearing.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from aiosched.core.creation.moving import added_instances, moving
from aiosched.core.requests.instance_changes import Change
from aiosched.core.run.board import Board, Instance, Run
from aiosched.db.statements import clearing
from aiosched.db.statements.clearing import RunOfRequest
from aiosched.db.statements.inbox import NewRequest, RequestResult
from aiosched.db.statements.runs import copy_instances, load_instances, load_runs
from aiosched.errors import StaleRows
from aiosched.scheduler.effects.deadlines import watch_deadlines
from aiosched.scheduler.journal.journal import Transaction
from aiosched.scheduler.memory.cache import OwnedDag, Versions, make_board
from aiosched.scheduler.memory.changes import Changes
from aiosched.scheduler.memory.version_reading import ensure_versions
from aiosched.scheduler.runs.incomplete import complete
from aiosched.scheduler.session.session import Session
from aiosched.scheduler.slots.storing import store

Moves = Callable[[Run, Sequence[Instance]], bool]  # whether a run of an older version, with these instances, is moved

INSTANCES_PER_TRANSACTION: Final = 5_000
_POLL_SECONDS: Final = 0.5  # seconds


async def change_runs(
    session: Session,
    dag: OwnedDag,
    number: int,
    runs: Sequence[RunOfRequest],
    change: Change,
    answer: Mapping[str, Any],
    *,
    moves: Moves | None = None,
    refuse: Callable[[Sequence[Board]], None] | None = None,
    following: Sequence[NewRequest] = (),
) -> None:
    """Change the runs of request `number`, those that are not held first; the last transaction stores the answer.

    `answer` is read after the last change. No run starts meanwhile (the caller holds `locks.ownership`), but running
    ones may end. `refuse` is called with the running ones before the first change, and may raise Refused. The requests
    `following` are stored with the answer.
    """
    now, held = session.env.clock.now(), dag.runs.running
    async with session.env.db.acquire() as conn:
        await ensure_versions(session.cache, conn, {run.version_id for run in runs})
    if refuse is not None and (boards := [held[run.key] for run in runs if run.key in held]):
        refuse(boards)
    left = {run.key: run for run in runs}
    while others := [run for run in left.values() if run.key not in held]:
        keys = [run.key for run in next(iter(chunks(session.cache.versions, others)))]
        await until_stored(session, keys)
        is_last = len(keys) == len(left)
        async with session.env.side_journal.transaction() as transaction:
            boards = await change_stored(session, transaction, dag, keys, change, now, moves=moves)
            if is_last:
                await transaction.answer(number, dict(answer), following)
        session.context.settle(dag, boards)
        if is_last:
            return
        for key in keys:
            del left[key]
    for key in left:
        board = held[key]  # until its change ends the run
        change(board, now)
        session.context.apply_effects(board)
        session.cache.work.to_evaluate[board] = None
    session.context.answer(number, RequestResult("applied", dict(answer)), following)
    session.wakeups.evaluation.wake()


def chunks(versions: Versions, runs: Sequence[RunOfRequest]) -> Iterable[list[RunOfRequest]]:
    """The runs in order, in chunks whose task instances fit one transaction."""
    chunk: list[RunOfRequest] = []
    size = 0
    for run in runs:
        tasks = len(versions[run.version_id][1])
        if chunk and size + tasks > INSTANCES_PER_TRANSACTION:
            yield chunk
            chunk, size = [], 0
        chunk.append(run)
        size += tasks
    if chunk:
        yield chunk


async def until_stored(session: Session, keys: Collection[int]) -> None:
    """Wait until the end of each of these runs is committed: until then their rows show them as running.

    Raises StaleRows if the scheduler stops meanwhile.
    """
    while any(board.run.key in keys for board in session.cache.unstored.runs_that_end()):
        if session.wakeups.enqueueing.stopping:
            raise StaleRows("The scheduler is stopping before the end of a run is stored")
        if not session.locks.loaded.is_set():  # the loop that would store it waits until this request is applied
            await store(session)
            continue
        session.locks.progress.clear()
        session.wakeups.enqueueing.wake()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_POLL_SECONDS):
                await session.locks.progress.wait()


async def change_stored(
    session: Session,
    transaction: Transaction,
    dag: OwnedDag,
    keys: Sequence[int],
    change: Change,
    now: datetime,
    *,
    moves: Moves | None = None,
) -> list[Board]:
    """Change runs that are not held; returns their boards, for `DecisionContext.settle` after the commit."""
    boards = await load_boards(session, transaction, dag, keys, moves=moves)
    batch = Changes()
    for board in boards:
        change(board, now)
        session.cache.collect_board(board, batch)
    if not batch.is_empty:
        await transaction.write(batch)
        watch_deadlines(session, batch.runs.deadlines)
    return boards


async def load_boards(
    session: Session,
    transaction: Transaction,
    dag: OwnedDag,
    keys: Sequence[int],
    *,
    moves: Moves | None = None,
) -> list[Board]:
    """Boards of runs that are not held, oldest first, for a change that is stored in the same transaction.

    Boards of queued runs share the `Run` objects that wait to start. Incomplete runs are completed. Those of
    an older DAG version that `moves` chooses, by their instances, are moved to the newest.
    """
    conn = transaction.conn
    waiting = {run.key: run for run in dag.runs.queued}
    runs = [waiting.get(run.key, run) for run in await load_runs(conn, keys)]
    await ensure_versions(session.cache, conn, {run.version_id for run in runs})
    if any(run.is_incomplete for run in runs):
        await complete(session.cache, conn, runs)
    instances = await load_instances(conn, [run.key for run in runs])
    if moves is not None:
        older = [run for run in runs if run.version_id != dag.version.id and moves(run, instances[run.key])]
        await _move(session, transaction, dag, older)
        instances |= await load_instances(conn, [run.key for run in older])
    return [make_board(run, *session.cache.versions[run.version_id], instances[run.key]) for run in runs]


async def clear_whole_runs(
    session: Session, transaction: Transaction, dag: OwnedDag, keys: Sequence[int], now: datetime
) -> list[Board]:
    """Clear every task instance of finished runs; returns their boards, see `change_stored`."""
    return await change_stored(session, transaction, dag, keys, lambda board, now: board.clear(list(board), now), now)


# -- moving runs to the newest version ----------------------------------------------------------


async def _move(session: Session, transaction: Transaction, dag: OwnedDag, runs: Sequence[Run]) -> None:
    """Pin runs to the newest version: instances, tries and XComs follow their task ids (10.2).

    New tasks get instances without a state. Tasks that no longer exist leave the run together with
    their history, and so do tasks whose mapping has changed, which then start afresh.
    """
    by_version: dict[int, list[Run]] = {}
    for run in runs:
        by_version.setdefault(run.version_id, []).append(run)
    for version_id, same in by_version.items():
        move = moving(session.cache.versions[version_id][1], dag.graph)
        await clearing.move_runs(transaction.conn, [run.key for run in same], dag.version.id, move.moved, move.gone)
        added = [
            (run.key, new.task, new.map_index, new.max_tries)
            for run in same
            for new in added_instances(dag.graph, run, move)
        ]
        await copy_instances(transaction.conn, added)
        for run in same:
            run.version_id = dag.version.id
