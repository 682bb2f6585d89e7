"""A connection that says nothing any more is given up: by the kernel, by the limit of a statement, by its owner."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from aiosched.db.server import engine as engine_module
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import DRIVER_ERRORS, is_connection_failure
from aiosched.db.server.silence import Limits, connect_for, limits_within
from tests.conftest import short_folder
from tests.db.conftest import ExternalServer
from tests.patience import PATIENCE
from tests.suspending import own_server


@pytest.mark.parametrize("lease", [2.0, 4.0, 15.0, 60.0])
def test_a_connection_is_given_up_within_the_lease_and_a_statement_soon_after(lease: float) -> None:
    limits = limits_within(lease)

    assert limits.silence <= lease
    assert limits.statement is not None
    assert lease < limits.statement <= lease + 15


@pytest.mark.parametrize("kind", ["pooled", "dedicated", "of the pool's way", "of queries", "of a command"])
@pytest.mark.parametrize("limits", [None, limits_within(6.0)])
async def test_the_kernel_ends_a_connection_whose_packets_are_lost_within_a_lease(
    tcp_server: ExternalServer, kind: str, limits: Limits | None
) -> None:
    opened = Database.open(tcp_server.dsn(), check=False, limits=limits)
    async with await opened as db, contextlib.AsyncExitStack() as stack:
        if kind == "pooled":
            conn = (await stack.enter_async_context(db.acquire()))._con  # type: ignore[attr-defined]
        elif kind == "of queries":
            queries = await stack.enter_async_context(db.engine.connect())
            conn = (await queries.get_raw_connection()).driver_connection
        elif kind == "of a command":
            conn, limits = await connect_for("test", tcp_server.dsn()), None
            stack.push_async_callback(conn.close)
        else:
            conn = await (db.connect() if kind == "dedicated" else db.connect_as_pool(application_name="test"))
            stack.push_async_callback(conn.close)
        sock = conn._transport.get_extra_info("socket")
        idle, every, count, unacknowledged = (
            sock.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
        )

        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert idle + every * count <= (10 if limits is None else 6)
        assert unacknowledged == (8000 if limits is None else 3000)


@pytest.fixture
async def limited(dsn: str) -> AsyncIterator[Database]:
    async with await Database.open(dsn, limits=Limits(statement=0.2)) as db:
        yield db


SLOW = "SELECT pg_sleep(0.5)"


async def test_a_statement_that_takes_too_long_is_stopped_unless_its_user_has_time(limited: Database) -> None:
    async with limited.acquire(unhurried=True) as conn:
        await conn.execute(SLOW)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with limited.transaction() as conn:
                await conn.execute(SLOW)
    async with limited.acquire() as conn:
        assert await conn.fetchval("SELECT 1") == 1

    limited.allow_longer_statements()
    limited.allow_longer_statements()
    async with limited.acquire() as conn:
        await conn.execute(SLOW)


async def test_a_dedicated_connection_has_the_limit_too(limited: Database) -> None:
    conn = await limited.connect()
    try:
        with pytest.raises(TimeoutError):
            await conn.execute(SLOW)
        for _ in range(2):
            limited.allow_longer_statements()
        await conn.execute(SLOW)
    finally:
        await conn.close()


async def test_other_users_of_the_database_have_no_limit(dsn: str) -> None:
    async with await Database.open(dsn) as db, db.acquire() as conn:
        assert conn._con._config.command_timeout is None  # type: ignore[attr-defined]
        db.allow_longer_statements()
        await conn.execute("SELECT 1")


async def in_transaction(db: Database, hang: Callable[[DatabaseConnection], Awaitable[None]]) -> None:
    async with db.transaction() as conn:
        await conn.execute("SELECT 1")
        await hang(conn)
        await conn.execute("SELECT 2")


async def test_a_server_process_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers neither the statement nor the request to stop it, and the rollback would wait for both."""
    monkeypatch.setattr(engine_module, "_RELEASE_SECONDS", 0.2)
    folder, stopped = short_folder(), list[int]()

    async def stop(conn: DatabaseConnection) -> None:
        stopped.append(conn.get_server_pid())
        os.kill(stopped[-1], signal.SIGSTOP)

    try:
        with own_server(folder / "pg") as server:
            async with await Database.open(server.start(), check=False, limits=Limits(statement=0.2)) as db:
                async with asyncio.timeout(PATIENCE):
                    with pytest.raises((TimeoutError, *DRIVER_ERRORS), check=is_connection_failure):
                        await in_transaction(db, stop)
                    async with db.acquire() as conn:
                        assert conn.get_server_pid() not in stopped

                    work = asyncio.create_task(in_transaction(db, stop))
                    while len(stopped) < 2:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                    work.cancel()
                    with pytest.raises((asyncio.CancelledError, TimeoutError, *DRIVER_ERRORS)) as ended:
                        await work
                    assert isinstance(ended.value, asyncio.CancelledError) or is_connection_failure(ended.value)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def test_whoever_waits_on_a_connection_that_is_dropped_is_told(dsn: str) -> None:
    async with await Database.open(dsn) as db:
        dedicated = await db.connect()
        async with db.acquire() as conn:
            waiting = [asyncio.create_task(each.execute("SELECT pg_sleep(600)")) for each in (conn, dedicated)]
            await asyncio.sleep(0)
            db.drop_connections()
            found = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(error, asyncpg.PostgresConnectionError) for error in found), found
        assert await db.fetchval("SELECT 1") == 1
