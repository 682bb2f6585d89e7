"""`aiosched serve`: a scheduler with its database, parsing and workers, in the foreground."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shlex
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from aiosched.cli.base.options import DagsFolder, Dsn, Output, UsageProblem
from aiosched.cli.base.output import counted, duration
from aiosched.cli.base.page import offered_page
from aiosched.cli.base.session import address, load_for_author_code, shown_path
from aiosched.cli.serve.disk import logs_summary
from aiosched.cli.serve.peers import Peers, SchedulerGroup, number_of_schedulers, settings_of_each
from aiosched.cli.serve.screen import Screen
from aiosched.cli.serve.stopping import StopRequests, end
from aiosched.cli.serve.supervisor import end_process, supervised
from aiosched.config.secret_environment import warn_of_environments
from aiosched.errors import ConfigError, InQuarantine, TimedOut, did_you_mean
from aiosched.logs import claim_streams, configure_logging

if TYPE_CHECKING:
    from aiosched.config import Loaded, Settings
    from aiosched.db.server.engine import Database
    from aiosched.parsing.service import Parser
    from aiosched.scheduler import Scheduler
    from aiosched.web.views.database_watch import DatabaseWatch, Preparation

logger: logging.Logger = logging.getLogger(__name__)
app: typer.Typer = typer.Typer(rich_markup_mode=None, add_completion=False)

T = TypeVar("T")
Stop = Callable[[], Awaitable[None]]
WebStart = Callable[..., Awaitable[str | None]]  # its address, None without the role

ROLES: Final = ("scheduler", "web", "parser")  # the default; a web server also has the worker API
WORKER_API: Final = "worker-api"  # a server with nothing else
_FIRST_PASS_SECONDS: Final = 5.0  # seconds that the banner waits for the first pass over the DAG files
_WAITS_SECONDS: Final = 2.0  # until a web server says that it waits for its database
_LONG_PARSING: Final = 60.0  # seconds without an error, after which the next one is the first
_FIRST_PASS_FILES: Final = 1000  # unless there are more of them: that takes longer anyway


@app.command()
def serve(
    dsn: Dsn = None,
    dags: DagsFolder = None,
    executor: Annotated[
        str | None,
        typer.Option(
            "--executor",
            metavar="KIND",
            help="local (processes), inline (this process), or an engine; several by commas.",
        ),
    ] = None,
    slots: Annotated[
        int | None, typer.Option("--slots", metavar="N", help="Maximum number of concurrent plain functions.")
    ] = None,
    parallelism: Annotated[
        int | None, typer.Option("--parallelism", metavar="N", help="Maximum number of concurrent tasks.")
    ] = None,
    schedulers: Annotated[
        str | None,
        typer.Option(
            "--schedulers", metavar="N", help="Schedulers, one process each, or auto: one for every two cores."
        ),
    ] = None,
    grace: Annotated[
        float | None, typer.Option("--grace", metavar="SECONDS", help="Seconds that Ctrl-C waits for tasks.")
    ] = None,
    role: Annotated[
        str | None,
        typer.Option("--role", metavar="ROLES", help="Some of scheduler,web,parser (default: all), or worker-api."),
    ] = None,
    until_idle: Annotated[
        bool,
        typer.Option(
            "--until-idle", help="Exit 0 once no run of the fleet is unfinished or due; 1 if a DAG stays in quarantine."
        ),
    ] = False,
    run_duration: Annotated[
        float | None, typer.Option("--run-duration", min=0, metavar="SECONDS", help="Stop after this many seconds.")
    ] = None,
    no_web: Annotated[bool, typer.Option("--no-web", help="Without the web server.")] = False,
    migrate: Annotated[
        bool, typer.Option("--migrate", help="Migrate the database of --dsn; the embedded one always is.")
    ] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="End with exit code 5 if the database cannot be used at the start.")
    ] = False,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="This scheduler's name; default: the host's.")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option("--log-level", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR.")
    ] = None,
    host: Annotated[str | None, typer.Option("--host", metavar="HOST", help="Address of the web server.")] = None,
    port: Annotated[int | None, typer.Option("--port", metavar="PORT", help="Port of the web server.")] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the web server's page in a browser.")] = False,
    home: Annotated[
        Path | None, typer.Option("--home", help="Folder of the embedded database and the logs.", metavar="FOLDER")
    ] = None,
    output: Output = None,
) -> None:
    """Run everything: database, parsing, scheduler and workers.

    Ctrl-C stops claiming and waits for running tasks; a second one ends them, a third one exits.
    """
    loaded = load_for_author_code(
        database__dsn=dsn,
        core__dags_folder=dags,
        core__home=home,
        core__parallelism=parallelism,
        executor__kind=executor,
        executor__slots=slots,
        scheduler__grace=grace,
        scheduler__name=name,
        scheduler__processes=schedulers,
        logs__level=log_level,
        web__host=host,
        web__port=port,
    )
    roles = read_roles(role) - ({"web"} if no_web else set())
    if not roles:
        raise UsageProblem("--no-web leaves no role to run; name the role scheduler or parser, too.")
    if roles not in ({"web"}, {WORKER_API}):
        _check_folder(loaded.settings)
    elif until_idle:
        raise UsageProblem(f"--until-idle: {role} alone is never idle; name the role scheduler or parser, too.")
    if "web" in roles:
        from aiosched.web.server.ports import check_exposure

        check_exposure(loaded.settings.web)
        if loaded.settings.web.auth == "oidc":
            from aiosched.web.auth.oidc import check_provider

            check_provider(loaded.settings.web)
    _configure_logging(loaded)
    if "web" in roles:
        _warn_of_host_names(loaded.settings)
    if roles & {"scheduler", "parser"}:
        warn_of_environments(loaded.settings.executor.run_as)
    screen = Screen(output, whole=until_idle)
    claim_streams(stdout=screen.is_json)
    service = _Service(loaded.settings, roles, screen, migrate, until_idle, run_duration, open_browser, not no_wait)
    service.address_command = _address_command(loaded)
    service.port_is_chosen = loaded.origins["web.port"].source != "default"
    from aiosched.prctl import hide_memory
    from aiosched.scheduler.gc_tuning import rare_collections

    hide_memory()
    try:
        with rare_collections(), asyncio.Runner(loop_factory=_loop_factory()) as runner:
            code = runner.run(service.run())
    finally:
        screen.flush()
    raise typer.Exit(code)


def read_roles(text: str | None) -> set[str]:
    """The parts to run; raises UsageProblem with a suggestion."""
    if text is None:
        return set(ROLES)
    roles = {word.strip() for word in text.split(",") if word.strip()}
    known = (*ROLES, WORKER_API)
    for word in sorted(roles):
        if word not in known:
            raise UsageProblem(f"--role {word}: there are {', '.join(known)}.{did_you_mean(word, known)}")
    if WORKER_API in roles and len(roles) > 1:
        raise UsageProblem(f"--role {WORKER_API}: it runs alone; a web server has the worker API, too.")
    if not roles:
        raise UsageProblem(f"--role: name at least one of {', '.join(ROLES)}.")
    return roles


def _check_folder(settings: Settings) -> None:
    folder = settings.core.dags_folder
    if settings.dags.bundles:
        return
    if not folder.is_dir():
        raise ConfigError(
            f"There is no DAGs folder {shown_path(folder)}. Start with `aiosched init demo`, "
            "or name your folder with --dags or AIOSCHED_DAGS."
        )


def _shown_sources(settings: Settings) -> str:
    """The DAGs folder, or the names of the bundles."""
    names = [bundle.name for bundle in settings.dags.bundles]
    return ", ".join(names) if names else shown_path(settings.core.dags_folder)


def _configure_logging(loaded: Loaded) -> None:
    """On a terminal the screen shows what happens, so by default the log has only warnings and errors."""
    settings = loaded.settings.logs
    if sys.stderr.isatty() and loaded.origins["logs.level"].source == "default":
        settings = settings.model_copy(update={"level": "WARNING"})
    configure_logging(settings)


def _warn_of_host_names(settings: Settings) -> None:
    from aiosched.web.server.host_names import ADVICE, names_answered

    if said := names_answered(settings.web, without_login=settings.web.auth in (None, "none")).warning:
        logger.warning("%s; %s", said, ADVICE)


def _address_command(loaded: Loaded) -> str:
    """The command that finds this server's database and prints an address with a token."""
    home, dsn = (loaded.origins[key].source == "flag" for key in ("core.home", "database.dsn"))
    place = f"AIOSCHED_HOME={shlex.quote(str(loaded.settings.core.home.absolute()))} " if home else ""
    return f"{place}aiosched web address{' --dsn …' if dsn else ''}"


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:  # there is none for Windows
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _too_many_files(scheduler: Scheduler) -> None:
    """Returns when the first pass has more files than the banner waits for, if it has."""
    while (parser := scheduler.parser) is None or parser.unread_files <= _FIRST_PASS_FILES:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def _after_first_pass(scheduler: Scheduler) -> Parser:
    """The parser, when it has been through all DAG files once."""
    while (parser := scheduler.parser) is None:  # noqa: ASYNC110  # it is made right after the start
        await asyncio.sleep(0.01)
    await parser.first_pass
    return parser


