"""Every error that aiosched raises on purpose.

AioschedError
├── DagError                 the author's DAG file is invalid
│   ├── DagCycleError
│   ├── DuplicateTaskError
│   ├── BranchError          a branch chose a task that its DAG does not have
│   ├── ParamError           a param breaks its schema
│   └── TimetableError       an invalid schedule
├── ConfigError              a setting is unknown or invalid
├── BundleError              the code of a bundle cannot be fetched or used
│   └── VersionGone          its source does not have this version any more
├── DatabaseError            PostgreSQL cannot be used in its current state
│   ├── DatabaseUnreachable
│   ├── DatabaseReadOnly
│   ├── DatabaseLocked       another session holds a lock for too long
│   ├── NumbersInUse         sequences were behind their rows: do it again
│   ├── TooManyConnections
│   ├── DiskFull
│   ├── UnsupportedDatabase  the server is too old or too new
│   ├── SchemaOutOfDate
│   ├── StaleRows            memory and rows disagree: drop and read again
│   └── FencedOut            another scheduler took over this one's work
├── NotFound                 no such DAG, run, task, pool
├── Refused                  the current state forbids it (exit code 4)
│   ├── ChangedMeanwhile     somebody has changed it since it was read
│   └── UnreadableRow        a newer aiosched wrote the row, or it is broken
├── RunFailed                a run that an application waited for has failed
├── TimedOut                 the caller's timeout expired (exit code 124)
│   └── NotAnswered          a request waits for a scheduler, and is applied later
├── ExecutorError
├── RemoteStorageError       a file in remote storage cannot be read or written
├── SecretBackendError       a backend of secrets cannot be asked
├── TemplateError            a template of a task cannot be rendered
├── CommandFailed            a task's command ended with an error; retryable
├── AssetCheckFailed         a check said fail of its asset; retryable
├── TaskDeferralError        the trigger of a deferred task failed; retryable
│   └── TaskDeferralTimeout  the trigger did not fire in time
├── InvalidTransition        a bug in aiosched
├── InternalError            a request failed because of a bug in aiosched
├── DagFailure               an unforeseen error that concerns one DAG: it goes into quarantine
├── InQuarantine             DAGs failed again and again, so what is left of them is not waited for
└── TaskSignal               raised by a task to set its outcome
    ├── SkipTask             skipped, no retry
    ├── FailTask             failed, even if retries are left
    │   └── SensorTimeout    a sensor reached its timeout
    ├── RescheduleTask       call again at a given time, the slot is free until then
    ├── TaskDeferred         continue when a trigger fires, the slot is free until then
TaskTimeout                  an execution timeout; retryable
AttemptStopped               ends a task that was told to stop; not an Exception
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any


def did_you_mean(name: str, possible: Iterable[str], *, most: int = 3) -> str:
    """` Did you mean a, b?` with up to `most` of `possible` that look like `name`; empty if none does."""
    from difflib import get_close_matches

    matches = get_close_matches(name, list(possible), n=most, cutoff=0.55)
    return f" Did you mean {', '.join(matches)}?" if matches else ""


_TOLD = 3  # errors of a group in its text
_LOOKED_AT = 100


def text_of(error: BaseException) -> str:
    """Its text; that of an exception group also names the first errors in it, whose number says nothing.

    Raises whatever the code of its class raises.
    """
    text = str(error)
    if not isinstance(error, BaseExceptionGroup):
        return text
    waiting, found = list[BaseException]([error]), list[str]()
    for _ in range(_LOOKED_AT):
        if not waiting or len(found) > _TOLD:
            break
        if isinstance(each := waiting.pop(), BaseExceptionGroup):
            waiting.extend(reversed(each.exceptions))
        else:
            name: str = type.__getattribute__(type(each), "__name__")
            found.append(f"{name}: {inner}" if (inner := str(each)) else name)
    rest = ["…"] if waiting or len(found) > _TOLD else []
    return f"{text}: {'; '.join(found[:_TOLD] + rest)}"


class AioschedError(Exception):
    """Base of all errors here; `exit_code` is the exit code of the command line."""

    exit_code = 1


class DagError(AioschedError):
    """The author's DAG file is invalid. `file` and `line` give the place, if known.

    `argument`: which one of the call is wrong, if the message does not have its name.
    """

    argument: str | None = None

    def __init__(self, message: str, *, file: str | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.move(file, line)

    def move(self, file: str | None, line: int | None) -> None:
        """Name another place."""
        self.file: str | None = file
        self.line: int | None = line
        super().__init__(f"{self.message} ({file}:{line})" if file and line else self.message)


class DagCycleError(DagError):
    """Tasks depend on each other in a cycle."""


class DuplicateTaskError(DagError):
    """Two tasks (or groups) of one DAG have the same id."""


class BranchError(DagError):
    """A branch or short circuit named a task that its DAG does not have."""


class ParamError(DagError):
    """A param's value breaks its schema."""


