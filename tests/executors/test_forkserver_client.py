"""The scheduler's side of the forkserver notices its end, on either event loop."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import psutil
import pytest
import uvloop

from aiosched.authoring.base.settings import AuthoringDefaults
from aiosched.bundles.places import CodePlaces
from aiosched.executors.local.forkserver_client import ForkserverClient
from aiosched.executors.worker.lease_deadline import LeaseDeadline
from aiosched.executors.worker.protocol import Exited, WorkerConfig
from tests.patience import PATIENCE

CONFIG = WorkerConfig(
    places=CodePlaces({"": "/nowhere"}),
    logs_folder=None,
    max_xcom_bytes=1000,
    max_log_bytes=1000,
    max_field_length=4096,
    log_level="INFO",
    import_timeout=5.0,
    defaults=AuthoringDefaults(),
    max_attempts=10,
    max_growth_bytes=1 << 30,
)


class Ears:
    def __init__(self) -> None:
        self.forked: list[int] = []
        self.lost: asyncio.Future[asyncio.Task[str]] = asyncio.get_running_loop().create_future()

    def worker_forked(self, worker: int, pid: int) -> None:
        self.forked.append(worker)

    def worker_exited(self, exited: Exited) -> None:
        raise AssertionError(f"nobody told a worker to end: {exited}")

    def forkserver_lost(self, ended: asyncio.Task[str]) -> None:
        self.lost.set_result(ended)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_forkserver_that_ends_in_the_middle_of_a_talk_is_missed(
    run: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    async def talk() -> None:
        ears, lease_deadline = Ears(), LeaseDeadline()
        client = ForkserverClient(CONFIG, ears, lease_deadline)
        ours = client.fork(1, lease_deadline.descriptor, is_async=True)
        select.select([client._control], [], [])  # it has answered, and the loop has not looked yet
        (forkserver,) = psutil.Process(client.pid).children()
        forkserver.send_signal(signal.SIGSTOP)
        client.signal(1, signal.SIGCONT)  # it will never read this

        forkserver.kill()
        os.waitid(os.P_PID, client.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222  the loop must not look before

        async with asyncio.timeout(PATIENCE):
            assert "SIGKILL" in await (await ears.lost)
        assert ears.forked == [1]
        ours.close()
        await client.close()
        lease_deadline.close()

    run(talk())


async def test_a_default_timeout_of_sockets_changes_nothing() -> None:
    """Libraries set one, for all sockets that are made from then on."""
    socket.setdefaulttimeout(0.05)
    try:
        ears, lease_deadline = Ears(), LeaseDeadline()
        client = ForkserverClient(CONFIG, ears, lease_deadline)
        ours = client.fork(1, lease_deadline.descriptor, is_async=True)
    finally:
        socket.setdefaulttimeout(None)
    async with asyncio.timeout(PATIENCE):
        while not ears.forked and not ears.lost.done():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert (ears.forked, ears.lost.done()) == ([1], False)
    ours.close()
    await client.close()
    lease_deadline.close()
