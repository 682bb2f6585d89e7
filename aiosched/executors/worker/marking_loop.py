"""The event loop of an async worker: processes that an attempt starts through it carry the attempt's name.

Many attempts share such a worker, so the ancestors of a process do not show which attempt started it.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from aiosched import leftovers
from aiosched.core.values.messages import AttemptKey
from aiosched.executors.attempt.logs import current_log


def name_of(key: AttemptKey) -> str:
    """The value of leftovers.COMMAND in the processes of an attempt in this worker."""
    return f"{os.environ.get(leftovers.MARK, '')}/{'.'.join(map(str, key))}"


class _MarkingLoop:
    """Adds the name to the environment of a subprocess. A process with a name belongs to an operator, which ends it."""

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


def new_marking_loop() -> asyncio.AbstractEventLoop:
    """Create a marking loop, based on uvloop if it is installed."""
    try:
        import uvloop

        base: Any = uvloop.Loop
    except ImportError:
        base = asyncio.SelectorEventLoop
    loop: asyncio.AbstractEventLoop = type("MarkingLoop", (_MarkingLoop, base), {})()
    return loop
