"""What a process that talks to Dask may say to its scheduler, if the code of an attacker speaks there."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from aiosched import leftovers
from aiosched.config import Settings
from aiosched.executors.engines import dask_engine
from aiosched.executors.engines.dask_engine import DaskEngine, DaskLink
from aiosched.executors.engines.dask_messages import DaskJob, Done, Ended, Holds, Look, Seen, Send, ToDask, to_dask
from aiosched.executors.engines.engine import EngineUnavailable
from aiosched.executors.local.guarded_process import GuardedProcess
from aiosched.executors.worker.protocol import FramesOf, frame
from tests.engines.test_engine_attempts import until
from tests.patience import PATIENCE


class Pair:
    """A link, and the other end of it."""

    def __init__(self) -> None:
        self.ended = list[tuple[int, str]]()
        self.link = DaskLink(lambda job, reason: self.ended.append((job, reason)))
        self._frames = FramesOf(to_dask)

    async def connect(self) -> Pair:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        self.theirs, loop = theirs, asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: self.link, sock=ours)
        return self

    async def say(self, *said: Any) -> None:
        for each in said:
            data = each if isinstance(each, bytes) else frame(each)
            await asyncio.get_running_loop().sock_sendall(self.theirs, data)

    async def heard(self) -> ToDask:
        while True:
            data = await asyncio.get_running_loop().sock_recv(self.theirs, 65_536)
            for message in self._frames.feed(data):
                return message

    async def given(self, *numbers: int) -> asyncio.Task[Seen | Done]:
        """A question that gives it these jobs; it is number 1."""
        jobs = [DaskJob(number, f"aiosched-{number}", "default", False, b"{}") for number in numbers]
        asking = asyncio.create_task(self.link.ask(lambda number: Send(number, jobs, False)))
        await self.heard()
        return asking


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    made = await Pair().connect()
    yield made
    made.link.close("the test has ended")
    made.theirs.close()


def raw(message: Any) -> bytes:
    """A frame of anything."""
    data = msgspec.msgpack.encode(message)
    return struct.pack(">I", len(data)) + data


FORBIDDEN = {
    "an end of a job that it was not given": [Ended(2, "failed")],
    "a second end": [Ended(1, "failed"), Ended(1, "failed")],
    "an end of a job that is at a worker": [Done(1, [], ""), Ended(1, "failed")],
    "an answer without a question": [Done(2, [], "")],
    "a second answer": [Done(1, [1], ""), Done(1, [1], "")],
    "an answer of another kind": [Seen(1, 0, [])],
    "a job that was not asked about": [Done(1, [2], "")],
    "a job twice": [Done(1, [1, 1], "")],
    "a message of the scheduler's": [Look(1)],
    "another state of a job": [raw(["Succeeded", 1, "returned"])],
    "another type": [raw(["Ended", "1", None])],
    "a negative number": [raw(["Ended", -1, None])],
    "a long reason": [raw(["Ended", 1, "x" * 100_000])],
    "many jobs": [raw(["Done", 1, list(range(100_001)), ""])],
    "too many threads": [raw(["Seen", 1, 2**40, [], ""])],
    "a map": [raw({"type": "Ended", "job": 1})],
    "no message": [b"\0\0\0\x03abc"],
    "a pickle": [raw(b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.")],
    "deeply nested": [struct.pack(">I", 100_001) + b"\x91" * 100_000 + b"\xc0"],
    "deeply nested behind its fields": [struct.pack(">I", 100_010) + b"\x94\xa5Ended\x01\xc0" + b"\x91" * 100_001],
    "a frame of two gigabytes": [b"\x7f\xff\xff\xff"],
    "a frame of more than a megabyte": [struct.pack(">I", 1_048_577)],
}  # fmt: skip


@pytest.mark.parametrize("what", FORBIDDEN)
async def test_what_it_may_not_say_ends_it(pair: Pair, what: str) -> None:
    asking = await pair.given(1)
    await pair.say(*FORBIDDEN[what])
    assert "it said what it may not" in await asyncio.wait_for(pair.link.lost, PATIENCE)
    await asyncio.gather(asking, return_exceptions=True)
    assert asking.done()
    assert pair.ended in ([], [(1, "failed")])
    with pytest.raises(EngineUnavailable):
        await pair.link.ask(Look)


async def test_it_says_of_a_job_once_that_its_task_failed(pair: Pair) -> None:
    asking = await pair.given(1, 2, 3)
    await pair.say(Ended(1, "it\nfailed\x1b[2J"), Done(1, [1, 2], ""), Ended(2))
    assert await asking == Done(1, [1, 2], "")
    again = await pair.given(1)
    await pair.say(Done(2, [1], ""), Ended(1, "again"))
    await again
    await until(lambda: len(pair.ended) == 2, "the ends")
    assert pair.ended == [(1, "it failed [2J"), (1, "again")]
    assert not pair.link._given


async def test_an_answer_in_pieces_is_heard(pair: Pair) -> None:
    asking = asyncio.create_task(pair.link.ask(lambda number: Holds(number, {"aiosched-7": 7})))
    await pair.heard()
    for byte in frame(Done(1, [7], "")):
        await pair.say(bytes([byte]))
    assert await asking == Done(1, [7], "")


@pytest.mark.parametrize("said", [b"", b"\0\0\x01\0half a frame"])
async def test_one_that_does_not_answer_is_ended(pair: Pair, said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_engine, "ANSWERS_WITHIN", 0.05)
    await pair.say(said)
    with pytest.raises(EngineUnavailable):
        await pair.link.ask(Look)
    assert "has not answered" in await pair.link.lost


async def test_who_does_not_wait_changes_nothing(pair: Pair) -> None:
    asking = asyncio.create_task(pair.link.ask(Look))
    await pair.heard()
    asking.cancel()
    await pair.say(Seen(1, 0, []))
    again = asyncio.create_task(pair.link.ask(Look))
    await pair.heard()
    await pair.say(Seen(2, 4, []))
    assert await again == Seen(2, 4, [])


@pytest.fixture
def without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())


async def test_what_a_task_is_said_to_have_failed_for_ends_no_attempt_that_has_begun(
    settings: Settings, without_dask: None
) -> None:
    """Anybody in the cluster can say so: the report of its worker, or its lease, decides."""
    told = list[tuple[int, str, bool]]()
    engine = DaskEngine(settings)
    engine._ended = lambda job, reason, *, certain=True: told.append((job, reason, certain))
    engine._failed(1, "failed")
    assert told == [(1, "failed", False)]


@pytest.mark.slow
async def test_a_process_that_dies_is_started_again_and_ends_with_its_engine(
    settings: Settings, without_dask: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.dask.address = "tcp://127.0.0.1:9"
    started = list[GuardedProcess]()

    def start(*given: Any, **more: Any) -> GuardedProcess:
        started.append(GuardedProcess(*given, **more))
        return started[-1]

    monkeypatch.setattr(dask_engine, "GuardedProcess", start)
    engine = DaskEngine(settings)
    await engine.start(lambda job, reason, *, certain=True: None)
    await until(lambda: started, "the first")
    os.kill(started[0].pid, 9)
    await until(lambda: len(started) == 2 and engine.process is started[1], "the second")
    await engine.stop()
    assert [leftovers.read_process(each.pid) for each in started] == [None, None]
