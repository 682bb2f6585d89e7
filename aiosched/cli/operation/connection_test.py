"""Testing a connection, for `aiosched connections test`: by the hook of its provider, by login, or up to its port."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from typing import TYPE_CHECKING, Final

from aiosched.errors import AioschedError, Refused
from aiosched.providers import connection_types

if TYPE_CHECKING:
    from aiosched.core.values.connections import ConnectionValue

_PORTS: Final = {
    "postgres": 5432, "mysql": 3306, "mssql": 1433, "oracle": 1521, "redis": 6379, "mongo": 27017, "ssh": 22,
    "sftp": 22, "ftp": 21, "smtp": 25, "http": 80, "https": 443, "kafka": 9092, "amqp": 5672,
}  # fmt: skip


async def try_connection(connection: ConnectionValue, *, timeout: float, airflow: str = "compat") -> str:
    """Connect within `timeout` seconds and return what was verified.

    An installed provider's hook for the type tests it in a process of its own; `airflow` is the setting
    `core.airflow`. Raises Refused for a connection without an address, AioschedError with the reason if it fails.
    """
    if connection.conn_type in connection_types() and (shown := await _by_hook(connection, timeout, airflow)):
        return shown
    if connection.conn_type == "postgres":
        return await _log_in(connection, timeout)
    protocol, _, host = (connection.host or "").rpartition("://")
    port = connection.port or _PORTS.get(protocol or connection.conn_type)
    if not host or port is None:
        raise Refused(f"Connection {connection.conn_id!r} names no host and port: there is nothing to connect to.")
    host = host.strip("[]")
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError) as error:
        raise _failed(connection, f"{host}:{port}", error) from None
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return (
        f"{host}:{port} takes connections; the login was not tested, which is not supported for {connection.conn_type}"
    )


async def _by_hook(connection: ConnectionValue, timeout: float, airflow: str) -> str | None:
    """What the provider's hook says; None when it has no test."""
    hook = connection_types()[connection.conn_type].hook
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "aiosched.cli.operation.connection_hook",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    asked = {"conn_id": connection.conn_id, "fields": connection.as_fields(), "airflow": airflow}
    try:
        async with asyncio.timeout(timeout):
            out, err = await process.communicate(json.dumps(asked).encode())
    except TimeoutError as error:
        process.kill()
        await process.wait()
        raise _failed(connection, hook, error) from None
    lines = out.decode(errors="replace").splitlines()
    if process.returncode or not lines:
        said = err.decode(errors="replace").strip().splitlines()
        raise _failed(connection, hook, AioschedError(said[-1] if said else f"exit code {process.returncode}"))
    found = json.loads(lines[-1])
    if found["works"] is None:
        return None
    if not found["works"]:
        raise _failed(connection, hook, AioschedError(found["says"]))
    return f"{found['says']} ({hook})"


async def _log_in(connection: ConnectionValue, timeout: float) -> str:
    import asyncpg

    from aiosched.db.server.failures import DRIVER_ERRORS

    host, port = connection.host or "localhost", connection.port or 5432
    try:
        async with asyncio.timeout(timeout):
            server = await asyncpg.connect(
                host=host, port=port, user=connection.login, password=connection.password, database=connection.schema
            )
            version = server.get_server_version()
            await server.close()
    except (OSError, *DRIVER_ERRORS) as error:
        raise _failed(connection, f"{host}:{port}", error) from None
    return f"logged in to PostgreSQL {version.major}.{version.minor} at {host}:{port}"


def _failed(connection: ConnectionValue, where: str, error: Exception) -> AioschedError:
    why = "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
    return AioschedError(f"Connection {connection.conn_id!r} does not work: {where}: {why}")
