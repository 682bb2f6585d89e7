"""Looking after the embedded server: what is said, and when it is started again."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path

import psutil
import pytest

from aiosched.db.server import embedded_watch
from aiosched.db.server.embedded import EmbeddedPostgres, ServerState
from aiosched.db.server.embedded_watch import kept_running, pause_before
from aiosched.db.server.postmaster import read_postmaster
from aiosched.errors import DatabaseError
from tests.patience import PATIENCE


class FakeServer(EmbeddedPostgres):
    """Stands as the test says, check by check; then its folder is gone, which ends the watch."""

    def __init__(self, *standings: ServerState, fails: int = 0) -> None:
        super().__init__(Path("/nowhere/pg"))
        self.standings, self.fails = list(standings), fails
        self.starts: list[float] = []
        self.stopped = 0

    def check(self) -> ServerState:
        return self.standings.pop(0) if self.standings else ServerState.FOLDER_GONE

    def last_lines(self) -> str:
        return "FATAL: the disk is full"

    async def start(self) -> str:
        self.starts.append(asyncio.get_running_loop().time())
        if len(self.starts) <= self.fails:
            raise DatabaseError("The embedded PostgreSQL did not start: no room.")
        return ""

    async def stop(self) -> None:
        self.stopped += 1


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_watch, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(embedded_watch, "pause_before", lambda again: 0.05 if again else 0.0)


async def watch(server: FakeServer) -> str:
    with pytest.raises(DatabaseError) as caught:
        async with kept_running(server):
            await asyncio.Event().wait()
    return str(caught.value)


async def test_a_server_that_runs_is_left_alone() -> None:
    server = FakeServer(ServerState.RUNS, ServerState.RUNS)

    await watch(server)

    assert server.starts == []


async def test_one_that_ended_is_started_once_and_the_end_of_its_log_is_told(caplog: pytest.LogCaptureFixture) -> None:
    server = FakeServer(ServerState.RUNS, ServerState.ENDED, ServerState.RUNS)

    with caplog.at_level(logging.WARNING, "aiosched.db"):
        await watch(server)

    assert len(server.starts) == 1
    ended, again = [record.getMessage() for record in caplog.records]
    assert ended.endswith("has ended and is restarted now. Its log ends with: FATAL: the disk is full")
    assert again.endswith("is running again")


async def test_one_that_ends_again_waits_before_the_next_start_and_a_failed_start_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = FakeServer(*[ServerState.ENDED] * 1000, fails=1)

    with caplog.at_level(logging.WARNING, "aiosched.db"):
        async with asyncio.timeout(PATIENCE):
            watching = asyncio.create_task(watch(server))
            while len(server.starts) < 2:  # noqa: ASYNC110  # there is no event for it
                await asyncio.sleep(0.001)
            server.standings.clear()
            await watching

    assert server.starts[1] - server.starts[0] >= 0.05
    messages = [record.getMessage() for record in caplog.records]
    assert "The embedded PostgreSQL did not start: no room." in messages
    assert any("is restarted in 0.05 s" in message for message in messages)


async def test_a_folder_that_is_gone_is_told_with_what_to_do_and_the_server_is_left() -> None:
    server = FakeServer()

    said = await watch(server)

    assert "/nowhere/pg of the embedded database was renamed or removed" in said
    assert "Restore the folder" in said
    assert (server.starts, server.stopped) == ([], 1)


async def test_what_goes_wrong_because_the_folder_is_gone_is_told_as_that() -> None:
    with pytest.raises(DatabaseError, match="renamed or removed") as caught:
        async with kept_running(FakeServer()):
            raise FileNotFoundError("base/5/1259")

    assert isinstance(caught.value.__cause__, ExceptionGroup)


async def test_what_else_goes_wrong_is_told_as_it_is() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with kept_running(FakeServer(*[ServerState.RUNS] * 10_000)):
            raise ValueError("boom")

    assert caught.group_contains(ValueError, match="boom")


async def test_without_an_embedded_server_there_is_nothing_to_look_after() -> None:
    with pytest.raises(ValueError, match="boom"):
        async with kept_running(None):
            raise ValueError("boom")


async def test_a_block_that_ends_by_itself_ends_the_watch() -> None:
    async with kept_running(FakeServer(*[ServerState.RUNS] * 10_000)):
        pass


async def test_a_start_that_is_under_way_is_finished_before_the_block_ends() -> None:
    begun, may_go_on = asyncio.Event(), asyncio.Event()

    class SlowServer(FakeServer):
        is_up = False

        async def start(self) -> str:
            begun.set()
            await may_go_on.wait()
            self.is_up = True
            return ""

    server = SlowServer(*[ServerState.ENDED] * 10_000)

    async def use() -> bool:
        async with kept_running(server):
            await begun.wait()
        return server.is_up

    using = asyncio.create_task(use())
    await begun.wait()
    await asyncio.wait({using}, timeout=0.01)
    may_go_on.set()

    assert await using


async def test_two_that_use_a_server_start_it_once_and_the_last_one_stops_it(short_path: Path) -> None:
    first, second = (EmbeddedPostgres(short_path / "pg", durable=False) for _ in range(2))
    for each in (first, second):
        await each.start()
    killed = pid_of(first)

    async with kept_running(first), kept_running(second):
        os.kill(killed, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            while pid_of(first) == killed or {first.check(), second.check()} != {ServerState.RUNS}:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        again = pid_of(first)
    running = psutil.process_iter(["name", "cmdline"])
    folder = str(first.data_dir)  # its keeper names it, too
    servers = {
        each.pid for each in running if each.info["name"] == "postgres" and folder in (each.info["cmdline"] or ())
    }
    await first.stop()
    stays = second.check()
    await second.stop()

    assert servers == {again}
    assert stays is ServerState.RUNS
    assert pid_of(second) == 0


def pid_of(server: EmbeddedPostgres) -> int:
    """The process of a server, as its folder has it; 0 while there is none."""
    found = read_postmaster(server.data_dir)
    return 0 if found is None else found.pid


def test_pauses_grow_to_a_minute() -> None:
    assert [pause_before(again) for again in (0, 1, 2, 3, 6, 7, 10_000)] == [0, 1, 2, 4, 32, 60, 60]
