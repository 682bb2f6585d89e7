"""The messages between the scheduler and executors.

An attempt is one try of one task instance. The scheduler submits `Attempt`s to an executor after the commit that queued
them; the executor responds with `Report`s: at most one STARTED, exactly one of the others. All structs are encoded as
msgpack arrays when they cross a process boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

import msgspec

RENDERING: Final = -2  # the task index in keys of attempts that render template fields


class AttemptKey(NamedTuple):
    """Which try of which task instance. `run` is the bigint key of the run, not its run id."""

    run: int
    task_index: int
    map_index: int  # -1 for a task that is not mapped
    try_number: int  # 1 for the first try


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The run of an attempt, as the task's context shows it. Instants are aware UTC."""

    key: int
    dag_id: str
    run_id: str
    run_type: str
    run_after: datetime
    logical_date: datetime | None = None
    interval_start: datetime | None = None
    interval_end: datetime | None = None
    start_date: datetime | None = None
    conf: dict[str, Any] = {}
    version: int = 1  # number of the DAG version it is pinned to
    file: str | None = None  # DAG file, as in `dag_file`; None: registered in this process
    source_hash: str | None = None  # of its code that is to run
    modules: tuple[str, ...] = ()  # what it imports from the DAGs folder, relative
    code_version: int | None = None  # number of the DAG version with that code; None: that of the run
    bundle: str | None = None  # that has the file; None: the DAGs folder
    bundle_version: str | None = None  # of the code that is to run; None: what the bundle's folder has now
    partition_key: str | None = None  # of the partition of assets that it is about
    partition_date: datetime | None = None
    traceparent: str | None = None  # of the span in which somebody asked for it
    team: str | None = None  # whose DAG it is: no process runs code of two teams; "": the service's own
    is_test: bool = False  # of `dag.test()`: manual, but nobody triggered it

    @property
    def code(self) -> tuple[str | None, str | None]:
        """The code that is to run: bundle and version."""
        return self.bundle, self.bundle_version


class Deferral(msgspec.Struct, frozen=True, kw_only=True):
    """What a task waits for: a trigger, and how the task resumes when it has fired.

    `classpath` and `kwargs` (JSON object) define the trigger; `next_method` of the operator is called with
    `next_kwargs` (JSON object) and the trigger's `event`. `timeout` in seconds.
    """

    classpath: str
    kwargs: str
    next_method: str
    next_kwargs: str = "{}"
    timeout: float | None = None


class Resume(msgspec.Struct, frozen=True, kw_only=True):
    """How a task resumes after its trigger fired. With `error` the trigger failed: the task fails with it."""

    next_method: str
    next_kwargs: str = "{}"  # JSON object
    event: str = "null"  # JSON
    error: str | None = None  # one line; `timed_out`: a deferral timeout, not a trigger that failed
    timed_out: bool = False


class CallbackCall(msgspec.Struct, frozen=True, kw_only=True):
    """A callback of a DAG or task that the scheduler requested: to be run at least once; `id` is unique."""

    id: int
    # dag_success, dag_failure, task_success, task_skipped, task_failure, task_retry, deadline, sla_miss, render, alert
    kind: str
    reason: str | None = None
    task_id: str | None = None
    map_index: int = -1
    try_number: int = 0
    index: int = 0  # of the deadline in the DAG
    notice: str | None = None  # of an alert, JSON: its notifier's kind and arguments, and the facts