class TimetableError(DagError):
    """A schedule is invalid."""


class SkippedByPolicy(AioschedError):
    """A cluster policy leaves a DAG out."""


class ConfigError(AioschedError):
    """A setting is unknown or has an invalid value."""

    exit_code = 2


class BundleError(AioschedError):
    """The code of a bundle cannot be fetched or used; the text is one line, without secrets."""


class VersionGone(BundleError):
    """The source of a bundle does not have a version that a run needs."""

    def __init__(self, bundle: str, version: str, why: str) -> None:
        super().__init__(
            f"version {version[:12]} of the bundle {bundle} is gone: {why}. Bring it back, or clear the run with "
            "--newest-version to run the newest code."
        )


class DatabaseError(AioschedError):
    """PostgreSQL cannot be used in its current state."""

    exit_code = 5


class DatabaseUnreachable(DatabaseError):
    """No server answers at the address, or the login is refused."""


class DatabaseReadOnly(DatabaseError):
    """The server is a standby or its default is read-only."""


class DatabaseLocked(DatabaseError):
    """Another session holds a lock for longer than this one waits for it."""


class NumbersInUse(DatabaseError):
    """The database issued a number that a row has: its sequences were behind. Doing the same again helps."""


class TooManyConnections(DatabaseError):
    """The server has no free connection left."""


class DiskFull(DatabaseError):
    """The server has no room for more data."""


class UnsupportedDatabase(DatabaseError):
    """PostgreSQL older than 15 or newer than 18."""


class SchemaOutOfDate(DatabaseError):
    """The schema is not the one that this aiosched needs."""

    def __init__(self, *, found: str | None, needed: str, newer: bool = False, of_development: bool = False) -> None:
        if of_development:
            remedy = (
                "A development version before 0.2.0 has made it: it stays as it is, and cannot be migrated. With that "
                "version write down what you need (`aiosched variables export`, `aiosched connections export`). Then "
                "use a new database, or empty this one: `aiosched db reset`."
            )
        elif newer:
            remedy = "A newer aiosched has migrated it: upgrade this one."
        else:
            remedy = "Run `aiosched db migrate` (or `aiosched serve --migrate`), then start again."
        super().__init__(f"The database is at schema {found or 'none (empty)'}, this aiosched needs {needed}. {remedy}")
        self.found: str | None = found
        self.needed: str = needed
        self.newer: bool = newer
        self.of_development: bool = of_development


class StaleRows(DatabaseError):
    """Rows differed from the state in memory: that state is dropped and read again."""


class FencedOut(DatabaseError):
    """Another scheduler took over this one's partitions: all state in memory is void."""


class ForeignFleet(DatabaseError):
    """The database is a copy that is for other schedulers than those of the original."""

    def __init__(self, fleet: str) -> None:
        super().__init__(
            f"This database is for another fleet of schedulers ({fleet}): it was restored from a backup of the one "
            "that this scheduler has worked with, and both would continue the same runs. Correct the address; or, if "
            "only this database is used from now on: `aiosched db fleet --accept-former`."
        )
        self.fleet = fleet


class DagFailure(AioschedError):
    """An unforeseen error, its `__cause__`, in a decision or a statement about one DAG: it goes into quarantine."""

    def __init__(self, dag_id: str, place: str) -> None:
        super().__init__(f"{place} of DAG {dag_id!r} failed")
        self.dag_id: str = dag_id
        self.place: str = place


class InQuarantine(AioschedError):
    """DAGs in quarantine (`dag_ids`) have failed again and again: what is left to do of them is not waited for."""

    def __init__(self, message: str, dag_ids: Iterable[str]) -> None:
        super().__init__(message)
        self.dag_ids: tuple[str, ...] = tuple(dag_ids)


class NotFound(AioschedError):
    """No such DAG, run, task or pool."""

    exit_code = 3


