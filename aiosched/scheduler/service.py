"""The `Scheduler`: one scheduler of a fleet, as a service inside any asyncio application.

It opens (or starts) the database, keeps a lease, parses DAG files, runs the loops, and
hands claims to an executor. It never exits the host process, installs no signal handlers
and does not change the root logger. Lives here: the parts, the order in which they start and stop, and what an
application can ask for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aiosched.clock import Clock, SystemClock
from aiosched.config import Settings, load_settings
from aiosched.core.figures.metrics import Metrics
from aiosched.core.requests.jobs import dag_id_of
from aiosched.core.requests.options import options_of, options_of_jobs
from aiosched.core.requests.requests import (
    AnswerInput,
    BackfillCancel,
    BackfillCreate,
    BackfillPause,
    BackfillResume,
    CancelRun,
    Clear,
    DeleteDag,
    EmitAsset,
    MarkRun,
    MarkTask,
    Pause,
    PauseSchedule,
    ReleaseDag,
    RemoveSchedule,
    Request,
    ResumeSchedule,
    SetNote,
    SetSchedule,
    Trigger,
    Unpause,
)
from aiosched.core.requests.stored import checked
from aiosched.core.run.board import Run
from aiosched.core.values.ids import partition_of
from aiosched.core.values.messages import AttemptKey, Executor
from aiosched.core.values.states import RunState
from aiosched.core.why.explanation import Explanation
from aiosched.db.audit.settings import record_settings
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.crypto.secret_confs import SecretConfs
from aiosched.db.server.embedded import EmbeddedPostgres, embedded_data_dir
from aiosched.db.server.embedded_watch import kept_running
from aiosched.db.server.engine import Database, address_of_sessions
from aiosched.db.server.failures import explain
from aiosched.db.server.migrate import migrate
from aiosched.db.server.sequences import put_forward
from aiosched.db.server.silence import limits_within
from aiosched.db.statements import inbox, runs
from aiosched.db.statements.ownership import set_draining
from aiosched.errors import AioschedError, FencedOut, NotAnswered, NotFound, Refused
from aiosched.executors.executor_router import members_of
from aiosched.executors.worker.lease_deadline import windows_of
from aiosched.lazy import provided
from aiosched.parsing.bundle_keeper import BundleKeeper
from aiosched.parsing.clean_processes import check_semaphores
from aiosched.parsing.service import Parser
from aiosched.scheduler.attempts.attempts import Attempts
from aiosched.scheduler.attempts.ending_attempts import EndingAttempts
from aiosched.scheduler.attempts.stuck_attempts import StuckAttempts
from aiosched.scheduler.concurrency.supervision import keep_running
from aiosched.scheduler.effects.attempt_control import stop_attempt
from aiosched.scheduler.effects.tracing import open_tracing
from aiosched.scheduler.engines.engine_executor import Engines
from aiosched.scheduler.executor_choice import Choice, choose_executor, give_objects
from aiosched.scheduler.journal.journal import Journal
from aiosched.scheduler.log_uploads import start_uploads
from aiosched.scheduler.membership.heartbeat import Heartbeat
from aiosched.scheduler.membership.incarnation import Incarnation, give_up
from aiosched.scheduler.membership.lease import Lease, SchedulerIdentity
from aiosched.scheduler.membership.outage import DatabaseOutage, Patience
from aiosched.scheduler.memory.known_position import KnownPosition
from aiosched.scheduler.observability.clock_check import ClockCheck
from aiosched.scheduler.observability.figure_log import FigureSource
from aiosched.scheduler.observability.idle import IdleLog, left_anywhere
from aiosched.scheduler.observability.lock_watch import LockWatch
from aiosched.scheduler.observability.metrics_snapshot import figures_of
from aiosched.scheduler.observability.publishing import publish
from aiosched.scheduler.partitions.ownership import measure_loads
from aiosched.scheduler.registered_dags import ApplicationDags, job_of, list_runs_anew, register_dags
from aiosched.scheduler.requests.preview import is_preview, preview
from aiosched.scheduler.run_handle import RunHandle
from aiosched.scheduler.run_results import read_values
from aiosched.scheduler.services.all_services import services_of
from aiosched.scheduler.services.bundle_services import bundle_services
from aiosched.scheduler.session.environment import Observers, SchedulerEnvironment
from aiosched.scheduler.session.events import Listener
from aiosched.scheduler.session.session import Session
from aiosched.timeouts import clean_up_timeout
from aiosched.transactional import traced, triggers_of
from aiosched.version import __version__

if TYPE_CHECKING:
    from starlette.requests import Request as HTTPRequest
    from starlette.types import ASGIApp

    from aiosched.authoring.dag.dag import DAG
    from aiosched.authoring.runtime.context import Context
    from aiosched.db.statements.dag_schedules import Schedule


logger: logging.Logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

_ANSWER_SECONDS: Final = 30.0
ENDING_SECONDS: Final = 5.0  # for the passes of the loops, and for giving up partitions
_GRACE: Final = 5.0  # seconds; an application that stops is waited for
_REMEMBER_SECONDS: Final = 5.0
_NOT_RUNNING: Final = "The scheduler does not run: use it inside `async with Scheduler(…)`."
_ON_ANOTHER_LOOP: Final = (
    "The scheduler runs on another event loop: ask it from there, from other threads by "
    "`asyncio.run_coroutine_threadsafe(scheduler.trigger(…), loop)`."
)


def _loop_here() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _loop_of_start() -> asyncio.AbstractEventLoop:
    """The loop of asyncio that runs here. Raises Refused under trio, and in a coroutine that is driven by hand."""
    if (loop := _loop_here()) is None:
        raise Refused(
            "A Scheduler needs the event loop of asyncio, and none runs here. Under trio, start it in a thread of its "
            "own with asyncio.run(…); anyio runs it with backend='asyncio'."
        )
    return loop


class Scheduler:
    """One scheduler; `async with Scheduler(...)` starts and stops it.

    dsn           PostgreSQL 15 to 18; None: the setting, else an embedded server in `core.home`
    dags          DAG objects of this process, to which `add` adds (an empty list: at first none); or
    application   whose DAGs these are: what its newest start no longer registers becomes inactive
    dags_folder   the folder of DAG files to parse and watch, instead of the bundles of the settings
    executor      "inline", "local", an Executor, or several: "local,inline", a list, or a dict by name; None: that of
                  the environment or the file, else "inline"
    settings      see aiosched.config; None: those of the environment and of the file in the working directory.
                  Arguments here win over them
    migrate       bring the tables of an external database up to date (the embedded one always is)
    listener      is called with a SchedulerEvent after the commit that made it true
    remembers_in  a file for what it has seen stored: its next start then notices a database that is older
    grace         seconds for which leaving `async with`, or `stop()`, waits for running tasks; None: `scheduler.grace`
                  of the environment or the file, else 5. What runs on is ended, and runs again at the next start
    context       objects of the application for its tasks, by name or by type: a parameter `pool=None` of a task gets
                  `context={"pool": …}`, and `db: Db | None = None` gets `context={Db: …}`; of a job also `db: Db`. For
                  the inline executor
    around        makes an async context manager of a task's context, which is entered around each of its tries, on this
                  loop; an error in it fails the try. For the inline executor

    Raises on start: ConfigError, DatabaseError and its kinds, DagError.
    """

    def __init__(
        self,
        *,
        dsn: str | None = None,
        dags: Iterable[DAG] = (),
        dags_folder: str | Path | None = None,
        executor: Choice | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        name: str | None = None,
        application: str = "application",
        migrate: bool = False,
        parse: bool = True,
        listener: Listener | None = None,
        count_statements: bool = False,
        remembers_in: Path | None = None,
        grace: float | None = None,
        context: Mapping[Any, Any] | None = None,
        around: Callable[[Context], AbstractAsyncContextManager[Any]] | None = None,
    ) -> None:
        if settings is None:
            loaded = load_settings()
            self.settings: Settings = loaded.settings
            if executor is None and loaded.origins["executor.kind"].source != "default":
                executor = self.settings.executor.kind
            if grace is None and loaded.origins["scheduler.grace"].source != "default":
                grace = self.settings.scheduler.grace
        else:
            self.settings = settings.model_copy(deep=True)
        if dsn is not None:
            self.settings.database.dsn = dsn
        if dags_folder is not None:
            self.settings.core.dags_folder, self.settings.dags.bundles = Path(dags_folder), []
        if name is not None:
            self.settings.scheduler.name = name
        self.clock: Clock | SystemClock = clock or SystemClock()
        self._clock_check = ClockCheck(self.clock, lambda: self._session)
        self.metrics: Metrics = Metrics()
        if dags_folder is not None and not (dags := tuple(dags)):
            dags = ()  # the folder has them
        self._registered = ApplicationDags(dags, application)
        objects = self._registered.known if self._registered.are_given else None
        self.executor: Executor = choose_executor(executor or "inline", self.settings, objects)
        self._given = frozenset(context or ())
        if context or around is not None:
            give_objects(self.executor, context or {}, around)
        # called from a thread when the event loop does not come back
        self.on_stuck: Callable[[str], None] | None = None
        # called with its partitions when they change
        self.on_partitions: Callable[[Collection[int]], None] | None = None
        # partitions of other schedulers whose files the parser here reads, too; see `list_files`
        self.also_parses: Callable[[int], bool] = lambda _: False
        self.parser: Parser | None = None
        self.database_summary: str = ""
        self._grace = _GRACE if grace is None else grace
        self._parse = parse and (dags_folder is not None or not self._registered.are_given)
        self._migrate = migrate
        self._listener = listener
        self._count_statements = count_statements
        self._embedded: EmbeddedPostgres | None = None
        self._db: Database | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # on which it runs
        self._engines = Engines(members_of(self.executor))
        self._attempts = Attempts(
            self.metrics,
            StuckAttempts.of(self.settings),
            EndingAttempts.of(self.settings),
            drop=self.executor.forget,
            release=self._engines.settled,
        )
        self._keeper: BundleKeeper | None = None
        self._lease: Lease | None = None  # of the current incarnation
        self._incarnation: Incarnation | None = None
        self._outage = DatabaseOutage()
        self._patience = Patience()
        self._known_position = KnownPosition(self.settings.scheduler.name or socket.gethostname(), remembers_in)
        self._session: Session | None = None
        self._ready = asyncio.Event()
        self._draining = False
        self._stopping = False
        self._ended: dict[int, list[asyncio.Event]] = {}
        self._life: asyncio.Task[None] | None = None
        self._before_close: list[Callable[[], Awaitable[None]]] = []  # of other users of the database

    # -- starting and stopping --------------------------------------------------------------

    async def __aenter__(self) -> Scheduler:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Open the database, join the fleet, load unfinished runs; returns once the loops run. Call it once."""
        if self._life is not None or self._stopping:
            raise Refused("This scheduler was started already: make a new Scheduler(…) for each start.")
        self._loop = _loop_of_start()
        if self._parse:
            check_semaphores()
        try:
            await self._open_database()
            if self._registered.are_given:
                given = tuple(self._registered.known.values())
                await register_dags(
                    self.db, given, self.clock, paused=self._paused, application=self._registered.application
                )
            self.on_close(await start_uploads(self.settings))
            for engine_name, engine in self._engines.members.items():
                engine.bind(self.db, name=engine_name, incarnation=lambda: self.incarnation)
            self._keeper = BundleKeeper(self.settings, self.db, clock=self.clock)
            more = bundle_services(self._keeper)
            answering = services_of(
                self.db, self.settings, lease=lambda: self._lease, on_unwritten_log=self.metrics.count_unwritten,
                more=more,
            )  # fmt: skip
            await self.executor.start(self._attempts.receive, answering)
            self._life = asyncio.create_task(self._live(), name="aiosched scheduler")
            ready = asyncio.create_task(self._ready.wait())
            try:
                await asyncio.wait((ready, self._life), return_when=asyncio.FIRST_COMPLETED)
            finally:
                ready.cancel()
            if self._life.done():
                await self._life
        except BaseException:
            await self._close()
            raise

    async def announce_drain(self) -> None:
        """Claim and create nothing more, and let the fleet know; partitions are kept until `drain`.

        For schedulers that stop together: each must know of all others before it looks for one to take its partitions.
        """
        self.draining = True
        if self._session is not None:
            self._session.membership.keeps_until = math.inf
            await set_draining(self.db, self._session.env.incarnation)

    async def drain(self, grace: float) -> bool:
        """Claim and create nothing more, and wait up to `grace` seconds for running attempts; whether all ended.

        Other schedulers, if there are any, take over the partitions meanwhile, and receive the reports of what runs
        here.
        """
        self.draining = True
        if self._session is not None and self._session.membership.keeps_until == math.inf:
            self._session.membership.keeps_until = time.monotonic()
        self.look_at_fleet()
        with contextlib.suppress(TimeoutError):
            async with clean_up_timeout(grace):
                while self._busy(on_engines=False):
                    await self._progress()
        return not self._busy(on_engines=False)

    async def stop(self, grace: float | None = None) -> None:
        """Stop cleanly: drain for `grace` seconds, end what still runs, store its results, leave the fleet.

        None: the grace of the constructor. Attempts that had to be ended are lost, not failed: their tasks run again.
        """
        try:
            if self._life is not None and not self._life.done():
                try:
                    await self.drain(self._grace if grace is None else grace)
                finally:  # also if the stop is cancelled: then without the rest of the grace
                    self._attempts.forget_all_triggers()
                    await self.executor.stop(0.0)
                    await self.drain(1.0)
        finally:
            await self._close()

    async def _close(self) -> None:
        self._stopping = True
        if self._incarnation is not None:
            self._incarnation.stop()
        try:
            if self._life is not None:
                life, self._life = self._life, None
                try:
                    await asyncio.wait((life,), timeout=ENDING_SECONDS)
                finally:  # also if the stop is cancelled: nothing of this scheduler may keep running
                    life.cancel()
                    with contextlib.suppress(asyncio.CancelledError, AioschedError):
                        await life
        finally:
            await self.executor.stop(0.0)
            for callback in self._before_close:
                await callback()
            if self._db is not None:
                await self._db.close()
                self._db = None
            if self._embedded is not None:
                await self._embedded.stop()
                self._embedded = None

    @property
    def is_running(self) -> bool:
        """Whether it has been started, and neither stopped nor failed."""
        return self._life is not None and not self._life.done() and self._db is not None

    @property
    def session(self) -> Session | None:
        """What it holds in memory; None before it has joined, another one after each failure. No stable API."""
        return self._session

    @property
    def incarnation(self) -> int | None:
        """Its number in the fleet, a new one each time that it joins; None before the first."""
        return None if self._session is None else self._session.env.incarnation

    @property
    def draining(self) -> bool:
        """Whether it begins nothing more, and gives its partitions away: set by `drain`. No stable API."""
        return self._draining

    @draining.setter
    def draining(self, draining: bool) -> None:
        self._draining = draining
        if self._session is not None:
            self._session.membership.draining = draining

    def on_close(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Call `callback` when the scheduler stops, before its database is closed."""
        self._before_close.append(callback)

    def web_app(self, *, authenticator: Callable[[HTTPRequest], Awaitable[Any]] | None = None) -> ASGIApp:
        """REST API and web UI as an ASGI application, to mount into another one: `app.mount("/flows", …)`.

        May be called before the start. The setting `web.auth` controls access, or `authenticator`, a coroutine
        function from a request to a `aiosched.web.auth.access.Principal` or None. Raises ConfigError without either.
        """
        app: ASGIApp = provided("web_app")(self, authenticator)
        return app

    @property
    def failed(self) -> asyncio.Task[None]:
        """The scheduler's main task: it ends only by `stop`, or by raising the error that ended the scheduler."""
        if self._life is None:
            raise Refused(_NOT_RUNNING)
        return self._life

    @property
    def db(self) -> Database:
        """The open database."""
        if self._db is None:
            raise Refused(_NOT_RUNNING)
        if self._loop is not None and _loop_here() not in (self._loop, None):
            raise Refused(_ON_ANOTHER_LOOP)
        return self._db

    async def _open_database(self) -> None:
        dsn = self.settings.database.dsn
        embedded = dsn is None
        if dsn is None:
            self._embedded = EmbeddedPostgres(
                embedded_data_dir(self.settings.core.home), binaries=self.settings.database.embedded_binaries
            )
            dsn = await self._embedded.start()
        direct = dsn if embedded else address_of_sessions(dsn, self.settings.database)
        if embedded or self._migrate:
            await migrate(direct, default_pool_slots=self.settings.core.default_pool_task_slot_count)
        self._db = await Database.open(
            dsn,
            settings=self.settings.database,
            count_statements=self._count_statements,
            limits=limits_within(self.settings.scheduler.lease),
        )
        version = str(await self._db.fetchval("SHOW server_version")).split()[0]
        where = (
            f"embedded, {embedded_data_dir(self.settings.core.home)} (kept between runs)"
            if embedded
            else self._db.where
        )
        async with self._db.acquire() as conn:
            await self._known_position.compare(conn)
        await record_settings(self._db, self.settings, "scheduler")
        self.database_summary = f"PostgreSQL {version}, {where}"
        logger.info("the database is %s", self.database_summary)

    # -- requests ---------------------------------------------------------------------------
    #
    # Each is put into the inbox, applied by the owner of the DAG, and answered once its effects are stored; a preview
    # (`dry_run`) is read from the rows. All raise NotFound or Refused with the owner's message. Their options are the
    # fields of the request (core/requests/options.py). Instants are aware; `reason` is kept in the audit log.

    async def request(self, request: Request, dag_id: str | None) -> dict[str, Any]:
        """Send a request to the owner of a DAG (None: of an asset) and wait for its answer; a preview is a read.

        On NotFound it is sent again once the DAGs folder has been read for the first time.
        """
        request = checked(request)
        if dag_id is not None or not isinstance(request, EmitAsset):
            dag_id = dag_id_of(dag_id)
        if request.key is not None:  # whose first answer stays
            await self.read_folder()
        if not self.has_read_folder:  # asked before: it may be read while the answer is on its way
            with contextlib.suppress(NotFound):
                return await _answer(self, request, dag_id)
            await self.read_folder()
        return await _answer(self, request, dag_id)

    async def outcome(self, number: int, *, timeout: float = _ANSWER_SECONDS) -> dict[str, Any]:
        """The answer to a request that was not applied in time, once it is. Raises what the request would have raised.

        NotAnswered again after `timeout` seconds, NotFound at once if there is no such request, Refused if it was
        withdrawn.
        """
        return await inbox.outcome(self.db, number, timeout=timeout)

    async def withdraw(self, number: int, *, reason: str | None = None) -> None:
        """Take back a request that waits, so that no scheduler applies it. Raises NotFound, or Refused if one has."""
        async with self.db.acquire() as conn:
            await inbox.withdraw_request(conn, number, by="embedded", reason=reason)

    @options_of_jobs(Trigger, triggered_by="api")
    async def trigger(self, dag_id: str, request: Trigger) -> RunHandle:
        """Create a run; returns when it is stored. `unpause`: unpause the DAG first.

        A function that is a job stands for its DAG, with its arguments: `trigger(load, amounts=[1, 2], unique="a")`.
        With a `partition_key` the run is about that partition of its assets.

        Raises Refused or NotFound with the reason.
        """
        result = await self.request(traced(request), dag_id)
        return RunHandle(self, dag_id, result["run_id"], result["id"])

    async def run_of(self, number: int, *, timeout: float = _ANSWER_SECONDS) -> RunHandle:
        """The run of a request for one, by its number (of `aiosched.enqueue`), once it exists. Raises as `outcome`.

        A request whose transaction was rolled back, or has not committed yet, does not exist: NotFound, at once.
        """
        result = await inbox.outcome(self.db, number, timeout=timeout)
        dag_id = await inbox.dag_of_request(self.db, number)
        if dag_id is None or "run_id" not in result or "id" not in result:
            raise Refused(f"Request {number} asked for no run; see `aiosched requests show {number}`.")
        return RunHandle(self, dag_id, result["run_id"], result["id"])

    async def trigger_batch(
        self,
        dag_id: str | Callable[..., Any],
        runs: Iterable[Mapping[str, Any]],
        *,
        unpause: bool = False,
        reason: str | None = None,
    ) -> list[RunHandle | AioschedError]:
        """Create runs of one DAG or job, each with options of `trigger`; for each its handle, or why there is none.

        Those that no scheduler has created in time are NotAnswered, and are created later.
        """
        dag_id, triggers = triggers_of(dag_id, runs, unpause=unpause, reason=reason)
        requests = [checked(request) for request in triggers]
        if not requests:
            return []
        await self.read_folder()
        answers = await inbox.ask_owner_many(
            self.db,
            requests,
            dag_id,
            requested_by="embedded",
            timeout=_ANSWER_SECONDS,
            keyring=Keyring.of(self.settings),
        )
        return [_handle(self, dag_id, answer) for answer in answers]

    @options_of(EmitAsset)
    async def emit(self, request: EmitAsset) -> None:
        """Make an event of the asset with that name, as a task would: DAGs that wait for it run.

        `extra` is a JSON object; with a `partition_key` it is about that partition of the asset. Raises NotFound for an
        unknown asset, Refused for one that no DAG mentions.
        """
        await self.request(request, None)

    async def why(
        self, dag_id: str, run: str | None = None, task: str | None = None, map_index: int = -1
    ) -> Explanation:
        """Why a DAG, a run of it (a run id, a logical date, `latest`) or a task instance does not run.

        Raises NotFound. The command `aiosched why` prints the same `aiosched.core.why.explanation.Explanation`.
        """
        from aiosched.scheduler.why.why import why as explain  # imports SQLAlchemy, which nothing else here needs

        return await explain(self.db, dag_id_of(dag_id), run, task, map_index, now=self.clock.now())

    async def xcom(
        self,
        dag_id: str,
        run_id: str,
        task_id: str,
        *,
        key: str = "return_value",
        map_index: int | None = None,
    ) -> Any:
        """What a task pushed under `key`, None without; of a mapped task the list, or the value of one `map_index`.

        Raises NotFound for a run or task that does not exist, and what `RunHandle.results` raises.
        """
        run = await runs.find_run(self.db, dag_id_of(dag_id), run_id=run_id)
        if run is None:
            raise NotFound(f"DAG {dag_id!r} has no run {run_id!r}.")
        found = await read_values(self.db, self.settings.xcom, run.key, task_id, key, map_index)
        return found.by_task.get(task_id)

    async def pause(self, dag_id: str, *, reason: str | None = None, key: str | None = None) -> None:
        """Create and start nothing more of a DAG; running tasks go on."""
        await self.request(Pause(reason=reason, key=key), dag_id)

    async def unpause(self, dag_id: str, *, reason: str | None = None, key: str | None = None) -> None:
        """Undo `pause`."""
        await self.request(Unpause(reason=reason, key=key), dag_id)

    async def delete(self, dag_id: str, *, reason: str | None = None, key: str | None = None) -> None:
        """Remove a DAG's rows: versions, runs, task instances. A file that is still there brings the DAG back.

        Raises Refused while runs of it run.
        """
        await self.request(DeleteDag(reason=reason, key=key), dag_id)

    async def release(self, dag_id: str, *, reason: str | None = None, key: str | None = None) -> None:
        """Try a DAG that is in quarantine again now, before its pause is over. Raises Refused for any other DAG."""
        await self.request(ReleaseDag(reason=reason, key=key), dag_id)

    @options_of(CancelRun)
    async def cancel(self, dag_id: str, request: CancelRun) -> None:
        """End a run: its running tasks are stopped, the others do not start, the run is failed."""
        await self.request(request, dag_id)

    @options_of(Clear)
    async def clear(self, dag_id: str, request: Clear) -> list[dict[str, Any]]:
        """Let task instances run again: of all runs and all tasks unless some are named (28.2).

        Without `run_ids` the runs with a logical date in [first, final] are selected; a `date` is that whole day in the
        DAG's time zone. `pattern` is a regular
        expression for task ids. `map_index` selects the instances with that index, None all. The setups and teardowns
        of cleared tasks are cleared with them, whatever their state.
        `past` and `future` add the runs before and after the named ones, by logical date.
        Running instances are stopped and run again; with `prevent_running` Refused is raised instead, naming them.
        `newest_version` moves the runs in which something is selected to the newest version of the DAG: task instances
        follow their task ids, tasks that no longer exist leave the run. A running run that would move is refused.
        With `dependents`, what selected `ExternalTaskMarker`s mark in other DAGs is cleared, too (28.6).
        Returns the touched instances as they were before: run_id, task_id, map_index, state, try_number;
        at most 1,000 of them.
        """
        return list((await self.request(request, dag_id))["instances"])

    @options_of(MarkTask)
    async def mark_task(self, dag_id: str, request: MarkTask) -> list[dict[str, Any]]:
        """Set a task instance to success, failed or skipped (28.4); without `map_index`, all instances of the task.

        `upstream` and `downstream` add the tasks before and after it, `past` and `future` the
        runs before and after that one, by logical date. Returns what was touched, as `clear` does.
        """
        return list((await self.request(request.of_many(), dag_id))["instances"])

    @options_of(MarkRun)
    async def mark_run(self, dag_id: str, request: MarkRun) -> None:
        """Set a run to success or failed with all that is unfinished in it, or queue it again (28.5)."""
        await self.request(request, dag_id)

    @options_of(SetNote)
    async def set_note(self, dag_id: str, request: SetNote) -> None:
        """Put a note of at most 1,000 characters on a run, or on one of its task instances; an empty one removes it."""
        await self.request(request, dag_id)

    @options_of(AnswerInput, by="embedded")
    async def answer_input(self, dag_id: str, request: AnswerInput) -> dict[str, Any]:
        """Answer what a task asks, which goes on then; returns {run_id, task_id, map_index, options, params}.

        Raises NotFound, and Refused if it does not wait for an answer, or for one that is wrong.
        """
        return await self.request(request, dag_id)

    @options_of_jobs(BackfillCreate)
    async def backfill(self, dag_id: str, request: BackfillCreate) -> dict[str, Any]:
        """Create the runs of past dates, both inclusive (29.1); a `date` is that whole day in the DAG's time zone.

        Returns {id, dates: [{logical_date, fate}], from, to, timezone, left_out}: the instants that were meant, and
        the first date that is left out because its data interval has not ended, null if there is none.
        """
        return await self.request(request, dag_id)

    @options_of_jobs(SetSchedule)
    async def schedule(self, dag_id: str, request: SetSchedule) -> None:
        """Start runs of a DAG by a schedule that is data and survives restarts; a DAG may have thousands.

        One of `cron` (in `timezone`), `every` (seconds) and `at`. One of that name is changed; with other terms it
        begins anew. Its runs are `NAME__INSTANT`, with this `conf`. Raises Refused, ParamError, TimetableError.
        """
        await self.request(request, dag_id)

    async def schedules(self, dag_id: str | None = None) -> list[Schedule]:
        """The schedules of a DAG, or of all, by DAG and name."""
        from aiosched.db.queries.schedule_queries import list_schedules  # imports SQLAlchemy, as `why` does

        if dag_id is not None:
            dag_id_of(dag_id)
        found: list[Schedule] = []
        while more := await list_schedules(
            self.db, dag_id=dag_id, after=(found[-1].dag_id, found[-1].name) if found else None
        ):
            found += more
        return found

    async def pause_schedule(
        self, dag_id: str, name: str, *, reason: str | None = None, key: str | None = None
    ) -> None:
        """Start no runs by a schedule. Raises NotFound."""
        await self.request(PauseSchedule(name, reason=reason, key=key), dag_id)

    async def resume_schedule(
        self, dag_id: str, name: str, *, reason: str | None = None, key: str | None = None
    ) -> None:
        """Undo `pause_schedule`: the last missed instant has a run, with catchup each."""
        await self.request(ResumeSchedule(name, reason=reason, key=key), dag_id)

    async def unschedule(self, dag_id: str, name: str, *, reason: str | None = None, key: str | None = None) -> None:
        """Remove a schedule; its runs stay. Raises NotFound."""
        await self.request(RemoveSchedule(name, reason=reason, key=key), dag_id)

    async def pause_backfill(
        self, dag_id: str, number: int, *, reason: str | None = None, key: str | None = None
    ) -> None:
        """Start no more runs of a backfill; running ones go on."""
        await self.request(BackfillPause(number, reason=reason, key=key), dag_id)

    async def resume_backfill(
        self, dag_id: str, number: int, *, reason: str | None = None, key: str | None = None
    ) -> None:
        """Undo `pause_backfill`."""
        await self.request(BackfillResume(number, reason=reason, key=key), dag_id)

    async def cancel_backfill(
        self, dag_id: str, number: int, *, reason: str | None = None, key: str | None = None
    ) -> int:
        """Fail the queued runs of a backfill, let running ones go on; returns how many have failed."""
        return int((await self.request(BackfillCancel(number, reason=reason, key=key), dag_id))["failed"])

    # -- running ----------------------------------------------------------------------------

    async def _live(self) -> None:
        """Run one incarnation after the other until stopped, and the parser beside them."""
        async with kept_running(self._embedded), asyncio.TaskGroup() as group:
            renewal = list_runs_anew(self.db, self._registered, self.clock, paused=self._paused)
            beside = [group.create_task(renewal, name="listing"), group.create_task(self._observe(), name="observing")]
            kept: list[tuple[str, Callable[[], Awaitable[None]]]] = [("memory of what was stored", self._remember)]
            if self._parse:
                kept.append(("parsing", self._run_parser))
            for name, work in kept:
                beside.append(group.create_task(keep_running(name, work, self.metrics, in_session=False)))
            try:
                while not self._stopping:
                    try:
                        await self._live_once()
                    except FencedOut as error:
                        logger.warning("%s", error)
                        await self._abandon_attempts()
                        self.db.drop_connections()
                    except Exception as error:
                        if self._patience.is_over(error, now=time.monotonic()):
                            raise
                        told = explain(error, self.db.dsn) or error
                        await asyncio.sleep(self._outage.failed(told, now=time.monotonic()))
            finally:
                for task in beside:
                    task.cancel()

    async def _live_once(self) -> None:
        settings = self.settings.scheduler
        identity = SchedulerIdentity(
            name=settings.name or socket.gethostname(),
            version=__version__,
            executor=self.executor.name,
            slots=self.executor.slots,
        )
        heartbeat = Heartbeat(self._beat, self.metrics.loop_lag, self._loads)
        windows = windows_of(members_of(self.executor).values())
        lease = Lease(
            self.db, identity, seconds=settings.lease, on_view=self._receive_view, heartbeat=heartbeat, windows=windows,
            on_stuck=self.on_stuck, known_position=self._known_position,
        )  # fmt: skip
        async with self.db.acquire() as conn:
            await self._known_position.compare(conn)
            await put_forward(conn)
        number = await lease.start()
        self._outage.over()
        self._lease = lease
        keyring = Keyring.of(self.settings)
        known = self._known_position
        journal, side_journal = (Journal(self.db, number, self.metrics, keyring, known) for _ in range(2))

        observers = Observers(self._listener, self._run_end, self._partitions_moved, self._ready.set)
        env = SchedulerEnvironment(
            db=self.db, settings=self.settings, clock=self.clock, executor=self.executor, attempts=self._attempts,
            journal=journal, side_journal=side_journal, incarnation=number, metrics=self.metrics,
            holds_lease=lease.trusted, observers=observers, engines=self._engines, confs=SecretConfs(keyring),
        )  # fmt: skip

        def make_session() -> Session:
            return Session.begin(env, tracing=open_tracing(), draining=self._draining)

        self._incarnation = Incarnation(lease, make_session, self._on_session, self._patience, self._known_position)
        if self._stopping:
            self._incarnation.stop()
        lease.poll_now()
        try:
            await self._incarnation.run()
        finally:
            try:
                await journal.close()
                await side_journal.close()
                if self._stopping:
                    try:
                        await give_up(self.db, number)
                    except Exception as error:  # then peers take over its partitions when the lease expires
                        logger.info("the partitions could not be released: %s", error)
            finally:  # also if this task is cancelled: otherwise the thread would renew the lease for ever
                await lease.stop(leave=True)
                await self._keep_position()

    def _beat(self) -> dict[str, Any]:
        self._clock_check.look()
        return self.figures()

    def figures(self) -> dict[str, Any]:
        """The figures that it publishes with its heartbeat, as of now. No stable API."""
        trouble = self._patience.trouble(now=time.monotonic())
        stats = None if self.parser is None else self.parser.stats
        return figures_of(self._session, self.metrics, stats, trouble=trouble, remarks=self._clock_check.remarks())

    def _loads(self) -> Sequence[float | None] | None:
        return None if self._session is None else measure_loads(self._session)

    async def _remember(self) -> None:
        """Keep what was seen stored, every few seconds, until cancelled."""
        while self._known_position.is_kept:
            await asyncio.sleep(_REMEMBER_SECONDS)
            await self._keep_position()

    async def _keep_position(self) -> None:
        if self._known_position.is_kept:
            with contextlib.suppress(OSError):  # a full disk is said elsewhere
                await asyncio.to_thread(self._known_position.keep)

    async def _observe(self) -> None:
        """Publish figures, and say in the log whose locks commits wait for, until cancelled."""
        source = FigureSource(
            self.figures, lambda: None if self._known_position.is_foreign else self.incarnation, lambda: self._owns(0)
        )
        watch = LockWatch(lambda: () if self._session is None else self._session.env.journals)
        async with asyncio.TaskGroup() as group:
            group.create_task(publish(self.settings, self.clock, source, lambda: self.db, self.metrics))
            group.create_task(watch.keep(lambda: self.db), name="lock watch")
            if isinstance(self.clock, SystemClock):  # any other need not be like that of the database
                group.create_task(self._clock_check.keep(lambda: self.db), name="clock")

    def _receive_view(self, view: Any) -> None:
        if self._incarnation is not None:
            self._incarnation.receive_view(view)

    def _on_session(self, session: Session) -> None:
        self._session = session
        self._attempts.on_report = session.wakeups.evaluation.wake
        self._attempts.callbacks.on_report = session.wakeups.callbacks.wake
        self._attempts.remote.on_change = session.wakeups.remote_attempts.wake
        self._attempts.revoke = lambda key: stop_attempt(session, key)
        for engine in self._engines.members.values():
            engine.on_growth = session.has_more_room

    async def _abandon_attempts(self) -> None:
        """Peers may run our attempts again: end them before this process starts a new incarnation."""
        in_flight = self._attempts.in_flight.keys() - self._attempts.on_engines
        grace = min(self.settings.core.killed_task_cleanup_time, 1.0)
        await asyncio.gather(*(self.executor.cancel(key, grace) for key in list(in_flight)))
        self._attempts.abandon()

    async def _run_parser(self) -> None:
        await self._ready.wait()
        self.parser = Parser(
            self.settings, self.db, clock=self.clock, owns=self._owns, knows_owned=self._knows_owned,
            on_change=self.dags_changed, executors=members_of(self.executor).keys(), keeper=self._keeper,
        )  # fmt: skip
        await self.parser.run()

    @property
    def has_read_folder(self) -> bool:
        """Whether each file of the DAGs folder was read once, or there is none to read."""
        return not self._parse or (self.parser is not None and self.parser.first_pass.done())

    async def read_folder(self) -> bool:
        """Wait until each file of the DAGs folder was read once; returns False if that was already the case."""
        while self._parse and self.parser is None:
            await self._progress()
        waits = self.parser is not None and not self.parser.first_pass.done()
        while self.parser is not None and not self.parser.first_pass.done():  # one that fails is replaced
            await self._progress()
        return waits

    def list_files(self) -> None:
        """Look again which files the parser reads: `also_parses` has changed."""
        if self.parser is not None:
            self.parser.refresh()

    def _partitions_moved(self) -> None:
        self.list_files()
        if self.on_partitions is not None and self._session is not None:
            self.on_partitions(self._session.cache.partitions)

    def _knows_owned(self) -> bool:
        """False while a session that has just begun, as after an error, reads what it owns."""
        return self._session is not None and self._session.locks.ready.is_set()

    def _owns(self, partition: int) -> bool:
        is_own = self._session is not None and partition in self._session.cache.partitions
        return (is_own or self.also_parses(partition)) and not self._known_position.is_foreign

    def dags_changed(self, dag_ids: Collection[str]) -> None:
        """Hear that rows of these DAGs have changed, as by a notification. No stable API."""
        if self._session is not None:
            self._session.notifications.changed_dags.update(map(partition_of, dag_ids))
            self._session.notifications.has_requests = True
            self._session.wakeups.notifications.wake()

    # -- DAGs of the application ------------------------------------------------------------

    @property
    def _paused(self) -> bool:
        """Whether new DAGs are paused."""
        return self.settings.core.dags_are_paused_at_creation

    def job(
        self,
        *,
        cron: str | None = None,
        every: float | timedelta | None = None,
        at: datetime | None = None,
        timezone: str = "UTC",
        max_active_runs: int | None = None,
        max_active_runs_per_key: int | None = None,
        concurrency_key: str | None = None,
        **options: Any,
    ) -> Callable[[F], F]:
        """Make a function a job, a DAG of one task with its name, before the scheduler starts.

        It runs at the ticks of `cron` in `timezone`, `every` so many seconds, once `at` an instant, or when it is
        triggered. It can be `async def`, and takes what tasks take; `options` are those of a task (`retries=3`), limits
        those of a DAG: `concurrency_key="{{ conf.tenant }}"` runs one job of each tenant at a time.
        Its other parameters are its arguments, given by `trigger`, `enqueue` and `schedule` (as params of the DAG).
        Raises Refused for two jobs of one name, after the start, and for a scheduler without `dags`; DagError.
        """

        def declare(function: F) -> F:
            if self._life is not None:
                raise Refused("The scheduler runs already: add a DAG with `await scheduler.add(…)`.")
            made = job_of(
                function, cron=cron, every=every, at=at, timezone=timezone, options=options, given=self._given,
                limits={
                    "max_active_runs": max_active_runs,
                    "max_active_runs_per_key": max_active_runs_per_key,
                    "concurrency_key": concurrency_key,
                },
            )  # fmt: skip
            self._registered.declare(made)
            return function

        return declare

    async def add(self, *dags: DAG) -> None:
        """Register more DAGs while it runs; returns when they are stored. Each process of the application does so.

        The next start of the application registers what it is given then: what it adds later is inactive in between.
        Raises Refused for a DAG that is registered already and for a scheduler without `dags`, ConfigError, DagError.
        """
        await self._registered.add(self.db, dags, self.clock, paused=self._paused, replaces=False)

    async def replace(self, *dags: DAG) -> None:
        """Register DAGs in place of those with their ids: attempts that start from now on run them. Raises as `add`."""
        await self._registered.add(self.db, dags, self.clock, paused=self._paused, replaces=True)

    async def remove(self, dag_id: str) -> None:
        """Make a DAG of this application inactive: no new runs; unfinished ones go on, and what was is kept.

        `add` makes it active again, `delete` removes its rows. Raises NotFound.
        """
        await self._registered.remove(self.db, dag_id_of(dag_id))

    # -- runs -------------------------------------------------------------------------------

    async def run_state(self, dag_id: str, run_id: str) -> RunState:
        """The state of a run, from the database."""
        run = await runs.find_run(self.db, dag_id_of(dag_id), run_id=run_id)
        if run is None:
            raise NotFound(f"DAG {dag_id!r} has no run {run_id!r}.")
        return run.state

    @contextlib.contextmanager
    def notified_of_end(self, key: int) -> Iterator[asyncio.Event]:
        """An event that is set when the run with this key ends here."""
        event = asyncio.Event()
        waiting = self._ended.setdefault(key, [])
        waiting.append(event)
        try:
            yield event
        finally:
            waiting.remove(event)
            if not waiting:
                self._ended.pop(key, None)

    def _run_end(self, run: Run) -> None:
        for event in self._ended.get(run.key, ()):
            event.set()

    # -- progress ---------------------------------------------------------------------------

    async def wait_idle(self) -> None:
        """Return once nothing is left in the whole fleet (observability/idle.py).

        Raises InQuarantine if that cannot be, and Refused if the scheduler stops.
        """
        idle_log = IdleLog()
        while (left := await self.what_is_left()) is not None:
            idle_log.note(left, self.clock.monotonic())
            await self._progress()

    def wake_loops(self) -> None:
        """Act on what is due now. Needed only after moving an injected clock: loops sleep by the real one."""
        if self._session is not None:
            self._session.wakeups.wake_all()

    def look_at_fleet(self) -> None:
        """Read at once who else is there and who owns what, which is read every second anyway."""
        if self._incarnation is not None:
            self._incarnation.poll_now()

    def running_attempts(self) -> list[tuple[str, str, str, float]]:
        """(DAG id, run id, task id, seconds) of the attempts in this scheduler's executor, longest first."""
        now = self.clock.monotonic()
        found = [(*self._names(key), now - since) for key, since in self._attempts.in_flight.items()]
        return sorted(found, key=lambda entry: -entry[3])

    def _names(self, key: AttemptKey) -> tuple[str, str, str]:
        board = None if self._session is None else self._session.cache.boards.get(key.run)
        if board is None:
            return "?", str(key.run), str(key.task_index)
        return board.run.dag_id, board.run.run_id, board.graph.task_ids[key.task_index]

    async def what_is_left(self) -> str | None:
        """What keeps `wait_idle` waiting, in a few words; None for nothing. No stable API."""
        session = self._session
        if session is None:
            return "it has not joined the fleet yet"
        if self._busy():
            return "attempts run, or their results are being stored"
        if self._parse and self.parser is None:
            return "no DAG file has been read yet"
        left = await left_anywhere(session, self.parser if self._parse else None, self.clock.now())
        if left is None and (session is not self._session or self._busy()):
            return "something has started meanwhile"
        return left

    def _busy(self, *, on_engines: bool = True) -> bool:
        """Whether something runs or is to be stored; `on_engines`: attempts there count, which outlive schedulers."""
        session = self._session
        attempts = self._attempts
        in_flight = len(attempts.in_flight) - (0 if on_engines else len(attempts.on_engines))
        if in_flight or attempts.reports or attempts.callbacks or attempts.remote.outgoing:
            return True
        if session is None:
            return False
        unstored = session.cache.unstored
        return bool(unstored.is_waiting or unstored.storing or session.cache.work.to_evaluate)

    async def _progress(self) -> None:
        """Wait until something was committed, at most half a second."""
        if self._life is None:
            raise Refused(_NOT_RUNNING)
        if self._life.done():
            await self._life
        session = self._session
        if session is None:
            await asyncio.sleep(0.05)
            return
        session.locks.progress.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await session.locks.progress.wait()


def _handle(scheduler: Scheduler, dag_id: str, answer: inbox.OwnerAnswer | AioschedError) -> RunHandle | AioschedError:
    if isinstance(answer, AioschedError):
        return answer
    if answer.result is None:
        return NotAnswered(answer.number)
    return RunHandle(scheduler, dag_id, answer.result["run_id"], answer.result["id"])


async def _answer(scheduler: Scheduler, request: Request, dag_id: str | None) -> dict[str, Any]:
    if is_preview(request):
        return await preview(
            scheduler.db,
            str(dag_id),
            request,
            now=scheduler.clock.now(),
            max_backfill_runs=scheduler.settings.scheduler.max_backfill_runs,
        )
    number, result = await inbox.ask_owner(
        scheduler.db,
        request,
        dag_id,
        requested_by="embedded",
        timeout=_ANSWER_SECONDS,
        keyring=Keyring.of(scheduler.settings),
    )
    if result is None:
        raise NotAnswered(number)
    return result
