"""What the runner has to do for a task, besides calling it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from aiosched.authoring.tasks.nesting import is_mapped_over, mapped_groups
from aiosched.authoring.tasks.operator import BaseOperator
from aiosched.authoring.tasks.previous_run import task_names_previous_run
from aiosched.authoring.tasks.rendering import has_templates
from aiosched.core.values.messages import XComRef

if TYPE_CHECKING:
    from aiosched.authoring.dag.dag import DAG

MOST_PLANNED: Final = 1000  # tasks of a DAG that are planned before their first attempts


class AttemptPlan(msgspec.Struct, frozen=True):
    """The runner's steps that a task needs: computed once per task, not per attempt."""

    references: Sequence[XComRef]
    reads_own_index: bool  # in a mapped group: which values it reads depends on the map index
    is_mapped_over: bool
    has_templates: bool  # its fields as rendered are stored
    names_previous_run: bool  # in its code; for a coroutine those dates are fetched beforehand
    is_async: bool
    has_assets: bool
    has_on_kill: bool
    on_execute: Sequence[Callable[..., Any]]
    on_success: Sequence[Callable[..., Any]]
    on_failure: Sequence[Callable[..., Any]]
    on_retry: Sequence[Callable[..., Any]]
    on_skipped: Sequence[Callable[..., Any]]


def plan_of(task: BaseOperator, dag: DAG) -> AttemptPlan:
    """The plan of a task of `dag`."""
    plan: AttemptPlan | None = dag._attempt_plans.get(task)
    if plan is None:
        plan = dag._attempt_plans[task] = AttemptPlan(
            references=tuple(task.xcom_references()),
            reads_own_index=bool(mapped_groups(task)),
            is_mapped_over=is_mapped_over(task),
            has_templates=has_templates(task._arguments(), task),
            names_previous_run=task_names_previous_run(task),
            is_async=task.is_async,
            has_assets=bool(task.inlets or task.outlets),
            has_on_kill=type(task).on_kill is not BaseOperator.on_kill,
            on_execute=task.on_execute_callback,
            on_success=task.on_success_callback,
            on_failure=task.on_failure_callback,
            on_retry=task.on_retry_callback,
            on_skipped=task.on_skipped_callback,
        )
    return plan


def plan_tasks(dag: DAG) -> None:
    """Compute the plans before the first attempts. A task whose plan fails says so in its attempt."""
    for task in itertools.islice(dag.task_dict.values(), MOST_PLANNED):
        with contextlib.suppress(Exception):
            plan_of(task, dag)
