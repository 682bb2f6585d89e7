"""Changing runs that are not held as boards: queued and finished ones.

They are read, changed and stored in one transaction of the command journal; memory is updated after the
commit. Does not live here: what is changed, and running runs (clearing.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import Final

from aiosched.core.run.board import Board, Instance, Run
from aiosched.core.values.states import RUN_FINISHED, RunState
from aiosched.db.statements import clearing
from aiosched.db.statements.runs import copy_instances, load_instances, load_runs
from aiosched.errors import StaleRows
from aiosched.scheduler.effects.deadlines import watch_deadlines
from aiosched.scheduler.journal.journal import Transaction
from aiosched.scheduler.runs.incomplete import complete
from aiosched.scheduler.runs.moving import added_instances, moving
from aiosched.scheduler.session.session import Session
from aiosched.scheduler.slots.enqueueing import store
from aiosched.scheduler.state.cache import OwnedDag, make_board
from aiosched.scheduler.state.changes import Changes
from aiosched.scheduler.state.decision_context import DecisionContext
from aiosched.scheduler.state.version_reading import ensure_versions

Moves = Callable[[Run, Sequence[Instance]], bool]  # whether a run of an older version, with these instances, is moved

_POLL_SECONDS: Final = 0.5  # seconds


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
    an older DAG version that `moves` chooses, by their instances, are moved to the newest. Call `settle` after the
    commit.
    """
    conn = transaction.conn
    waiting = {run.key: run for run in dag.runs.queued}
    runs = [waiting.get(run.key, run) for run in await load_runs(conn, keys)]
    await ensure_versions(session.cache, conn, {run.version_id for run in runs})
    await complete(session.cache, conn, runs)
    instances = await load_instances(conn, [run.key for run in runs])
    if moves is not None:
        older = [run for run in runs if run.version_id != dag.version.id and moves(run, instances[run.key])]
        await _move(session, transaction, dag, older)
        instances |= await load_instances(conn, [run.key for run in older])
    return [make_board(run, *session.cache.versions[run.version_id], instances[run.key]) for run in runs]


async def store_boards(session: Session, transaction: Transaction, boards: Iterable[Board]) -> None:
    """Store what changed on boards that are not held."""
    batch = Changes()
    for board in boards:
        session.cache.collect_board(board, batch)
    if not batch.is_empty:
        await transaction.write(batch)
        watch_deadlines(session, batch.runs.deadlines)


def settle(context: DecisionContext, dag: OwnedDag, boards: Iterable[Board]) -> None:
    """Update memory after the commit of boards that are not held."""
    waiting = {run.key for run in dag.runs.queued}
    for board in boards:
        run = board.run
        run.is_incomplete = run.is_as_created = False
        context.cache.work.to_evaluate.update(dict.fromkeys(context.cache.previous_run_index.notify_followers(board)))
        if run.state is RunState.QUEUED and run.key not in waiting:
            dag.runs.queued.append(run)
        elif run.state in RUN_FINISHED and run.key in waiting:
            dag.runs.queued.remove(run)
            context.on_run_end(run)
    context.cache.work.to_start[dag.row.dag_id] = None
    context.cache.plan(dag)
    context.wakeups.creation.wake()


async def clear_whole_runs(
    session: Session, transaction: Transaction, dag: OwnedDag, keys: Sequence[int], now: datetime
) -> list[Board]:
    """Clear every task instance of finished runs; call `settle` with the result after the commit."""
    boards = await load_boards(session, transaction, dag, keys)
    for board in boards:
        board.clear(list(board), now)
    await store_boards(session, transaction, boards)
    return boards


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
