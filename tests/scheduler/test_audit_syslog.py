"""A scheduler sends the audit log to syslog, whatever happens to the receiver, and removes old entries."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aiosched.clock import FakeClock
from aiosched.core.audit.kinds import AuditKind
from aiosched.db.audit.entries import record
from aiosched.db.server.engine import Database
from aiosched.scheduler.loops import audit_syslog, retention
from aiosched.scheduler.loops.audit_syslog import AuditSyslog
from aiosched.scheduler.membership import incarnation
from aiosched.scheduler.session.session import Session
from tests.patience import PATIENCE
from tests.scheduler.harness import Running, dag, running


async def add(db: Database, *names: str) -> None:
    for name in names:
        await record(db, AuditKind.LOGIN, name)


async def wanted(it: Running, address: str | None) -> AuditSyslog:
    """A sender that has told the database that it wants entries."""
    sender = AuditSyslog(address)
    await sender.send_some(it.session)
    return sender


async def number_unsent(db: Database) -> int:
    return int(await db.fetchval("SELECT count(*) FROM audit_unsent"))


def names_in(data: bytes) -> list[str]:
    return [part.split('"')[0] for part in data.decode().split(' object="')[1:]]


class _Idle:
    """The scheduler's own sender: tests make the passes."""

    def __init__(self, _: str | None) -> None: ...

    async def send_some(self, _: Session) -> None: ...


@pytest.fixture
async def it(dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    monkeypatch.setattr(incarnation, "AuditSyslog", _Idle)
    async with running(dsn, clock, dag("d")) as running_:
        yield running_


async def test_entries_arrive_by_udp_once_they_are_committed(it: Running) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(PATIENCE)
        sender = await wanted(it, f"udp://127.0.0.1:{receiver.getsockname()[1]}")
        async with it.db.transaction() as conn:
            await record(conn, AuditKind.LOGIN, "ada")
            await add(it.db, "bob")
            await sender.send_some(it.session)
            assert names_in(await asyncio.to_thread(receiver.recv, 9000)) == ["bob"]
        await sender.send_some(it.session)

        assert names_in(await asyncio.to_thread(receiver.recv, 9000)) == ["ada"]
        assert await number_unsent(it.db) == 0


async def test_entries_arrive_by_the_socket_of_this_machine(it: Running, short_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(short_path / "log"))
        receiver.settimeout(PATIENCE)
        sender = await wanted(it, f"unix://{short_path / 'log'}")
        await add(it.db, "ada")
        await sender.send_some(it.session)

        assert names_in(await asyncio.to_thread(receiver.recv, 9000)) == ["ada"]


class Collector:
    """A syslog server on TCP that can go away and come back at the same port."""

    def __init__(self) -> None:
        self.data = b""
        self.port = 0
        self._news = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._collect, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def until(self, *names: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while names_in(self.data) != list(names):
                self._news.clear()
                await self._news.wait()

    async def _collect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with contextlib.suppress(ConnectionError):
            while more := await reader.read(65536):
                self.data += more
                self._news.set()
        writer.close()


async def test_what_happens_while_the_receiver_is_away_arrives_later_and_is_said_once(
    it: Running, caplog: pytest.LogCaptureFixture
) -> None:
    collector = Collector()
    await collector.start()
    sender = await wanted(it, f"tcp://127.0.0.1:{collector.port}")
    await add(it.db, "ada")
    await sender.send_some(it.session)
    await collector.until("ada")

    await collector.stop()
    await add(it.db, "bob")
    async with asyncio.timeout(PATIENCE):
        while await number_unsent(it.db) != 1 or not sender._is_away:
            await sender.send_some(it.session)
    for _ in range(3):
        assert await sender.send_some(it.session) == audit_syslog.REST_IF_AWAY
    assert sum("cannot be sent" in line.message for line in caplog.records) == 1

    await collector.start()
    restarted = await wanted(it, f"tcp://127.0.0.1:{collector.port}")
    await add(it.db, "cyd")
    await restarted.send_some(it.session)
    await collector.until("ada", "bob", "cyd")
    assert await number_unsent(it.db) == 0
    await collector.stop()


async def test_without_a_receiver_nothing_is_noted_down(it: Running) -> None:
    await wanted(it, "udp://127.0.0.1:9")
    await add(it.db, "ada")
    await wanted(it, None)
    await add(it.db, "bob")

    assert await number_unsent(it.db) == 0


async def test_old_entries_are_removed_apart_from_history(it: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "ENTRIES_PER_PASS", 2)
    async with it.db.acquire() as conn:
        await conn.execute(
            "INSERT INTO audit_log (at, kind, who) SELECT '2020-01-01', 'login', 'x' FROM generate_series(1, 3)"
        )
        await record(conn, AuditKind.LOGIN, "ada")
    it.session.env.settings.scheduler.retention_days = 0.0
    it.session.env.settings.audit.retention_days = 400.0

    rests = [await retention.retain(it.session) for _ in range(2)]

    left = await it.db.fetch("SELECT kind, detail ->> 'number' AS number FROM audit_log ORDER BY id")
    assert [(row["kind"], row["number"]) for row in left if row["kind"] != "settings"] == [
        ("login", None), ("audit.removed", "2"), ("audit.removed", "1"),
    ]  # fmt: skip
    assert rests == [retention.PAUSE, retention.REST]
