"""Runs coroutines of attempts safely when they raise exceptions reserved by the interpreter and asyncio.

A GeneratorExit raised by a future closes every coroutine on its way, up to the task that waits for it; a StopIteration
never arrives (Python 3.11); and asyncio inspects exceptions, which fails for hostile ones.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")


class DrivenCoroutine(Coroutine[Any, Any, T]):
    """A coroutine for an asyncio task: a GeneratorExit from an awaited object arrives as a RuntimeError."""

    __slots__ = ("inner",)

    def __init__(self, inner: Coroutine[Any, Any, T]) -> None:
        self.inner = inner

    def send(self, value: Any, /) -> Any:
        return self.inner.send(value)

    def throw(self, kind: Any, value: Any = None, traceback: TracebackType | None = None, /) -> Any:
        error = value if value is not None else kind() if isinstance(kind, type) else kind
        if issubclass(type(error), GeneratorExit):
            replacement = RuntimeError("something that the attempt awaited raised GeneratorExit")
            replacement.__cause__ = error
            error = replacement
        return self.inner.throw(error)

    def close(self) -> None:
        self.inner.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self.inner.__await__()

    @property
    def begun(self) -> bool:
        """Whether its task has started it: if cancelled before that, it never runs."""
        return not inspect.iscoroutine(self.inner) or inspect.getcoroutinestate(self.inner) != inspect.CORO_CREATED


def run_alone(work: Awaitable[T]) -> T:
    """Like `asyncio.run`, for any awaitable and any exception."""

    async def finish() -> tuple[T | None, BaseException | None]:
        try:
            return await work, None
        except BaseException as error:
            return None, error

    result, error = asyncio.run(finish())
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


async def in_thread(call: Callable[..., T], *arguments: Any) -> T:
    """Like `asyncio.to_thread`, for any exception."""

    def run() -> tuple[T | None, BaseException | None]:
        try:
            return call(*arguments), None
        except BaseException as error:
            return None, error

    result, error = await asyncio.to_thread(run)
    if error is not None:
        raise error
    return result  # type: ignore[return-value]
