"""Every error that aiosched raises on purpose.

AioschedError
├── DagError                 the author's DAG file is wrong
│   ├── DagCycleError
│   ├── DuplicateTaskError
│   ├── BranchError          a branch chose a task that its DAG does not have
│   ├── ParamError           a param breaks its schema
│   └── TimetableError       a schedule that cannot be understood
├── ConfigError              a setting is unknown or wrong
├── DatabaseError            PostgreSQL cannot be used as it is
│   ├── DatabaseUnreachable
│   ├── DatabaseReadOnly
│   ├── TooManyConnections
│   ├── UnsupportedDatabase  too old or too new a server
│   ├── SchemaOutOfDate
│   ├── StaleRows            memory and rows disagree: forget and read again
│   └── FencedOut            another scheduler took this one's work over
├── NotFound                 no such DAG, run, task, pool
├── Refused                  the state of things forbids it (exit code 4)
├── TimedOut                 waited as long as the caller allowed (exit code 124)
├── ExecutorError
├── TemplateError            a template of a task cannot be rendered
├── CommandFailed            a task's command ended with an error; retryable
├── TaskDeferralError        what a deferred task waited for failed; retryable
│   └── TaskDeferralTimeout  it waited longer than it wanted to
├── InvalidTransition        a bug in aiosched
├── InternalError            a request met a bug in aiosched
└── TaskSignal               raised by a task to say how it ends
    ├── SkipTask             skipped, no retry
    ├── FailTask             failed, whatever retries are left
    │   └── SensorTimeout    a sensor waited long enough
    ├── RescheduleTask       call again at an instant, the slot is free meanwhile
    ├── TaskDeferred         go on when a trigger has fired, the slot is free meanwhile
TaskTimeout                  an execution timeout; retryable
AttemptStopped               ends a task that was told to stop; no Exception
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any


def did_you_mean(name: str, possible: Iterable[str], *, most: int = 3) -> str:
    """` Did you mean a, b?` with up to `most` of `possible` that look like `name`; empty when none does."""
    from difflib import get_close_matches

    matches = get_close_matches(name, list(possible), n=most, cutoff=0.55)
    return f" Did you mean {', '.join(matches)}?" if matches else ""


class AioschedError(Exception):
    """Base of all errors here; `exit_code` is what the command line ends with."""

    exit_code = 1


class DagError(AioschedError):
    """The author's DAG file is wrong. `file` and `line` say where, when known."""

    def __init__(self, message: str, *, file: str | None = None, line: int | None = None) -> None:
        where = f" ({file}:{line})" if file and line else ""
        super().__init__(message + where)
        self.file, self.line = file, line


class DagCycleError(DagError):
    """Tasks depend on each other in a circle."""


class DuplicateTaskError(DagError):
    """Two tasks (or groups) of one DAG have the same id."""


class BranchError(DagError):
    """A branch or short circuit named a task that its DAG does not have."""


class ParamError(DagError):
    """A param's value breaks its schema."""


class TimetableError(DagError):
    """A schedule that cannot be understood."""


class ConfigError(AioschedError):
    """A setting is unknown or has a value that it cannot have."""

    exit_code = 2


class DatabaseError(AioschedError):
    """PostgreSQL cannot be used as it is."""

    exit_code = 5


class DatabaseUnreachable(DatabaseError):
    """Nobody answers at the address, or the login is refused."""


class DatabaseReadOnly(DatabaseError):
    """The server is a standby or its default is read-only."""


class TooManyConnections(DatabaseError):
    """The server has no connection left for us."""


class UnsupportedDatabase(DatabaseError):
    """PostgreSQL older than 15 or newer than 18."""


class SchemaOutOfDate(DatabaseError):
    """The tables are not those that this aiosched needs."""

    def __init__(self, *, found: str | None, needed: str, newer: bool = False) -> None:
        remedy = (
            "A newer aiosched has migrated it: upgrade this one."
            if newer
            else "Run `aiosched db migrate` (or `aiosched serve --migrate`), then start again."
        )
        super().__init__(f"The database is at schema {found or 'none (empty)'}, this aiosched needs {needed}. {remedy}")
        self.found, self.needed, self.newer = found, needed, newer


class StaleRows(DatabaseError):
    """Rows were not as memory expected them: what is held is forgotten and read again."""


class FencedOut(DatabaseError):
    """Another scheduler took this one's partitions over: everything held in memory is void."""


class NotFound(AioschedError):
    """No such DAG, run, task or pool."""

    exit_code = 3


class Refused(AioschedError):
    """The state of things forbids it; the message says what would allow it."""

    exit_code = 4


class TimedOut(AioschedError):
    """What was waited for did not happen within the time that the caller gave."""

    exit_code = 124


class ExecutorError(AioschedError):
    """An executor cannot do its work."""


class TemplateError(AioschedError):
    """A template of a task cannot be rendered: names the task, the field, the template and the name."""


class CommandFailed(AioschedError):
    """A task's command ended with an error; retryable."""


class InvalidTransition(AioschedError):
    """A state change that the table does not know: a bug in aiosched, please report it."""


class InternalError(AioschedError):
    """A request met a bug in aiosched; the scheduler's log has the details."""


class TaskSignal(AioschedError):
    """Raised by a task to say how it ends."""


class SkipTask(TaskSignal):
    """The task ends as skipped; no retry."""


class FailTask(TaskSignal):
    """The task ends as failed, whatever retries are left."""


class SensorTimeout(FailTask):
    """A sensor waited longer than its `timeout`."""


class RescheduleTask(TaskSignal):
    """The task gives its slot back and wants to be called again at `at` (aware)."""

    def __init__(self, at: datetime) -> None:
        super().__init__(f"call again at {at.isoformat()}")
        self.at = at


class TaskDeferred(TaskSignal):
    """The task gives its slot back until `trigger` fires; then its method `method_name` goes on.

    The method is called as `method(context, event=…, **kwargs)`. `timeout` in seconds or as a
    timedelta: how long the task waits at most.
    """

    def __init__(
        self,
        *,
        trigger: Any,
        method_name: str,
        kwargs: Mapping[str, Any] | None = None,
        timeout: timedelta | float | None = None,
    ) -> None:
        super().__init__(f"goes on with {method_name} when {type(trigger).__name__} fires")
        self.trigger, self.method_name, self.kwargs, self.timeout = trigger, method_name, dict(kwargs or {}), timeout


class TaskDeferralError(AioschedError):
    """The trigger of a deferred task failed; retryable."""


class TaskDeferralTimeout(TaskDeferralError):
    """The trigger of a deferred task did not fire in time; retryable, but for a sensor it is its timeout."""


class AttemptStopped(BaseException):
    """Raised inside a task that was told to stop. Not an Exception, so that `except Exception` lets it pass."""


class TaskTimeout(AioschedError):
    """The task ran longer than its `execution_timeout`; retryable."""
