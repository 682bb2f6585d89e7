"""A start of the embedded server that is cancelled, as by Ctrl-C, leaves no server that nobody stops."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from aiosched.db.server import embedded
from aiosched.db.server.embedded import EmbeddedPostgres, ServerState, embedded_data_dir
from aiosched.db.server.postmaster import ServerAnswer, end_process

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="function")]  # its threads are to end


def servers_on(data_dir: Path) -> list[psutil.Process]:
    """The PostgreSQL servers that were started on a data directory."""
    running = psutil.process_iter(["cmdline"])
    return [each for each in running if (each.info["cmdline"] or [])[1:3] == ["-D", str(data_dir)]]


@pytest.fixture
def data_dir(short_path: Path) -> Iterator[Path]:
    """A data directory; servers that still run on it at the end are ended."""
    folder = embedded_data_dir(short_path)
    yield folder
    for server in servers_on(folder):
        end_process(server.pid, {signal.SIGQUIT: 10.0, signal.SIGKILL: 10.0})


class Hold:
    """Holds the thread of a start where it calls `place`, until the test lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, place: str) -> None:
        self.reached, self._may_go_on = asyncio.Event(), threading.Event()
        self._loop, self._call = asyncio.get_running_loop(), getattr(owner, place)
        monkeypatch.setattr(owner, place, self._held())

    def _held(self) -> Callable[..., Any]:
        def held(*args: Any) -> Any:
            self._loop.call_soon_threadsafe(self.reached.set)
            self._may_go_on.wait()
            return self._call(*args)

        return held

    def go_on(self) -> None:
        self._may_go_on.set()


async def all_threads_end() -> None:
    """Wait until the threads of `asyncio.to_thread` have done their work, as a process does before it exits."""
    await asyncio.get_running_loop().shutdown_default_executor()


@pytest.mark.parametrize("place", ["_running", "_initialise", "_spawn", "_wait_until_ready", "_sibling"])
async def test_a_start_that_is_cancelled_leaves_no_server(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    hold = Hold(monkeypatch, EmbeddedPostgres, place)
    starting = asyncio.create_task(EmbeddedPostgres(data_dir, durable=False).start())
    await hold.reached.wait()

    starting.cancel()
    await asyncio.wait({starting}, timeout=0.0)
    is_over = starting.done()
    hold.go_on()
    await asyncio.wait({starting})
    left = servers_on(data_dir)
    await all_threads_end()

    assert starting.cancelled()
    assert not is_over  # the cancellation goes on when all is undone
    assert (left, servers_on(data_dir)) == ([], [])


async def test_a_start_is_undone_also_if_nobody_waits_for_that(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hold = Hold(monkeypatch, EmbeddedPostgres, "_wait_until_ready")
    starting = asyncio.create_task(EmbeddedPostgres(data_dir, durable=False).start())
    await hold.reached.wait()

    for _ in range(2):
        starting.cancel()
        await asyncio.wait({starting}, timeout=0.01)
    is_over = starting.done()
    hold.go_on()
    await all_threads_end()

    assert is_over  # a second Ctrl-C waits for nothing
    assert servers_on(data_dir) == []


async def test_a_cancelled_start_leaves_the_server_to_its_other_users(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (EmbeddedPostgres(data_dir, durable=False) for _ in range(2))
    await first.start()
    hold = Hold(monkeypatch, EmbeddedPostgres, "_running")
    starting = asyncio.create_task(second.start())
    await hold.reached.wait()

    starting.cancel()
    hold.go_on()
    await asyncio.wait({starting})
    stays = first.check()
    await first.stop()

    assert stays is ServerState.RUNS
    assert servers_on(data_dir) == []


async def test_a_server_that_does_not_get_ready_is_not_waited_for(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, loop = asyncio.Event(), asyncio.get_running_loop()

    def never_ready(_: Path) -> ServerAnswer:  # as in a recovery that takes long
        loop.call_soon_threadsafe(asked.set)
        return ServerAnswer.NOT_NOW

    monkeypatch.setattr(embedded, "ask", never_ready)
    starting = asyncio.create_task(EmbeddedPostgres(data_dir, durable=False).start())
    await asked.wait()

    starting.cancel()
    await asyncio.wait({starting})

    assert servers_on(data_dir) == []


async def test_a_start_that_waits_for_another_process_can_be_cancelled(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, loop = asyncio.Event(), asyncio.get_running_loop()

    def taken(_: object) -> bool:
        loop.call_soon_threadsafe(tried.set)
        return False

    monkeypatch.setattr(embedded, "_try_lock", taken)
    starting = asyncio.create_task(EmbeddedPostgres(data_dir).start())
    await tried.wait()

    starting.cancel()
    await asyncio.wait({starting})
    await all_threads_end()

    assert starting.cancelled()
    assert servers_on(data_dir) == []
