"""Calls to the scheduler from a running task, callback or trigger: for variables, runs of other DAGs, and more.

`acall` is for coroutines, `call` for plain functions. The services are in
`aiosched.scheduler.services.task_services`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from aiosched.authoring.base.context_values import bound
from aiosched.authoring.runtime.context import running_context
from aiosched.core.values.json_bounds import find_problem
from aiosched.errors import AioschedError, Refused

if TYPE_CHECKING:
    from aiosched.core.values.messages import TaskServices


class Services:
    """The services that one attempt may call. `blocking` runs a coroutine from plain code and waits for it."""

    __slots__ = ("_blocking", "_run", "_services")

    def __init__(self, services: TaskServices, run: int, blocking: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._services, self._run, self._blocking = services, run, blocking

    async def acall(self, name: str, **args: Any) -> Any:
        """Call the service `name` with JSON arguments; the response as JSON values. Raises NotFound or Refused."""
        text = json.dumps(args)
        if "\\ud" in text and (problem := find_problem(args, name)) is not None:  # half of a surrogate pair?
            raise Refused(f"{problem}.")
        return json.loads(await self._services.call(self._run, name, text))

    def call(self, name: str, **args: Any) -> Any:
        """As `acall`, for plain code. Raises ExecutorError on an event loop, which it would block."""
        return self._blocking(self.acall(name, **args))


def offering(services: Services) -> bound[Services | None]:
    """Sets the services in a block, for callbacks and triggers: they have no `ti`."""
    return bound(_offered, services)


def running_services() -> Services | None:
    """The services of the task, callback or trigger in this thread or coroutine; None outside one."""
    offered = _offered.get()
    if offered is not None:
        return offered
    context = running_context()
    return None if context is None else context["ti"].services


def require_services() -> Services:
    """As `running_services`, but raises AioschedError outside a task, callback or trigger."""
    services = running_services()
    if services is None:
        raise AioschedError("The scheduler can be called only while a task, callback or trigger runs.")
    return services


async def acall(name: str, **args: Any) -> Any:
    """Call a service from a coroutine of a running task."""
    return await require_services().acall(name, **args)


def call(name: str, **args: Any) -> Any:
    """Call a service from plain code of a running task."""
    return require_services().call(name, **args)


_offered: ContextVar[Services | None] = ContextVar("aiosched_services", default=None)
