"""`@task.run_if` and `@task.skip_if`: conditions that are checked in the worker, just before a task runs.

@task.run_if(lambda context: context["params"]["full"], skip_message="only full runs")
@task
def rebuild(): ...
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from aiosched.authoring.base.checks import fail
from aiosched.errors import SkipTask

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context

Condition: TypeAlias = Callable[["Context"], bool | tuple[bool, str | None]]
"""A truth value, or one with the message to show if the task is skipped."""
F = TypeVar("F")  # what @task makes of a function

_MESSAGE = "its condition says so"


def run_if(condition: Condition, skip_message: str | None = None) -> Callable[[F], F]:
    """Run the task only if `condition(context)` is true, else skip it. Write it above `@task`."""
    return _conditional("run_if", condition, skip_message, skips_if=False)


def skip_if(condition: Condition, skip_message: str | None = None) -> Callable[[F], F]:
    """Skip the task if `condition(context)` is true. Write it above `@task`."""
    return _conditional("skip_if", condition, skip_message, skips_if=True)


def _conditional(name: str, condition: Condition, skip_message: str | None, *, skips_if: bool) -> Callable[[F], F]:
    def check(context: Context) -> None:
        found = condition(context)
        answer, message = found if isinstance(found, tuple) else (found, None)
        if bool(answer) is skips_if:
            raise SkipTask(message or skip_message or _MESSAGE)

    def decorate(function: Any) -> Any:
        if not hasattr(function, "options") or not hasattr(function, "override"):
            raise fail(f"@task.{name} makes a task conditional: write it above @task, not below it.")
        before = function.options.get("pre_execute")

        @functools.wraps(condition)
        def pre_execute(context: Context) -> None:
            if before is not None:
                before(context)
            check(context)

        function.options["pre_execute"] = pre_execute
        return function

    return decorate
