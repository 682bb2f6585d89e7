"""`SubDagOperator` of Airflow 1.10 and 2, as a task group: the tasks of the inner DAG become tasks of the outer one."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final

from aiosched.authoring.base import checks
from aiosched.authoring.base.building import current_dag
from aiosched.authoring.base.location import author_location
from aiosched.authoring.dag.dag import DAG
from aiosched.authoring.dag.groups import TaskGroup
from aiosched.authoring.operators.empty import EmptyOperator
from aiosched.core.graph.trigger_rules import TriggerRule

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
    own options (retries, pool, …) apply. A trigger rule, which a group cannot have, becomes that of its first tasks,
    whatever theirs were: they waited for nothing in the inner DAG. Raises DagError outside a DAG,
    and for a subdag that another one has.
    """
    where = author_location()
    outer = dag or (default_args or {}).get("dag") or current_dag()
    if outer is None:
        message = f"SubDagOperator {task_id!r} is in no DAG. Create it inside `with DAG(...)`, or give dag=."
        raise checks.fail(message, where)
    if subdag.is_part:
        message = f"its subdag {subdag.dag_id!r} is another one's already. Make a DAG for each of them."
        raise checks.fail(f"SubDagOperator {task_id!r}: {message}", where)
    rule = options.pop("trigger_rule", {**outer.default_args, **(default_args or {})}.get("trigger_rule"))
    if named := sorted(name for name in options if name in _OF_THE_RUN and options[name] is not None):
        checks.warn_once(
            f"SubDagOperator is a task group here, so {', '.join(named)} has no effect on its tasks.", where
        )
    group = SubDagGroup(task_id, subdag, outer, default_args)
    _take_over(group, subdag)
    for task in group.first_tasks:
        if not task.is_setup:
            task.trigger_rule = TriggerRule.parse(rule or TriggerRule.ALL_SUCCESS).value
    return group


SubDagOperator._validate_pool = lambda *_: None  # type: ignore[attr-defined] # tests of teams replace it


def _take_over(group: SubDagGroup, subdag: DAG) -> None:
    """Move the tasks and groups of `subdag` into `group`, with their dependencies."""
    tasks, groups = list(subdag.task_dict.values()), list(subdag.task_groups.values())
    ids = {own: group.child_id(own) for own in (*subdag.task_dict, *subdag.task_groups)}
    subdag.task_dict.clear()
    subdag.task_groups.clear()
    subdag.is_part = True
    for inner in groups:
        parent = inner.parent_group or group
        inner.dag, inner.group_id, inner.parent_group, inner.children = group.dag, ids[inner.group_id], parent, {}
        group.dag.task_groups[inner.group_id] = parent.children[inner.group_id] = inner
    for task in tasks:
        task.task_id = ids[task.task_id]
        task.task_group = parent = task.task_group or group
        task.upstream_task_ids = {ids[one] for one in task.upstream_task_ids}
        task.downstream_task_ids = {ids[one] for one in task.downstream_task_ids}
        group.dag.add_task(task)
        parent.children[task.task_id] = task
    labels = {">".join(ids[end] for end in edge.split(">")): label for edge, label in subdag.edge_labels.items()}
    group.dag.edge_labels.update(labels)


def subdag(parent_dag_name: str, child_dag_name: str, args: dict[str, Any]) -> DAG:
    """The inner DAG of Airflow's example of subdags, which files import: five empty tasks."""
    inner = DAG(
        f"{parent_dag_name}.{child_dag_name}",
        default_args=args,
        start_date=datetime(2021, 1, 1, tzinfo=UTC),
        catchup=False,
        schedule="@daily",
    )
    for number in range(1, 6):
        EmptyOperator(task_id=f"{child_dag_name}-task-{number}", dag=inner)
    return inner
