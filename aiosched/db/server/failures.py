"""Turns errors of asyncpg and the operating system into one clear line, and classifies temporary failures.

No statements here and no retry loop: callers check `is_retryable` and decide how long to wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
import traceback
from collections.abc import Iterator
from typing import Final

import asyncpg

from aiosched.db.server.dsn import Address, address_of
from aiosched.db.server.sequences import is_number_taken
from aiosched.errors import (
    DatabaseError,
    DatabaseLocked,
    DatabaseReadOnly,
    DatabaseUnreachable,
    DiskFull,
    NumbersInUse,
    TooManyConnections,
    UnsupportedDatabase,
)

# The errors of asyncpg, which have no common base class. Those of the operating system come through as they are.
DRIVER_ERRORS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)

OLDEST_SERVER: Final = 15
NEWEST_SERVER: Final = 18

# Sent by a server that is shutting down or starting, before it closes the connection.
_SERVER_GONE: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    DatabaseUnreachable,
    TooManyConnections,
)

# Raised by asyncpg on a closed connection, before it has noticed the close: the connection is unusable from then on.
_DRIVER_CONFUSED: Final = (asyncpg.InternalClientError,)

# What asyncpg says when it uses a connection that it has closed. The last one is about a pooled connection, which
# leaves its holder at that moment, whatever the holder does just then.
_CLOSED: Final = ("connection is closed", "connection was closed", "connection has been released back to the pool")

# The statement failed, but the connection is intact and the same transaction may succeed when retried.
_PASSING: Final = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
    asyncpg.InsufficientResourcesError,  # connections, disk, memory
    asyncpg.ReadOnlySQLTransactionError,  # a fail-over is under way
    DatabaseReadOnly,
    NumbersInUse,
)

# Classes of SQLSTATE about the state of a server, and not about a statement.
_OF_SERVER: Final = ("08", "25", "28", "53", "55", "57", "58", "72", "F0", "XX")

# The server rejects a value, or the row that would come of it.
_CONTENT: Final = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
)


def is_connection_failure(error: BaseException) -> bool:
    """Whether `error`, raised by a database call, means that its connection is lost or could not be established.

    Any OSError counts (a timeout is one), so use it only for errors of database calls. If a COMMIT fails this way, its
    outcome is unknown.
    """
    if isinstance(error, asyncpg.InterfaceError):  # also raised for misuse, which a retry does not fix
        return any(said in str(error) for said in _CLOSED)
    return isinstance(error, (OSError, asyncpg.TooManyConnectionsError, *_SERVER_GONE, *_DRIVER_CONFUSED))


def is_retryable(error: BaseException) -> bool:
    """Whether doing the same work again, from the start of its transaction, may succeed without intervention."""
    if is_connection_failure(error) or isinstance(error, _PASSING) or is_number_taken(error):
        return True
    cause = error.__cause__ if isinstance(error, DatabaseError) else None  # of an error raised by `explained`
    return cause is not None and is_retryable(cause)


def is_of_database(error: BaseException) -> bool:
    """Whether the database, or the way to it, is what failed, for whatever reason.

    A process that runs waits until it is over: somebody who administers the server may have caused it, and ends it.
    False for what the values of a statement caused (`is_about_content`), for a misuse of the driver, and for an OSError
    that the driver has not raised: of a file, of a disk, or of another service.
    """
    error = unwrapped(error)
    if isinstance(error, asyncpg.PostgresError):
        return not is_about_content(error)
    if isinstance(error, OSError):
        return _is_of_driver(error)
    return isinstance(error, DatabaseError) or is_retryable(error)


def _is_of_driver(error: OSError) -> bool:
    """Whether it was raised in the driver, as its traceback shows, or by a timeout that ended a wait for the driver."""
    raised: BaseException = error
    if isinstance(error, TimeoutError) and isinstance(error.__cause__, asyncio.CancelledError):
        raised = error.__cause__
    frames = traceback.walk_tb(raised.__traceback__)
    return any(frame.f_globals.get("__name__", "").partition(".")[0] == asyncpg.__name__ for frame, _ in frames)


def is_about_content(error: BaseException) -> bool:
    """Whether a statement failed because of the values that it was given, or a row that it would make."""
    if isinstance(error, asyncpg.InterfaceError):
        return isinstance(error, ValueError)  # the driver cannot encode a value
    return isinstance(error, _CONTENT)


def explain(error: BaseException, dsn: str) -> DatabaseError | None:
    """`error` as a DatabaseError for the user, or None if it is not about the state of the server.

    The text names host and port and the next step, never the password. An error of SQLAlchemy counts as the one of the
    driver that it wraps.
    """
    where, error = address_of(dsn), unwrapped(error)
    if isinstance(error, DatabaseError):
        return error
    is_pooler = isinstance(error, asyncpg.ProtocolViolationError)  # never used in front of an embedded server
    if (
        where.is_embedded
        and not is_pooler
        and (isinstance(error, asyncpg.PostgresError) or is_connection_failure(error))
    ):
        return _explain_embedded(error, where)
    if isinstance(error, asyncpg.PostgresError):
        return _explain_answer(error, where)
    if isinstance(error, asyncpg.InterfaceError) and not is_connection_failure(error):
        return None
    if is_connection_failure(error):
        return DatabaseUnreachable(f"Cannot reach PostgreSQL at {where}: {_cause(error)}. {_next_step(error, where)}")
    return None


def unwrapped(error: BaseException) -> BaseException:
    """The error of asyncpg in an error of SQLAlchemy, whose `orig` is an adapted one."""
    return getattr(getattr(error, "orig", None), "__cause__", None) or error


@contextlib.contextmanager
def explained(dsn: str) -> Iterator[None]:
    """Raise failures in the block as a DatabaseError, with the original error as its cause."""
    try:
        yield
    except (*DRIVER_ERRORS, OSError) as error:
        explained_error = explain(error, dsn)
        if explained_error is None:
            raise
        raise explained_error from error


def check_server_version(major: int, dsn: str) -> None:
    """Raise UnsupportedDatabase unless aiosched is tested with the server's major version."""
    if OLDEST_SERVER <= major <= NEWEST_SERVER:
        return
    wrong = "is too old" if major < OLDEST_SERVER else "is newer than this aiosched was tested with"
    remedy = "Upgrade the server" if major < OLDEST_SERVER else "Upgrade aiosched, or use an older server"
    raise UnsupportedDatabase(
        f"PostgreSQL {major} at {address_of(dsn)} {wrong}: it must be {OLDEST_SERVER} to {NEWEST_SERVER}. {remedy}."
    )


