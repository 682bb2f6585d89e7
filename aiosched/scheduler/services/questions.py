"""What one running task asks once, and asking it until there is an answer.

A database that restarts, or a connection that breaks, is no fault of the task: the scheduler asks again while it
holds its lease. Only an answer reaches the task, be it NotFound or Refused. What a question changes carries its id,
so that it is changed once even when nobody knows what became of the first time. When the lease is lost the attempt
is lost with it. Lives here: the question and the asking. What may be asked is in task_services.py.

Why: docs/decisions/0024-questions-are-asked-again.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from uuid import UUID

from aiosched.db.server.failures import is_retryable
from aiosched.errors import AttemptStopped, TimedOut

logger = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.05  # seconds before a question is asked again, doubled up to the last
_LAST_PAUSE: Final = 1.0

T = TypeVar("T")


class Question(NamedTuple):
    """What a task wants of a service."""

    run: int  # the key of the run whose task asks
    args: Mapping[str, Any]
    id: UUID  # of what it changes; made once, however often it is asked


class Trusted(Protocol):
    """The lease of an incarnation."""

    def trusted(self) -> bool: ...


class Asking:
    """Asks again while the database cannot tell. `lease`: the one that the scheduler holds; None: asks once."""

    def __init__(self, lease: Callable[[], Trusted | None] = lambda: None) -> None:
        self._lease = lease
        self._troubled = False  # the last that was asked got no answer

    async def ask(self, what: str, question: Callable[[], Awaitable[T]]) -> T:
        """The answer to `question`; `what` it is about, for the log.

        Raises what is an answer, too, and AttemptStopped when the lease that was held at first is lost.
        """
        lease, pause = self._lease(), _FIRST_PAUSE
        while True:
            try:
                answer = await question()
            except Exception as error:
                if lease is None or not (is_retryable(error) or isinstance(error, TimedOut)):
                    raise
                if not self._troubled:
                    self._troubled = True
                    logger.warning("a task waits for %s, which is asked for again: %s", what, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)
                if not lease.trusted():
                    raise AttemptStopped("was lost with the lease of its scheduler") from error
            else:
                self._troubled = False
                return answer
