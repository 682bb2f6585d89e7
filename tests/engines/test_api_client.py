"""A worker's connection to web servers."""

from __future__ import annotations

import pytest

from aiosched.core.values.worker_messages import WorkerHeartbeat, WorkerHeartbeatAnswer
from aiosched.errors import AttemptStopped
from aiosched.executors.engines.api_client import ApiClient

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


async def test_a_worker_that_has_stopped_asks_nothing_more() -> None:
    client = ApiClient(["http://127.0.0.1:1"])
    await client.close()
    with pytest.raises(AttemptStopped, match="has stopped"):
        await client.post("heartbeat", BEAT, WorkerHeartbeatAnswer, goes_on=lambda: True)
