"""The connections to one database: a pool for statements, dedicated ones for special jobs, an engine for user queries.

In this module: opening, acquiring and closing connections. Elsewhere: statements (db/statements), migrations
(migrate.py), the embedded server (embedded.py).

No JSON codecs are registered on asyncpg's connections: statements take and return JSON text.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast
from uuid import uuid4
from weakref import WeakSet

import asyncpg

from aiosched.config import DatabaseSettings
from aiosched.core.values.json_bounds import shown_object
from aiosched.db.server.any_instant import read_any_instant
from aiosched.db.server.connection import Connections, DatabaseConnection
from aiosched.db.server.dsn import address_of, normalize
from aiosched.db.server.failures import check_server_version, explained
from aiosched.db.server.password_file import PasswordFile, with_present_password
from aiosched.db.server.request_answers import RequestAnswers
from aiosched.db.server.schema_version import check_schema
from aiosched.db.server.sequences import is_number_taken, put_forward
from aiosched.db.server.silence import Limits, limit_statements, notice_silence
from aiosched.errors import ConfigError, NumbersInUse
from aiosched.timeouts import clean_up_timeout

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

CLOSE_SECONDS: Final = 10.0
_RELEASE_SECONDS: Final = 3.0  # until a connection whose statement was cancelled is given up

IDLE_IN_TRANSACTION: Final = "10s"  # a suspended process must not hold locks that its peers wait for
_SESSION: Final = {"timezone": "UTC", "jit": "off", "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION}
_POOLED_SESSION: Final = {"timezone": "UTC"}  # pgbouncer rejects parameters that it does not know
_UNPREPARED: Final = {  # SQLAlchemy names its statements; behind a pooler the names must be unique among clients
    "prepared_statement_cache_size": 0,
    "prepared_statement_name_func": lambda: f"aiosched_{uuid4().hex}",
}


def _only_open(connection: Any, *_: object) -> None:
    """Let the engine's pool replace a connection that the server has closed."""
    from sqlalchemy.exc import DisconnectionError

    if connection.driver_connection.is_closed():
        raise DisconnectionError


def _no_read_only(connection: Any, record: Any) -> None:
    """Let the engine's pool replace a connection whose session can only read."""
    if connection is not None and _is_read_only(connection.driver_connection):
        record.invalidate(soft=True)  # before its next use


def _is_read_only(conn: Any) -> bool:
    """Whether the session can only read: a standby, or default_transaction_read_only was on when it began.

    A later session may be able to write. The server reports both to its clients since PostgreSQL 14.
    """
    reported = conn.get_settings()
    return "on" in (
        getattr(reported, "in_hot_standby", None),
        getattr(reported, "default_transaction_read_only", None),
    )


@dataclass(eq=False, slots=True)
class StatementCount:
    """The number of statements sent on this database's connections while counting was on."""

    total: int = 0

    def __call__(self, _: object) -> None:
        self.total += 1


_ENDED: Final = "connection was closed in the middle of a statement"
_FIXED_OIDS: Final = 10_000  # lower ones mean the same type on every server, of any version
KNOWN_TYPES: Final[dict[frozenset[int], Any]] = {}  # what servers have answered about types with such oids
_NOT_ASKED: Final = SimpleNamespace(name="not asked")  # in place of asyncpg's statement, which replaces an unnamed one