class AssetTouch(msgspec.Struct, frozen=True, kw_only=True):
    """One asset event that a task's success creates. `extra` is a JSON object."""

    name: str
    uri: str
    extra: str = "{}"
    alias: str | None = None  # the alias outlet through which the task added it
    partition_key: str | None = None  # of the partition that it is about; None: of the whole asset
    partition_date: datetime | None = None


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a runner needs to execute one try.

    Besides a task's try it can be, without a slot, its `trigger` (the report is TRIGGERED, FAILED, or how the task
    `ends`; its key is that of the try with the number negated), or a `callback` (the report is SUCCESS or FAILED; its
    key has task index -1 and the callback's id as try number). A callback of the kind `render` renders template fields
    (the report has them in `rendered`; its key has the task index RENDERING and the number of a request).
    """

    key: AttemptKey
    run: RunInfo
    task_id: str
    is_async: bool
    max_tries: int  # number of retries allowed: try n can be retried while n <= max_tries
    priority_weight: int = 1
    execution_timeout: float | None = None
    first_started: datetime | None = None  # start of the try's first call, for a rescheduled task
    executor: str | None = None
    queue: str | None = None  # of the task, for engines; None: "default"
    executor_config: dict[str, Any] | None = None  # of the task, for engines
    run_as_user: str | None = None  # of the task: the user of the machine as whom it runs
    resume: Resume | None = None
    trigger: Deferral | None = None
    watches: bool = False  # the trigger is that of an asset watcher: all its events are reported, not only the first
    callback: CallbackCall | None = None
    superseded: str | None = None  # source hash of the code of the previous try, if it was different
    may_have_run: bool = False  # the database may have lost a try that it repeats (core/run/repeats.py)


class Upcoming(msgspec.Struct, frozen=True, kw_only=True):
    """A DAG file whose tasks are expected to run soon, so that an executor can import it beforehand.

    `run` does not exist yet, so nothing can be asked in its name.
    """

    run: RunInfo
    is_async: bool  # for `async def` tasks
    executor: str | None = None  # that the tasks name


class Outcome(StrEnum):
    """How an attempt ended, or that it started."""

    STARTED = "started"
    SUCCESS = "success"
    SKIPPED = "skipped"  # raised SkipTask
    FAILED = "failed"
    RESCHEDULED = "rescheduled"
    DEFERRED = "deferred"  # waits for `deferral`
    TRIGGERED = "triggered"  # a trigger fired with `event`
    LOST = "lost"  # its worker died, which is not the task's fault
    STUCK = "stuck"  # its executor never started it: the same try is to be queued again


class XComValue(NamedTuple):
    """One pushed value: its key and its JSON text."""

    key: str
    value: str


class StoredXCom(msgspec.Struct, frozen=True, kw_only=True):
    """One pushed value that is in remote storage: where it is below `xcom.remote`, and its size as JSON, in bytes.

    `length` is that of a list or an object; `value` is a JSON string with the beginning of the value's JSON.
    """

    key: str
    path: str
    size: int
    length: int | None
    value: str


class XComPlace(NamedTuple):
    """Where a value is in remote storage, for a task that reads it: its path below `xcom.remote`, and its size."""

    path: str
    size: int


XComPairs = list[tuple[int, str | XComPlace]]  # (map index, JSON text or where it is), in index order


class SkipDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What a branch (followed) or a short circuit (skipped) decided: task ids. Exactly one is set."""

    followed: tuple[str, ...] | None = None
    skipped: tuple[str, ...] | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an attempt. `at` is its instant, aware UTC.

    For SKIPPED of a branch's downstream tasks see `skip`: the branch itself is SUCCESS. `reason` is one line of text;
    `details` a traceback. `fail_now` forbids a retry. A failure is `unattended` when the process that ran the attempt
    could not report it: no callback has run.
    """

    key: AttemptKey
    outcome: Outcome
    at: datetime
    started_at: datetime | None = None
    reason: str | None = None
    details: str | None = None
    fail_now: bool = False
    retry_delay: float | None = None  # seconds until the next try, if a retry policy set it
    unattended: bool = False
    dag_missing: bool = False  # a failure: the DAG or task cannot be loaded there, perhaps only temporarily
    reschedule_at: datetime | None = None
    xcoms: tuple[XComValue, ...] = ()
    stored_xcoms: tuple[StoredXCom, ...] = ()  # those in remote storage
    skip: SkipDecision | None = None
    deferral: Deferral | None = None
    event: str | None = None  # JSON, of a trigger
    more: bool = False  # of an asset watcher's trigger: it still runs
    ends: bool = False  # of a trigger: the outcome is that of its task, which does not resume
    assets: tuple[AssetTouch, ...] = ()
    map_length: int | None = None  # of the return value, when a downstream task maps over it
    map_label: str | None = None  # rendered map_index_template
    hostname: str | None = None
    pid: int | None = None
    inbox_id: int | None = None  # its row in `task_report`, if another scheduler sent it
    ran_by: int | None = None  # the incarnation whose attempt it concerns, for these
    source: str | None = None  # source hash of the code that ran; None: not known
    rendered: str | None = None  # the template fields as rendered for this call: a JSON object; None: no templates

    @property
    def values(self) -> tuple[XComValue | StoredXCom, ...]:
        """All pushed values."""
        return (*self.xcoms, *self.stored_xcoms)

    def refused(self, reason: str) -> Report:
        """It counts as failed, without its values; no callback of the failure has run."""
        failed = {"outcome": Outcome.FAILED, "reason": reason, "xcoms": (), "stored_xcoms": (), "unattended": True}
        return msgspec.structs.replace(self, **failed)


OWN_INDEX: Final = -2


RETURN_VALUE: Final = "return_value"  # the XCom key of return values


class XComRef(NamedTuple):
    """An XCom that a task requests. `key` None means any: the return value, else the first key of all its instances.

    `map_index` None means all of them; in a template, OWN_INDEX the task's own.
    """

    task_id: str
    key: str | None = RETURN_VALUE
    map_index: int | None = None

    def key_among(self, keys: Iterable[str]) -> str | None:
        """The key that is meant, where the instances have these; for any key None if there is none."""
        if self.key is not None:
            return self.key
        return min(keys, key=lambda key: (key != RETURN_VALUE, key), default=None)


class XComSearch(msgspec.Struct, frozen=True, kw_only=True):
    """XComs that a task requests of another DAG or run than its own: the arguments of the service `xcoms`.

    Without `dag_id` the own DAG, without `run_id` the own run's id. With `earlier` what that run lacks comes from the
    newest run of the DAG that has it and is no later: than the run named by `run_id`, else than the own one.
    """

    refs: list[XComRef]
    dag_id: str | None = None
    run_id: str | None = None
    earlier: bool = False


class FoundXComs(msgspec.Struct, frozen=True, kw_only=True):
    """What was found for each ref of an XComSearch; `hint` says what does not exist, for the author of the task."""

    pairs: list[XComPairs]
    hint: str | None = None


class TaskServices(Protocol):
    """The services that a running task can call on its scheduler.

    Implemented by the scheduler (reads the database), by the local executor's worker (sends requests over its socket)
    and by `dag.test()` (a dict). `run` is a run's bigint key.
    """

    async def get_xcoms(self, run: int, refs: Sequence[XComRef]) -> list[XComPairs]:
        """For each ref the stored (map_index, JSON text) pairs in index order; [] if there are none."""
        ...

    async def call(self, run: int, name: str, args: str) -> str:
        """Call another service by name; arguments and response are JSON texts. See scheduler/services/task_services.py.

        Raises NotFound or Refused with the reason.
        """
        ...


class Executor(Protocol):
    """Runs attempts. All calls and all reports happen on the scheduler's event loop.

    An executor may also have `prepare(upcoming: Sequence[Upcoming])`, which imports files beforehand. It never blocks.
    """

    name: str

    @property
    def open_slots(self) -> int:
        """How many plain-function attempts it can accept now."""
        ...

    @property
    def open_async_slots(self) -> int:
        """How many `async def` attempts it can accept now: these wait without occupying a process."""
        ...

    @property
    def slots(self) -> int:
        """How many plain-function attempts it accepts when idle, to display."""
        ...

    async def start(self, report: Callable[[Report], None], services: TaskServices) -> None: ...

    def submit(self, attempts: Sequence[Attempt]) -> None:
        """Accept the attempts; never blocks. Called after the commit that queued them."""
        ...

    async def cancel(self, attempt: AttemptKey, grace: float) -> None:
        """Stop an attempt: cancel or TERM, after `grace` seconds KILL. It reports FAILED or LOST as usual."""
        ...

    def forget(self, triggers: Sequence[AttemptKey]) -> None:
        """Stop triggers that run elsewhere from now on, without a report and without calling `on_kill`."""
        ...

    async def stop(self, grace: float) -> None:
        """Wait up to `grace` seconds for running attempts, then cancel them and release everything."""
        ...