def _explain_embedded(error: BaseException, where: Address) -> DatabaseError | None:
    """Like `_explain_answer`, for the embedded server: it has no address to correct, and its log is on this machine."""
    said = _one_line(error) if isinstance(error, asyncpg.PostgresError) else _cause(error)
    log = "Its log is server.log in its data folder."
    match error:
        case asyncpg.TooManyConnectionsError():
            return TooManyConnections(
                f"The embedded PostgreSQL on {where.host} has no connection left ({said}). Lower [database] pool_size."
            )
        case asyncpg.DiskFullError():
            return DiskFull(f"The disk of the embedded PostgreSQL on {where.host} is full: {said}. Make room.")
        case _ if is_connection_failure(error):
            return DatabaseUnreachable(
                f"The embedded PostgreSQL on {where.host} does not answer: {said}. While `aiosched serve` runs "
                f"it is restarted automatically; otherwise start `aiosched serve`. {log}"
            )
        case asyncpg.InvalidAuthorizationSpecificationError() | asyncpg.InvalidCatalogNameError():
            return DatabaseUnreachable(f"The embedded PostgreSQL on {where.host} cannot be used: {said}. {log}")
        case asyncpg.ReadOnlySQLTransactionError():
            return read_only(where)
        case asyncpg.LockNotAvailableError():
            return _locked(said, where)
        case asyncpg.InsufficientPrivilegeError():
            return DatabaseError(f"The embedded PostgreSQL on {where.host} refuses a change: {said}. {log}")
        case _:
            return None


