"""Groups of tasks: a prefix of ids, default arguments, common dependencies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from aiosched.authoring.base import building, checks
from aiosched.authoring.base.dependencies import Dependable
from aiosched.authoring.base.location import author_location
from aiosched.errors import DagCycleError, DuplicateTaskError

if TYPE_CHECKING:
    from aiosched.authoring.base.protocols import Dag, Group
    from aiosched.authoring.mapping.expansion import ExpandInput
    from aiosched.authoring.tasks.operator import BaseOperator


class TaskGroup(Dependable, metaclass=checks.NamesItsParameters):
    """Tasks that belong together: `with TaskGroup("load"): ...`.

    Ids of tasks and groups inside get the group's id as prefix (`load.users`) unless `prefix_group_id` is
    false. `default_args` override those of the enclosing group and DAG. `group >> task` connects the last tasks
    that the group has at that time, without teardowns; `task >> group` connects its first tasks.
    """

    ui_color = ui_fgcolor = ""  # may be set, and is shown nowhere

    def __init__(
        self,
        group_id: str,
        prefix_group_id: bool = True,
        parent_group: TaskGroup | None = None,
        dag: Dag | None = None,
        default_args: Mapping[str, Any] | None = None,
        tooltip: str = "",
        add_suffix_on_collision: bool = False,
        group_display_name: str = "",
        doc_md: str | None = None,
    ) -> None:
        where = self._origin = author_location()
        dag = dag or (parent_group.dag if parent_group is not None else building.current_dag())
        if dag is None:
            message = f"TaskGroup {group_id!r} is in no DAG. Create it inside `with DAG(...)`, or give dag=."
            raise checks.fail(message, where)
        if "." in checks.valid_key("group_id", group_id, where):
            raise checks.fail(f"group_id {group_id!r} must not contain a dot: dots separate nested groups.", where)
        self.dag: Dag = dag
        self.parent_group: Group | None = parent_group or building.current_group(dag)
        self.prefix_group_id = prefix_group_id
        self.label = group_id
        self.tooltip: str = tooltip or (doc_md or "").strip().partition("\n")[0]
        self.doc_md = doc_md
        self.expand_input: ExpandInput | None = None  # what a mapped group is mapped over
        self.group_display_name: str = group_display_name or group_id
        outer = self.parent_group.effective_default_args if self.parent_group else dag.default_args
        self.effective_default_args: Mapping[str, Any] = {**outer, **(default_args or {})}
        wanted = self.parent_group.child_id(group_id) if self.parent_group else group_id
        self.group_id: str = checks.valid_key(
            "group_id", dag.free_id(wanted) if add_suffix_on_collision else wanted, where
        )
        if self.group_id in dag.task_groups or self.group_id in dag.task_dict:
            raise checks.fail(
                f"The DAG {dag.dag_id!r} has a task or group {self.group_id!r} already. Choose another group_id.",
                where,
                kind=DuplicateTaskError,
            )
        self.children: dict[str, BaseOperator | TaskGroup] = {}  # direct members, by full id
        dag.task_groups[self.group_id] = self
        if self.parent_group is not None:
            self.parent_group.children[self.group_id] = self

    def child_id(self, label: str) -> str:
        """The full id of the task or group `label` of this group."""
        prefix = self.prefix
        return f"{prefix}.{label}" if prefix else label

    @property
    def prefix(self) -> str:
        """The prefix of ids in the group, without the dot; may be empty."""
        if self.prefix_group_id:
            return self.group_id
        return self.parent_group.prefix if self.parent_group else ""

    def __enter__(self) -> Self:
        building.open_group(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        building.close_group()

    def __iter__(self) -> Iterator[BaseOperator]:
        """All tasks in the group and in groups inside it, in the order of definition."""
        for child in self.children.values():
            if isinstance(child, TaskGroup):
                yield from child
            else:
                yield child

    @property
    def first_tasks(self) -> Sequence[BaseOperator]:
        members = {task.task_id: task for task in self}
        return [task for task in members.values() if not (task.upstream_task_ids & members.keys())]

    @property
    def last_tasks(self) -> Sequence[BaseOperator]:
        working = {task.task_id: task for task in self if not task.is_teardown}
        return [task for task in working.values() if not (task.downstream_task_ids & working.keys())]

    @property
    def roots(self) -> list[BaseOperator]:
        """The tasks without upstream tasks in the group."""
        return list(self.first_tasks)

    @property
    def leaves(self) -> list[BaseOperator]:
        """The tasks, except teardowns, without downstream tasks in the group."""
        return list(self.last_tasks)

    def get_roots(self) -> Iterator[BaseOperator]:
        """As `roots`, one after the other."""
        return iter(self.first_tasks)

    def get_leaves(self) -> Iterator[BaseOperator]:
        """As `leaves`, one after the other."""
        return iter(self.last_tasks)

    def iter_tasks(self) -> Iterator[BaseOperator]:
        """All tasks in the group and in groups inside it."""
        return iter(self)

    def get_child_by_label(self, label: str) -> BaseOperator | TaskGroup:
        """The task or group `label` of this group. Raises KeyError."""
        return self[label]

    def add(self, task: BaseOperator) -> BaseOperator:
        """Move a task that is in no group yet into this one; its id stays as it is."""
        if task.task_group is not None and task.task_group is not self:
            raise task.fail(f"Task {task.task_id!r} is in the group {task.task_group.group_id!r} already.")
        if task.dag is None:
            self.dag.add_task(task)
        task.task_group = self
        self.children[task.task_id] = task
        return task

    @property
    def default_args(self) -> Mapping[str, Any]:
        """The default arguments of the group, with those of what it is in."""
        return self.effective_default_args

    @property
    def is_root(self) -> bool:
        """False: the root is `dag.task_group`."""
        return False

    @property
    def upstream_task_ids(self) -> set[str]:
        """The ids of the tasks outside the group that tasks in it wait for."""
        inside = {task.task_id for task in self}
        return {task_id for task in self for task_id in task.upstream_task_ids} - inside

    @property
    def downstream_task_ids(self) -> set[str]:
        """The ids of the tasks outside the group that wait for tasks in it."""
        inside = {task.task_id for task in self}
        return {task_id for task in self for task_id in task.downstream_task_ids} - inside

    @property
    def upstream_list(self) -> list[BaseOperator]:
        """The tasks outside the group that tasks in it wait for, by id."""
        return [self.dag.task(task_id) for task_id in sorted(self.upstream_task_ids)]

    @property
    def downstream_list(self) -> list[BaseOperator]:
        """The tasks outside the group that wait for tasks in it, by id."""
        return [self.dag.task(task_id) for task_id in sorted(self.downstream_task_ids)]

    @property
    def dag_id(self) -> str:
        """The id of the DAG."""
        return self.dag.dag_id

    @property
    def node_id(self) -> str:
        """The id of the group; a task has one, too."""
        return self.group_id

    @property
    def task_group(self) -> Group | None:
        """The group that this one is in."""
        return self.parent_group

    def has_task(self, task: BaseOperator) -> bool:
        """Whether a task is in the group or in one inside it."""
        return any(one is task for one in self)

    def get_task_group_dict(self) -> dict[str, TaskGroup]:
        """This group and all inside it, by id."""
        found = {self.group_id: self}
        for child in self.children.values():
            if isinstance(child, TaskGroup):
                found.update(child.get_task_group_dict())
        return found

    def topological_sort(self) -> list[BaseOperator | TaskGroup]:
        """The direct members, each after all those that it waits for. Raises DagCycleError."""
        member_of = {
            task.task_id: node_id
            for node_id, child in self.children.items()
            for task in (child if isinstance(child, TaskGroup) else (child,))
        }
        after = {
            node_id: {member_of[above] for above in child.upstream_task_ids if above in member_of}
            for node_id, child in self.children.items()
        }
        try:
            return [self.children[node_id] for node_id in TopologicalSorter(after).static_order()]
        except CycleError:
            raise DagCycleError(
                f"The members of the group {self.group_id!r} depend on each other in a cycle."
            ) from None

    def __getitem__(self, label: str) -> BaseOperator | TaskGroup:
        """The task or group `label` of this group."""
        return self.children[self.child_id(label)]

    def __repr__(self) -> str:
        return f"<TaskGroup {self.group_id}>"
