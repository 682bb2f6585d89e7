"""Asking the scheduler for something while a task, callback or trigger runs: variables, runs of other DAGs.

The services by name are listed in `aiosched.scheduler.services.task_services`; here is how user code and operators
reach them, from coroutines (`acall`) and from plain functions (`call`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

from aiosched.authoring.runtime.context import running_context
from aiosched.errors import AioschedError

if TYPE_CHECKING:
    from aiosched.core.values.messages import TaskServices


class Services:
    """The services that one attempt may call. `blocking` runs a coroutine to its end from plain code."""

    __slots__ = ("_blocking", "_run", "_services")

    def __init__(self, services: TaskServices, run: int, blocking: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._services, self._run, self._blocking = services, run, blocking

    async def acall(self, name: str, **args: Any) -> Any:
        """Call the service `name` with JSON arguments; its answer as JSON values. Raises NotFound or Refused."""
        return json.loads(await self._services.call(self._run, name, json.dumps(args)))

    def call(self, name: str, **args: Any) -> Any:
        """As `acall`, for plain code; on an event loop it raises ExecutorError instead of blocking it."""
        return self._blocking(self.acall(name, **args))


class offering:
    """Makes `services` those of this thread or coroutine: for callbacks and triggers, which have no `ti`."""

    __slots__ = ("_services", "_token")

    def __init__(self, services: Services) -> None:
        self._services = services

    def __enter__(self) -> Services:
        self._token: Token[Services | None] = _offered.set(self._services)
        return self._services

    def __exit__(self, *_: object) -> None:
        _offered.reset(self._token)


def running_services() -> Services | None:
    """The services of what runs in the caller's thread or coroutine; None while nothing of a run does."""
    offered = _offered.get()
    if offered is not None:
        return offered
    context = running_context()
    return None if context is None else context["ti"].services


def require_services() -> Services:
    """As `running_services`; raises AioschedError when nothing of a run is running here."""
    services = running_services()
    if services is None:
        raise AioschedError("The scheduler can be asked only while a task, callback or trigger runs.")
    return services


async def acall(name: str, **args: Any) -> Any:
    """Call a service from a coroutine of a running task."""
    return await require_services().acall(name, **args)


def call(name: str, **args: Any) -> Any:
    """Call a service from plain code of a running task."""
    return require_services().call(name, **args)


_offered: ContextVar[Services | None] = ContextVar("aiosched_services", default=None)
