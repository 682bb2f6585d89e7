"""`TaskInstance` as tests make it. It runs tasks as the room `testing` does, so the root registers it."""

from __future__ import annotations

from typing import Any

from aiosched.airflow.objects.models import WithColumns
from aiosched.authoring.runtime import task_instance
from aiosched.lazy import provided


class _MadeByTests(WithColumns):
    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return provided("TestedInstance")(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, task_instance.TaskInstance)


class TaskInstance(task_instance.TaskInstance, metaclass=_MadeByTests):
    """`TaskInstance(task, run_id=…)` is one that a test can `run()`; `ti` in a running task is an instance, too."""
