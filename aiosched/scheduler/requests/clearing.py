"""Clearing and marking: requests about task instances and runs that exist.

    clear       {run_ids, past, future, from, to, task_ids, pattern, upstream, downstream, only_failed, only_running,
                 map_index, prevent_running, newest_version, dry_run} -> {count, runs, states, instances: [{run_id,
                 task_id, map_index, state, try_number}, …]}
    mark_tasks  the same selection and {state: success|failed|skipped} -> the same
    mark_run    {run_id, state: success|failed|queued} -> {run_id, state}

Without `run_ids` the runs with a logical date in [from, to] are meant, without those too all
runs; `past` and `future` add the runs before and after those named, by logical date. An id of a
task that only some of the runs have is about those. What a request means is decided in
selection.py, what it does to a run by its board (core/run/board.py). Runs that are held are changed
in memory and stored by the journal, together with the answer; all others before
(stored_runs.py), so a request that was interrupted is applied again from its beginning: nothing
that it queued has started.

Source: the semantics reference, section 28.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from aiosched.core.run.board import Instance
from aiosched.core.values.states import RunState
from aiosched.db.statements import clearing as clearing_statements
from aiosched.db.statements.clearing import RunOfRequest
from aiosched.db.statements.inbox import Command, CommandResult
from aiosched.db.statements.runs import load_instances
from aiosched.errors import NotFound, Refused
from aiosched.scheduler.requests.selection import (
    Change,
    ChangeOf,
    Selection,
    Touched,
    clearing,
    marking,
    marking_run,
    noted,
    reach,
    refuse_moving,
    refuse_running,
    select,
)
from aiosched.scheduler.runs.stored_runs import load_boards, settle, store_boards, until_stored
from aiosched.scheduler.session.session import Session
from aiosched.scheduler.state.cache import OwnedDag
from aiosched.scheduler.state.version_reading import ensure_versions

_INSTANCES_PER_TRANSACTION: Final = 5_000


# -- the verbs --------------------------------------------------------------------------------


async def clear(session: Session, dag: OwnedDag, command: Command) -> dict[str, Any] | None:
    """Let task instances run again (28.2, 28.3)."""
    return await _change(session, dag, command, clearing(command.args))


async def mark_tasks(session: Session, dag: OwnedDag, command: Command) -> dict[str, Any] | None:
    """Set task instances to success, failed or skipped (28.4)."""
    return await _change(session, dag, command, marking(command.args))


async def mark_run(session: Session, dag: OwnedDag, command: Command) -> dict[str, Any] | None:
    """Set a run to success or failed with all that is unfinished in it, or queue it again (28.5)."""
    state = RunState(str(command.args["state"]))
    (run,) = await _runs(session, dag, {"run_ids": [command.args["run_id"]]})
    change = marking_run(state, run.run_id, is_running=run.key in dag.running)
    answer = {"run_id": run.run_id, "state": state}
    await _apply(session, dag, command, [run], change, lambda: answer)
    return None


async def _change(session: Session, dag: OwnedDag, command: Command, change: ChangeOf) -> dict[str, Any] | None:
    args = command.args
    newest_version = bool(args.get("newest_version"))
    runs = await _runs(session, dag, args)
    versions = {run.version_id for run in runs} | {dag.version.id}
    async with session.env.db.acquire() as conn:
        await ensure_versions(session.cache, conn, versions)
    selection = select({v: session.cache.versions[v][1] for v in versions}, dag.version.id, args)
    touched = Touched()

    def refuse() -> None:
        if args.get("prevent_running"):
            refuse_running(selection, [dag.running[run.key] for run in runs if run.key in dag.running])

    if args.get("dry_run"):
        refuse()
        await _look(session, dag, runs, selection, touched)
        return touched.answer()
    for run in runs if newest_version else ():
        if run.key in dag.running and run.version_id != dag.version.id:
            refuse_moving(run.run_id)
    on_board = noted(selection, touched, change)
    await _apply(session, dag, command, runs, on_board, touched.answer, newest_version=newest_version, refuse=refuse)
    return None


# -- what is meant ----------------------------------------------------------------------------


def _instant(value: str) -> datetime:
    instant = datetime.fromisoformat(value)
    if instant.tzinfo is None:
        raise Refused(f"{value} has no time zone; write it with one, like {value}+00:00.")
    return instant


async def _runs(session: Session, dag: OwnedDag, args: Mapping[str, Any]) -> list[RunOfRequest]:
    """The runs that a request is about. Raises NotFound for a run id that does not exist."""
    dag_id = dag.row.dag_id
    async with session.env.db.acquire() as conn:
        if args.get("run_ids") is None:
            reach((), args)
            first, final = (_instant(args[key]) if args.get(key) else None for key in ("from", "to"))
            return await clearing_statements.runs_between(conn, dag_id, first, final)
        wanted = dict.fromkeys(str(run_id) for run_id in args["run_ids"])
        found = {run.run_id: run for run in await clearing_statements.runs_by_id(conn, dag_id, list(wanted))}
        for run_id in wanted:
            if run_id not in found:
                raise NotFound(f"DAG {dag_id!r} has no run {run_id!r}; see `aiosched dags runs {dag_id}`.")
        named = [found[run_id] for run_id in wanted]
        dates = reach(((run.run_id, run.logical_date) for run in named), args)
        if dates is None:
            return named
        return [
            run for run in await clearing_statements.runs_between(conn, dag_id, *dates) if dates.have(run.logical_date)
        ]


async def _look(
    session: Session, dag: OwnedDag, runs: Sequence[RunOfRequest], selection: Selection, touched: Touched
) -> None:
    """Note what a request means, without a change."""
    for chunk in _chunks(session, runs):
        async with session.env.db.acquire() as conn:
            instances = await load_instances(conn, [run.key for run in chunk if run.key not in dag.running])
        for run in chunk:
            board = dag.running.get(run.key)
            rows: Iterable[Instance] = instances.get(run.key, ()) if board is None else board
            graph = session.cache.versions[run.version_id][1]
            touched.note(run.run_id, graph, selection.of(run.version_id, rows))


def _chunks(session: Session, runs: Sequence[RunOfRequest]) -> Iterable[list[RunOfRequest]]:
    """Runs in their order, so many at a time that their task instances fit one transaction."""
    chunk: list[RunOfRequest] = []
    size = 0
    for run in runs:
        tasks = len(session.cache.versions[run.version_id][1])
        if chunk and size + tasks > _INSTANCES_PER_TRANSACTION:
            yield chunk
            chunk, size = [], 0
        chunk.append(run)
        size += tasks
    if chunk:
        yield chunk


# -- changing it ------------------------------------------------------------------------------


async def _apply(
    session: Session,
    dag: OwnedDag,
    command: Command,
    runs: Sequence[RunOfRequest],
    change: Change,
    answer: Callable[[], dict[str, Any]],
    *,
    newest_version: bool = False,
    refuse: Callable[[], None] | None = None,
) -> None:
    """Change the runs, those that are not held first, and answer in the transaction that stores the last change.

    No run starts meanwhile (the caller holds `locks.ownership`), but running ones may end.
    `refuse` raises Refused before anything is changed, by what holds then.
    """
    now = session.env.clock.now()
    async with session.env.db.acquire() as conn:
        await ensure_versions(session.cache, conn, {run.version_id for run in runs})
    if refuse is not None:
        refuse()
    left = {run.key: run for run in runs}
    while others := [run for run in left.values() if run.key not in dag.running]:
        chunk = next(iter(_chunks(session, others)))
        keys = [run.key for run in chunk]
        await until_stored(session, keys)
        is_last = len(chunk) == len(left)
        async with session.env.command_journal.transaction() as transaction:
            boards = await load_boards(session, transaction, dag, keys, newest_version=newest_version)
            for board in boards:
                change(board, now)
            await store_boards(session, transaction, boards)
            if is_last:
                await transaction.answer(command.id, answer())
        settle(session.context, dag, boards)
        if is_last:
            return
        for key in keys:
            del left[key]
    for key in left:
        board = dag.running[key]
        change(board, now)
        session.context.apply_effects(board)
        session.cache.work.to_evaluate[board] = None
    session.context.answer(command.id, CommandResult("applied", answer()))
    session.wakeups.evaluation.wake()
