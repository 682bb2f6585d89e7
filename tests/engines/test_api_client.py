"""A worker's connection to web servers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import cast

import httpx2
import msgspec
import pytest

from aiosched.core.values.worker_messages import WorkerHeartbeat, WorkerHeartbeatAnswer
from aiosched.errors import AttemptStopped
from aiosched.executors.engines.api_client import ApiClient
from tests.patience import PATIENCE

BEAT = WorkerHeartbeat(worker="w", tokens=[])


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "https://127.0.0.1:1"])
async def test_a_server_that_cannot_be_reached_is_asked_again_as_long_as_that_is_of_use(url: str) -> None:
    client, asked = ApiClient([url]), 0

    def goes_on() -> bool:
        nonlocal asked
        asked += 1
        return asked < 2

    with pytest.raises(AttemptStopped, match=f"could not reach the worker API for as long as its lease: {url}: "):
        await client.post("heartbeat", BEAT, WorkerHeartbeatAnswer, goes_on=goes_on)
    await client.close()


@contextlib.asynccontextmanager
async def mute(*, until: int) -> AsyncIterator[str]:
    """A server that takes every request, and answers only from the connection of this number on; its address."""
    connections, serving = 0, list[asyncio.Task[None]]()
    answer = msgspec.msgpack.encode(WorkerHeartbeatAnswer(attempts=[], lease=30.0))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        serving.append(cast("asyncio.Task[None]", asyncio.current_task()))
        if connections >= until:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.gather(*serving)


@pytest.mark.parametrize("transport", [None, "httpx2"])
async def test_a_request_with_a_limit_is_asked_again_and_waits_for_no_other(transport: str | None) -> None:
    """Behind a network that swallows what is sent, heartbeats came too late for the lease."""
    others = 25  # more than may be asked at a time
    async with mute(until=22) as url:
        client = ApiClient([url], transport=transport and httpx2.AsyncHTTPTransport())
        asking = [
            asyncio.create_task(client.post("call", BEAT, WorkerHeartbeatAnswer, goes_on=lambda: True))
            for _ in range(others)
        ]
        async with asyncio.timeout(PATIENCE):
            answer = await client.post("heartbeat", BEAT, WorkerHeartbeatAnswer, limit=0.2, goes_on=lambda: True)
        assert answer.lease == 30.0
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await client.close()


async def test_a_worker_that_has_stopped_asks_nothing_more() -> None:
    client = ApiClient(["http://127.0.0.1:1"])
    await client.close()
    with pytest.raises(AttemptStopped, match="has stopped"):
        await client.post("heartbeat", BEAT, WorkerHeartbeatAnswer, goes_on=lambda: True)
