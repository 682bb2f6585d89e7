"""`SubDagOperator` of Airflow 1.10 and 2, as a task group: the tasks of the inner DAG become tasks of the outer one."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from aiosched.authoring.base import checks
from aiosched.authoring.base.building import current_dag
from aiosched.authoring.base.location import author_location
from aiosched.authoring.dag.dag import DAG
from aiosched.authoring.dag.groups import TaskGroup

_OF_THE_RUN: Final = ("conf", "executor", "pool", "propagate_skipped_state", "session")


class SkippedStatePropagationOptions(Enum):
    """How the outer task became skipped with those of the inner DAG. In a group, trigger rules decide."""

    ALL_LEAVES = "all_leaves"
    ANY_LEAF = "any_leaf"


class SubDagGroup(TaskGroup):
    """The group with the tasks of an inner DAG; `task_id` and `subdag` as Airflow's operator has them."""

    def __init__(self, task_id: str, subdag: DAG, dag: Any, default_args: Any = None) -> None:
        super().__init__(task_id, dag=dag, default_args=default_args)
        self.task_id = task_id
        self.subdag = subdag


def SubDagOperator(*, task_id: str, subdag: DAG, dag: Any = None, default_args: Any = None, **options: Any) -> Any:
    """A group `task_id` of the outer DAG, with the tasks of `subdag` and their dependencies.

    The inner DAG's schedule, dates and limits have no effect: its tasks belong to the runs of the outer DAG, and their
    own options (retries, pool, …) apply. Raises DagError for an inner DAG with groups, and for a trigger rule other
    than all_success, which a group cannot have.
    """
    where = author_location()
    outer = dag or (default_args or {}).get("dag") or current_dag()
    if outer is None:
        message = f"SubDagOperator {task_id!r} is in no DAG. Create it inside `with DAG(...)`, or give dag=."
        raise checks.fail(message, where)
    if subdag.task_groups:
        raise checks.fail(f"SubDagOperator {task_id!r}: its subdag has groups. Make it a TaskGroup.", where)
    if options.pop("trigger_rule", "all_success") != "all_success":
        message = "it becomes a group, which has no trigger_rule. Give that rule to its first tasks."
        raise checks.fail(f"SubDagOperator {task_id!r}: {message}", where)
    if named := sorted(name for name in options if name in _OF_THE_RUN and options[name] is not None):
        checks.warn_once(
            f"SubDagOperator is a task group here, so {', '.join(named)} has no effect on its tasks.", where
        )
    group = SubDagGroup(task_id, subdag, outer, default_args)
    _take_over(group, subdag)
    return group


SubDagOperator._validate_pool = lambda *_: None  # type: ignore[attr-defined] # tests of teams replace it


def _take_over(group: SubDagGroup, subdag: DAG) -> None:
    """Move the tasks of `subdag` into `group`, with their dependencies."""
    tasks = list(subdag.task_dict.values())
    ids = {task.task_id: group.child_id(task.task_id) for task in tasks}
    subdag.task_dict.clear()
    subdag.is_part = True
    for task in tasks:
        task.task_id = ids[task.task_id]
        task.task_group = group
        task.upstream_task_ids = {ids[one] for one in task.upstream_task_ids}
        task.downstream_task_ids = {ids[one] for one in task.downstream_task_ids}
        group.dag.add_task(task)
        group.children[task.task_id] = task
    labels = {">".join(ids[end] for end in edge.split(">")): label for edge, label in subdag.edge_labels.items()}
    group.dag.edge_labels.update(labels)
