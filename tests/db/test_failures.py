"""What goes wrong with a database is told in one clear line, and says whether waiting helps."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from aiosched.config import DatabaseSettings
from aiosched.db.server import failures
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import (
    DRIVER_ERRORS,
    check_server_version,
    explain,
    explained,
    is_connection_failure,
    is_retryable,
)
from aiosched.errors import (
    AioschedError,
    DatabaseError,
    DatabaseLocked,
    DatabaseReadOnly,
    DatabaseUnreachable,
    DiskFull,
    FencedOut,
    SchemaOutOfDate,
    TooManyConnections,
    UnsupportedDatabase,
)
from tests.db.conftest import ExternalServer
from tests.db.waiting import lose

DSN = "postgresql://ann:s3cret@db.example:5433/jobs"


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (ConnectionRefusedError(111, "refused"), DatabaseUnreachable, "Cannot reach PostgreSQL at db.example:5433"),
        (TimeoutError(), DatabaseUnreachable, "no answer in time"),
        (socket.gaierror(-2, "Name or service not known"), DatabaseUnreachable, "the host name is unknown"),
        (FileNotFoundError(2, "No such file"), DatabaseUnreachable, "there is no such socket"),
        (
            asyncpg.InvalidPasswordError("password authentication failed"),
            DatabaseUnreachable,
            "Check user and password",
        ),
        (asyncpg.InvalidCatalogNameError("no database"), DatabaseUnreachable, "`createdb jobs`"),
        (asyncpg.CannotConnectNowError("the database system is starting up"), DatabaseUnreachable, "starting up"),
        (asyncpg.AdminShutdownError("terminating connection"), DatabaseUnreachable, "closed the connection"),
        (asyncpg.TooManyConnectionsError("sorry, too many clients"), TooManyConnections, "max_connections"),
        (asyncpg.ReadOnlySQLTransactionError("read-only"), DatabaseReadOnly, "Point the DSN at the primary"),
        (asyncpg.InsufficientPrivilegeError("permission denied for schema public"), DatabaseError, "grant the right"),
        (asyncpg.DiskFullError("No space left on device"), DiskFull, "Make room"),
        (asyncpg.LockNotAvailableError("lock timeout"), DatabaseLocked, "`aiosched doctor` names the session"),
        (asyncpg.InterfaceError("connection is closed"), DatabaseUnreachable, "connection is closed"),
        (
            asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress"),
            DatabaseUnreachable,
            "another operation (2) is in progress",
        ),
    ],
)
def test_a_failure_becomes_one_line_with_the_next_step(error: Exception, kind: type[AioschedError], says: str) -> None:
    told = explain(error, DSN)

    assert told is not None
    assert type(told) is kind
    assert says in str(told)
    assert "db.example:5433" in str(told)
    assert "s3cret" not in str(told)
    assert "\n" not in str(told)
    assert told.exit_code == 5


@pytest.mark.parametrize("folder", ["/srv/flows/.aiosched/pg", "/tmp/aiosched-999-0a1b2c3d4e5f"])
@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (ConnectionRefusedError(111, "refused"), DatabaseUnreachable, "start `aiosched serve`"),
        (asyncpg.CannotConnectNowError("the database system is starting up"), DatabaseUnreachable, "starting up"),
        (asyncpg.InvalidCatalogNameError("no database"), DatabaseUnreachable, "no database"),
        (asyncpg.InvalidPasswordError("no"), DatabaseUnreachable, "cannot be used"),
        (asyncpg.TooManyConnectionsError("too many clients"), TooManyConnections, "Lower [database] pool_size"),
        (asyncpg.ReadOnlySQLTransactionError("read-only"), DatabaseReadOnly, "default_transaction_read_only"),
        (asyncpg.InsufficientPrivilegeError("permission denied"), DatabaseError, "refuses a change"),
        (asyncpg.DiskFullError("No space left on device"), DiskFull, "Make room"),
        (asyncpg.LockNotAvailableError("lock timeout"), DatabaseLocked, "`aiosched doctor` names the session"),
    ],
)
def test_of_the_embedded_server_nobody_hears_of_a_dsn(
    error: Exception, kind: type[AioschedError], says: str, folder: str
) -> None:
    told = explain(error, f"postgresql://postgres@/aiosched?host={folder}&port=4711")

    assert type(told) is kind
    assert says in str(told)
    assert f"embedded PostgreSQL on {folder}" in str(told)
    assert "dsn" not in str(told).lower()


def test_a_server_of_ones_own_on_a_socket_is_not_taken_for_the_embedded_one() -> None:
    told = explain(FileNotFoundError(), "postgresql://postgres@/aiosched?host=/var/run/postgresql")

    assert "Start it, or correct the DSN" in str(told)


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.UniqueViolationError("duplicate key"),
        asyncpg.UndefinedTableError("no table"),
        asyncpg.InterfaceError("cannot perform operation: another operation is in progress"),
        ValueError("ours"),
    ],
)
def test_a_failure_that_is_not_about_the_server_is_left_as_it_is(error: Exception) -> None:
    assert explain(error, DSN) is None
    assert not is_retryable(error)


@pytest.mark.parametrize(
    ("error", "connection_failure", "retryable"),
    [
        (ConnectionResetError(), True, True),
        (TimeoutError(), True, True),
        (asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"), True, True),
        (asyncpg.ConnectionFailureError("lost"), True, True),
        (asyncpg.InterfaceError("connection is closed"), True, True),
        (asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress"), True, True),
        (asyncpg.AdminShutdownError("terminating connection due to administrator command"), True, True),
        (asyncpg.CrashShutdownError("crash of another server process"), True, True),
        (asyncpg.CannotConnectNowError("starting up"), True, True),
        (asyncpg.TooManyConnectionsError("too many clients"), True, True),
        (DatabaseUnreachable("gone"), True, True),
        (TooManyConnections("full"), True, True),
        (asyncpg.SerializationError("could not serialize access"), False, True),
        (asyncpg.DeadlockDetectedError("deadlock detected"), False, True),
        (asyncpg.LockNotAvailableError("lock timeout"), False, True),
        (asyncpg.QueryCanceledError("statement timeout"), False, True),
        (asyncpg.DiskFullError("no space"), False, True),
        (asyncpg.ReadOnlySQLTransactionError("read-only"), False, True),
        (DatabaseReadOnly("standby"), False, True),
        (FencedOut("taken over"), False, False),
        (SchemaOutOfDate(found=None, needed="0001"), False, False),
        (UnsupportedDatabase("old"), False, False),
        (asyncpg.CheckViolationError("check"), False, False),
    ],
)
def test_waiting_helps_against_some_failures(error: Exception, connection_failure: bool, retryable: bool) -> None:
    assert (is_connection_failure(error), is_retryable(error)) == (connection_failure, retryable)


@pytest.mark.parametrize("major", [15, 16, 17, 18])
def test_servers_from_15_to_18_are_supported(major: int) -> None:
    check_server_version(major, DSN)


@pytest.mark.parametrize(
    ("major", "says"), [(14, "is too old.*15 to 18. Upgrade the server"), (19, "newer than this aiosched")]
)
def test_other_servers_are_refused_with_a_reason(major: int, says: str) -> None:
    with pytest.raises(UnsupportedDatabase, match=says):
        check_server_version(major, DSN)


@pytest.mark.parametrize(("name", "value"), [("OLDEST_SERVER", 99), ("NEWEST_SERVER", 9)])
async def test_opening_checks_the_version(dsn: str, monkeypatch: pytest.MonkeyPatch, name: str, value: int) -> None:
    monkeypatch.setattr(failures, name, value)

    with pytest.raises(UnsupportedDatabase, match="PostgreSQL 18 at"):
        await Database.open(dsn)


async def test_a_server_that_nobody_answers_at_is_named() -> None:
    with socket.socket() as held:  # bound, not listening: nobody else can take the port
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]

        with pytest.raises(DatabaseUnreachable, match=rf"127\.0\.0\.1:{port}: the connection was refused\. Start it"):
            await Database.open(f"postgresql://ann:pw@127.0.0.1:{port}/jobs")


async def test_a_server_that_accepts_and_says_nothing_runs_into_the_timeout() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        dsn = f"postgresql://ann:pw@127.0.0.1:{silent.getsockname()[1]}/jobs"

        with pytest.raises(DatabaseUnreachable, match="no answer in time"):
            await Database.open(dsn, settings=DatabaseSettings(connect_timeout=0.05))


async def test_a_missing_socket_is_named() -> None:
    with pytest.raises(DatabaseUnreachable, match=r"/nowhere:5432: there is no such socket"):
        await Database.open("postgresql://postgres@/jobs?host=/nowhere")


async def test_a_wrong_password_is_told_without_showing_it(tcp_server: ExternalServer) -> None:
    with pytest.raises(DatabaseUnreachable, match="refuses the login of 'postgres'") as caught:
        await Database.open(tcp_server.dsn(password="wr0ng"))

    assert "wr0ng" not in str(caught.value)


async def test_a_missing_database_is_told(tcp_server: ExternalServer) -> None:
    with pytest.raises(DatabaseUnreachable, match="has no database 'nope'"):
        await Database.open(tcp_server.dsn("nope"))


async def test_a_server_out_of_connections_is_told(tcp_server: ExternalServer) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(4):
            conn = await asyncpg.connect(tcp_server.dsn())
            stack.push_async_callback(conn.close)

        with pytest.raises(TooManyConnections, match=r"127\.0\.0\.1:\d+ has no connection left.*pool_size"):
            await Database.open(tcp_server.dsn())


@pytest.mark.parametrize(
    ("cause", "retryable"),
    [
        pytest.param(asyncpg.DiskFullError("could not write init file: No space left on device"), True, id="disk full"),
        pytest.param(asyncpg.InsufficientPrivilegeError("permission denied"), False, id="no right"),
    ],
)
def test_what_is_told_to_people_passes_by_itself_when_its_cause_does(
    cause: asyncpg.PostgresError, retryable: bool
) -> None:
    with pytest.raises(DatabaseError) as told, explained("postgresql://localhost/x"):
        raise cause

    assert is_retryable(told.value) is retryable


async def in_a_transaction(conn: DatabaseConnection) -> None:
    async with conn.transaction():
        await conn.execute("SELECT 1")


async def copy(conn: DatabaseConnection) -> None:
    await conn.copy_records_to_table("pool", records=[], columns=["name"])


@pytest.mark.parametrize(
    "use", [lambda conn: conn.fetch("SELECT 1"), in_a_transaction, copy], ids=["statement", "transaction", "copy"]
)
async def test_a_connection_that_ends_while_its_holder_does_something_else_is_a_lost_one(
    db: Database, use: Callable[[DatabaseConnection], Awaitable[object]]
) -> None:
    with pytest.raises(asyncpg.InterfaceError) as caught:  # noqa: PT012
        async with db.acquire() as conn:
            await lose(db, conn)
            await use(conn)

    assert (is_connection_failure(caught.value), is_retryable(caught.value)) == (True, True)
    assert isinstance(explain(caught.value, db.dsn), DatabaseUnreachable)


async def test_a_connection_that_ends_inside_a_transaction_is_a_lost_one(db: Database) -> None:
    with pytest.raises((asyncpg.InterfaceError, asyncpg.PostgresConnectionError)) as caught:
        async with db.transaction() as conn:
            await lose(db, conn)

    assert (is_connection_failure(caught.value), is_retryable(caught.value)) == (True, True)


async def test_a_statement_prepared_on_a_connection_that_ended_fails_as_a_lost_one(db: Database) -> None:
    with pytest.raises(asyncpg.InterfaceError) as caught:  # noqa: PT012
        async with db.acquire() as conn:
            statement = await conn.prepare("SELECT 1")
            await lose(db, conn)
            await statement.fetch()

    assert (is_connection_failure(caught.value), is_retryable(caught.value)) == (True, True)


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.InterfaceError("cannot call Connection.fetch(): connection has been released back to the pool"),
        asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress"),
        asyncpg.AdminShutdownError("terminating connection"),
        ConnectionResetError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_all_that_the_driver_raises_for_a_lost_connection_is_explained(error: Exception) -> None:
    assert isinstance(error, (*DRIVER_ERRORS, OSError))

    with pytest.raises(DatabaseUnreachable) as told, explained(DSN):
        raise error

    assert told.value.__cause__ is error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            asyncpg.ObjectNotInPrerequisiteStateError('database "x" is not currently accepting connections'),
            "ALLOW_CONNECTIONS true",
        ),
        (asyncpg.ObjectInUseError("the database is being copied"), "being copied"),
        (asyncpg.PostgresIOError("could not read block 3"), "could not read block 3"),
        (asyncpg.InternalServerError("cache lookup failed"), "cache lookup failed"),
        (asyncpg.ConfigFileError("pg_hba.conf"), "pg_hba.conf"),
    ],
)
def test_what_a_server_says_of_its_own_state_is_one_line_that_names_it(error: Exception, said: str) -> None:
    explained = explain(error, "postgresql://app:secret@db.example:6432/x")

    assert explained is not None
    assert "db.example:6432" in str(explained)
    assert said in str(explained)
    assert "secret" not in str(explained)


def test_an_error_about_a_statement_is_not_one_of_the_server() -> None:
    assert explain(asyncpg.UndefinedTableError("no table"), "postgresql://app@db.example/x") is None
