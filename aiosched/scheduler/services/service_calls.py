"""Calls that running tasks make to services of their scheduler, repeated until there is an answer.

A restarting database or a broken connection is not the task's fault: the scheduler repeats the call while it holds
its lease. Only an answer reaches the task, be it NotFound or Refused. A call that changes something carries an id,
so the change is made once even if the outcome of the first call is unknown. When the lease is lost, the attempt
is lost with it. The services are in task_services.py.

Why: docs/decisions/0024-questions-are-asked-again.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from uuid import UUID

from aiosched.db.server.failures import is_of_database
from aiosched.errors import AttemptStopped, TimedOut

logger: logging.Logger = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.05  # seconds before a call is repeated, doubled up to the last
_LAST_PAUSE: Final = 1.0

T = TypeVar("T")


class ServiceCall(NamedTuple):
    """One call of a service by a task."""

    run: int  # the key of the run whose task asks
    args: Mapping[str, Any]
    id: UUID  # makes its change idempotent: one id, however often it is asked


class Trusted(Protocol):
    """The lease of an incarnation."""

    def trusted(self) -> bool: ...


class CallRetry:
    """Repeats calls while the database fails. `lease` returns the lease that the scheduler holds; None: no repeats."""

    def __init__(self, lease: Callable[[], Trusted | None] = lambda: None) -> None:
        self._lease = lease
        self._is_failing = False  # the last call was not answered

    async def make(self, what: str, call: Callable[[], Awaitable[T]]) -> T:
        """The answer to `call`; `what` names its subject in the log.

        Raises errors that are answers (NotFound, Refused), and AttemptStopped if the lease held at first is lost.
        """
        lease, pause = self._lease(), _FIRST_PAUSE
        while True:
            try:
                answer = await call()
            except Exception as error:
                if lease is None or not (is_of_database(error) or isinstance(error, TimedOut)):
                    raise
                if not self._is_failing:
                    self._is_failing = True
                    logger.warning("a task waits for %s, which is being retried: %s", what, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)
                if not lease.trusted():
                    raise AttemptStopped("was lost with the lease of its scheduler") from error
            else:
                self._is_failing = False
                return answer
