"""From settings to an open database, and requests to the scheduler that owns a DAG."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aiosched.cli.base.output import Format, report, talk
from aiosched.cli.base.progress import said_if_slow
from aiosched.errors import DatabaseUnreachable

if TYPE_CHECKING:
    from aiosched.config import Loaded, Settings
    from aiosched.core.requests.requests import BackfillCreate, Request, TaskChange
    from aiosched.db.crypto.keyring import Keyring
    from aiosched.db.server.engine import Database

T = TypeVar("T")

_keyring: Final[ContextVar[Keyring | None]] = ContextVar("aiosched_keyring", default=None)  # of the open database

LOCK_TIMEOUT: Final = "10s"  # how long a command waits for a lock that another session holds
ANSWER_SECONDS: Final = 10.0  # how long a request waits for its answer while a scheduler is alive


def load(**flags: Any) -> Loaded:
    """The settings of this call; flags are passed as `database__dsn=…`, None if not given."""
    from aiosched.config import load_settings

    return load_settings({name.replace("__", "."): value for name, value in flags.items()})


def load_for_author_code(**flags: Any) -> Loaded:
    """As `load`, for a process that runs code of DAG authors, or starts others that do: it forgets secret variables."""
    from aiosched.config.secret_environment import forget_secrets

    loaded = load(**flags)
    forget_secrets()
    return loaded


def with_database(dsn: str | None, work: Callable[[Database], Awaitable[T]]) -> T:
    """Run `work` on the database named by `--dsn`, the environment or the settings file, else on the embedded one."""

    async def run() -> T:
        async with open_database(load(database__dsn=dsn).settings) as db:
            return await work(db)

    return asyncio.run(run())


def has_database(settings: Settings) -> bool:
    """Whether a database is named, or there is an embedded one; it may not be reachable."""
    from aiosched.db.server.embedded import embedded_data_dir

    return settings.database.dsn is not None or embedded_data_dir(settings.core.home).exists()


@contextlib.asynccontextmanager
async def open_database(settings: Settings, *, check: bool = True) -> AsyncIterator[Database]:
    """The database of `settings`, open.

    An embedded server that does not run is started for as long as needed. With `check` the schema must be current.
    Raises DatabaseError and its subclasses; errors of the server inside the block become one of them, too.
    """
    from aiosched.core.audit.actor import Actor, act_for
    from aiosched.db.crypto.keyring import Keyring
    from aiosched.db.server.engine import Database

    act_for(Actor(requester()))
    _keyring.set(Keyring.of(settings))
    async with (
        address(settings) as dsn,
        await Database.open(dsn, settings=settings.database, check=check, lock_timeout=LOCK_TIMEOUT) as db,
    ):
        with _as_our_errors(db.dsn):
            yield db


@contextlib.asynccontextmanager
async def address(settings: Settings, *, create: bool = False, keep: bool = False) -> AsyncIterator[str]:
    """The DSN to connect to.

    `create` creates the embedded database if it does not exist yet. `keep` is for services: the embedded server is
    restarted whenever it ends.
    """
    from aiosched.db.server.embedded import EmbeddedPostgres, embedded_data_dir, embedded_dsn
    from aiosched.db.server.embedded_watch import kept_running

    if settings.database.dsn is not None:
        from aiosched.db.server.password_file import with_present_password

        yield with_present_password(settings.database.dsn, settings.database.password_file)
        return
    folder = embedded_data_dir(settings.core.home)
    if not folder.exists() and not create:
        raise DatabaseUnreachable(
            f"There is no database: none is named by --dsn or AIOSCHED_DSN, and {shown_path(settings.core.home)} "
            "holds none yet. Start `aiosched serve` here, or go to the folder where it runs; if it runs with --home, "
            "set AIOSCHED__CORE__HOME to the same folder."
        )
    if embedded_dsn(settings.core.home) is None and sys.stderr.isatty():
        talk(f"starting the embedded database in {shown_path(folder)}")
    server = EmbeddedPostgres(folder, binaries=settings.database.embedded_binaries)
    async with server as dsn, kept_running(server if keep else None):
        yield dsn


@contextlib.contextmanager
def _as_our_errors(dsn: str) -> Iterator[None]:
    """An error of PostgreSQL as our DatabaseError; also one wrapped by SQLAlchemy."""
    from sqlalchemy.exc import DBAPIError

    from aiosched.db.server.failures import DRIVER_ERRORS, explain

    try:
        yield
    except (*DRIVER_ERRORS, DBAPIError) as error:
        explained = explain(error, dsn)
        if explained is None:
            raise
        raise explained from error


async def ask(
    db: Database, request: Request, dag_id: str | None, *, timeout: float | None = None
) -> dict[str, Any] | None:
    """Send a request to the owner of `dag_id` (None: of an asset); its answer, or None if the request still waits.

    It then stays in the inbox and is applied once a scheduler runs. Waits `timeout` seconds (default ANSWER_SECONDS) if
    a scheduler is alive. Raises Refused with the owner's message.
    """
    from aiosched.db.statements.inbox import ask_owner

    patience = (ANSWER_SECONDS if timeout is None else timeout) if await any_scheduler_alive(db) else 0.0
    async with said_if_slow("waiting for the scheduler to apply the request"):
        answer = await ask_owner(
            db,
            request,
            dag_id,
            requested_by=requester(),
            timeout=patience,
            keyring=_keyring.get(),
        )
    return answer.result


async def preview(db: Database, request: TaskChange | BackfillCreate, dag_id: str) -> dict[str, Any]:
    """What a request to clear, mark or backfill would affect. Raises NotFound and Refused as its owner does."""
    from aiosched.clock import SystemClock
    from aiosched.scheduler.requests.preview import preview

    most = load().settings.scheduler.max_backfill_runs
    async with said_if_slow("reading what would change"):
        return await preview(db, dag_id, request, now=SystemClock().now(), max_backfill_runs=most)


async def any_scheduler_alive(db: Database) -> bool:
    """Whether a scheduler is alive and can apply requests."""
    from aiosched.db.queries.schedulers import list_schedulers

    return any(scheduler.alive for scheduler in await list_schedulers(db))


def say_it_waits(what: str, output: Format | None = None) -> None:
    """Say that a request is stored and not applied yet; JSON and YAML have `{"waits": true}`."""
    talk(f"{what} waits: no scheduler has applied it yet. It is done as soon as one runs (aiosched serve).")
    report({"waits": True}, output)


def requester() -> str:
    """The name of the requester, for the audit log."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no such user in a container
        user = "unknown"
    return f"cli:{user}@{socket.gethostname()}"


def shown_path(path: Path) -> str:
    """A path for people: a relative one begins with `./`."""
    return str(path) if path.is_absolute() else f"./{path}"
