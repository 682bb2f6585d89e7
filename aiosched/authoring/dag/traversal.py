"""A DAG as others walk over it: in topological order, as a tree of groups, as a part of itself. Airflow's names."""

from __future__ import annotations

import copy
import heapq
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from aiosched.errors import DagCycleError

if TYPE_CHECKING:
    from aiosched.authoring.dag.groups import TaskGroup
    from aiosched.authoring.tasks.operator import BaseOperator


class RootGroup:
    """What `dag.task_group` is: the tasks and groups of a DAG that are in no group. It has no id."""

    group_id = None
    label = None
    is_root = True
    parent_group = None

    def __init__(self, dag: Traversal) -> None:
        self.dag = dag

    @property
    def children(self) -> dict[str, BaseOperator | TaskGroup]:
        """The tasks and groups at the top, by id."""
        groups = {group.group_id: group for group in self.dag.task_groups.values() if group.parent_group is None}
        return {**{task.task_id: task for task in self.dag.task_dict.values() if task.task_group is None}, **groups}

    def get_child_by_label(self, label: str) -> BaseOperator | TaskGroup:
        """The task or group of that id. Raises KeyError."""
        return self.children[label]

    def get_task_group_dict(self) -> dict[str | None, Any]:
        """All groups by id; this one is at None."""
        found: dict[str | None, Any] = {None: self}
        found.update(self.dag.task_groups)
        return found

    def iter_tasks(self) -> Iterator[BaseOperator]:
        """All tasks of the DAG."""
        return iter(self.dag.task_dict.values())

    def get_roots(self) -> Iterator[BaseOperator]:
        """The tasks without upstream tasks."""
        return (task for task in self.iter_tasks() if not task.upstream_task_ids)

    def get_leaves(self) -> Iterator[BaseOperator]:
        """The tasks without downstream tasks."""
        return (task for task in self.iter_tasks() if not task.downstream_task_ids)


class Traversal:
    """Base of DAGs."""

    dag_id: str
    fileloc: str
    task_dict: dict[str, BaseOperator]
    task_groups: dict[str, TaskGroup]

    @property
    def task_group(self) -> RootGroup:
        """The root of the tree of groups."""
        return RootGroup(self)

    @property
    def task_group_dict(self) -> Mapping[str, TaskGroup]:
        """The groups by id."""
        return dict(self.task_groups)

    @property
    def task_count(self) -> int:
        """The number of tasks."""
        return len(self.task_dict)

    @property
    def filepath(self) -> str:
        """The path of the DAG's file."""
        return self.fileloc

    def has_task_group(self, task_group_id: str) -> bool:
        """Whether there is a group with that id."""
        return task_group_id in self.task_groups

    def topological_sort(self, include_subdag_tasks: bool = False) -> tuple[BaseOperator, ...]:
        """The tasks, each after all those that it waits for; otherwise in the order of definition.

        Raises DagCycleError.
        """
        position = {task_id: number for number, task_id in enumerate(self.task_dict)}
        left = {task_id: len(task.upstream_task_ids) for task_id, task in self.task_dict.items()}
        ready = [position[task_id] for task_id, count in left.items() if not count]
        by_position = list(self.task_dict.values())
        heapq.heapify(ready)
        found: list[BaseOperator] = []
        while ready:
            task = by_position[heapq.heappop(ready)]
            found.append(task)
            for below in task.downstream_task_ids:
                left[below] -= 1
                if not left[below]:
                    heapq.heappush(ready, position[below])
        if len(found) < len(by_position):
            raise DagCycleError(f"The tasks of DAG {self.dag_id!r} depend on each other in a cycle.")
        return tuple(found)

    def partial_subset(
        self,
        task_ids: str | re.Pattern[str] | Iterable[str | BaseOperator],
        include_downstream: bool = False,
        include_upstream: bool = True,
        include_direct_upstream: bool = False,
    ) -> Self:
        """A copy of the DAG with some of its tasks, and of what is before or after them.

        `task_ids` is a part of ids, a pattern that their beginning matches, or ids and tasks. Dependencies on tasks
        that are left out are dropped.
        """
        kept = self._named(task_ids)
        for task_id in list(kept):
            task = self.task_dict[task_id]
            if include_downstream:
                kept |= task.get_flat_relative_ids()
            if include_upstream:
                kept |= task.get_flat_relative_ids(upstream=True)
            elif include_direct_upstream:
                kept |= task.upstream_task_ids
        part = copy.copy(self)
        part.task_dict, part.task_groups = {}, {}
        for task_id, task in self.task_dict.items():
            if task_id in kept:
                twin: Any = copy.copy(task)
                twin.dag = part
                twin.upstream_task_ids = task.upstream_task_ids & kept
                twin.downstream_task_ids = task.downstream_task_ids & kept
                part.task_dict[task_id] = twin
        part._copy_groups(self)
        return part

    def _named(self, task_ids: str | re.Pattern[str] | Iterable[str | BaseOperator]) -> set[str]:
        if isinstance(task_ids, re.Pattern):
            return {task_id for task_id in self.task_dict if task_ids.match(task_id)}
        if isinstance(task_ids, str):
            return {task_id for task_id in self.task_dict if task_ids in task_id}
        wanted = {one if isinstance(one, str) else one.task_id for one in task_ids}
        return wanted & self.task_dict.keys()

    def _copy_groups(self, original: Traversal) -> None:
        """Make this DAG's own copies of the groups that have tasks left."""
        twins: dict[str, Any] = {}
        for group_id, group in original.task_groups.items():
            if any(task.task_id in self.task_dict for task in group):
                twins[group_id] = copy.copy(group)
        for group_id, twin in twins.items():
            twin.dag = self
            parent = twin.parent_group
            twin.parent_group = twins[parent.group_id] if parent is not None else None
            members = original.task_groups[group_id].children
            twin.children = {
                key: self.task_dict.get(key) or twins[key] for key in members if key in self.task_dict or key in twins
            }
            for key, child in twin.children.items():
                if key in self.task_dict:
                    child.task_group = twin
        self.task_groups = twins
