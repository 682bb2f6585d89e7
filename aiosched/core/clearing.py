"""Which task instances a user means by "clear this" or "mark that".

Pure. Does not live here: what clearing and marking do to them (marks.py).
Source: the semantics reference, section 28.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from aiosched.core.graph import Graph
from aiosched.core.instances import Instance
from aiosched.core.states import FAILURES, TaskState
from aiosched.errors import DagError

_RUNNING: Final = frozenset({TaskState.RUNNING})


def select_tasks(
    graph: Graph,
    *,
    task_ids: Iterable[str] | None = None,
    pattern: str | None = None,
    upstream: bool = False,
    downstream: bool = False,
) -> frozenset[int]:
    """The indexes of the tasks that are meant, with the setups and teardowns that belong to them.

    `task_ids` are ids of tasks, or of task groups, which mean all their tasks; `pattern` is a
    regular expression that task ids are searched for. Without both: all tasks. `upstream`
    and `downstream` add everything before and behind the tasks found. To a task belong the
    setups whose scope it is in, with their teardowns; to a setup its teardowns.

    Raises DagError for an id that the DAG does not have (naming the nearest), and for a
    pattern that is not a regular expression.
    """
    found = set(range(len(graph)) if task_ids is None and pattern is None else ())
    for name in task_ids or ():
        found.update(graph.members.get(name) or graph.resolve(name))
    if pattern is not None:
        try:
            matches = re.compile(pattern).search
        except re.error as error:
            raise DagError(f"The pattern {pattern!r} is not a regular expression: {error}.") from None
        found.update(index for index, task_id in enumerate(graph.task_ids) if matches(task_id))
    wanted = set(found)
    for index in found:
        if upstream:
            wanted |= graph.ancestors(index)
        if downstream:
            wanted |= graph.descendants(index)
    return frozenset(wanted | _belonging(graph, wanted))


def _belonging(graph: Graph, tasks: Iterable[int]) -> set[int]:
    found: set[int] = set()
    for task in tasks:
        if graph.is_setup[task]:
            found.update(_teardowns(graph, task))
        elif not graph.is_teardown[task]:
            for setup in (*graph.indirect_setups[task], *(up for up in graph.upstream[task] if graph.is_setup[up])):
                teardowns = _teardowns(graph, setup)
                if not teardowns or not graph.descendants(task).isdisjoint(teardowns):
                    found.update((setup, *teardowns))
    return found


def _teardowns(graph: Graph, setup: int) -> list[int]:
    return [down for down in graph.downstream[setup] if graph.is_teardown[down]]


def choose(
    instances: Iterable[Instance],
    tasks: frozenset[int],
    *,
    only_failed: bool = False,
    only_running: bool = False,
    map_index: int | None = None,
) -> list[Instance]:
    """Of `instances` (a board, or its rows) those of `tasks`, in their order.

    `only_failed`: failed and upstream-failed ones; `only_running`: running ones; both: either.
    `map_index` None means every index; -1 is the index of a task that is not mapped.
    """
    states = (FAILURES if only_failed else frozenset()) | (_RUNNING if only_running else frozenset())
    return [
        instance
        for instance in instances
        if instance.task in tasks
        and (map_index is None or instance.map_index == map_index)
        and (not states or instance.state in states)
    ]
