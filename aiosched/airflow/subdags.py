"""`SubDagOperator` of Airflow 1.10 and 2, as a task group: the tasks of the inner DAG become tasks of the outer one."""

from __future__ import annotations

from enum import Enum
from typing import Any

from aiosched.authoring.base.building import current_dag
from aiosched.authoring.base.checks import fail, warn
from aiosched.authoring.base.location import author_location
from aiosched.authoring.dag.dag import DAG
from aiosched.authoring.dag.groups import TaskGroup


class SkippedStatePropagationOptions(Enum):
    """How the tasks of the inner DAG take over that it was skipped; in a group they are skipped by their rules."""

    ALL_LEAVES = "all_leaves"
    ANY_LEAF = "any_leaf"


class SubDagOperator(TaskGroup):
    """The tasks of `subdag` as a group with the id `task_id`.

    The inner DAG's schedule, dates and limits have no effect: its tasks belong to the runs of the outer DAG. Raises
    DagError where the inner DAG has groups of its own.
    """

    def __init__(
        self,
        *,
        task_id: str,
        subdag: DAG,
        dag: DAG | None = None,
        default_args: Any = None,
        conf: Any = None,
        propagate_skipped_state: Any = None,
        **options: Any,
    ) -> None:
        where = author_location()
        outer = dag or (default_args or {}).get("dag") or current_dag()
        if outer is None:
            raise fail(
                f"SubDagOperator {task_id!r} is in no DAG. Create it inside `with DAG(...)`, or give dag=.", where
            )
        if subdag.dag_id != f"{outer.dag_id}.{task_id}":
            raise fail(
                f"SubDagOperator {task_id!r}: its subdag must have the dag_id {outer.dag_id}.{task_id!s}, "
                f"not {subdag.dag_id!r}.",
                where,
            )
        if subdag.task_groups:
            raise fail(f"SubDagOperator {task_id!r}: its subdag has groups. Make it a TaskGroup.", where)
        if options:
            named = ", ".join(sorted(options))
            warn(f"SubDagOperator({task_id!r}) is a task group here, so {named} has no effect on its tasks.", where)
        super().__init__(task_id, dag=outer, default_args=default_args)
        subdag.auto_register = False
        self.subdag = subdag
        self.task_id = task_id
        self._take_over(subdag)

    def _take_over(self, subdag: DAG) -> None:
        """Move the tasks of `subdag` into this group, with their dependencies."""
        tasks = list(subdag.task_dict.values())
        ids = {task.task_id: self.child_id(task.task_id) for task in tasks}
        for task in tasks:
            task.task_id = ids[task.task_id]
            task.dag = None
            task.task_group = self
            task.upstream_task_ids = {ids[one] for one in task.upstream_task_ids}
            task.downstream_task_ids = {ids[one] for one in task.downstream_task_ids}
            self.dag.add_task(task)
            self.children[task.task_id] = task
        self.dag.edge_labels.update(
            {">".join(ids[end] for end in edge.split(">")): label for edge, label in subdag.edge_labels.items()}
        )
        subdag.task_dict.clear()
