"""Which task instances of a run a request to clear or mark selects, what it does to them, and its answer. Pure.

Does not live here: which tasks it selects (selection.py), storing what changed (scheduler/runs/stored_runs.py), what
clearing and marking do to a run (core/run/board.py). Source: the semantics reference, section 28.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from aiosched.core.creation.moving import added_instances, moving
from aiosched.core.graph.graph import Graph
from aiosched.core.graph.instances import is_undone
from aiosched.core.requests.requests import Clear, MarkTasks, TaskChange
from aiosched.core.run.belonging import belonging
from aiosched.core.run.board import Board, Instance, Run
from aiosched.core.run.upstream_counts import UpstreamCounts
from aiosched.core.values.ids import instance_name
from aiosched.core.values.states import FAILURES, RunState, TaskState
from aiosched.errors import Refused

SHOWN: Final = 1000  # most instances that an answer lists
_NAMED: Final = 10  # most running instances that a refusal names
_MARKS: Final = frozenset({TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED})
_RUNNING: Final = frozenset({TaskState.RUNNING})

Change = Callable[[Board, datetime], None]
ChangeOf = Callable[[Board, list[Instance], datetime], object]  # changes the chosen instances of a board


@dataclass(frozen=True, slots=True)
class IndexedTasks:
    """Tasks of which one map index is named, and the tasks that are selected because they are up- or downstream.

    Of the latter, those instances are selected that belong to the named ones: in a mapped group those of the same
    index, otherwise all.
    """

    named: frozenset[int]
    map_index: int
    reached: frozenset[int] = frozenset()

    def of(self, graph: Graph, rows: Sequence[Instance]) -> set[Instance]:
        named = [row for row in rows if row.task in self.named and row.map_index == self.map_index]
        found = set(named)
        if self.reached and named:
            counts = UpstreamCounts(graph, rows)
            for task in self.reached:
                found.update(*(counts.counterparts(task, instance) for instance in named))
        return found


@dataclass(frozen=True, slots=True)
class InstanceSelection:
    """Which task instances a request selects; `graphs`, `tasks` and `indexed` by DAG version.

    `newest` is the version to which it moves the runs in which it selects something; None: it moves none.
    """

    graphs: Mapping[int, Graph]
    tasks: Mapping[int, frozenset[int]]
    indexed: Mapping[int, Sequence[IndexedTasks]]  # those named with a map index, and what they lead to
    request: TaskChange
    map_index: int | None
    to_rerun: bool  # also select setups and teardowns: when clearing, not when marking
    newest: int | None = None

    def of(self, version_id: int, instances: Iterable[Instance]) -> list[Instance]:
        return choose(
            self.graphs[version_id],
            instances,
            self.tasks[version_id],
            self.request,
            map_index=self.map_index,
            indexed=self.indexed[version_id],
            to_rerun=self.to_rerun,
        )

    def moves(self, version_id: int) -> bool:
        """Whether a run of this version is moved if something is selected in it."""
        return self.newest not in (None, version_id)


def choose(
    graph: Graph,
    instances: Iterable[Instance],
    tasks: frozenset[int],
    request: TaskChange,
    *,
    map_index: int | None = None,
    indexed: Sequence[IndexedTasks] = (),
    to_rerun: bool = True,
) -> list[Instance]:
    """Of the `instances` of a run (its board, or its rows) those that are selected, in their order.

    These are instances of `tasks`, and those of `indexed`. `only_failed`: failed and upstream-failed ones, and what a
    stop of the run left undone; `only_running`: running ones; both: either. `map_index` None means every index of
    `tasks`; -1 is that of a task that is not mapped. `to_rerun`: with them are selected their setups and teardowns,
    whatever their state and index (`belonging`), and all that a stop left undone, since a run that goes on does all of
    its work.
    """
    rows = list(instances)
    states = (FAILURES if request.only_failed else frozenset()) | (_RUNNING if request.only_running else frozenset())
    meant = set[Instance]().union(*(each.of(graph, rows) for each in indexed))
    meant.update(row for row in rows if row.task in tasks and (map_index is None or row.map_index == map_index))
    undone = {row for row in rows if is_undone(row)} if to_rerun else set()
    wanted = {row for row in meant if not states or row.state in states} | (
        meant & undone if request.only_failed else set()
    )
    chosen = {row: None for row in rows if row in wanted}
    if chosen:
        chosen |= dict.fromkeys(undone)
    if to_rerun and chosen and any(graph.is_setup):
        chosen |= dict.fromkeys(belonging(graph, UpstreamCounts(graph, rows), chosen))
    return [instance for instance in rows if instance in chosen]


class TouchedInstances:
    """What a request selected, as it was before the change: the `answer` to the request."""

    def __init__(self) -> None:
        self._states = Counter[str]()
        self.instances: list[dict[str, Any]] = []
        self.runs: dict[str, None] = {}  # run ids, in order
        self.answer: dict[str, Any] = {"count": 0, "runs": [], "states": {}, "instances": self.instances}

    def note(self, run_id: str, graph: Graph, instances: Sequence[Instance]) -> None:
        """Add instances of a run."""
        if not instances:
            return
        self.runs[run_id] = None
        self._states.update(instance.state.value for instance in instances)
        self.answer |= {
            "count": self._states.total(), "runs": list(self.runs), "states": dict(self._states.most_common()),
        }  # fmt: skip
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


@dataclass(frozen=True, slots=True)
class InstanceChange:
    """What a request does to the instances that it selects, run by run.

    `change` is done to the chosen instances of a board, see `clear_chosen` and `marking`.
    """

    selection: InstanceSelection
    request: TaskChange
    change: ChangeOf
    touched: TouchedInstances = field(default_factory=TouchedInstances)

    def refuse(self, held: Sequence[Board]) -> None:
        """Raise Refused for what the request must not do to these running runs."""
        for board in held:
            run = board.run
            if self.selection.moves(run.version_id) and note_selected(
                self.selection, TouchedInstances(), run, list(board)
            ):
                refuse_moving(run)
        if self.request.prevent_running:
            refuse_running(running_on(self.selection, held))

    def moves(self, run: Run, instances: Sequence[Instance]) -> bool:
        """Whether a run of an older version, with these instances, moves to the newest; notes what is selected."""
        return note_selected(self.selection, self.touched, run, instances)

    def apply(self, board: Board, now: datetime) -> None:
        """Select instances of a board, note them as touched, and change them.

        Those of a moved run were noted before the move.
        """
        run, chosen = board.run, self.selection.of(board.run.version_id, board)
        if run.run_id not in self.touched.runs:
            self.touched.note(run.run_id, board.graph, chosen)
        if run.run_id in self.touched.runs:
            self.change(board, chosen, now)


def clear_chosen(request: Clear, board: Board, chosen: list[Instance], now: datetime) -> None:
    """Let the chosen instances run again (28.2, 28.3). A run that was moved goes on even if none of them is left."""
    board.clear(chosen, now)
    if request.newest_version:
        board.mark_run(RunState.QUEUED, now)


def marking(request: MarkTasks) -> ChangeOf:
    """Set the chosen instances to success, failed or skipped (28.4)."""
    state = TaskState(request.state)
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
