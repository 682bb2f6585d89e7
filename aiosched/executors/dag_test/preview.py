"""Renders the template fields of an attempt without running it: for `aiosched tasks render`.

Values are for display: secrets are `***`, and objects that are not plain data appear as their `repr`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from aiosched.authoring.runtime.context import current_context
from aiosched.authoring.runtime.task_instance import TaskInstance
from aiosched.authoring.tasks.task_context import build_context
from aiosched.core.values.masking import secrets
from aiosched.core.values.messages import Attempt, TaskServices
from aiosched.errors import NotFound
from aiosched.executors.attempt.blocking import blocking_on

if TYPE_CHECKING:
    from aiosched.authoring.dag.dag import DAG


async def rendered_fields(dag: DAG, attempt: Attempt, services: TaskServices) -> dict[str, Any]:
    """The template fields of the attempt's task by name, rendered as in the attempt.

    Raises NotFound for a task that `dag` does not have, TemplateError naming field and name.
    """
    task = dag.task_dict.get(attempt.task_id)
    if task is None:
        raise NotFound(f"DAG {dag.dag_id!r} has no task {attempt.task_id!r}; it has {', '.join(dag.task_dict)}.")
    ti = TaskInstance(attempt, task, services, blocking_on(asyncio.get_running_loop()))
    context = build_context(task, ti, attempt, dag)
    with current_context(context):
        await ti.prefetch(task.xcom_references(ti.map_index))
        operator = await asyncio.to_thread(task.render, context)  # it may query the database: not on this loop
    return {name: secrets.redact_value(_plain(getattr(operator, name, None)), name) for name in task.template_fields}


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=repr, builtin_types=())
