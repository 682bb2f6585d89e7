"""The `Scheduler`: one scheduler of a fleet, as a service inside any asyncio application.

It opens (or starts) the database, keeps a lease, parses DAG files, runs the loops, and
hands claims to an executor. It never exits the host process, installs no signal handlers
and does not change the root logger. Lives here: the parts and the order in which they start and stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiosched
from aiosched.clock import Clock, SystemClock
from aiosched.config import Settings
from aiosched.core.run.board import Run
from aiosched.core.values.ids import partition_of
from aiosched.core.values.messages import AttemptKey, Executor
from aiosched.core.values.states import RunState
from aiosched.db.audit.settings import record_settings
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.crypto.secret_confs import SecretConfs
from aiosched.db.server.embedded import EmbeddedPostgres, embedded_data_dir
from aiosched.db.server.embedded_watch import kept_running
from aiosched.db.server.engine import Database, address_of_sessions
from aiosched.db.server.failures import is_retryable
from aiosched.db.server.migrate import migrate
from aiosched.db.statements import runs
from aiosched.db.statements.ownership import set_draining
from aiosched.errors import AioschedError, FencedOut, NotFound, Refused
from aiosched.executors.executor_router import members_of
from aiosched.executors.worker.lease_deadline import windows_of
from aiosched.parsing import Parser
from aiosched.parsing.bundle_keeper import BundleKeeper
from aiosched.scheduler.actions import Actions
from aiosched.scheduler.effects.attempt_control import stop_attempt
from aiosched.scheduler.effects.tracing import open_tracing
from aiosched.scheduler.engines.engine_executor import Engines
from aiosched.scheduler.executor_choice import Choice, choose_executor
from aiosched.scheduler.journal.journal import Journal
from aiosched.scheduler.log_uploads import start_uploads
from aiosched.scheduler.membership.heartbeat import Heartbeat
from aiosched.scheduler.membership.incarnation import Incarnation, give_up
from aiosched.scheduler.membership.lease import Lease, SchedulerIdentity
from aiosched.scheduler.membership.outage import DatabaseOutage
from aiosched.scheduler.observability.figure_log import FigureSource
from aiosched.scheduler.observability.idle import IdleLog, left_anywhere
from aiosched.scheduler.observability.lock_watch import LockWatch
from aiosched.scheduler.observability.metrics_snapshot import figures_of
from aiosched.scheduler.observability.publishing import publish
from aiosched.scheduler.partitions.partition_loads import measure_loads
from aiosched.scheduler.registered_dags import by_id, list_runs_anew, register_dags
from aiosched.scheduler.services.all_services import services_of
from aiosched.scheduler.services.bundle_services import bundle_services
from aiosched.scheduler.session.auxiliary import keep_running
from aiosched.scheduler.session.environment import Observers, SchedulerEnvironment
from aiosched.scheduler.session.events import Listener
from aiosched.scheduler.session.session import Session
from aiosched.scheduler.state.attempts import Attempts
from aiosched.scheduler.state.ending_attempts import EndingAttempts
from aiosched.scheduler.state.metrics import Metrics
from aiosched.scheduler.state.stuck_attempts import StuckAttempts
from aiosched.timeouts import clean_up_timeout

if TYPE_CHECKING:
    from aiosched.authoring import DAG
    from aiosched.web.auth.access import Authenticator
    from aiosched.web.embedded import EmbeddedApp

logger = logging.getLogger(__name__)

ENDING_SECONDS: Final = 5.0  # for the passes of the loops, and for giving up partitions
_NOT_RUNNING: Final = "The scheduler does not run: use it inside `async with Scheduler(…)`."


class Scheduler(Actions):
    """One scheduler; `async with Scheduler(...)` starts and stops it.

    dsn           PostgreSQL 15 to 18; None: the setting, else an embedded server in `core.home`
    dags          DAG objects of this process; or
    dags_folder   the folder of DAG files to parse and watch, instead of the bundles of the settings
    executor      "inline" (default), "local", an Executor, or several: "local,inline", a list, or a dict by name
    settings      see aiosched.config; arguments here win over it
    migrate       bring the tables of an external database up to date (the embedded one always is)
    listener      is called with a SchedulerEvent after the commit that made it true

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
        migrate: bool = False,
        parse: bool = True,
        listener: Listener | None = None,
        count_statements: bool = False,
    ) -> None:
        self.settings = (settings or Settings()).model_copy(deep=True)
        if dsn is not None:
            self.settings.database.dsn = dsn
        if dags_folder is not None:
            self.settings.core.dags_folder, self.settings.dags.bundles = Path(dags_folder), []
        if name is not None:
            self.settings.scheduler.name = name
        self.clock = clock or SystemClock()
        self.metrics = Metrics()
        registered = by_id(dags)
        self.executor: Executor = choose_executor(executor or "inline", self.settings, registered)
        # called from a thread when the event loop does not come back
        self.on_stuck: Callable[[str], None] | None = None
        # called with its partitions when they change
        self.on_partitions: Callable[[Collection[int]], None] | None = None
        # partitions of other schedulers whose files the parser here reads, too; see `list_files`
        self.also_parses: Callable[[int], bool] = lambda _: False
        self.parser: Parser | None = None
        self.database_summary = ""
        self._dags = tuple(registered.values())
        self._parse = parse and (dags_folder is not None or not registered)
        self._migrate = migrate
        self._listener = listener
        self._count_statements = count_statements
        self._embedded: EmbeddedPostgres | None = None
        self._db: Database | None = None
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
        try:
            await self._open_database()
            await register_dags(self.db, self._dags, self.clock, paused=self.settings.core.dags_are_paused_at_creation)
            self.on_close(await start_uploads(self.settings))
            for engine_name, engine in self._engines.members.items():
                engine.bind(self.db, name=engine_name, incarnation=lambda: self.incarnation)
            self._keeper = BundleKeeper(self.settings, self.db, clock=self.clock)
            more = bundle_services(self._keeper)
            answering = services_of(self.db, self.settings, lease=lambda: self._lease, more=more)
            self.on_close(answering.close)
            await self.executor.start(self._attempts.receive, answering)
            self._life = asyncio.create_task(self._live(), name="aiosched scheduler")
            ready = asyncio.create_task(self._ready.wait())
            await asyncio.wait((ready, self._life), return_when=asyncio.FIRST_COMPLETED)
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
        self._draining = True
        if self._session is not None:
            self._session.membership.draining = True
            self._session.membership.keeps_until = math.inf
            async with self.db.acquire() as conn:
                await set_draining(conn, self._session.env.incarnation)

    async def drain(self, grace: float) -> bool:
        """Claim and create nothing more, and wait up to `grace` seconds for running attempts; whether all ended.

        Other schedulers, if there are any, take over the partitions meanwhile, and receive the reports of what runs
        here.
        """
        self._draining = True
        if self._session is not None:
            self._session.membership.draining = True
            if self._session.membership.keeps_until == math.inf:
                self._session.membership.keeps_until = time.monotonic()
        if self._incarnation is not None:
            self._incarnation.poll_now()
        with contextlib.suppress(TimeoutError):
            async with clean_up_timeout(grace):
                while self._busy(on_engines=False):
                    await self._progress()
        return not self._busy(on_engines=False)

    async def stop(self, grace: float = 5.0) -> None:
        """Stop cleanly: drain for `grace` seconds, end what still runs, store its results, leave the fleet.

        Attempts that had to be ended are lost, not failed: their tasks run again.
        """
        if self._life is not None and not self._life.done():
            await self.drain(grace)
            self._attempts.forget_all_triggers()
            await self.executor.stop(0.0)
            await self.drain(1.0)
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
    def incarnation(self) -> int | None:
        """Its number in the fleet, a new one each time that it joins; None before the first."""
        return None if self._session is None else self._session.env.incarnation

    def on_close(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Call `callback` when the scheduler stops, before its database is closed."""
        self._before_close.append(callback)

    def web_app(self, *, authenticator: Authenticator | None = None) -> EmbeddedApp:
        """REST API and web UI as an ASGI application, to mount into another one: `app.mount("/flows", …)`.

        May be called before the start. The setting `web.auth` controls access, or `authenticator`, a coroutine
        function from a request to a `aiosched.web.auth.access.Principal` or None. Raises ConfigError without either.
        """
        from aiosched.web.embedded import EmbeddedApp

        return EmbeddedApp(self, authenticator)

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
        return self._db

    async def _open_database(self) -> None:
        dsn = self.settings.database.dsn
        embedded = dsn is None
        if dsn is None:
            self._embedded = EmbeddedPostgres(embedded_data_dir(self.settings.core.home))
            dsn = await self._embedded.start()
        direct = dsn if embedded else address_of_sessions(dsn, self.settings.database)
        if embedded or self._migrate:
            await migrate(direct, default_pool_slots=self.settings.core.default_pool_task_slot_count)
        self._db = await Database.open(dsn, settings=self.settings.database, count_statements=self._count_statements)
        async with self._db.acquire() as conn:
            version = str(await conn.fetchval("SHOW server_version")).split()[0]
        where = (
            f"embedded, {embedded_data_dir(self.settings.core.home)} (kept between runs)"
            if embedded
            else self._db.where
        )
        await record_settings(self._db, self.settings, "scheduler")
        self.database_summary = f"PostgreSQL {version}, {where}"

    # -- running ----------------------------------------------------------------------------

    async def _live(self) -> None:
        """Run one incarnation after the other until stopped, and the parser beside them."""
        async with kept_running(self._embedded), asyncio.TaskGroup() as group:
            parsing = self._parse and group.create_task(keep_running("parsing", self._run_parser, self.metrics))
            paused = self.settings.core.dags_are_paused_at_creation
            renewal = list_runs_anew(self.db, self._dags, self.clock, paused=paused)
            listing = group.create_task(renewal, name="listing")
            observing = group.create_task(self._observe(), name="observing")
            try:
                while not self._stopping:
                    try:
                        await self._live_once()
                    except FencedOut as error:
                        logger.warning("%s", error)
                        await self._abandon_attempts()
                    except Exception as error:
                        if not is_retryable(error):
                            raise
                        await asyncio.sleep(self._outage.failed(error, now=time.monotonic()))
            finally:
                listing.cancel()
                observing.cancel()
                if parsing:
                    parsing.cancel()

    async def _live_once(self) -> None:
        settings = self.settings.scheduler
        identity = SchedulerIdentity(
            name=settings.name or socket.gethostname(),
            version=aiosched.__version__,
            executor=self.executor.name,
            slots=self.executor.slots,
        )
        heartbeat = Heartbeat(self._figures, self.metrics.loop_lag, self._loads)
        windows = windows_of(members_of(self.executor).values())
        lease = Lease(
            self.db, identity, seconds=settings.lease, on_view=self._receive_view, heartbeat=heartbeat, windows=windows,
            on_stuck=self.on_stuck,
        )  # fmt: skip
        number = await lease.start()
        self._outage.over()
        self._lease = lease
        keyring = Keyring.of(self.settings)
        journal, command_journal = (Journal(self.db, number, self.metrics, keyring) for _ in range(2))

        observers = Observers(self._listener, self._run_end, self._partitions_moved, self._ready.set)
        env = SchedulerEnvironment(
            db=self.db, settings=self.settings, clock=self.clock, executor=self.executor, attempts=self._attempts,
            journal=journal, command_journal=command_journal, incarnation=number, metrics=self.metrics,
            holds_lease=lease.trusted, observers=observers, engines=self._engines, confs=SecretConfs(keyring),
        )  # fmt: skip

        def make_session() -> Session:
            return Session.begin(env, tracing=open_tracing(), draining=self._draining)

        self._incarnation = Incarnation(lease, make_session, self._on_session)
        if self._stopping:
            self._incarnation.stop()
        lease.poll_now()
        try:
            await self._incarnation.run()
        finally:
            try:
                await journal.close()
                await command_journal.close()
                if self._stopping:
                    try:
                        await give_up(self.db, number)
                    except Exception as error:  # then peers take over its partitions when the lease expires
                        logger.info("the partitions could not be released: %s", error)
            finally:  # also if this task is cancelled: otherwise the thread would renew the lease for ever
                await lease.stop(leave=True)

    def _figures(self) -> dict[str, Any]:
        return figures_of(self._session, self.metrics, None if self.parser is None else self.parser.stats)

    def _loads(self) -> Sequence[float | None] | None:
        return None if self._session is None else measure_loads(self._session)

    async def _observe(self) -> None:
        """Publish figures, and say in the log whose locks commits wait for, until cancelled."""
        source = FigureSource(self._figures, lambda: self.incarnation, lambda: self._owns(0))
        watch = LockWatch(lambda: () if self._session is None else self._session.env.journals)
        async with asyncio.TaskGroup() as group:
            group.create_task(publish(self.settings, self.clock, source, lambda: self.db, self.metrics))
            group.create_task(watch.keep(lambda: self.db), name="lock watch")

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
            self.settings, self.db, clock=self.clock, owns=self._owns, on_change=self._dags_changed,
            executors=members_of(self.executor).keys(), keeper=self._keeper,
        )  # fmt: skip
        await self.parser.run()

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

    def _owns(self, partition: int) -> bool:
        is_own = self._session is not None and partition in self._session.cache.partitions
        return is_own or self.also_parses(partition)

    def _dags_changed(self, dag_ids: Collection[str]) -> None:
        if self._session is not None:
            self._session.notifications.changed_dags.update(map(partition_of, dag_ids))
            self._session.notifications.has_requests = True
            self._session.wakeups.notifications.wake()

    # -- runs -------------------------------------------------------------------------------

    async def run_state(self, dag_id: str, run_id: str) -> RunState:
        """The state of a run, from the database."""
        async with self.db.acquire() as conn:
            run = await runs.find_run(conn, dag_id, run_id=run_id)
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
        while (left := await self._what_is_left()) is not None:
            idle_log.note(left, self.clock.monotonic())
            await self._progress()

    def wake_loops(self) -> None:
        """Act on what is due now. Needed only after moving an injected clock: loops sleep by the real one."""
        if self._session is not None:
            self._session.wakeups.wake_all()

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

    async def _what_is_left(self) -> str | None:
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