class _Service:
    """One run of `serve`: start, show, wait for a reason to stop, stop."""

    def __init__(
        self,
        settings: Settings,
        roles: set[str],
        screen: Screen,
        migrate: bool,
        until_idle: bool,
        run_duration: float | None,
        open_browser: bool = False,
        waits: bool = True,
    ) -> None:
        self.settings, self.roles, self.screen, self.migrate = settings, roles, screen, migrate
        self.until_idle, self.run_duration, self.open_browser = until_idle, run_duration, open_browser
        self.waits = waits and not until_idle  # for a database that cannot be used at the start
        self.number = number_of_schedulers(settings.scheduler.processes, os.cpu_count() or 1)
        self.each = settings_of_each(settings, self.number) if self.number > 1 else settings
        self.requests = StopRequests()
        self.started = time.monotonic()
        self.address_command = "aiosched web address"
        self.port_is_chosen = False  # then nothing but this port will do
        self._is_late = False  # the first pass over the DAG files was not finished for the banner

    async def run(self) -> int:
        """Serve until asked to stop; returns the exit code."""
        self.requests.install()
        self.screen.title()
        if self.roles == {WORKER_API}:
            return await self._run_web_alone()
        if "scheduler" not in self.roles:
            return await (self._run_parser() if "parser" in self.roles else self._run_web_alone())
        async with self._web_beside() as web, self._scheduler(web) as scheduler:
            if scheduler is None:
                return 130
            peers = self._peers(scheduler)
            url = await web(scheduler.db.dsn, scheduler.on_close)
            await self._show(scheduler)
            async with self._page(url, scheduler.db):
                if not self.requests.asked.is_set():
                    self.screen.ready(time.monotonic() - self.started)
                async with supervised(), self._showing_late_files(scheduler):
                    return await self._serve(scheduler, SchedulerGroup(scheduler, peers.all))

    def _peers(self, scheduler: Scheduler) -> Peers:
        """Start the other schedulers of this machine; the parser here reads their files, too."""
        peers = Peers(
            self.each,
            scheduler.db.dsn,
            self.number - 1,
            show=self.screen.run,
            on_partitions=scheduler.list_files,
        )
        scheduler.also_parses = peers.owns
        scheduler.on_close(peers.stop)  # before the database stops
        peers.start()
        return peers

    @contextlib.asynccontextmanager
    async def _web_beside(self) -> AsyncIterator[WebStart]:
        """What starts the web server in a process of its own, which is stopped at the end of the block."""
        from aiosched.web.server import ports

        web, process, url = self.settings.web, None, None

        async def start(dsn: str, on_close: Callable[[Stop], None] | None = None) -> str | None:
            nonlocal process, url
            if "web" not in self.roles:
                return None
            if process is None:
                from aiosched.web.process import WebProcess

                sock = ports.bind(web.host, web.port, is_chosen=self.port_is_chosen)
                url = ports.url_of(sock, web.host)
                process = WebProcess(self.settings, dsn, sock)
                await process.start()
            if on_close is not None:
                on_close(process.stop)  # before the database stops
            return url

        try:
            yield start
        finally:
            if process is not None:
                await process.stop()

    async def _when_usable(self, start: Callable[[], Coroutine[Any, Any, T]], web: WebStart) -> T | None:
        """What `start` returns, as soon as the database can be used; None if asked to stop before.

        Meanwhile the web server says why not. Raises the error at once with `--no-wait` and `--until-idle`.
        """
        from aiosched.cli.serve.waiting import when_usable
        from aiosched.db.server.password_file import with_present_password

        dsn, is_told = self.settings.database.dsn, False

        def may_wait() -> bool:
            is_late = self.run_duration is not None and time.monotonic() - self.started >= self.run_duration
            return dsn is not None and self.waits and not is_late

        async def tell() -> None:
            nonlocal is_told
            if is_told or dsn is None:
                return
            is_told = True
            if url := await web(with_present_password(dsn, self.settings.database.password_file)):
                self.screen.fact("web", f"{url}   waits for the database", url=url)

        asked = asyncio.ensure_future(self.requests.asked.wait())
        try:
            return await when_usable(start, asked, may_wait=may_wait, on_wait=tell)
        finally:
            asked.cancel()

    @contextlib.asynccontextmanager
    async def _page(self, url: str | None, db: Database) -> AsyncIterator[None]:
        """Show the web server's address, and open it in a browser if asked to; nothing without a web server."""
        if url is None:
            yield
            return
        async with offered_page(self.settings, db, url) as page:
            self.screen.page(page, url, self.address_command)
            if self.open_browser:
                await asyncio.to_thread(page.open)
            yield

    @contextlib.asynccontextmanager
    async def _scheduler(self, web: WebStart) -> AsyncIterator[Scheduler | None]:
        """A started scheduler; None if asked to stop before it was ready."""
        from aiosched.scheduler import Scheduler

        async def start() -> Scheduler:
            scheduler = Scheduler(
                settings=self.each,
                dags_folder=None if self.settings.dags.bundles else self.settings.core.dags_folder,
                executor=self.settings.executor.kind,
                migrate=self.migrate,
                parse="parser" in self.roles,
                listener=self.screen.run,
                remembers_in=self.settings.core.home / "seen.json",
            )
            scheduler.on_stuck = end_process
            await scheduler.start()
            return scheduler

        scheduler = await self._when_usable(start, web)
        try:
            yield scheduler
        finally:
            if scheduler is not None:
                await scheduler.stop(0.0)

    async def _show(self, scheduler: Scheduler) -> None:
        self.screen.fact("database", scheduler.database_summary)
        folder = _shown_sources(self.settings)
        if "parser" in self.roles:
            parser = await self._first_pass(scheduler)
            stats = parser.stats if parser is not None else None
            waits_for = None if scheduler.parser is None else scheduler.parser.waits_for
            self.screen.dags(folder, stats, watching=True, waits_for=waits_for)
            self._is_late = parser is None
        else:
            self.screen.fact("dags", f"{folder}   parsed elsewhere")
        executor = scheduler.executor
        each = f" in each of {self.number} schedulers" if self.number > 1 else ""
        self.screen.fact("executor", f"{executor.name}, {counted(executor.slots, 'slot')}{each}")
        self.screen.fact("logs", logs_summary(self.settings))

    async def _first_pass(self, scheduler: Scheduler) -> Parser | None:
        """The parser after its first pass, None if that takes longer than the banner may wait."""

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_PASS_SECONDS):
                watching = asyncio.ensure_future(_after_first_pass(scheduler))
                counting = asyncio.ensure_future(_too_many_files(scheduler))
                try:
                    if await self._first(watching, counting, scheduler.failed, self.requests.asked.wait()):
                        return await watching
                finally:
                    watching.cancel()
                    counting.cancel()
        return None

    @contextlib.asynccontextmanager
    async def _showing_late_files(self, scheduler: Scheduler) -> AsyncIterator[None]:
        """Show the result of the first pass during the block, if it was not finished for the banner."""

        async def show() -> None:
            parser = await _after_first_pass(scheduler)
            if parser.has_read_all:  # and was not stopped before
                self.screen.dags(_shown_sources(self.settings), parser.stats, watching=True)

        showing = asyncio.ensure_future(show()) if self._is_late else None
        try:
            yield
        finally:
            if showing is not None:
                if scheduler.parser is None or not scheduler.parser.first_pass.done():
                    showing.cancel()
                await asyncio.gather(showing, return_exceptions=True)

    async def _serve(self, scheduler: Scheduler, all_of_them: SchedulerGroup) -> int:
        """Wait for a reason to stop, then stop; the exit code."""
        idle = asyncio.ensure_future(scheduler.wait_idle() if self.until_idle else asyncio.Event().wait())
        left = None if self.run_duration is None else max(self.started + self.run_duration - time.monotonic(), 0.0)
        timer = asyncio.ensure_future(asyncio.sleep(left) if left is not None else asyncio.Event().wait())
        asked = asyncio.ensure_future(self.requests.asked.wait())
        try:
            await asyncio.wait({idle, timer, asked, scheduler.failed}, return_when=asyncio.FIRST_COMPLETED)
            if scheduler.failed.done():
                await scheduler.failed  # raises the error that stopped it
            reached = idle.done() and not asked.done()
            given_up = idle.exception() if reached else None
            if given_up is not None and not isinstance(given_up, InQuarantine):
                raise given_up
            late = self.until_idle and timer.done() and not reached and not asked.done()
        finally:
            for task in (idle, timer, asked):
                task.cancel()
            await asyncio.gather(idle, timer, asked, return_exceptions=True)
        finished = await end(all_of_them, self.requests, grace=self.settings.scheduler.grace)
        if given_up is not None:
            raise given_up
        if late:
            raise TimedOut(f"Runs were still unfinished after {duration(self.run_duration)} (--run-duration).")
        return 130 if self.requests.insisted.is_set() and not finished else 0

    async def _run_web_alone(self) -> int:
        """`--role web` or `worker-api`: a server for schedulers that run elsewhere."""
        from aiosched.db.server.engine import Database
        from aiosched.db.server.migrate import migrate
        from aiosched.web.server import ports

        web = self.settings.web
        async with address(self.settings, create=True, keep=True) as dsn:
            slots = self.settings.core.default_pool_task_slot_count
            wanted = self.migrate or self.settings.database.dsn is None
            preparation = partial(migrate, dsn, default_pool_slots=slots) if wanted else None
            async with await Database.open(
                dsn, settings=self.settings.database, application_name="aiosched web", at_once=False
            ) as db:
                sock = ports.bind(web.host, web.port, is_chosen=self.port_is_chosen)
                self.screen.fact("database", db.where)
                url = ports.url_of(sock, web.host)
                if "web" not in self.roles:
                    self.screen.fact("worker API", f"{url}   for workers on engines, by the tokens of their attempts")
                watch, serving = self._http_server(db, sock, preparation)
                await self._serve_web(serving, watch, url, db)
        return 0

    async def _serve_web(
        self, serving: Coroutine[Any, Any, None], watch: DatabaseWatch, url: str, db: Database
    ) -> None:
        """Answer requests until asked to stop, also while the database cannot be used yet."""
        async with self._uploading_received_logs():
            work = asyncio.create_task(serving)
            try:
                with contextlib.suppress(TimeoutError):
                    async with supervised(), asyncio.timeout(self.run_duration):
                        if not await self._first(watch.prepared.wait(), asyncio.sleep(_WAITS_SECONDS), work):
                            self.screen.fact("web", f"{url}   waits for the database", url=url)
                        if await self._first(watch.prepared.wait(), work):
                            async with self._page(url if "web" in self.roles else None, db):
                                self.screen.ready(time.monotonic() - self.started)
                                await work
            finally:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def _uploading_received_logs(self) -> AsyncIterator[None]:
        """Upload the logs that workers on engines send here, unless this machine only reads logs."""
        from aiosched.scheduler.log_uploads import start_uploads

        stop = None
        try:
            stop = await start_uploads(self.settings)
        except ConfigError as error:
            if "web" not in self.roles:
                raise
            logger.warning("this server cannot store logs of workers on engines: %s", error)
        try:
            yield
        finally:
            if stop is not None:
                await stop()

    def _http_server(
        self, db: Database, sock: socket.socket, migrate: Preparation | None
    ) -> tuple[DatabaseWatch, Coroutine[Any, Any, None]]:
        """What watches over the database, and the server that answers until asked to stop."""
        from aiosched.web.server import uvicorn_server as server

        if "web" in self.roles:
            from aiosched.web.app import make_app
            from aiosched.web.requests.request_client import RequestClient

            app = make_app(RequestClient(db, self.settings), listens=True, migrate=migrate)
            return app.state.watch, server.run(app, sock, self.requests.asked)
        from aiosched.web.views.database_watch import DatabaseWatch
        from aiosched.web.worker_api.endpoints import make_worker_api

        watch = DatabaseWatch(db)
        api = make_worker_api(db, self.settings, watch, migrate=migrate)
        return watch, server.serve(api, sock, self.requests.asked, prefix=self.settings.web.prefix)

    async def _run_parser(self) -> int:
        """`--role parser`: parse all files for schedulers that run elsewhere without this role."""
        from aiosched.core.figures.metrics import Metrics
        from aiosched.db.server.engine import Database
        from aiosched.db.server.migrate import migrate
        from aiosched.db.server.silence import limits_within
        from aiosched.parsing.heartbeat import ParserHeartbeat, figures_of
        from aiosched.parsing.service import Parser
        from aiosched.scheduler.concurrency.supervision import keep_running
        from aiosched.scheduler.concurrency.wakeup import Wakeup
        from aiosched.scheduler.membership.outage import Patience, summary

        limits = limits_within(self.settings.scheduler.lease)
        async with address(self.settings, create=True, keep=True) as dsn, self._web_beside() as web:

            async def open_database() -> Database:
                if self.migrate or self.settings.database.dsn is None:
                    await migrate(dsn, default_pool_slots=self.settings.core.default_pool_task_slot_count)
                return await Database.open(dsn, settings=self.settings.database, limits=limits)

            opened = await self._when_usable(open_database, web)
            if opened is None:
                return 130
            async with opened as db:
                url = await web(dsn)
                parser, stopping, patience = Parser(self.settings, db), Wakeup(), Patience()
                trouble: str | None = None
                heartbeat = ParserHeartbeat(
                    db,
                    lambda: figures_of(parser, trouble),
                    name=self.settings.scheduler.name,
                    bundles=[bundle.name for bundle in self.settings.dags.bundles],
                )

                def is_final(error: Exception) -> bool:
                    return patience.is_over(error, now=time.monotonic())

                async def parse() -> None:
                    nonlocal parser, trouble
                    began = time.monotonic()
                    try:
                        await parser.run()
                    except Exception as error:
                        parser, trouble = Parser(self.settings, db), summary(error)  # each runs once
                        if time.monotonic() - began > _LONG_PARSING:
                            patience.reset()
                        raise

                async def first_pass() -> None:
                    passing = None
                    while passing is not parser:  # else that one has failed
                        passing = parser
                        await passing.first_pass

                kept = keep_running("parsing", parse, Metrics(), stopping, in_session=False, is_final=is_final)
                running, beating = asyncio.ensure_future(kept), asyncio.ensure_future(heartbeat.run())
                try:
                    self.screen.fact("database", db.where)
                    passing = asyncio.ensure_future(first_pass())
                    late = asyncio.ensure_future(asyncio.sleep(_FIRST_PASS_SECONDS))
                    if not await self._first(passing, late, running, self.requests.asked.wait()) and late.done():
                        folder = _shown_sources(self.settings)
                        self.screen.dags(folder, None, watching=True, waits_for=parser.waits_for)
                    await self._first(passing, running, self.requests.asked.wait())
                    passing.cancel()
                    if parser.has_read_all:  # and was not stopped before
                        self.screen.dags(_shown_sources(self.settings), parser.stats, watching=True)
                    async with self._page(url, db):
                        if not self.requests.asked.is_set():
                            self.screen.ready(time.monotonic() - self.started)
                        if not self.until_idle:
                            with contextlib.suppress(TimeoutError):
                                async with supervised(), asyncio.timeout(self.run_duration):
                                    await self._first(running, self.requests.asked.wait())
                finally:
                    stopping.stop()
                    parser.stop()
                    beating.cancel()
                    await running  # one that has failed stays, to be named
                    await heartbeat.leave()
        return 0

    async def _first(self, wanted: Awaitable[Any], *others: Awaitable[Any]) -> bool:
        """Whether `wanted` is done first. The others are cancelled, except tasks that were passed in."""
        given = [wanted, *others]
        tasks = [asyncio.ensure_future(one) for one in given]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for one, task in zip(given, tasks, strict=True):
            if one is not task:  # created here from a coroutine
                task.cancel()
        return tasks[0].done()
