"""Which task instances a request to clear or mark selects.

Pure. Does not live here: what clearing and marking do to them (manual_changes.py).
Source: the semantics reference, section 28.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.instances import Instance
from aiosched.core.run.upstream_counts import UpstreamCounts
from aiosched.core.values.patterns import PatternError, searcher
from aiosched.core.values.states import FAILURES, TaskState
from aiosched.errors import DagError

_RUNNING: Final = frozenset({TaskState.RUNNING})


@dataclass(frozen=True, slots=True)
class IndexedTasks:
    """Tasks of which one map index is named, and the tasks that are selected because they are up- or downstream.

    Of these the instances are meant that concern the named ones: in a mapped group those of its index, otherwise all.
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


def choose(
    graph: Graph,
    instances: Iterable[Instance],
    tasks: frozenset[int],
    *,
    only_failed: bool = False,
    only_running: bool = False,
    map_index: int | None = None,
    indexed: Sequence[IndexedTasks] = (),
    with_scopes: bool = True,
) -> list[Instance]:
    """Of the `instances` of a run (its board, or its rows) those that are selected, in their order.

    These are instances of `tasks`, and those of `indexed`. `only_failed`: failed and upstream-failed ones;
    `only_running`: running ones; both: either. `map_index` None means every index of `tasks`; -1 is that of a task that
    is not mapped. `with_scopes`: their setups and teardowns are selected, too, whatever their state and index
    (`belonging`).
    """
    rows = list(instances)
    states = (FAILURES if only_failed else frozenset()) | (_RUNNING if only_running else frozenset())
    meant = set[Instance]().union(*(each.of(graph, rows) for each in indexed))
    meant.update(row for row in rows if row.task in tasks and (map_index is None or row.map_index == map_index))
    chosen = {row: None for row in rows if row in meant and (not states or row.state in states)}
    if with_scopes and chosen and any(graph.is_setup):
        chosen |= dict.fromkeys(belonging(graph, UpstreamCounts(graph, rows), chosen))
    return [instance for instance in rows if instance in chosen]


def belonging(graph: Graph, upstream_counts: UpstreamCounts, instances: Iterable[Instance]) -> set[Instance]:
    """The setups and teardowns without which `instances` must not be rerun.

    For a task these are the setups whose scope it is in, with their teardowns; for a setup its teardowns; and in turn
    those of all these. In a mapped group they are those of the same index (of all indexes if groups are nested and
    their sizes are unknown).
    """
    found: set[Instance] = set()
    to_visit = list(instances)
    tasks: dict[int, set[int]] = {}
    while to_visit:
        instance = to_visit.pop()
        task = instance.task
        if task not in tasks:
            tasks[task] = _scopes_of(graph, task)
        for other in tasks[task]:
            added = [each for each in upstream_counts.counterparts(other, instance) if each not in found]
            found.update(added)
            to_visit.extend(added)
    return found


def _scopes_of(graph: Graph, task: int) -> set[int]:
    found = set(_teardowns(graph, task)) if graph.is_setup[task] else set()
    below = graph.descendants(task)
    for setup in graph.ancestors(task):
        if graph.is_setup[setup]:
            teardowns = _teardowns(graph, setup)
            if not below.isdisjoint(teardowns) or not (teardowns or graph.is_teardown[task]):
                found.update((setup, *teardowns))
    return found


def _teardowns(graph: Graph, setup: int) -> list[int]:
    return [down for down in graph.downstream[setup] if graph.is_teardown[down]]
