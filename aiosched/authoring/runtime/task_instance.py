"""`ti`: the running task instance, and its XComs."""

from __future__ import annotations

import getpass
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from aiosched.authoring.base.settings import defaults
from aiosched.authoring.runtime.context import Context, DagRun, moment, running_context
from aiosched.authoring.runtime.earlier_runs import AsksAboutEarlierRuns
from aiosched.authoring.runtime.instance_keys import TaskInstanceKey
from aiosched.authoring.runtime.other_runs import AsksAboutRuns
from aiosched.authoring.runtime.services import Services
from aiosched.authoring.runtime.xcom_values import read_xcom
from aiosched.clock import SystemClock
from aiosched.core.values.messages import (
    RETURN_VALUE,
    Attempt,
    FoundXComs,
    SkipDecision,
    TaskServices,
    XComPairs,
    XComPlace,
    XComRef,
    XComSearch,
)
from aiosched.errors import AioschedError

if TYPE_CHECKING:
    from pendulum import DateTime

    from aiosched.authoring.base.protocols import Task

Pairs = list[tuple[int, Any]]  # (map_index, value), in index order


class _Pull(NamedTuple):
    """What one `xcom_pull` reads, and whether the result is a single value.

    `dag_id` and `run_id` are None for the own DAG and run; `earlier`: also from earlier runs.
    """

    refs: tuple[XComRef, ...]
    single: bool
    dag_id: str | None
    run_id: str | None
    earlier: bool

    @property
    def is_elsewhere(self) -> bool:
        return self.dag_id is not None or self.run_id is not None


