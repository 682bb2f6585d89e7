"""Coroutine methods of operators for callers that do not await: Airflow's operators have plain methods.

A plain method of a subclass calls `super().execute(context)` and wants the value; so does a function or a test of an
Airflow project that calls `BashOperator(…).execute(context)` itself. Only the runner awaits.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from aiosched.authoring.base.building import running

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])


def for_plain_callers(method: Method) -> Method:
    """A decorator of coroutine methods: where a plain caller wants its value, it gets that."""
    name = method.__name__

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        work = method(self, *args, **kwargs)
        found = getattr(type(self), name)
        if found is not call and not gives_coroutine(found):  # a plain method of a subclass has called it
            return value_of(work)
        return for_caller(self, work)

    call.gives_coroutine = True  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def gives_coroutine(method: object) -> bool:
    """Whether a method is a coroutine method, decorated or not."""
    return inspect.iscoroutinefunction(method) or getattr(method, "gives_coroutine", False)


def for_caller(operator: Any, work: Awaitable[Any]) -> Any:
    """`work` for the runner and on an event loop; its value for other callers of an operator of an Airflow file."""
    if operator._dialect is None or is_on_loop():
        return work
    context = running.get()
    return work if context is not None and context.get("task") is operator else value_of(work)


def value_of(work: Awaitable[T]) -> T:
    """What `work` returns or raises: on the loop of the attempt that this thread works for, else on one of its own.

    If a loop runs in this thread, that is in another thread.
    """
    if not is_on_loop():
        context = running.get()
        ti: Any = None if context is None else context.get("ti")
        if getattr(getattr(ti, "attempt", None), "is_async", False) is True:
            found: T = ti.finish(_awaited(work))
            return found
        return asyncio.run(_awaited(work))
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(contextvars.copy_context().run, asyncio.run, _awaited(work)).result()


async def _awaited(work: Awaitable[T]) -> T:
    return await work


def is_on_loop() -> bool:
    """Whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