class _CountedConnection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg ships no types
    """A connection that counts COPY too, and lets a server describe its array types once in the life of a process."""

    __slots__ = ("count", "replayed")  # the second one is a replica's (replica.py)

    async def _introspect_types(self, typeoids: Iterable[int], timeout: float) -> tuple[Any, Any]:
        """What asyncpg must know of types that it meets for the first time: rows about them and their elements.

        It asks on each new connection, for `bigint[]` too, and the answer costs the server 10 ms.
        """
        asked = frozenset(typeoids)
        if asked in KNOWN_TYPES:
            return KNOWN_TYPES[asked], _NOT_ASKED
        types, statement = await super()._introspect_types(typeoids, timeout)
        if max(asked) < _FIXED_OIDS:
            KNOWN_TYPES[asked] = types
        return types, statement

    async def _do_execute(self, *args: Any, **kwargs: Any) -> Any:
        """A statement takes several steps; asyncpg does not look between them whether `terminate` was called."""
        try:
            return await super()._do_execute(*args, **kwargs)
        except AttributeError as error:
            if not self.is_closed():
                raise
            raise asyncpg.InterfaceError(_ENDED) from error

    async def _prepare(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super()._prepare(*args, **kwargs)
        except AttributeError as error:
            if not self.is_closed():
                raise
            raise asyncpg.InterfaceError(_ENDED) from error

    async def _cancel(self, *waiters: Any) -> None:
        """Ask the server to end a statement. The connection ends if it does not, so that nobody waits for ever."""
        ending = asyncio.get_running_loop().call_later(_RELEASE_SECONDS, self.terminate)
        try:
            await super()._cancel(*waiters)
        finally:
            ending.cancel()

    async def copy_records_to_table(self, *args: Any, **kwargs: Any) -> Any:
        if (count := getattr(self, "count", None)) is not None:
            count(None)
        return await super().copy_records_to_table(*args, **kwargs)


def address_of_sessions(dsn: str, settings: DatabaseSettings) -> str:
    """The address for sessions when statements go to `dsn`; raises ConfigError for a pgbouncer without `direct_dsn`."""
    if settings.pgbouncer and settings.direct_dsn is None:
        raise ConfigError(
            f"This needs a session, and the pgbouncer at {address_of(dsn)} keeps none. Set [database] direct_dsn "
            "(AIOSCHED__DATABASE__DIRECT_DSN) to an address that leads to PostgreSQL itself."
        )
    return with_present_password(settings.direct_dsn or dsn, settings.password_file)


class Database(Connections):
    """One PostgreSQL database. Belongs to the event loop that opened it; create it with `Database.open`."""

    WRITES: ClassVar[bool] = True  # so a session that can only read is replaced: a later one may be able to write

    def __init__(
        self,
        dsn: str,
        settings: DatabaseSettings,
        application_name: str,
        *,
        lock_timeout: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.dsn: str = normalize(dsn)
        self.direct_dsn: str | None = None if settings.direct_dsn is None else normalize(settings.direct_dsn)
        if settings.read_dsn is not None:
            normalize(settings.read_dsn, "[database] read_dsn")  # here, so that no process starts with a wrong one
        self.settings = settings
        self.application_name = application_name
        self._session = _SESSION if lock_timeout is None else {**_SESSION, "lock_timeout": lock_timeout}
        self._password_file = None if settings.password_file is None else PasswordFile(settings.password_file)
        self.statements: StatementCount | None = None
        self._limits = limits or Limits()
        self._statement_limit = self._limits.statement  # seconds
        self._open: WeakSet[Any] = WeakSet()  # connections of the event loop that has opened this
        self._home: asyncio.AbstractEventLoop | None = None
        self.answers: RequestAnswers = RequestAnswers(self)
        self._pool: Any = None  # None only until it is open
        self._engine: AsyncEngine | None = None
        self._before_close: list[Callable[[], Awaitable[None]]] = []

    @classmethod
    async def open(
        cls,
        dsn: str,
        *,
        settings: DatabaseSettings | None = None,
        application_name: str = "aiosched",
        check: bool = True,
        count_statements: bool = False,
        lock_timeout: str | None = None,
        at_once: bool = True,
        limits: Limits | None = None,
    ) -> Database:
        """Connect to `dsn` (`postgresql://…`, also with `+asyncpg`, also `?host=/socket/folder`).

        With `check`, the schema must be current and the server writable. Without `at_once`, the first statement
        connects, and nothing is checked here (`check_schema` does that). `count_statements` keeps
        `statements.total` (BEGIN, COMMIT and COPY count), for benchmarks. `lock_timeout` is that of the sessions, as
        PostgreSQL reads it (not through a pgbouncer); None: they wait for locks as the server's default says.
        `limits`: of connections and statements; without them a statement may take any time.

        Raises ConfigError for an unreadable DSN, DatabaseUnreachable, TooManyConnections,
        UnsupportedDatabase, DatabaseReadOnly, SchemaOutOfDate.
        """
        self = cls(dsn, settings or DatabaseSettings(), application_name, lock_timeout=lock_timeout, limits=limits)
        self._home = asyncio.get_running_loop()
        if count_statements:
            self.statements = StatementCount()
        try:
            await self._open_pool(at_once=at_once)
            if check and at_once:
                await check_schema(self)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aenter__(self) -> Database:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @contextlib.asynccontextmanager
    async def acquire(self, *, unhurried: bool = False) -> AsyncIterator[DatabaseConnection]:
        """A pooled connection, outside any transaction. `unhurried`: its statements may take any time.

        Leave no state in its session: advisory session locks, LISTEN and SET need a dedicated connection (`connect`).
        """
        with self._explained(self.dsn):
            conn = await self._pool.acquire()
        limit_statements(conn, None if unhurried else self._statement_limit)
        try:
            yield conn
        except (asyncpg.UniqueViolationError, NumbersInUse) as error:
            if not (isinstance(error, NumbersInUse) or is_number_taken(error)):
                raise
            await put_forward(conn)  # others may have done it, or only the owner of the tables may
            raise NumbersInUse(
                f"Sequences of {self.where} were behind their rows: do this again. If that does not help, "
                "`aiosched db migrate` as the owner of the tables corrects them."
            ) from error
        finally:  # not interrupted by a cancellation: the pool shields it
            with contextlib.suppress(TimeoutError):  # it is closed then
                await self._pool.release(conn, timeout=_RELEASE_SECONDS)

    @contextlib.asynccontextmanager
    async def transaction(self, *, unhurried: bool = False) -> AsyncIterator[DatabaseConnection]:
        """A connection inside a read-committed transaction: committed at the end of the block, rolled back on error."""
        async with self.acquire(unhurried=unhurried) as conn, conn.transaction():
            yield conn

    async def connect(self, *, application_name: str | None = None) -> DatabaseConnection:
        """A dedicated connection, for LISTEN, session locks or another event loop.

        The caller closes it. It uses `database.direct_dsn` if that is set: a pgbouncer in transaction mode keeps no
        sessions.
        """
        return await self._connect(self.direct_dsn or self.dsn, application_name)

    async def connect_as_pool(self, *, application_name: str) -> DatabaseConnection:
        """A dedicated connection that takes the way of the pool's, through a pgbouncer if there is one.

        The caller closes it.
        """
        return await self._connect(self.dsn, application_name)

    @property
    def keeps_sessions(self) -> bool:
        """Whether LISTEN, session locks and SET persist on a dedicated connection."""
        return self.direct_dsn is not None or not self.settings.pgbouncer

    async def _connect(self, dsn: str, application_name: str | None) -> DatabaseConnection:
        with self._explained(dsn):
            conn = await asyncpg.connect(connection_class=_CountedConnection, **self._options(dsn, application_name))
            self._keep(conn)
            await read_any_instant(conn)
        self._count(conn)
        return cast("DatabaseConnection", conn)

    @property
    def engine(self) -> AsyncEngine:
        """The SQLAlchemy engine for the same database, for user queries; imported and created on first use."""
        if self._engine is None:
            from sqlalchemy import event
            from sqlalchemy.ext.asyncio import create_async_engine

            self._engine = engine = create_async_engine(
                "postgresql+asyncpg://",
                async_creator=self._connect_for_engine,
                pool_size=self.settings.pool_size,  # what is beyond it is closed again after each use
                max_overflow=2,
                connect_args=_UNPREPARED if self.settings.pgbouncer else {},
                json_deserializer=shown_object,  # the JSON columns that queries read by it hold objects
            )
            event.listen(engine.sync_engine, "checkout", _only_open)
            if self.WRITES:
                event.listen(engine.sync_engine, "checkin", _no_read_only)
        return self._engine

    def for_query(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A connection of the engine."""
        return self.engine.connect()

    @property
    def where(self) -> str:
        """Host and port (or socket folder), for display."""
        return str(address_of(self.dsn))

    def before_close(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Have `callback` store what it still has to store, before the connections are closed."""
        self._before_close.append(callback)

    async def close(self) -> None:
        """Close the pool and the engine, and release callers that wait for answers.

        Can be called twice. Connections from `connect` are closed by their callers.
        """
        callbacks, self._before_close = self._before_close, []
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.dispose()
        if self._pool is not None:
            try:
                async with clean_up_timeout(CLOSE_SECONDS):
                    for callback in callbacks:
                        await callback()
                    await self.answers.close()
                    await self._pool.close()  # waits until every connection is released
            except TimeoutError:
                self._pool.terminate()

    async def _open_pool(self, *, at_once: bool = True) -> None:
        with self._explained(self.dsn):
            self._pool = await asyncpg.create_pool(
                min_size=1 if at_once else 0,
                max_size=self.settings.pool_size,
                connection_class=_CountedConnection,
                init=self._prepare,
                reset=self._take_back,
                **self._options(self.dsn),
            )

    def drop_connections(self) -> None:
        """End all connections at once: they may hang. Whoever uses one gets the error of a lost connection."""
        for conn in [*self._open]:
            conn.terminate()

    def allow_longer_statements(self) -> None:
        """Double the limit of later statements: one was stopped by it, and may be needed."""
        if self._statement_limit is not None:
            self._statement_limit *= 2
            for conn in [*self._open]:
                limit_statements(conn, self._statement_limit)

    def _keep(self, conn: Any) -> None:
        notice_silence(conn, self._limits.silence)
        limit_statements(conn, self._statement_limit)
        if asyncio.get_running_loop() is self._home:
            self._open.add(conn)

    async def _prepare(self, conn: Any) -> None:
        self._keep(conn)
        check_server_version(conn.get_server_version().major, self.dsn)
        await read_any_instant(conn)
        self._count(conn)

    async def _take_back(self, conn: Any) -> None:
        """A connection returns to the pool. That costs no round trip, since nobody leaves state in its session."""
        if self.WRITES and _is_read_only(conn):
            await self._pool.expire_connections()  # each one is replaced before its next use

    def _count(self, conn: Any) -> None:
        if self.statements is not None:
            conn.count = self.statements
            conn.add_query_logger(self.statements)

    async def _connect_for_engine(self, *_: Any, **__: Any) -> Any:
        return await self._connect(self.dsn, f"{self.application_name} queries")

    def _options(self, dsn: str, application_name: str | None = None) -> dict[str, Any]:
        pooled = self.settings.pgbouncer and dsn == self.dsn
        session = _POOLED_SESSION if pooled else self._session
        options: dict[str, Any] = {
            "dsn": dsn,
            "timeout": self.settings.connect_timeout,
            "server_settings": {**session, "application_name": application_name or self.application_name},
        }
        if pooled:
            options["statement_cache_size"] = 0
        if self._password_file is not None:
            options["password"] = self._password_file.read
        return options

    @contextlib.contextmanager
    def _explained(self, dsn: str) -> Iterator[None]:
        waiting = (
            contextlib.nullcontext()
            if self._password_file is None
            else (self._password_file.waiting_for_a_new_one(dsn))
        )
        with explained(dsn), waiting:
            yield