def _explain_answer(error: asyncpg.PostgresError, where: Address) -> DatabaseError | None:
    said = _one_line(error)
    match error:
        case asyncpg.TooManyConnectionsError():
            return TooManyConnections(
                f"PostgreSQL at {where} has no connection left ({said}). "
                "Raise its max_connections, lower [database] pool_size, or put a pooler in between."
            )
        case asyncpg.ReadOnlySQLTransactionError():
            return read_only(where)
        case asyncpg.LockNotAvailableError():
            return _locked(said, where)
        case asyncpg.CannotConnectNowError():
            return DatabaseUnreachable(
                f"PostgreSQL at {where} does not accept connections now: {said}. Try again soon."
            )
        case asyncpg.InvalidAuthorizationSpecificationError():  # includes a wrong password
            return DatabaseUnreachable(
                f"PostgreSQL at {where} refuses the login of {where.user or 'the default user'!r}: {said}. "
                "Check user and password in the DSN, and the server's pg_hba.conf."
            )
        case asyncpg.InvalidCatalogNameError():
            return DatabaseUnreachable(
                f"PostgreSQL at {where} has no database {where.database or where.user!r}. "
                f"Create it (`createdb {where.database or where.user}`) or correct the name in the DSN."
            )
        case asyncpg.ProtocolViolationError() if "startup parameter" in said:
            return DatabaseError(
                f"A pgbouncer answers at {where} ({said}). Set [database] pgbouncer = true "
                "(AIOSCHED__DATABASE__PGBOUNCER=true), and direct_dsn to an address that leads to PostgreSQL itself."
            )
        case asyncpg.InsufficientPrivilegeError():
            return DatabaseError(
                f"The user {where.user or 'of the DSN'!r} lacks a right on PostgreSQL at {where}: {said}. "
                "Make the user the owner of the database, or grant the right."
            )
        case asyncpg.DiskFullError():
            return DiskFull(f"The disk of PostgreSQL at {where} is full: {said}. Make room, then start again.")
        case _ if is_connection_failure(error):
            return DatabaseUnreachable(f"PostgreSQL at {where} closed the connection: {said}. Is it being restarted?")
        case asyncpg.ObjectNotInPrerequisiteStateError() if "accepting connections" in said:
            return DatabaseUnreachable(
                f"PostgreSQL at {where} lets nobody in: {said}. ALTER DATABASE … ALLOW_CONNECTIONS true undoes that."
            )
        case _ if error.sqlstate is not None and error.sqlstate[:2] in _OF_SERVER:
            return DatabaseError(f"PostgreSQL at {where} cannot do this now: {said}. The log of the server says more.")
        case _:
            return None


def read_only(where: Address) -> DatabaseReadOnly:
    """The error for a server that rejects writes."""
    if where.is_embedded:
        return DatabaseReadOnly(
            f"The embedded PostgreSQL on {where.host} is read-only: default_transaction_read_only is on. Turn it off."
        )
    return DatabaseReadOnly(
        f"PostgreSQL at {where} is read-only: a standby, or default_transaction_read_only is on. "
        "Point the DSN at the primary (several hosts with target_session_attrs=read-write find it)."
    )


def _locked(said: str, where: Address) -> DatabaseLocked:
    server = f"the embedded PostgreSQL on {where.host}" if where.is_embedded else f"PostgreSQL at {where}"
    return DatabaseLocked(
        f"Another session of {server} holds a lock that this needs: {said}. `aiosched doctor` names the session."
    )


def _cause(error: BaseException) -> str:
    match error:
        case TimeoutError():
            return "no answer in time"
        case socket.gaierror():
            return "the host name is unknown"
        case ConnectionRefusedError():
            return "the connection was refused"
        case FileNotFoundError():
            return "there is no such socket"
        case _:
            return _one_line(error)


def _next_step(error: BaseException, where: Address) -> str:
    if isinstance(error, ssl.SSLError):
        return "Check sslmode and the certificates."
    if isinstance(error, socket.gaierror):
        return f"Check the host {where.host!r} in the DSN."
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return "This process may open no more files: raise its limit (ulimit -n, LimitNOFILE= of systemd)."
    return "Start it, or correct the DSN."


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
