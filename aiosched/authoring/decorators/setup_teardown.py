"""`@setup` and `@teardown`: functions as tasks that create and remove the resources of other tasks.

Source: the semantics reference, section 8.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from aiosched.authoring.base.checks import fail
from aiosched.authoring.decorators.taskflow import TaskFunction, task
from aiosched.authoring.tasks.operator import BaseOperator

P = ParamSpec("P")
R = TypeVar("R")


@overload
def setup(function: TaskFunction[P, R], /) -> TaskFunction[P, R]: ...
@overload
def setup(function: Callable[P, R], /) -> TaskFunction[P, R]: ...
def setup(function: Any, /) -> Any:
    """Make a function or task function a setup: its tasks create resources for the tasks downstream.

    A setup whose teardown is downstream of a task is cleared together with it. Tasks directly after a setup
    must have the trigger rule `all_success`.
    """
    return _marked("setup", function, BaseOperator.as_setup)


class _Marking(Protocol):
    """`teardown(…)` with options: a decorator."""

    @overload
    def __call__(self, function: TaskFunction[P, R], /) -> TaskFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> TaskFunction[P, R]: ...


@overload
def teardown(function: TaskFunction[P, R], /) -> TaskFunction[P, R]: ...
@overload
def teardown(function: Callable[P, R], /) -> TaskFunction[P, R]: ...
@overload
def teardown(function: None = None, /, *, on_failure_fail_dagrun: bool = False) -> _Marking: ...
def teardown(function: Any = None, /, *, on_failure_fail_dagrun: bool = False) -> Any:
    """Make a function or task function a teardown: its tasks remove the resources that their setups created.

    A teardown runs when all its upstream tasks are done and one of its setups succeeded. Its failure does not fail
    the run, unless `on_failure_fail_dagrun`. `@teardown` or `@teardown(on_failure_fail_dagrun=True)`.
    """
    mark = functools.partial(BaseOperator.as_teardown, on_failure_fail_dagrun=on_failure_fail_dagrun)
    if function is None:
        return functools.partial(_marked, "teardown", mark=mark)
    return _marked("teardown", function, mark)


def _marked(name: str, function: Any, mark: Callable[[BaseOperator], Any]) -> TaskFunction[Any, Any]:
    if not isinstance(function, TaskFunction):
        if hasattr(function, "expand"):
            raise fail(f"@{name} cannot decorate a task group. Put it on the tasks inside.")
        function = task(function)
    marked: TaskFunction[Any, Any] = function.marked(mark)
    return marked
