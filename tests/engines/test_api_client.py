"""A worker's connection to web servers."""

from __future__ import annotations

import pytest

from aiosched.core.values.worker_messages import WorkerHeartbeat, WorkerHeartbeatAnswer
from aiosched.errors import AttemptStopped
from aiosched.executors.engines.api_client import ApiClient

BEAT = WorkerHeartbeat(worker="w", tokens=[])


async def test_a_worker_that_has_stopped_asks_nothing_more() -> None:
    client = ApiClient(["http://127.0.0.1:1"])
    await client.close()
    with pytest.raises(AttemptStopped, match="has stopped"):
        await client.post("heartbeat", BEAT, WorkerHeartbeatAnswer, goes_on=lambda: True)
