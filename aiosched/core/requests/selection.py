"""Which tasks and which dates a request to clear or mark selects. Pure.

Does not live here: finding its runs (scheduler/requests/runs_meant.py), which instances of a run these are, and what
happens to them (instance_changes.py). Source: the semantics reference, section 28.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from aiosched.core.graph.graph import Graph
from aiosched.core.requests import requests
from aiosched.core.requests.instance_changes import IndexedTasks, InstanceSelection
from aiosched.core.timetables.days import end_of, start_of
from aiosched.core.values.ids import read_instance_name
from aiosched.core.values.patterns import PatternError, searcher
from aiosched.errors import DagError, Refused


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


def dates_meant(request: requests.TaskChange, timezone: str) -> Dates | None:
    """The logical dates that a request names, days being those of this time zone; None: it names none.

    Raises Refused for an instant without a time zone.
    """
    if request.first is None and request.final is None:
        return None
    for given in (request.first, request.final):
        if isinstance(given, datetime) and given.tzinfo is None:
            text = given.isoformat()
            raise Refused(f"{text} has no time zone; write it with one, like {text}+00:00.")
    return Dates(
        None if request.first is None else start_of(request.first, timezone),
        None if request.final is None else end_of(request.final, timezone),
    )


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
        request,
        map_index=None if _names_tasks(request) else request.map_index,
        to_rerun=not isinstance(request, requests.MarkTasks),
        newest=newest if request.newest_version else None,
    )


def has_markers(selection: InstanceSelection) -> bool:
    """Whether a selected task marks one of another DAG."""
    return any(
        selection.graphs[version].tasks[task].marks
        for version, tasks in selection.tasks.items()
        for task in tasks.union(*(each.named | each.reached for each in selection.indexed[version]))
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


def _has(graph: Graph, name: str) -> bool:
    return name in graph.index or name in graph.members


def select_tasks(
    graph: Graph,
    *,
    task_ids: Iterable[str] | None = None,
    pattern: str | None = None,
    upstream: bool = False,
    downstream: bool = False,
) -> frozenset[int]:
    """The indexes of the selected tasks.

    `task_ids` are ids of tasks, or of task groups, which select all their tasks; `pattern` is a regular expression to
    be found in task ids. Without both: all tasks. `upstream` and `downstream` add all tasks upstream and downstream of
    the tasks found.

    Raises DagError for an id that the DAG does not have (naming the nearest), and for a
    pattern that is not a regular expression.
    """
    found = set(range(len(graph)) if task_ids is None and pattern is None else ())
    for name in task_ids or ():
        found.update(graph.members.get(name) or graph.resolve(name))
    if pattern is not None:
        try:
            matches = searcher(pattern)
        except PatternError as error:
            raise DagError(f"The pattern {pattern!r:.200} cannot be used: {error}.") from None
        found.update(index for index, task_id in enumerate(graph.task_ids) if matches(task_id))
    wanted = set(found)
    for index in found:
        if upstream:
            wanted |= graph.ancestors(index)
        if downstream:
            wanted |= graph.descendants(index)
    return frozenset(wanted)
