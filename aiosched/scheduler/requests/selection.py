"""Which task instances a request to clear or mark selects, what it does to them, and its answer. Pure.

Does not live here: finding the runs and storing what changed (clearing.py), what clearing and
marking do to a run (core/run/manual_changes.py). Source: the semantics reference, section 28.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from aiosched.core.graph.graph import Graph
from aiosched.core.requests import requests
from aiosched.core.run.board import Board, Instance, Run
from aiosched.core.run.clearing import IndexedTasks, choose, select_tasks
from aiosched.core.values.ids import instance_name, read_instance_name
from aiosched.core.values.states import RunState, TaskState
from aiosched.errors import Refused
from aiosched.scheduler.runs.moving import added_instances, moving

SHOWN: Final = 1000  # most instances that an answer lists
_NAMED: Final = 10  # most running instances that a refusal names
_MARKS: Final = frozenset({TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED})

Change = Callable[[Board, datetime], None]
ChangeOf = Callable[[Board, list[Instance], datetime], object]  # changes the chosen instances of a board


class Dates(NamedTuple):
    """Logical dates from `first` to `final`, both inclusive; None: unbounded on that side."""

    first: datetime | None
    final: datetime | None

    def have(self, date: datetime | None) -> bool:
        return (
            date is not None
            and (self.first is None or date >= self.first)
            and (self.final is None or date <= self.final)
        )


@dataclass(frozen=True, slots=True)
class InstanceSelection:
    """Which task instances a request selects; `graphs`, `tasks` and `indexed` by DAG version.

    `newest` is the version to which it moves the runs in which it selects something; None: it moves none.
    """

    graphs: Mapping[int, Graph]
    tasks: Mapping[int, frozenset[int]]
    indexed: Mapping[int, Sequence[IndexedTasks]]  # those named with a map index, and what they lead to
    only_failed: bool
    only_running: bool
    map_index: int | None
    with_scopes: bool  # also select setups and teardowns: when clearing, not when marking
    newest: int | None = None

    @property
    def has_markers(self) -> bool:
        """Whether a selected task marks one of another DAG."""
        return any(
            self.graphs[version].tasks[task].marks
            for version, tasks in self.tasks.items()
            for task in tasks.union(*(each.named | each.reached for each in self.indexed[version]))
        )

    def of(self, version_id: int, instances: Iterable[Instance]) -> list[Instance]:
        return choose(
            self.graphs[version_id],
            instances,
            self.tasks[version_id],
            only_failed=self.only_failed,
            only_running=self.only_running,
            map_index=self.map_index,
            indexed=self.indexed[version_id],
            with_scopes=self.with_scopes,
        )

    def moves(self, version_id: int) -> bool:
        """Whether a run of this version is moved if something is selected in it."""
        return self.newest not in (None, version_id)


@dataclass(slots=True)
class TouchedInstances:
    """What a request selected, as it was before the change."""

    runs: dict[str, None] = field(default_factory=dict)  # run ids, in order
    states: Counter[str] = field(default_factory=Counter)
    instances: list[dict[str, Any]] = field(default_factory=list)

    def note(self, run_id: str, graph: Graph, instances: Sequence[Instance]) -> None:
        if not instances:
            return
        self.runs[run_id] = None
        self.states.update(instance.state.value for instance in instances)
        self.instances.extend(
            {
                "run_id": run_id,
                "task_id": graph.task_ids[instance.task],
                "map_index": instance.map_index,
                "state": instance.state.stored,
                "try_number": instance.try_number,
            }
            for instance in instances[: SHOWN - len(self.instances)]
        )

    def answer(self) -> dict[str, Any]:
        return {
            "count": self.states.total(),
            "runs": list(self.runs),
            "states": dict(self.states.most_common()),
            "instances": self.instances,
        }


def select(graphs: Mapping[int, Graph], newest: int, request: requests.TaskChange) -> InstanceSelection:
    """The tasks that a request selects, by the versions of its runs; `newest` is the DAG's newest one.

    With `newest_version` they are chosen in the newest one, and of a run that is not moved yet also those that it does
    not have any more. Raises DagError for a task that none of the versions has.
    """
    named = [read_instance_name(name, request.map_index) for name in request.task_ids or ()]
    for name, _ in named:
        if not any(_has(graph, name) for graph in graphs.values()):
            graphs[newest].resolve(name)
    selected = {version: _tasks_of(graph, named, request) for version, graph in graphs.items()}
    tasks = {version: found for version, (found, _) in selected.items()}
    indexed = {version: found for version, (_, found) in selected.items()}
    for version in graphs.keys() - {newest} if request.newest_version else ():
        old, new = graphs[version], graphs[newest]
        gone = frozenset(task for task, task_id in enumerate(old.task_ids) if task_id not in new.index)
        tasks[version] = tasks[version] & gone | _known(new, old, tasks[newest])
        indexed[version] = [
            *(IndexedTasks(i.named & gone, i.map_index, i.reached & gone) for i in indexed[version]),
            *(
                IndexedTasks(_known(new, old, i.named), i.map_index, _known(new, old, i.reached))
                for i in indexed[newest]
            ),
        ]
    return InstanceSelection(
        graphs,
        tasks,
        indexed,
        only_failed=request.only_failed,
        only_running=request.only_running,
        map_index=None if _names_tasks(request) else request.map_index,
        with_scopes=not isinstance(request, requests.MarkTasks),
        newest=newest if request.newest_version else None,
    )


def _names_tasks(request: requests.TaskChange) -> bool:
    return request.task_ids is not None or request.pattern is not None


def _tasks_of(
    graph: Graph, named: Iterable[tuple[str, int | None]], request: requests.TaskChange
) -> tuple[frozenset[int], list[IndexedTasks]]:
    """What a request selects of a version: tasks with all their instances, and those of one map index.

    An index that is given without tasks filters all tasks, so it does not count here.
    """
    choices: list[tuple[dict[str, Any], int | None]] = [
        ({"task_ids": [name]}, index) for name, index in named if _has(graph, name)
    ]
    if request.pattern is not None:
        choices.append(({"pattern": request.pattern}, request.map_index))
    if not _names_tasks(request):
        choices.append(({}, None))
    whole: set[int] = set()
    indexed: list[IndexedTasks] = []
    for choice, index in choices:
        found = select_tasks(graph, **choice, upstream=request.upstream, downstream=request.downstream)
        if index is None:
            whole |= found
        else:
            start = select_tasks(graph, **choice)
            indexed.append(IndexedTasks(start, index, found - start))
    return frozenset(whole), indexed


def _known(of: Graph, to: Graph, tasks: Iterable[int]) -> frozenset[int]:
    """The tasks of one version in another, which may lack some."""
    ids = (of.task_ids[task] for task in tasks)
    return frozenset(to.index[task_id] for task_id in ids if task_id in to.index)


def reach(named: Iterable[tuple[str, datetime | None]], request: requests.TaskChange) -> Dates | None:
    """The logical dates, both inclusive, to which `past` and `future` widen a request about the `named` runs.

    `named` are run ids with their logical dates. None when nothing is widened. Raises Refused for a
    run without a logical date, if no run is named, and if runs are named beside dates.
    """
    if request.run_ids is not None and not (request.first is None and request.final is None):
        raise Refused("The request names runs (--run) and dates (--from, --to): give one of the two.")
    if not request.past and not request.future:
        return None
    dates: list[datetime] = []
    for run_id, date in named:
        if date is None:
            raise Refused(
                f"Run {run_id!r} has no logical date, so no run is before or after it; ask without past and future."
            )
        dates.append(date)
    if not dates:
        raise Refused("past and future widen a request from the runs that it names: name one, or give dates instead.")
    return Dates(None if request.past else min(dates), None if request.future else max(dates))


def _has(graph: Graph, name: str) -> bool:
    return name in graph.index or name in graph.members


def running_of(run_id: str, graph: Graph, instances: Iterable[Instance]) -> list[str]:
    """The names of the running ones among the task instances of a run."""
    return [
        f"{instance_name(graph.task_ids[i.task], i.map_index)} of run {run_id!r}"
        for i in instances
        if i.state is TaskState.RUNNING
    ]


def running_on(selection: InstanceSelection, boards: Iterable[Board]) -> list[str]:
    """The names of the running task instances that a request selects on boards."""
    return [
        name
        for board in boards
        for name in running_of(board.run.run_id, board.graph, selection.of(board.run.version_id, board))
    ]


def refuse_held(selection: InstanceSelection, boards: Sequence[Board], request: requests.TaskChange) -> None:
    """Raise Refused for what the request must not do to running runs."""
    for board in boards:
        run = board.run
        if selection.moves(run.version_id) and note_selected(selection, TouchedInstances(), run, list(board)):
            refuse_moving(run)
    if request.prevent_running:
        refuse_running(running_on(selection, boards))


def refuse_running(running: Sequence[str]) -> None:
    """Raise Refused if selected task instances are `running`, given by name (28.2: prevent running)."""
    if running:
        more = f" and {len(running) - _NAMED} more" if len(running) > _NAMED else ""
        raise Refused(
            f"Nothing is cleared, because these are running: {', '.join(running[:_NAMED])}{more}. "
            "Wait for them to end, or ask without prevent_running to stop them."
        )


def refuse_moving(run: Run) -> None:
    """Raise Refused if a run that would be moved is running: it keeps its version."""
    if run.state is RunState.RUNNING:
        raise Refused(
            f"Run {run.run_id!r} is running, so it cannot be moved to the newest version of the DAG; "
            "wait for its end, or cancel it first."
        )


# -- what it does -----------------------------------------------------------------------------


def clearing(request: requests.Clear) -> ChangeOf:
    """Let the chosen instances run again (28.2, 28.3). A run that was moved goes on even if none of them is left."""

    def clear_them(board: Board, chosen: list[Instance], now: datetime) -> None:
        board.clear(chosen, now)
        if request.newest_version:
            board.mark_run(RunState.QUEUED, now)

    return clear_them


def marking(request: requests.MarkTasks) -> ChangeOf:
    """Set the chosen instances to success, failed or skipped (28.4)."""
    state = request.state
    if state not in _MARKS:
        raise Refused(f"A task cannot be marked {state}; use success, failed or skipped.")
    return lambda board, chosen, now: board.mark(chosen, state, now)


def marking_run(state: RunState, run_id: str, *, is_running: bool) -> Change:
    """Set a run to success or failed with all that is unfinished in it, or queue it again (28.5)."""
    if state is RunState.RUNNING:
        raise Refused("A run cannot be marked running; mark it queued, and it starts when there is room.")
    if state is RunState.QUEUED and is_running:
        raise Refused(f"Run {run_id!r} is running; clear tasks of it, or cancel it first.")
    return lambda board, now: board.mark_run(state, now)


def noted(selection: InstanceSelection, touched: TouchedInstances, change: ChangeOf) -> Change:
    """A change that selects the instances of a board, notes them as touched, and changes them.

    Those of a moved run were noted before the move (`note_selected`).
    """

    def on_board(board: Board, now: datetime) -> None:
        run, chosen = board.run, selection.of(board.run.version_id, board)
        if run.run_id not in touched.runs:
            touched.note(run.run_id, board.graph, chosen)
        if run.run_id in touched.runs:
            change(board, chosen, now)

    return on_board


def note_selected(
    selection: InstanceSelection, touched: TouchedInstances, run: Run, instances: Sequence[Instance]
) -> bool:
    """Note what is selected of a run, and of what it gets if it moves; returns whether that is something."""
    old, newest = selection.graphs[run.version_id], selection.newest
    touched.note(run.run_id, old, selection.of(run.version_id, instances))
    if newest is not None and newest != run.version_id:
        new = selection.graphs[newest]
        touched.note(run.run_id, new, selection.of(newest, added_instances(new, run, moving(old, new))))
    return run.run_id in touched.runs
