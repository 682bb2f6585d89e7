"""The event loop of an async worker, which many attempts share.

Processes that an attempt starts through it carry the attempt's name, since their ancestors do not show which attempt
started them. The default executor that an attempt sets is its own: the others go on when it shuts that down.
"""

from __future__ import annotations

import asyncio
import os
import select
from contextvars import ContextVar
from typing import Any, Final

from aiosched import leftovers
from aiosched.core.values.messages import AttemptKey
from aiosched.executors.attempt.logs import current_log


def name_of(key: AttemptKey) -> str:
    """The value of leftovers.COMMAND in the processes of an attempt in this worker."""
    return f"{os.environ.get(leftovers.MARK, '')}/{'.'.join(map(str, key))}"


_own_executor: Final[ContextVar[Any]] = ContextVar("aiosched_own_executor", default=None)


class _MarkingLoop:
    """Adds the name to the environment of a subprocess. A process with a name belongs to an operator, which ends it."""

    def set_default_executor(self, executor: Any) -> None:
        if current_log.get() is None:
            super().set_default_executor(executor)  # type: ignore[misc]
        else:
            _own_executor.set(executor)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        if executor is None and (own := _own_executor.get()) is not None:
            try:
                return super().run_in_executor(own, func, *args)  # type: ignore[misc]
            except RuntimeError:  # the attempt has shut it down
                _own_executor.set(None)
        return super().run_in_executor(executor, func, *args)  # type: ignore[misc]

    async def shutdown_default_executor(self, *args: Any) -> None:
        if current_log.get() is None:
            await super().shutdown_default_executor(*args)  # type: ignore[misc]
        elif (own := _own_executor.get()) is not None:
            own.shutdown(wait=False)

    async def subprocess_exec(self, *args: Any, **kwargs: Any) -> Any:
        return await super().subprocess_exec(*args, **_marked(kwargs))  # type: ignore[misc]

    async def subprocess_shell(self, *args: Any, **kwargs: Any) -> Any:
        return await super().subprocess_shell(*args, **_marked(kwargs))  # type: ignore[misc]


def _marked(kwargs: dict[str, Any]) -> dict[str, Any]:
    env = os.environ if kwargs.get("env") is None else kwargs["env"]
    log = current_log.get()
    if log is None or leftovers.COMMAND in env:
        return kwargs
    return {**kwargs, "env": {**env, leftovers.COMMAND: name_of(log.attempt.key)}}


def read_nothing(loop: Any) -> None:
    """In a forked child: `loop`, a copy of the parent's, finds nothing that the parent waits for.

    They share the poller. What the child reads, as a byte that wakes the loop, never reaches the parent.
    """
    if hasattr(select, "epoll"):  # a kqueue is not inherited
        poller = loop._get_backend_id() if hasattr(loop, "_get_backend_id") else loop._selector.fileno()
        with select.epoll() as empty:
            os.dup2(empty.fileno(), poller, inheritable=False)


def new_marking_loop() -> asyncio.AbstractEventLoop:
    """Create a marking loop, based on uvloop if it is installed."""
    try:
        import uvloop

        base: Any = uvloop.Loop
    except ImportError:
        base = asyncio.SelectorEventLoop
    loop: asyncio.AbstractEventLoop = type("MarkingLoop", (_MarkingLoop, base), {})()
    return loop
