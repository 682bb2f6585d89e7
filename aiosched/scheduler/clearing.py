"""Clearing and marking: requests about task instances and runs that exist.

    clear       {run_ids, from, to, task_ids, pattern, upstream, downstream, only_failed, only_running, map_index,
                 newest_version, dry_run} -> {count, runs, states, instances: [{run_id, task_id, map_index, state,
                 try_number}, …]}
    mark_tasks  the same selection and {state: success|failed|skipped} -> the same
    mark_run    {run_id, state: success|failed|queued} -> {run_id, state}

Without `run_ids` the runs with a logical date in [from, to] are meant, without those too all
runs. An id of a task that only some of the runs have is about those. What they do to a run is
decided by its board (core/board.py). Runs that are held are changed in memory and stored by
the journal, together with the answer; all others before (stored_runs.py), so a request that
was interrupted is applied again from its beginning: nothing that it queued has started.

Source: the semantics reference, section 28.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from aiosched.core.board import Board, Instance
from aiosched.core.clearing import choose, select_tasks
from aiosched.core.graph import Graph
from aiosched.core.states import RunState, TaskState
from aiosched.db import clearing as statements
from aiosched.db.clearing import RunOfRequest
from aiosched.db.inbox import Command, CommandResult, answer_commands
from aiosched.db.runs import load_instances
from aiosched.errors import NotFound, Refused
from aiosched.scheduler.holdings import OwnedDag
from aiosched.scheduler.session import Session
from aiosched.scheduler.stored_runs import load_boards, settle, store_boards, until_stored
from aiosched.scheduler.versions import ensure_versions

_SHOWN: Final = 1000  # instances that an answer lists
_INSTANCES_PER_TRANSACTION: Final = 5_000
_MARKS: Final = frozenset({TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED})

Change = Callable[[Board, datetime], None]


@dataclass(frozen=True, slots=True)
class _Selection:
    """Which task instances a request means; `tasks` by DAG version."""

    tasks: Mapping[int, frozenset[int]]
    only_failed: bool
    only_running: bool
    map_index: int | None

    def of(self, version_id: int, instances: Iterable[Instance]) -> list[Instance]:
        return choose(
            instances,
            self.tasks[version_id],
            only_failed=self.only_failed,
            only_running=self.only_running,
            map_index=self.map_index,
        )


@dataclass(slots=True)
class _Touched:
    """What a request meant, as it was before the change."""

    runs: list[str] = field(default_factory=list)
    states: Counter[str] = field(default_factory=Counter)
    instances: list[dict[str, Any]] = field(default_factory=list)

    def note(self, run_id: str, graph: Graph, instances: Sequence[Instance]) -> None:
        if not instances:
            return
        self.runs.append(run_id)
        self.states.update(instance.state.value for instance in instances)
        self.instances.extend(
            {
                "run_id": run_id,
                "task_id": graph.task_ids[instance.task],
                "map_index": instance.map_index,
                "state": instance.state.stored,
                "try_number": instance.try_number,
            }
            for instance in instances[: _SHOWN - len(self.instances)]
        )

    def answer(self) -> dict[str, Any]:
        return {
            "count": self.states.total(),
            "runs": self.runs,
            "states": dict(self.states.most_common()),
            "instances": self.instances,
        }


# -- the verbs --------------------------------------------------------------------------------


async def clear(session: Session, dag: OwnedDag, command: Command) -> dict[str, Any] | None:
    """Let task instances run again (28.2, 28.3)."""
    newest = bool(command.args.get("newest_version"))

    def clear_them(board: Board, chosen: list[Instance], now: datetime) -> None:
        if newest:  # tasks that the run did not have before
            known = set(chosen)
            chosen = [*chosen, *(i for i in board if i.state is TaskState.NONE and i not in known)]
        board.clear(chosen, now)

    return await _change(session, dag, command, clear_them, newest_version=newest)


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
    (run,) = await _runs(session, dag, {"run_ids": [command.args["run_id"]]})
    if state is RunState.QUEUED and run.key in dag.running:
        raise Refused(f"Run {run.run_id!r} is running; clear tasks of it, or cancel it first.")
    answer = {"run_id": run.run_id, "state": state}
    await _apply(session, dag, command, [run], lambda board, now: board.mark_run(state, now), lambda: answer)
    return None


async def _change(
    session: Session,
    dag: OwnedDag,
    command: Command,
    change: Callable[[Board, list[Instance], datetime], object],
    *,
    newest_version: bool = False,
) -> dict[str, Any] | None:
    args = command.args
    runs = await _runs(session, dag, args)
    selection = await _select(session, dag, args, runs, newest_version=newest_version)
    touched = _Touched()
    if args.get("dry_run"):
        await _look(session, dag, runs, selection, touched)
        return touched.answer()
    if newest_version:
        _refuse_moving(dag, runs)

    def on_board(board: Board, now: datetime) -> None:
        chosen = selection.of(board.run.version_id, board)
        touched.note(board.run.run_id, board.graph, chosen)
        change(board, chosen, now)

    await _apply(session, dag, command, runs, on_board, touched.answer, newest_version=newest_version)
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
    async with session.db.acquire() as conn:
        if args.get("run_ids") is None:
            first, final = (_instant(args[key]) if args.get(key) else None for key in ("from", "to"))
            return await statements.runs_between(conn, dag_id, first, final)
        wanted = dict.fromkeys(str(run_id) for run_id in args["run_ids"])
        found = {run.run_id: run for run in await statements.runs_by_id(conn, dag_id, list(wanted))}
    for run_id in wanted:
        if run_id not in found:
            raise NotFound(f"DAG {dag_id!r} has no run {run_id!r}; see `aiosched dags runs {dag_id}`.")
    return [found[run_id] for run_id in wanted]


async def _select(
    session: Session, dag: OwnedDag, args: Mapping[str, Any], runs: Sequence[RunOfRequest], *, newest_version: bool
) -> _Selection:
    """The tasks that are meant, by the versions of the runs. Raises DagError for a task that none of them has."""
    versions = {run.version_id for run in runs} | {dag.version.id}
    async with session.db.acquire() as conn:
        await ensure_versions(session, conn, versions)
    graphs = {version: session.holdings.versions[version][1] for version in versions}
    if newest_version:
        graphs = {dag.version.id: dag.graph}
    names = args.get("task_ids")
    for name in names or ():
        if not any(_has(graph, name) for graph in graphs.values()):
            dag.graph.resolve(name)
    tasks = {
        version: select_tasks(
            graph,
            task_ids=None if names is None else [name for name in names if _has(graph, name)],
            pattern=args.get("pattern"),
            upstream=bool(args.get("upstream")),
            downstream=bool(args.get("downstream")),
        )
        for version, graph in graphs.items()
    }
    if newest_version:  # for a look at runs that are not moved yet: those of the chosen tasks that they have
        chosen = {dag.graph.task_ids[task] for task in tasks[dag.version.id]}
        for version in versions - {dag.version.id}:
            index = session.holdings.versions[version][1].index
            tasks[version] = frozenset(index[task_id] for task_id in chosen if task_id in index)
    map_index = args.get("map_index")
    return _Selection(
        tasks,
        only_failed=bool(args.get("only_failed")),
        only_running=bool(args.get("only_running")),
        map_index=None if map_index is None else int(map_index),
    )


def _has(graph: Graph, name: str) -> bool:
    return name in graph.index or name in graph.members


def _refuse_moving(dag: OwnedDag, runs: Iterable[RunOfRequest]) -> None:
    for run in runs:
        if run.key in dag.running and run.version_id != dag.version.id:
            raise Refused(
                f"Run {run.run_id!r} is running, so it cannot be moved to the newest version of the DAG; "
                "wait for its end, or cancel it first."
            )


async def _look(
    session: Session, dag: OwnedDag, runs: Sequence[RunOfRequest], selection: _Selection, touched: _Touched
) -> None:
    """Note what a request means, without a change."""
    for chunk in _chunks(session, runs):
        async with session.db.acquire() as conn:
            instances = await load_instances(conn, [run.key for run in chunk if run.key not in dag.running])
        for run in chunk:
            board = dag.running.get(run.key)
            rows: Iterable[Instance] = instances.get(run.key, ()) if board is None else board
            graph = session.holdings.versions[run.version_id][1]
            touched.note(run.run_id, graph, selection.of(run.version_id, rows))


def _chunks(session: Session, runs: Sequence[RunOfRequest]) -> Iterable[list[RunOfRequest]]:
    """Runs in their order, so many at a time that their task instances fit one transaction."""
    chunk: list[RunOfRequest] = []
    size = 0
    for run in runs:
        tasks = len(session.holdings.versions[run.version_id][1])
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
) -> None:
    """Change the runs, those that are not held first, and answer in the transaction that stores the last change.

    No run starts meanwhile (the caller holds `session.books`), but running ones may end.
    """
    now = session.clock.now()
    async with session.db.acquire() as conn:
        await ensure_versions(session, conn, {run.version_id for run in runs})
    left = {run.key: run for run in runs}
    while others := [run for run in left.values() if run.key not in dag.running]:
        chunk = next(iter(_chunks(session, others)))
        keys = [run.key for run in chunk]
        await until_stored(session, keys)
        is_last = len(chunk) == len(left)
        async with session.writer.transaction() as transaction:
            boards = await load_boards(session, transaction, dag, keys, newest_version=newest_version)
            for board in boards:
                change(board, now)
            await store_boards(session, transaction, boards)
            if is_last:
                result = CommandResult("applied", answer())
                await answer_commands(transaction.conn, [(command.id, result)], incarnation=session.incarnation)
        settle(session, dag, boards)
        if is_last:
            return
        for key in keys:
            del left[key]
    for key in left:
        board = dag.running[key]
        change(board, now)
        session.absorb(board)
        session.holdings.to_evaluate[board] = None
    session.answer(command.id, CommandResult("applied", answer()))
    session.evaluation.wake()
