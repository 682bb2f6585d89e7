"""Connections that hang, while new ones work: what a pooler or a load balancer does whose other side has gone silent.

It acknowledges every packet, so no time limit of TCP is reached.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from aiosched.clock import FakeClock
from aiosched.db.server.dsn import address_of
from aiosched.db.server.silence import Limits
from aiosched.scheduler import service
from tests.patience import PATIENCE
from tests.scheduler.harness import chain, running


class Relay:
    """Passes connections on to a Unix socket, until they hang."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._hanging: dict[str, list[asyncio.Event]] = {}  # by the name of the application
        self._tasks: list[asyncio.Task[None]] = []

    def hang(self, *applications: str) -> int:
        """Let the present connections of these, or of all, hang; how many they are."""
        chosen = [event for name in applications or [*self._hanging] for event in self._hanging.get(name, [])]
        for event in chosen:
            event.set()
        self._hanging.clear()
        return len(chosen)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.read(65_536)
        parts = first.split(b"\0")
        name = parts[parts.index(b"application_name") + 1].decode() if b"application_name" in parts else ""
        hangs = asyncio.Event()
        self._hanging.setdefault(name, []).append(hangs)
        there, back = await asyncio.open_unix_connection(self._path)
        back.write(first)
        passing = [asyncio.create_task(self._pass(*way, hangs)) for way in ((reader, back), (there, writer))]
        self._tasks += passing
        try:
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in passing:
                task.cancel()
            for each in (back, writer):
                each.close()
                with contextlib.suppress(OSError):
                    await each.wait_closed()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hangs: asyncio.Event) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if hangs.is_set():
                    continue
                writer.write(data)
                await writer.drain()
        if hangs.is_set():
            await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def relayed(dsn: str) -> AsyncIterator[tuple[Relay, str]]:
    """A relay before a database, and its address there."""
    address = address_of(dsn)
    relay = Relay(f"{address.host}/.s.PGSQL.{address.port}")
    server = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield relay, f"postgresql://postgres@127.0.0.1:{port}/{address.database}?sslmode=disable"
    finally:
        server.close()
        await relay.close()
        await asyncio.sleep(0)


@pytest.mark.fresh_database
@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("which", ["aiosched journal", "aiosched notifications", "aiosched", "aiosched lease", "all"])
async def test_work_goes_on_on_new_connections(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    monkeypatch.setattr(service, "limits_within", lambda _: Limits(statement=1.0))
    async with (
        relayed(dsn) as (relay, there),
        running(dsn, clock, chain("d", 2), scheduler_dsn=there, lease=3.0) as it,
    ):
        await it.trigger("d", "before")
        await it.finish("t0", "t1")
        await it.trigger("d", "after")
        await it.attempt("t0")

        assert relay.hang(*([] if which == "all" else [which]))

        it.scheduler.wake_loops()
        async with asyncio.timeout(PATIENCE):
            while (await it.runs("d"))["after"] != "success":
                for attempt in list(it.executor.running.values()):
                    it.executor.succeed(attempt)
                await asyncio.sleep(0.01)
