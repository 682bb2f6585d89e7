"""`aiosched serve`: a scheduler with its database, parsing and workers, in the foreground."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from aiosched.cli.base.options import DagsFolder, Dsn, Output, UsageProblem
from aiosched.cli.base.output import counted, duration
from aiosched.cli.base.page import offered_page
from aiosched.cli.base.session import address, load_for_author_code, shown_path
from aiosched.cli.serve.disk import logs_summary
from aiosched.cli.serve.peers import Peers, Together, number_of_schedulers, settings_of_each
from aiosched.cli.serve.screen import Screen
from aiosched.cli.serve.stopping import StopRequests, end
from aiosched.cli.serve.supervisor import end_process, supervised
from aiosched.errors import ConfigError, InQuarantine, TimedOut, did_you_mean

if TYPE_CHECKING:
    from aiosched.config import Loaded, Settings
    from aiosched.db.server.engine import Database
    from aiosched.parsing import Parser
    from aiosched.scheduler import Scheduler

logger = logging.getLogger(__name__)
app = typer.Typer(rich_markup_mode=None, add_completion=False)

T = TypeVar("T")

ROLES: Final = ("scheduler", "web", "parser")  # the default; a web server also has the worker API
WORKER_API: Final = "worker-api"  # a server with nothing else
_FIRST_PASS_SECONDS: Final = 5.0  # seconds that the banner waits for the first pass over the DAG files
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
    screen = Screen(output, whole=until_idle)
    service = _Service(loaded.settings, roles, screen, migrate, until_idle, run_duration, open_browser)
    from aiosched.scheduler.gc_tuning import rare_collections

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
    import sys

    from aiosched.logs import configure_logging

    settings = loaded.settings.logs
    if sys.stderr.isatty() and loaded.origins["logs.level"].source == "default":
        settings = settings.model_copy(update={"level": "WARNING"})
    configure_logging(settings)


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
    ) -> None:
        self.settings, self.roles, self.screen, self.migrate = settings, roles, screen, migrate
        self.until_idle, self.run_duration, self.open_browser = until_idle, run_duration, open_browser
        self.number = number_of_schedulers(settings.scheduler.processes, os.cpu_count() or 1)
        self.each = settings_of_each(settings, self.number) if self.number > 1 else settings
        self.requests = StopRequests()
        self.started = time.monotonic()
        self._is_late = False  # the first pass over the DAG files was not finished for the banner

    async def run(self) -> int:
        """Serve until asked to stop; returns the exit code."""
        self.requests.install()
        self.screen.title()
        if self.roles == {WORKER_API}:
            return await self._run_web_alone()
        if "scheduler" not in self.roles:
            return await (self._run_parser() if "parser" in self.roles else self._run_web_alone())
        async with self._scheduler() as scheduler:
            if scheduler is None:
                return 130
            peers = self._peers(scheduler)
            async with self._web_beside(scheduler.db.dsn, scheduler) as url:
                await self._show(scheduler)
                async with self._page(url, scheduler.db):
                    if not self.requests.asked.is_set():
                        self.screen.ready(time.monotonic() - self.started)
                    async with supervised(), self._showing_late_files(scheduler):
                        return await self._serve(scheduler, Together(scheduler, peers.all))

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
    async def _web_beside(self, dsn: str, scheduler: Scheduler | None = None) -> AsyncIterator[str | None]:
        """Run the web server in its own process during the block; yields its address, None without the role."""
        if "web" not in self.roles:
            yield None
            return
        from aiosched.web.process import WebProcess
        from aiosched.web.server import ports

        web = self.settings.web
        sock = ports.bind(web.host, web.port)
        process = WebProcess(self.settings, dsn, sock)
        await process.start()
        if scheduler is not None:
            scheduler.on_close(process.stop)  # before the database stops
        try:
            yield ports.url_of(sock, web.host)
        finally:
            await process.stop()

    @contextlib.asynccontextmanager
    async def _page(self, url: str | None, db: Database) -> AsyncIterator[None]:
        """Show the web server's address, and open it in a browser if asked to; nothing without a web server."""
        if url is None:
            yield
            return
        async with offered_page(self.settings, db, url) as page:
            self.screen.fact("web", f"{page.url}   {page.login}", url=url, page=page.url)
            if self.open_browser:
                await asyncio.to_thread(page.open)
            yield

    @contextlib.asynccontextmanager
    async def _scheduler(self) -> AsyncIterator[Scheduler | None]:
        """A started scheduler; None if asked to stop before it was ready."""
        from aiosched.scheduler import Scheduler

        scheduler = Scheduler(
            settings=self.each,
            dags_folder=None if self.settings.dags.bundles else self.settings.core.dags_folder,
            executor=self.settings.executor.kind,
            migrate=self.migrate,
            parse="parser" in self.roles,
            listener=self.screen.run,
        )
        scheduler.on_stuck = end_process
        starting = asyncio.ensure_future(scheduler.start())
        if not await self._first(starting, self.requests.asked.wait()):
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            yield None
            return
        await starting
        try:
            yield scheduler
        finally:
            await scheduler.stop(0.0)

    async def _show(self, scheduler: Scheduler) -> None:
        self.screen.fact("database", scheduler.database_summary)
        folder = _shown_sources(self.settings)
        if "parser" in self.roles:
            parser = await self._first_pass(scheduler)
            stats = parser.stats if parser is not None else None
            self.screen.dags(folder, stats, watching=True)
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
            self.screen.dags(_shown_sources(self.settings), parser.stats, watching=True)

        showing = asyncio.ensure_future(show()) if self._is_late else None
        try:
            yield
        finally:
            if showing is not None:
                if scheduler.parser is None or not scheduler.parser.first_pass.done():
                    showing.cancel()
                await asyncio.gather(showing, return_exceptions=True)

    async def _serve(self, scheduler: Scheduler, all_of_them: Together) -> int:
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
            if self.migrate or self.settings.database.dsn is None:
                await migrate(dsn, default_pool_slots=self.settings.core.default_pool_task_slot_count)
            async with await Database.open(dsn, settings=self.settings.database, application_name="aiosched web") as db:
                sock = ports.bind(web.host, web.port)
                self.screen.fact("database", db.where)
                url = ports.url_of(sock, web.host)
                if "web" not in self.roles:
                    self.screen.fact("worker API", f"{url}   for workers on engines, by the tokens of their attempts")
                async with self._page(url if "web" in self.roles else None, db):
                    self.screen.ready(time.monotonic() - self.started)
                    await self._serve_web(db, sock)
        return 0

    async def _serve_web(self, db: Database, sock: socket.socket) -> None:
        """Answer requests until asked to stop."""
        async with self._uploading_received_logs():
            with contextlib.suppress(TimeoutError):
                async with supervised(), asyncio.timeout(self.run_duration):
                    await self._serve_http(db, sock)

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

    async def _serve_http(self, db: Database, sock: socket.socket) -> None:
        from aiosched.web.server import uvicorn_server as server

        if "web" in self.roles:
            from aiosched.web.app import make_app
            from aiosched.web.requests.request_client import RequestClient

            await server.run(make_app(RequestClient(db, self.settings), listens=True), sock, self.requests.asked)
        else:
            from aiosched.web.worker_api.endpoints import make_worker_api

            api = make_worker_api(db, self.settings)
            await server.serve(api, sock, self.requests.asked, prefix=self.settings.web.prefix)

    async def _run_parser(self) -> int:
        """`--role parser`: parse all files for schedulers that run elsewhere without this role."""
        from aiosched.db.server.engine import Database
        from aiosched.db.server.migrate import migrate
        from aiosched.parsing import Parser

        async with address(self.settings, create=True, keep=True) as dsn:
            if self.migrate or self.settings.database.dsn is None:
                await migrate(dsn, default_pool_slots=self.settings.core.default_pool_task_slot_count)
            async with (
                await Database.open(dsn, settings=self.settings.database) as db,
                self._web_beside(dsn) as url,
            ):
                parser = Parser(self.settings, db)
                running = asyncio.ensure_future(parser.run())
                try:
                    await self._first(parser.first_pass, running, self.requests.asked.wait())
                    self.screen.fact("database", db.where)
                    self.screen.dags(_shown_sources(self.settings), parser.stats, watching=True)
                    async with self._page(url, db):
                        self.screen.ready(time.monotonic() - self.started)
                        if not self.until_idle:
                            with contextlib.suppress(TimeoutError):
                                async with supervised(), asyncio.timeout(self.run_duration):
                                    await self._first(running, self.requests.asked.wait())
                finally:
                    parser.stop()
                    await running
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
