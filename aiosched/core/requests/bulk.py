"""One action on many runs or task instances of any DAGs: the requests that it becomes, and the sum of their answers.

Each DAG's owner gets its own requests: an action on many is many actions, of which some can be refused. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from aiosched.core.requests.requests import CancelRun, Clear, MarkRun, MarkTasks, SetNote
from aiosched.core.values.states import RunState, TaskState

MOST_SHOWN: Final = 1_000  # instances in an answer

BulkRequest = Clear | MarkTasks | MarkRun | CancelRun | SetNote


class BulkVerb(StrEnum):
    """An action on many runs or task instances at once."""

    CLEAR = "clear"
    MARK = "mark"
    NOTE = "note"
    CANCEL = "cancel"


class Selected(NamedTuple):
    """A run, or with `task_id` one of its task instances; `map_index` -1: not mapped."""

    dag_id: str
    run_id: str
    task_id: str | None = None
    map_index: int = -1


@dataclass(frozen=True)
class Action:
    """What to do: `state` is for `mark`, `note` for `note`, `only_failed` for `clear`."""

    verb: BulkVerb
    state: str | None = None
    note: str | None = None
    only_failed: bool = False

    def problem(self, *, of_runs: bool, of_tasks: bool) -> str | None:
        """Why it means nothing for runs or task instances."""
        if self.verb is BulkVerb.MARK and self.state is None:
            return "mark needs a `state`"
        if self.verb is BulkVerb.MARK and of_runs and self.state == "skipped":
            return "a run cannot be marked skipped: send success, failed or queued"
        if self.verb is BulkVerb.MARK and of_tasks and self.state == "queued":
            return "a task instance cannot be marked queued: clear it"
        if self.verb is BulkVerb.NOTE and self.note is None:
            return "note needs a `note`; an empty one removes it"
        if self.verb is BulkVerb.CANCEL and of_tasks:
            return "cancel is for runs: send `runs`, or mark the tasks failed"
        return None


class DagRequest(NamedTuple):
    """One request of an action, to the owner of a DAG."""

    dag_id: str
    run_ids: tuple[str, ...]
    request: BulkRequest

    @property
    def about(self) -> str:
        """What it is about, to show."""
        runs = self.run_ids[0] if len(self.run_ids) == 1 else f"{len(self.run_ids)} runs"
        match self.request:
            case Clear(task_ids=tuple(names)) | MarkTasks(task_ids=tuple(names)):
                return " ".join([runs, *names])
            case SetNote(task_id=str(name)):
                return f"{runs} {name}"
            case _:
                return runs


def requests_of(action: Action, selected: Iterable[Selected]) -> list[DagRequest]:
    """The requests of an action: one for the runs of a DAG and for the instances of a task, if that says the same."""
    runs: dict[str, list[str]] = defaultdict(list)
    tasks: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for each in dict.fromkeys(selected):
        if each.task_id is None:
            runs[each.dag_id].append(each.run_id)
        else:
            tasks[each.dag_id, each.task_id, each.map_index].append(each.run_id)
    return [
        *(each for dag_id, run_ids in runs.items() for each in _of_runs(action, dag_id, tuple(run_ids))),
        *(each for place, run_ids in tasks.items() for each in _of_tasks(action, place, tuple(run_ids))),
    ]


def _of_runs(action: Action, dag_id: str, run_ids: tuple[str, ...]) -> Iterator[DagRequest]:
    if action.verb is BulkVerb.CLEAR:
        clear = Clear(run_ids=run_ids, only_failed=action.only_failed, dependents=False)
        yield DagRequest(dag_id, run_ids, clear)
        return
    for run_id in run_ids:
        match action.verb:
            case BulkVerb.MARK:
                yield DagRequest(dag_id, (run_id,), MarkRun(run_id=run_id, state=RunState(str(action.state))))
            case BulkVerb.CANCEL:
                yield DagRequest(dag_id, (run_id,), CancelRun(run_id=run_id))
            case _:
                yield DagRequest(dag_id, (run_id,), SetNote(run_id=run_id, note=action.note))


def _of_tasks(action: Action, place: tuple[str, str, int], run_ids: tuple[str, ...]) -> Iterator[DagRequest]:
    dag_id, task_id, index = place
    map_index = None if index < 0 else index
    which: dict[str, Any] = {"run_ids": run_ids, "task_ids": (task_id,), "map_index": map_index}
    match action.verb:
        case BulkVerb.CLEAR:
            yield DagRequest(dag_id, run_ids, Clear(**which, only_failed=action.only_failed, dependents=False))
        case BulkVerb.MARK:
            yield DagRequest(dag_id, run_ids, MarkTasks(**which, state=TaskState(str(action.state))))
        case _:
            for run_id in run_ids:
                note = SetNote(run_id=run_id, task_id=task_id, map_index=map_index, note=action.note)
                yield DagRequest(dag_id, (run_id,), note)


@dataclass
class BulkTotal:
    """What the requests touch (or touched) together.

    `count` task instances by state, of which the first 1,000 are in `instances` with their DAG; the refused requests
    with the reason; and how many are stored and wait for a scheduler.
    """

    count: int = 0
    states: dict[str, int] = field(default_factory=dict)
    instances: list[dict[str, Any]] = field(default_factory=list)
    refused: list[tuple[DagRequest, str]] = field(default_factory=list)
    waiting: int = 0
    touched: set[tuple[str, str]] = field(default_factory=set)

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.touched)

    @property
    def dags(self) -> int:
        """The number of DAGs."""
        return len({dag_id for dag_id, _ in self.touched})

    def add(self, each: DagRequest, outcome: Mapping[str, Any] | str | None) -> None:
        """Add the outcome of a request: its answer; None: it waits; text: why it is refused."""
        if isinstance(outcome, str):
            self.refused.append((each, outcome))
            return
        if outcome is None:
            self.waiting += 1
            return
        is_counted = "runs" in outcome
        self.touched.update((each.dag_id, run_id) for run_id in (outcome["runs"] if is_counted else each.run_ids))
        self.count += outcome.get("count", 0)
        self.states = dict(Counter(self.states) + Counter(outcome.get("states", {})))
        room = MOST_SHOWN - len(self.instances)
        found: Sequence[Mapping[str, Any]] = (outcome.get("instances") or ())[:room]
        self.instances += [{**one, "dag_id": each.dag_id} for one in found]
