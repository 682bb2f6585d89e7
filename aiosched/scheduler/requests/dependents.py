"""What a request to clear reaches in other DAGs: the tasks that selected `ExternalTaskMarker`s mark, and on from there.

It is read from the rows before anything is changed, so a request that goes too far is refused as a whole. The owner
of the first DAG stores one request for each run that is reached, in the transaction that answers its own.
Source: the semantics reference, section 28.6.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.instances import Instance
from aiosched.core.graph.spec import MARKED, ExternalMark
from aiosched.core.requests.instance_changes import SHOWN, InstanceSelection, choose, refuse_running, running_of
from aiosched.core.requests.requests import Clear
from aiosched.core.requests.selection import select_tasks
from aiosched.core.requests.stored import encode
from aiosched.core.values.messages import XComRef
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.clearing import RunOfRequest, runs_between
from aiosched.db.statements.inbox import NewRequest
from aiosched.db.statements.runs import get_xcoms, load_instances
from aiosched.errors import Refused
from aiosched.scheduler.memory.cache import OwnedDag, StateCache
from aiosched.scheduler.memory.version_reading import ensure_versions
from aiosched.scheduler.session.session import Session

_MOST_RUNS: Final = 1_000  # of other DAGs, reached by one request


class SelectedRun(NamedTuple):
    """Task instances of a run that are to be cleared."""

    dag_id: str
    run: RunOfRequest
    graph: Graph
    instances: Sequence[Instance]


class MarkerInstance(NamedTuple):
    """A marker whose target is to be read."""

    run: RunOfRequest
    graph: Graph
    instance: Instance
    mark: ExternalMark


class MarkedRuns(NamedTuple):
    """What a marker marks: a task, and the runs of its DAG that are meant, with all their instances."""

    dag_id: str
    task_id: str
    runs: Sequence[tuple[RunOfRequest, Graph, Sequence[Instance]]]


@dataclass(slots=True)
class Dependents:
    """The task instances of other runs that a request reaches, by DAG and run."""

    graphs: dict[int, Graph] = field(default_factory=dict)  # by run key
    runs: dict[int, tuple[str, RunOfRequest]] = field(default_factory=dict)
    instances: dict[int, dict[tuple[int, int], Instance]] = field(default_factory=dict)
    markers: dict[int, str] = field(default_factory=dict)  # the first marker that led to the run

    def add(self, dag_id: str, run: RunOfRequest, graph: Graph, chosen: Iterable[Instance], marker: str) -> None:
        """Note instances of a run that a marker led to."""
        self.graphs[run.key], self.runs[run.key] = graph, (dag_id, run)
        self.markers.setdefault(run.key, marker)
        self.instances.setdefault(run.key, {}).update({(one.task, one.map_index): one for one in chosen})

    def requests(self, request: Clear, number: int) -> list[NewRequest]:
        """One request for each run, in the order in which they were reached."""
        found = []
        for key, instances in self.instances.items():
            if not instances:
                continue
            dag_id, run = self.runs[key]
            clear = Clear(
                run_ids=(run.run_id,),
                task_ids=tuple(dict.fromkeys(self.graphs[key].task_ids[task] for task, _ in instances)),
                only_failed=request.only_failed,
                only_running=request.only_running,
                dependents=False,
            )
            found.append(NewRequest(dag_id, *encode(clear), f"request {number}", f"follows {self.markers[key]}"))
        return found

    def running(self) -> list[str]:
        """The names of those that are running."""
        return [
            f"{self.runs[key][0]}.{name}"
            for key, chosen in self.instances.items()
            for name in running_of(self.runs[key][1].run_id, self.graphs[key], chosen.values())
        ]

    def shown(self) -> list[dict[str, Any]]:
        """For the answer: the first instances, with their DAG."""
        return [
            {
                "dag_id": self.runs[key][0],
                "run_id": self.runs[key][1].run_id,
                "task_id": self.graphs[key].task_ids[instance.task],
                "map_index": instance.map_index,
                "state": instance.state.stored,
                "try_number": instance.try_number,
            }
            for key, instances in self.instances.items()
            for instance in instances.values()
        ][:SHOWN]


class _Step(NamedTuple):
    """Selected instances whose markers are to be followed over at most `left` more DAGs (None: by their own depth)."""

    selected: SelectedRun
    left: int | None
    depth: int


Following = Generator[MarkerInstance, MarkedRuns | None, Dependents]


def follow(selected: Iterable[SelectedRun], request: Clear) -> Following:
    """Decide what clearing `selected` reaches in other runs: asks for the target of one marker after the other.

    A marker is followed once, so a circle of markers ends where it began. Raises Refused where a chain is longer than
    the `recursion_depth` of its first marker, and for running instances with `prevent_running`.
    """
    found = Dependents()
    steps = deque(_Step(one, None, 0) for one in selected)
    own = {step.selected.run.key: {(i.task, i.map_index) for i in step.selected.instances} for step in steps}
    followed: set[tuple[int, int, int]] = set()
    while steps:
        (dag_id, run, graph, instances), allowed, depth = steps.popleft()
        for instance in instances:
            mark, place = graph.tasks[instance.task].marks, (run.key, instance.task, instance.map_index)
            if mark is None or place in followed:
                continue
            followed.add(place)
            marked = yield MarkerInstance(run, graph, instance, mark)
            if marked is None:
                continue
            left = mark.recursion_depth if allowed is None else allowed
            marker = f"{dag_id}.{graph.task_ids[instance.task]}"
            if left == 0:
                raise _too_deep(depth, marker)
            for reached, other, rows in marked.runs:
                chosen = [i for i in _behind(other, rows, marked.task_id, request) if _is_new(i, own.get(reached.key))]
                found.add(marked.dag_id, reached, other, chosen, marker)
                steps.append(_Step(SelectedRun(marked.dag_id, reached, other, chosen), left - 1, depth + 1))
            if len(found.runs) > _MOST_RUNS:
                raise Refused(f"Nothing is cleared: it would reach more than {_MOST_RUNS:,} runs of other DAGs.")
    if request.prevent_running:
        refuse_running(found.running())
    return found


async def reached_by(
    session: Session, dag: OwnedDag, runs: Sequence[RunOfRequest], selection: InstanceSelection, request: Clear
) -> Dependents:
    """What a request to clear reaches in other DAGs (28.6)."""
    held = dag.runs.running
    async with session.env.db.acquire() as conn:
        rows = await load_instances(conn, [run.key for run in runs if run.key not in held])
        selected = []
        for run in runs:
            found = held[run.key] if run.key in held else rows[run.key]
            graph, chosen = selection.graphs[run.version_id], selection.of(run.version_id, found)
            selected.append(SelectedRun(dag.row.dag_id, run, graph, chosen))
        return await find_dependents(conn, session.cache, selected, request)


async def find_dependents(
    conn: DatabaseConnection, cache: StateCache, selected: Iterable[SelectedRun], request: Clear
) -> Dependents:
    """What `follow` decides by the rows."""
    steps = follow(selected, request)
    answer: MarkedRuns | None = None
    while True:
        try:
            question = steps.send(answer)
        except StopIteration as done:
            found: Dependents = done.value
            return found
        answer = await _read(conn, cache, question)


async def _read(conn: DatabaseConnection, cache: StateCache, marker: MarkerInstance) -> MarkedRuns | None:
    note: str | None = None
    if marker.mark.is_noted:
        ref = XComRef(marker.graph.task_ids[marker.instance.task], MARKED, marker.instance.map_index)
        (pairs,) = await get_xcoms(conn, marker.run.key, [(marker.instance.task, ref)])
        note = next((text for _, text in pairs or () if isinstance(text, str)), None)
    if (target := target_of(marker, note)) is None:
        return None
    dag_id, task_id, date = target
    runs = await runs_between(conn, dag_id, date, date)
    await ensure_versions(cache, conn, {run.version_id for run in runs})
    instances = await load_instances(conn, [run.key for run in runs])
    return MarkedRuns(dag_id, task_id, [(run, cache.versions[run.version_id][1], instances[run.key]) for run in runs])


def target_of(marker: MarkerInstance, note: str | None) -> tuple[str, str, datetime] | None:
    """The DAG, task and logical date that a marker marks; `note`: the JSON that it stored when it ran, if it has.

    None if that is not known: it has templates and has not run, or its run has no logical date.
    """
    mark = marker.mark
    if not mark.is_noted:
        date = mark.logical_date or marker.run.logical_date
        return None if date is None else (mark.dag_id, mark.task_id, date)
    if note is None:
        return None
    noted: Mapping[str, str] = msgspec.json.decode(note)
    return noted["dag_id"], noted["task_id"], datetime.fromisoformat(noted["logical_date"])


def _behind(graph: Graph, rows: Sequence[Instance], task_id: str, request: Clear) -> list[Instance]:
    """The instances of a task that is marked, and of all tasks downstream of it; none if the DAG has no such task."""
    if task_id not in graph.index and task_id not in graph.members:
        return []
    tasks = select_tasks(graph, task_ids=[task_id], downstream=True)
    return choose(graph, rows, tasks, request)


def _is_new(instance: Instance, own: Container[tuple[int, int]] | None) -> bool:
    return own is None or (instance.task, instance.map_index) not in own


def _too_deep(depth: int, marker: str) -> Refused:
    return Refused(
        f"Nothing is cleared: it would reach {marker} through {depth} other DAGs, and its first marker follows at most "
        "that many. Perhaps the markers form a circle; if not, raise recursion_depth of the ExternalTaskMarker, or "
        "clear with dependents=False (`--no-dependents`) and the other DAGs by themselves."
    )
