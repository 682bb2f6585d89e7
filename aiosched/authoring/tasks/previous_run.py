"""`prev_data_interval_start_success` and three more names of the context: facts of the previous successful run.

That is the run of the DAG with the latest earlier logical date that is a success now. The four names are None
when there is none, for a run without a logical date, and in `dag.test()`. They are fetched from the scheduler when
one is read, so iterating over a context leaves them out. A coroutine must not block where it reads them, so they
are fetched before it starts, if its code contains one of the names.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from types import CodeType
from typing import Any, Final

from aiosched.authoring.runtime.context import Context, moment
from aiosched.authoring.runtime.services import acall, call
from aiosched.authoring.tasks.operator import BaseOperator

_SERVICE: Final = "previous_success"
PREVIOUS_RUN: Final = {  # name in the context -> name in the service's response
    "prev_data_interval_start_success": "data_interval_start",
    "prev_data_interval_end_success": "data_interval_end",
    "prev_start_date_success": "start_date",
    "prev_end_date_success": "end_date",
}


def read_previous_run(context: Context, name: str) -> Any:
    """The value of one of the four names; fetches all. Raises WouldBlock on an event loop."""
    _fill(context, None if context.run.logical_date is None else call(_SERVICE))
    return context[name]


async def load_previous_run(context: Context) -> None:
    """Fetch them from a coroutine."""
    _fill(context, None if context.run.logical_date is None else await acall(_SERVICE))


def _fill(context: Context, found: Mapping[str, str | None] | None) -> None:
    for name, fact in PREVIOUS_RUN.items():
        text = None if found is None else found[fact]
        context[name] = moment(None if text is None else datetime.fromisoformat(text))


def task_names_previous_run(task: BaseOperator) -> bool:
    """Whether the code of the task or of its callbacks contains one of the names."""
    function = vars(task).get("python_callable") or getattr(task, "partial_kwargs", {}).get("python_callable")
    if _class_names_previous_run(task.operator_class) or (callable(function) and names_previous_run(function)):
        return True
    callbacks = (task.on_execute_callback + task.on_success_callback + task.on_failure_callback
                 + task.on_retry_callback + task.on_skipped_callback)  # fmt: skip
    return any(map(names_previous_run, callbacks))


@functools.lru_cache(maxsize=1024)
def _class_names_previous_run(kind: type[BaseOperator]) -> bool:
    """Whether the code of an operator class contains one of the names, below `BaseOperator`."""
    classes = kind.__mro__[: kind.__mro__.index(BaseOperator)]
    return any(names_previous_run(f) for one in classes for f in vars(one).values() if inspect.isfunction(f))


@functools.lru_cache(maxsize=4096)
def names_previous_run(function: Callable[..., Any]) -> bool:
    """Whether `function` contains one of the names, as a parameter or as a string in its code."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if not inspect.isroutine(function):
        function = getattr(type(function), "__call__", function)  # noqa: B004 - a callable object
    code = getattr(function, "__code__", None)
    return code is not None and not PREVIOUS_RUN.keys().isdisjoint(_names(code))


def _names(code: CodeType) -> Iterator[str]:
    """The parameters of a function, and the strings in its code and in that of inner functions."""
    yield from code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for value in code.co_consts:
        if isinstance(value, str):
            yield value
        elif isinstance(value, tuple):  # a loop over constant names
            yield from (item for item in value if isinstance(item, str))
        elif isinstance(value, CodeType):
            yield from _names(value)