class TaskInstance(AsksAboutRuns, AsksAboutEarlierRuns):
    """The running attempt.

    `pushed` holds the XComs that were pushed; the runner stores them with the result. A branch or short circuit
    sets `skip_decision`. `blocking` runs a coroutine from plain code and waits for it; coroutines use `axcom_pull`
    instead of `xcom_pull`.
    """

    state = "running"
    end_date: datetime | None = None  # it still runs
    duration: float | None = None
    job_id = None  # there are no jobs of Airflow's here

    def __init__(
        self,
        attempt: Attempt,
        task: Task,
        services: TaskServices,
        blocking: Callable[[Coroutine[Any, Any, Any]], Any],
        *,
        start_date: datetime | None = None,
        read_remote: Callable[[XComPlace], Awaitable[str]] | None = None,
    ) -> None:
        self.attempt = attempt
        self.task = task
        self.dag_id: str = attempt.run.dag_id
        self.task_id: str = attempt.task_id
        self.run_id: str = attempt.run.run_id
        self.map_index: int = attempt.key.map_index
        self.try_number: int = attempt.key.try_number
        self.max_tries: int = attempt.max_tries
        self.start_date: datetime = start_date or SystemClock().now()
        self.rendered_map_index: str | None = None  # what is shown instead of the map index, once it is known
        self.pushed: dict[str, Any] = {}
        self.skip_decision: SkipDecision | None = None
        self._services = services
        self._blocking = blocking
        self._read_remote = read_remote or _not_here
        self._fetched: dict[XComRef, XComPairs] = {}

    @property
    def key(self) -> TaskInstanceKey:
        """What names this try."""
        return TaskInstanceKey(self.dag_id, self.task_id, self.run_id, self.try_number, self.map_index)

    @property
    def dag_run(self) -> DagRun:
        """The run."""
        return DagRun(self.attempt.run)

    def get_dagrun(self) -> DagRun:
        """The run."""
        return self.dag_run

    def get_template_context(self) -> Context:
        """The context of the running task; raises AioschedError for another task's `ti`."""
        context = running_context()
        if context is None or context.get("ti") is not self:
            raise AioschedError(f"Task {self.task_id!r} does not run here, so it has no context.")
        return context

    @property
    def operator(self) -> str:
        """The name of the task's class."""
        return str(getattr(self.task, "task_type", type(self.task).__name__))

    def ended(self, state: str) -> None:
        """The attempt ended so: what callbacks and listeners see from now on."""
        self.state, self.end_date = str(state), SystemClock().now()
        self.duration = (self.end_date - self.start_date).total_seconds()

    def finish(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The result of a coroutine of this attempt, for plain code in a thread without a loop."""
        return self._blocking(work)

    def current_state(self) -> str:
        """The state."""
        return self.state

    @property
    def pool(self) -> str:
        """The pool of the task."""
        return self.task.pool

    @property
    def pool_slots(self) -> int:
        """How many slots of its pool the task takes."""
        return self.task.pool_slots

    @property
    def priority_weight(self) -> int:
        """The weight of the task alone."""
        return self.task.priority_weight

    @property
    def executor_config(self) -> dict[str, Any]:
        """What the task gives its executor."""
        return self.task.executor_config

    @property
    def task_display_name(self) -> str:
        """What the UI shows for the task."""
        return self.task.task_display_name

    @property
    def prev_attempted_tries(self) -> int:
        """The number of this try; a name of Airflow before version 3."""
        return self.try_number

    @property
    def next_try_number(self) -> int:
        """The number that a retry would have; a name of Airflow before version 3."""
        return self.try_number + 1

    @property
    def unixname(self) -> str:
        """The user of this process."""
        return getpass.getuser()

    @property
    def hostname(self) -> str:
        """The name of this machine."""
        return socket.gethostname()

    @property
    def pid(self) -> int:
        """The process id of the worker."""
        return os.getpid()

    @property
    def queue(self) -> str:
        """The queue of the task."""
        return self.attempt.queue or "default"

    @property
    def may_have_run(self) -> bool:
        """Whether the database may have lost a try of this task in this run, whose work this one then does again.

        True for the first try after commits were lost, as in a failover to a replica that was behind.
        """
        return self.attempt.may_have_run

    @property
    def is_mapped(self) -> bool:
        """Whether this is one of several instances of the task."""
        return self.map_index >= 0

    @property
    def logical_date(self) -> DateTime | None:
        """The run's logical date in UTC, None for a run without one."""
        return moment(self.attempt.run.logical_date)

    @property
    def execution_date(self) -> DateTime | None:
        """The logical date, by the name that Airflow had for it before version 3."""
        return self.logical_date

    @property
    def log_url(self) -> str:
        """The page with the log of this try; its address begins with the setting `web.base_url`."""
        return self._page(**{"try": self.try_number})

    @property
    def mark_success_url(self) -> str:
        """The page of this task instance, on which people can mark it. Opening it changes nothing."""
        return self._page()

    def _page(self, **query: int) -> str:
        parts = {"dags": self.dag_id, "runs": self.run_id, "tasks": self.task_id}
        path = "".join(f"/{name}/{quote(value, safe='')}" for name, value in parts.items())
        if self.is_mapped:
            query["map_index"] = self.map_index
        return f"{defaults().base_url}{path}{'?' if query else ''}{urlencode(query)}"

    @property
    def first_started(self) -> datetime:
        """When this try first started: before `start_date` for a task that was rescheduled."""
        return self.attempt.first_started or self.start_date

    @property
    def services(self) -> Services:
        """The services of the scheduler."""
        return Services(self._services, self.attempt.key.run, self._blocking)

    @property
    def log(self) -> logging.Logger:
        """The logger of tasks. Its messages are in the attempt's log."""
        return logging.getLogger("aiosched.task")

    def xcom_push(self, key: str, value: Any) -> None:
        """Push `value` (JSON) under `key` for other tasks; a later push of the key replaces it."""
        self.pushed[key] = value

    async def axcom_push(self, key: str, value: Any) -> None:
        """As `xcom_push`, for coroutines."""
        self.xcom_push(key, value)

    async def prefetch(self, refs: Iterable[XComRef]) -> None:
        """Fetch these XComs in one call."""
        wanted = [ref for ref in dict.fromkeys(refs) if ref not in self._fetched]
        if wanted:
            found = await self._services.get_xcoms(self.attempt.key.run, wanted)
            self._fetched.update(zip(wanted, found, strict=True))

    async def load_remote(self) -> None:
        """Read those of the fetched XComs that are in remote storage."""
        for ref, pairs in self._fetched.items():
            self._fetched[ref] = list[tuple[int, str | XComPlace]](await self._texts(pairs))

    def texts_of(self, ref: XComRef) -> list[tuple[int, str]]:
        """The (map index, JSON text) pairs of `ref`. From plain code they are fetched if they were not before.

        So are those in remote storage: only now, when their values are needed.
        """
        if ref not in self._fetched:
            self._blocking(self.prefetch([ref]))
        if not all(isinstance(text, str) for _, text in self._fetched[ref]):
            self._blocking(self.load_remote_of(ref))
        return [(map_index, text) for map_index, text in self._fetched[ref] if isinstance(text, str)]

    async def load_remote_of(self, ref: XComRef) -> None:
        """As `load_remote`, for one reference."""
        self._fetched[ref] = list[tuple[int, str | XComPlace]](await self._texts(self._fetched[ref]))

    async def _texts(self, pairs: XComPairs) -> list[tuple[int, str]]:
        """The (map index, JSON text) pairs; values in remote storage are read, one after the other."""
        return [
            (map_index, text if isinstance(text, str) else await self._read_remote(text)) for map_index, text in pairs
        ]

    def xcom_pull(
        self,
        task_ids: str | Iterable[str] | None = None,
        key: str | None = RETURN_VALUE,
        map_indexes: int | Iterable[int] | None = None,
        default: Any = None,
        include_prior_dates: bool = False,
        *,
        dag_id: str | None = None,
        run_id: str | None = None,
    ) -> Any:
        """Read XComs of this run, or of another run or DAG; without `task_ids`, those of the task with this one's id.

        One id gives its value, or the list of its values when it is mapped and has several. Several ids give a list.
        `key` None means any key: what was returned, else the first one. `default` stands for a missing value.
        `dag_id` alone means that DAG's run with this run's id.
        With `include_prior_dates` a value that the run lacks comes from the newest run of the DAG that has it and is
        not later: than the run that `run_id` names, else than this one. Raises Refused for a DAG of another team.
        Source: the semantics reference, sections 27 and 36.
        """
        pull = self._plan(task_ids, key, map_indexes, include_prior_dates, dag_id, run_id)
        found = [None if pull.is_elsewhere else self._known(ref) for ref in pull.refs]
        if any(pairs is None or (pull.earlier and not pairs) for pairs in found):
            return _assemble(pull, self._blocking(self._load(pull)), default)
        return _assemble(pull, [pairs or [] for pairs in found], default)

    async def axcom_pull(
        self,
        task_ids: str | Iterable[str] | None = None,
        key: str | None = RETURN_VALUE,
        map_indexes: int | Iterable[int] | None = None,
        default: Any = None,
        include_prior_dates: bool = False,
        *,
        dag_id: str | None = None,
        run_id: str | None = None,
    ) -> Any:
        """As `xcom_pull`, for coroutines."""
        pull = self._plan(task_ids, key, map_indexes, include_prior_dates, dag_id, run_id)
        return _assemble(pull, await self._load(pull), default)

    def _plan(
        self,
        task_ids: str | Iterable[str] | None,
        key: str | None,
        map_indexes: int | Iterable[int] | None,
        earlier: bool,
        dag_id: str | None,
        run_id: str | None,
    ) -> _Pull:
        for name, given in (("dag_id", dag_id), ("run_id", run_id)):
            if given is not None and not isinstance(given, str):
                raise TypeError(f"xcom_pull({name}=…) takes one id as text, not {given!r}.")
        if dag_id == self.dag_id:
            dag_id = None
        if dag_id is None and run_id == self.run_id:
            run_id = None
        if task_ids is None and map_indexes is None:
            map_indexes = self.map_index
        ids = [self.task_id] if task_ids is None else [task_ids] if isinstance(task_ids, str) else list(task_ids)
        indexes: Sequence[int | None]
        indexes = [map_indexes] if map_indexes is None or isinstance(map_indexes, int) else list(map_indexes)
        one_index = map_indexes is None or isinstance(map_indexes, int)
        refs = tuple(XComRef(task_id, key, index) for task_id in ids for index in indexes)
        single = one_index and (task_ids is None or isinstance(task_ids, str))
        return _Pull(refs, single, dag_id, run_id, bool(earlier))

    def _known(self, ref: XComRef) -> Pairs | None:
        """This attempt's own pushes and values fetched before; None when it must be fetched."""
        own = next(reversed(self.pushed), None) if ref.key is None else ref.key
        if own in self.pushed and ref.task_id == self.task_id and ref.map_index in {None, self.map_index}:
            return [(self.map_index, self.pushed[own])]
        texts = [(map_index, text) for map_index, text in self._fetched.get(ref, ()) if isinstance(text, str)]
        return _decoded(texts) if ref in self._fetched and len(texts) == len(self._fetched[ref]) else None

    async def _load(self, pull: _Pull) -> list[Pairs]:
        if pull.is_elsewhere:
            return await self._search(pull, pull.refs)
        refs = pull.refs
        known = [self._known(ref) for ref in refs]
        missing = [ref for ref, pairs in zip(refs, known, strict=True) if pairs is None]
        fetched = await self._services.get_xcoms(self.attempt.key.run, missing) if missing else []
        texts = [await self._texts(pairs) for pairs in fetched]
        found = dict(zip(missing, map(_decoded, texts), strict=True))
        result = [found[ref] if pairs is None else pairs for ref, pairs in zip(refs, known, strict=True)]
        if pull.earlier and (lacking := [ref for ref, pairs in zip(refs, result, strict=True) if not pairs]):
            earlier = iter(await self._search(pull, lacking))
            result = [pairs or next(earlier) for pairs in result]
        return result

    async def _search(self, pull: _Pull, refs: Sequence[XComRef]) -> list[Pairs]:
        """The values in other runs and DAGs."""
        if not refs:
            return []
        asked = XComSearch(refs=list(refs), dag_id=pull.dag_id, run_id=pull.run_id, earlier=pull.earlier)
        answer = await self._services.call(self.attempt.key.run, "xcoms", msgspec.json.encode(asked).decode())
        found = msgspec.json.decode(answer, type=FoundXComs)
        if found.hint is not None:
            self.log.warning("xcom_pull: %s", found.hint)
        return [_decoded(await self._texts(pairs)) for pairs in found.pairs]

    def __repr__(self) -> str:
        return f"<TaskInstance {self.dag_id}.{self.task_id} {self.run_id} try {self.try_number}>"


async def _not_here(place: XComPlace) -> str:
    raise AioschedError(f"The XCom {place.path} in remote storage cannot be read by a task that does not run.")


def _decoded(pairs: Iterable[tuple[int, str]]) -> Pairs:
    return [(map_index, read_xcom(text)) for map_index, text in pairs]


def _assemble(pull: _Pull, found: Sequence[Pairs], default: Any) -> Any:
    values = [value for pairs in found for value in ([value for _, value in pairs] or [default])]
    if pull.single:
        return values[0] if len(values) == 1 else values
    return values