class NoVariable(NotFound, KeyError):
    """No such variable. `except KeyError` of Airflow's files catches it, too."""

    __str__ = Exception.__str__  # KeyError shows the repr


class VariableNotJson(AioschedError, ValueError):
    """A variable that is to be read as JSON is none. Airflow raises a ValueError there."""


class Refused(AioschedError):
    """The current state forbids the request; the message says how to make it possible."""

    exit_code = 4


class ChangedMeanwhile(Refused):
    """Somebody has changed it since it was read; the message says who and when, if that is known."""


class RunFailed(AioschedError):
    """A run that an application waited for has failed. `reasons`: of its failed tasks, each with its name."""

    def __init__(self, dag_id: str, run_id: str, reasons: Sequence[str]) -> None:
        self.run_id: str = run_id
        self.reasons: tuple[str, ...] = tuple(reasons)
        self.dag_id = dag_id
        shown = "; ".join(self.reasons[:3]) + (f"; and {len(self.reasons) - 3} more" if len(self.reasons) > 3 else "")
        super().__init__(f"The run {run_id} of {dag_id} has failed. {shown or 'None of its tasks has: ask `why`.'}")


class UnreadableRow(Refused):
    """A row has something that this aiosched does not know: a newer one wrote it, or it is broken.

    `what` is a clause about the row and what it has.
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}, which this aiosched cannot read: a newer one wrote it, or it is broken. Use that version."
        )


class TimedOut(AioschedError):
    """The awaited event did not happen within the caller's timeout."""

    exit_code = 124


class NotAnswered(TimedOut):
    """No scheduler has applied a request in time. It waits in the inbox under its `number`, and is applied later."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(
            f"No scheduler has applied the request yet. It waits as number {number} and will be applied, so do not "
            f"repeat it: wait for outcome({number}), or take it back with withdraw({number})."
        )


class ExecutorError(AioschedError):
    """An executor cannot do its work."""


class RemoteStorageError(AioschedError):
    """A file in remote storage cannot be read, written or removed; the message has its address and what to check."""


class SecretBackendError(AioschedError):
    """A backend of variables and connections fails, or does not answer in time; never quotes a value."""


class TemplateError(AioschedError):
    """A template of a task cannot be rendered: the message gives the task, the field, the template and the name."""


class CommandFailed(AioschedError):
    """A task's command ended with an error; retryable."""


class AssetCheckFailed(AioschedError):
    """A check said fail of its asset; retryable. The message is that of its result."""


class InvalidTransition(AioschedError):
    """A state change that is not in the transition table: a bug in aiosched, please report it."""


class InternalError(AioschedError):
    """A request failed because of a bug in aiosched; the scheduler's log has the details."""


class TaskSignal(AioschedError):
    """Raised by a task to set its outcome."""


class SkipTask(TaskSignal):
    """The task ends as skipped; no retry."""


class FailTask(TaskSignal):
    """The task ends as failed, even if retries are left."""


class SensorTimeout(FailTask):
    """A sensor waited longer than its `timeout`."""


class RescheduleTask(TaskSignal):
    """The task releases its slot and is called again at `at` (aware)."""

    def __init__(self, at: datetime) -> None:
        super().__init__(f"call again at {at.isoformat()}")
        self.at = at


class TaskDeferred(TaskSignal):
    """The task releases its slot until `trigger` fires; then its method `method_name` continues.

    The method is called as `method(context, event=…, **kwargs)`. `timeout`, in seconds or as a timedelta, is the
    longest time that the task waits.
    """

    def __init__(
        self,
        *,
        trigger: Any,
        method_name: str,
        kwargs: Mapping[str, Any] | None = None,
        timeout: timedelta | float | None = None,
    ) -> None:
        super().__init__(f"continues with {method_name} when {type(trigger).__name__} fires")
        self.trigger: Any = trigger
        self.method_name: str = method_name
        self.kwargs: dict[str, Any] = dict(kwargs or {})
        self.timeout: timedelta | float | None = timeout


class TaskDeferralError(AioschedError):
    """The trigger of a deferred task failed; retryable."""


class TaskDeferralTimeout(TaskDeferralError):
    """The trigger of a deferred task did not fire in time; retryable, except that it times out a sensor."""


class AttemptStopped(BaseException):
    """Raised inside a task that was told to stop. Not an Exception, so that `except Exception` lets it pass."""


class TaskTimeout(AioschedError):
    """The task ran longer than its `execution_timeout`; retryable."""
