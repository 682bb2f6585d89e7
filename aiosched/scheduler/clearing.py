"""Clearing and marking: requests about task instances and runs that exist.

    clear       {run_ids, from, to, task_ids, pattern, upstream, downstream, only_failed, only_running, map_index,
                 dry_run} -> {count, runs, instances: [{run_id, task_id, map_index, state, try_number}, …]}
    mark_tasks  the same selection and {state: success|failed|skipped} -> the same
    mark_run    {run_id, state: success|failed|queued} -> {run_id, state}

Without `run_ids` the runs with a logical date in [from, to] are meant, without those too all
runs. What they do to a run is decided by its board (core/board.py). Runs that are held are
changed in memory and stored by the journal; all others are read, changed and stored in one
transaction. Source: the semantics reference, section 28.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from aiosched.core.board import Board, Instance, Run
from aiosched.core.clearing import choose, select_tasks
from aiosched.core.states import RUN_FINISHED, RunState, TaskState
from aiosched.db import runs as statements
from aiosched.db.inbox import Command, CommandResult, answer_commands
from aiosched.errors import NotFound, Refused
from aiosched.scheduler.holdings import Batch, OwnedDag, make_board
from aiosched.scheduler.journal import Transaction
from aiosched.scheduler.session import Session
from aiosched.scheduler.versions import ensure_versions

_SHOWN: Final = 1000  # instances that an answer lists
_MARKS: Final = frozenset({TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED})

Change = Callable[[Board, list[Instance], datetime], object]


@dataclass(slots=True)
class _Touched:
    """What a request meant, before it was changed."""

    runs: list[str] = field(default_factory=list)
    instances: list[dict[str, Any]] = field(default_factory=list)

    def note(self, board: Board, instances: Sequence[Instance]) -> None:
        self.runs.append(board.run.run_id)
        self.instances.extend(
            {
                "run_id": board.run.run_id,
                "task_id": board.graph.task_ids[instance.task],
                "map_index": instance.map_index,
                "state": instance.state.stored,
                "try_number": instance.try_number,
            }
            for instance in instances
        )

    def answer(self) -> dict[str, Any]:
        return {"count": len(self.instances), "runs": self.runs, "instances": self.instances[:_SHOWN]}


async def clear(session: Session, dag: OwnedDag, command: Command) -> dict[str, Any] | None:
    """Let task instances run again (28.2, 28.3)."""
    return await _change(session, dag, command, lambda board, chosen, now: board.clear(chosen, now))


async def mark_tasks(session: Session, dag: OwnedDag, command: Command) -> dict[str, Any] | None:
    """Set task instances to success, failed or skipped (28.4)."""
    state = TaskState(str(command.args["state"]))
    if state not in _MARKS:
        raise Refused(f"A task cannot be marked {state}; use success, failed or skipped.")
    return await _change(session, dag, command, lambda board, chosen, now: board.mark(chosen, state, now))


async def mark_run(session: Session, dag: OwnedDag, command: Command) -> dict[str, Any] | None:
    """Set a run to success or failed with all that is unfinished in it, or queue it again (28.5)."""
    state = RunState(str(command.args["state"]))
    if state is RunState.RUNNING:
        raise Refused("A run cannot be marked running; mark it queued, then it starts when there is room.")
    run_id = str(command.args["run_id"])
    answer = {"run_id": run_id, "state": state}
    await _apply(session, dag, command, [run_id], lambda board, now: board.mark_run(state, now), lambda: answer)
    return None


async def _change(session: Session, dag: OwnedDag, command: Command, change: Change) -> dict[str, Any] | None:
    args = command.args
    touched = _Touched()

    def selected(board: Board) -> list[Instance]:
        tasks = select_tasks(
            board.graph,
            task_ids=args.get("task_ids"),
            pattern=args.get("pattern"),
            upstream=bool(args.get("upstream")),
            downstream=bool(args.get("downstream")),
        )
        chosen = choose(
            board,
            tasks,
            only_failed=bool(args.get("only_failed")),
            only_running=bool(args.get("only_running")),
            map_index=args.get("map_index"),
        )
        if chosen:
            touched.note(board, chosen)
        return chosen

    def on_board(board: Board, now: datetime) -> None:
        chosen = selected(board)
        if chosen and not args.get("dry_run"):
            change(board, chosen, now)

    run_ids = await _run_ids(session, dag, args)
    if args.get("dry_run"):
        for board in await _boards(session, dag, run_ids):
            selected(board)
        return touched.answer()
    await _apply(session, dag, command, run_ids, on_board, touched.answer)
    return None


async def _run_ids(session: Session, dag: OwnedDag, args: Mapping[str, Any]) -> list[str]:
    if args.get("run_ids") is not None:
        return [str(run_id) for run_id in args["run_ids"]]
    first, final = (datetime.fromisoformat(args[key]) if args.get(key) else None for key in ("from", "to"))
    async with session.db.acquire() as conn:
        return await statements.find_run_ids(conn, dag.row.dag_id, first, final)


async def _apply(
    session: Session,
    dag: OwnedDag,
    command: Command,
    run_ids: Sequence[str],
    change: Callable[[Board, datetime], None],
    answer: Callable[[], dict[str, Any]],
) -> None:
    """Change the runs, stored ones first, and answer in the transaction that stores the last change."""
    now = session.clock.now()
    held = {board.run.run_id: board for board in dag.running.values()}
    waiting = {run.run_id: run for run in dag.queued}
    others = [run_id for run_id in run_ids if run_id not in held]
    stored: list[Board] = []
    async with session.writer.transaction() as transaction:
        runs = await _read(dag, transaction, others, waiting)
        stored = await _load_boards(session, transaction, runs)
        for board in stored:
            change(board, now)
        await store_boards(session, transaction, stored)
        if len(others) == len(run_ids):
            result = CommandResult("applied", answer())
            await answer_commands(transaction.conn, [(command.id, result)], incarnation=session.incarnation)
    for board in stored:
        _settle_stored(session, dag, board, waiting)
    if len(others) == len(run_ids):
        return
    for run_id in run_ids:
        if (found := held.get(run_id)) is not None:
            change(found, now)
            session.absorb(found)
            session.holdings.to_evaluate[found] = None
    session.answer(command.id, CommandResult("applied", answer()))
    session.enqueueing.wake()
    session.evaluation.wake()


async def _read(
    dag: OwnedDag, transaction: Transaction, run_ids: Sequence[str], waiting: Mapping[str, Run]
) -> list[Run]:
    """The runs that are not held; queued ones are the objects that wait to start."""
    found = await statements.find_runs(transaction.conn, dag.row.dag_id, [r for r in run_ids if r not in waiting])
    by_id = {run.run_id: run for run in found} | {r: waiting[r] for r in run_ids if r in waiting}
    for run_id in run_ids:
        if run_id not in by_id:
            raise NotFound(f"DAG {dag.row.dag_id!r} has no run {run_id!r}; see `aiosched dags runs {dag.row.dag_id}`.")
        if by_id[run_id].key in dag.starting:
            raise Refused(f"Run {run_id!r} is just starting; try again.")
    return [by_id[run_id] for run_id in run_ids]


def _settle_stored(session: Session, dag: OwnedDag, board: Board, waiting: Mapping[str, Run]) -> None:
    """Bring memory in line with what was just stored of a run that is not held."""
    run = board.run
    if run.state is RunState.QUEUED and run.run_id not in waiting:
        dag.queued.append(run)
        session.holdings.to_start[run.dag_id] = None
    elif run.state in RUN_FINISHED and run.run_id in waiting:
        dag.queued.remove(run)
        session.on_run_end(run)
    session.creation.wake()


async def _boards(session: Session, dag: OwnedDag, run_ids: Sequence[str]) -> list[Board]:
    """Boards to look at: those that are held, and copies of the others."""
    held = {board.run.run_id: board for board in dag.running.values()}
    async with session.writer.transaction() as transaction:
        runs = await statements.find_runs(transaction.conn, dag.row.dag_id, [r for r in run_ids if r not in held])
        return [held[r] for r in run_ids if r in held] + await _load_boards(session, transaction, runs)


async def clear_whole_runs(session: Session, transaction: Transaction, runs: Sequence[Run], now: datetime) -> None:
    """Clear every task instance of runs that are not held, in a transaction that is open; they are queued then."""
    boards = await _load_boards(session, transaction, runs)
    for board in boards:
        board.clear(list(board), now)
    await store_boards(session, transaction, boards)


async def _load_boards(session: Session, transaction: Transaction, runs: Sequence[Run]) -> list[Board]:
    """Boards of runs that are not held, for a change that is stored in the same transaction."""
    if not runs:
        return []
    await ensure_versions(session, transaction.conn, {run.version_id for run in runs})
    instances = await statements.load_instances(transaction.conn, [run.key for run in runs])
    return [make_board(run, *session.holdings.versions[run.version_id], instances[run.key]) for run in runs]


async def store_boards(session: Session, transaction: Transaction, boards: Sequence[Board]) -> None:
    """Store what changed on boards that are not held."""
    batch = Batch()
    for board in boards:
        session.holdings.collect_board(board, batch)
    if not batch.is_empty:
        await transaction.write(batch)
