"""Clearing and marking: requests about task instances and runs that exist.

    clear       {run_ids, past, future, from, to, task_ids, pattern, upstream, downstream, only_failed, only_running,
                 map_index, dependents, prevent_running, newest_version, dry_run} -> {count, runs, states,
                 instances: [{run_id, task_id, map_index, state, try_number}, …], dependents: those in other runs}
    mark_tasks  the same selection and {state: success|failed|skipped} -> the same
    mark_run    {run_id, state: success|failed|queued} -> {run_id, state}

Without `run_ids` a request applies to the runs with a logical date in [from, to], and without those to
all runs; `past` and `future` add the runs before and after the named ones, by logical date. The id of a
task that only some of the runs have selects only those runs. selection.py decides which instances a request
selects, the board (core/run/board.py) what happens to a run. Held runs are changed in memory and stored by the
journal, together with the answer; all others are changed before (stored_runs.py). So an interrupted request
is applied again from the beginning: nothing that it queued has started.

Source: the semantics reference, section 28.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from aiosched.core.requests.requests import Clear, MarkRun, MarkTasks, TaskChange
from aiosched.db.statements.clearing import RunOfRequest
from aiosched.db.statements.inbox import CommandResult, NewRequest
from aiosched.db.statements.runs import load_instances
from aiosched.scheduler.requests.dependents import Dependents, SelectedRun, find_dependents
from aiosched.scheduler.requests.preview import touched_by
from aiosched.scheduler.requests.runs_meant import chunks, runs_meant, runs_named
from aiosched.scheduler.requests.selection import (
    Change,
    ChangeOf,
    InstanceSelection,
    TouchedInstances,
    clearing,
    marking,
    marking_run,
    note_selected,
    noted,
    refuse_held,
    select,
)
from aiosched.scheduler.runs.stored_runs import Moves, load_boards, settle, store_boards, until_stored
from aiosched.scheduler.session.session import Session
from aiosched.scheduler.state.cache import OwnedDag
from aiosched.scheduler.state.version_reading import ensure_versions

# -- the verbs --------------------------------------------------------------------------------


async def clear(session: Session, dag: OwnedDag, request: Clear, number: int) -> dict[str, Any] | None:
    """Let task instances run again (28.2, 28.3)."""
    return await _change(session, dag, request, clearing(request), number)


async def mark_tasks(session: Session, dag: OwnedDag, request: MarkTasks, number: int) -> dict[str, Any] | None:
    """Set task instances to success, failed or skipped (28.4)."""
    return await _change(session, dag, request, marking(request), number)


async def mark_run(session: Session, dag: OwnedDag, request: MarkRun, number: int) -> None:
    """Set a run to success or failed with all that is unfinished in it, or queue it again (28.5)."""
    async with session.env.db.acquire() as conn:
        (run,) = await runs_named(conn, dag.row.dag_id, [request.run_id])
    change = marking_run(request.state, run.run_id, is_running=run.key in dag.runs.running)
    answer = {"run_id": run.run_id, "state": request.state}
    await _apply(session, dag, number, [run], change, lambda: answer)


async def _change(
    session: Session, dag: OwnedDag, request: TaskChange, change: ChangeOf, number: int
) -> dict[str, Any] | None:
    cache = session.cache
    async with session.env.db.acquire() as conn:
        if request.dry_run:  # sent by an older aiosched; newer ones read the preview themselves
            return await touched_by(conn, cache, dag.row.dag_id, dag.version.id, request)
        runs = await runs_meant(conn, dag.row.dag_id, request)
        versions = {run.version_id for run in runs} | {dag.version.id}
        await ensure_versions(cache, conn, versions)
    selection = select({v: cache.versions[v][1] for v in versions}, dag.version.id, request)
    touched = TouchedInstances()

    def refuse() -> None:
        refuse_held(selection, [dag.runs.running[run.key] for run in runs if run.key in dag.runs.running], request)

    reached = await _dependents(session, dag, runs, selection, request)
    on_board = noted(selection, touched, change)

    def answer() -> dict[str, Any]:
        return touched.answer() | ({"dependents": reached.shown()} if reached.instances else {})

    following = reached.requests(request, number) if isinstance(request, Clear) else []
    await _apply(
        session,
        dag,
        number,
        runs,
        on_board,
        answer,
        moves=partial(note_selected, selection, touched) if request.newest_version else None,
        refuse=refuse,
        following=following,
    )
    return None


async def _dependents(
    session: Session, dag: OwnedDag, runs: Sequence[RunOfRequest], selection: InstanceSelection, request: TaskChange
) -> Dependents:
    """What a request to clear reaches in other DAGs (28.6)."""
    if not isinstance(request, Clear) or not request.dependents or not selection.has_markers:
        return Dependents()
    held = dag.runs.running
    async with session.env.db.acquire() as conn:
        rows = await load_instances(conn, [run.key for run in runs if run.key not in held])
        selected = []
        for run in runs:
            found = held[run.key] if run.key in held else rows[run.key]
            graph, chosen = selection.graphs[run.version_id], selection.of(run.version_id, found)
            selected.append(SelectedRun(dag.row.dag_id, run, graph, chosen))
        return await find_dependents(conn, session.cache, selected, request)


# -- changing it ------------------------------------------------------------------------------


async def _apply(
    session: Session,
    dag: OwnedDag,
    number: int,
    runs: Sequence[RunOfRequest],
    change: Change,
    answer: Callable[[], dict[str, Any]],
    *,
    moves: Moves | None = None,
    refuse: Callable[[], None] | None = None,
    following: Sequence[NewRequest] = (),
) -> None:
    """Change the runs, those that are not held first; the transaction of the last change stores the answer.

    No run starts meanwhile (the caller holds `locks.ownership`), but running ones may end.
    `refuse` is called right before the first change, and may raise Refused. The requests `following` are stored with
    the answer.
    """
    now = session.env.clock.now()
    async with session.env.db.acquire() as conn:
        await ensure_versions(session.cache, conn, {run.version_id for run in runs})
    if refuse is not None:
        refuse()
    left = {run.key: run for run in runs}
    while others := [run for run in left.values() if run.key not in dag.runs.running]:
        chunk = next(iter(chunks(session.cache.versions, others)))
        keys = [run.key for run in chunk]
        await until_stored(session, keys)
        is_last = len(chunk) == len(left)
        async with session.env.command_journal.transaction() as transaction:
            boards = await load_boards(session, transaction, dag, keys, moves=moves)
            for board in boards:
                change(board, now)
            await store_boards(session, transaction, boards)
            if is_last:
                await transaction.answer(number, answer(), following)
        settle(session.context, dag, boards)
        if is_last:
            return
        for key in keys:
            del left[key]
    for key in left:
        board = dag.runs.running[key]
        change(board, now)
        session.context.apply_effects(board)
        session.cache.work.to_evaluate[board] = None
    session.context.answer(number, CommandResult("applied", answer()), following)
    session.wakeups.evaluation.wake()
