"""Ctrl-C once, twice, three times."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import pytest

from aiosched.cli.serve.stopping import STOPPING, RunningAttempt, StopRequests, end


@dataclass
class FakeScheduler:
    """Drains when a test says so and writes down how it was stopped."""

    running: list[RunningAttempt] = field(default_factory=list)
    drained: asyncio.Event = field(default_factory=asyncio.Event)
    calls: list[tuple[str, float]] = field(default_factory=list)

    async def drain(self, grace: float) -> None:
        self.calls.append(("drain", grace))
        await self.drained.wait()

    async def stop(self, grace: float) -> None:
        self.calls.append(("stop", grace))

    def running_attempts(self) -> list[RunningAttempt]:
        return self.running


LOAD: RunningAttempt = ("sales", "r1", "load", 12.0)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_one_request_drains_and_then_stops(capsys: pytest.CaptureFixture[str]) -> None:
    scheduler, requests = FakeScheduler([LOAD]), StopRequests()

    ending = asyncio.ensure_future(end(scheduler, requests, grace=30))
    await settle()
    scheduler.running = []
    scheduler.drained.set()

    assert await ending is True
    assert scheduler.calls == [("drain", 30), ("stop", 0.0)]
    assert capsys.readouterr().err == "stopping: 1 task still runs, 30 s left: sales load (12.0 s)\n"


@pytest.mark.slow(but_first=True)
@pytest.mark.usefixtures("hangup")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_is_a_request_to_drain(number: signal.Signals) -> None:
    requests, before = StopRequests(), signal.getsignal(signal.SIGINT)
    requests.install()
    try:
        os.kill(os.getpid(), number)
        await requests.asked.wait()

        assert requests.count == 1
    finally:
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().remove_signal_handler(each)
        signal.signal(signal.SIGINT, before)


async def test_a_closed_terminal_stops_nothing_that_nohup_has_started() -> None:
    requests, before = StopRequests(), signal.getsignal(signal.SIGINT)
    usual = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    requests.install()
    try:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        await requests.asked.wait()

        assert requests.count == 1
    finally:
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(each)
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGHUP, usual)


def _wait(told: Connection) -> None:
    told.send("waits")
    signal.pause()


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
@pytest.mark.parametrize("by_thread", [False, True], ids=["of the loop", "of a thread"])
@pytest.mark.parametrize("early", [False, True], ids=["that waits", "that has just been forked"])
async def test_a_signal_for_a_forked_child_ends_the_child_and_not_its_parent(
    number: signal.Signals, by_thread: bool, early: bool
) -> None:
    requests, before = StopRequests(), {each: signal.getsignal(each) for each in STOPPING}
    requests.install()
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_wait, args=(theirs,))

    def end_child() -> int | None:
        child.start()
        if not early:
            ours.recv()
        os.kill(child.pid or 0, number)
        child.join()
        return child.exitcode

    try:
        code = await asyncio.to_thread(end_child) if by_thread else end_child()
        await settle()
    finally:
        for each in STOPPING:
            asyncio.get_running_loop().remove_signal_handler(each)
            signal.signal(each, before[each])

    assert (code, requests.count) == (-number, 0)


async def test_what_outlives_the_grace_is_named_and_ended(capsys: pytest.CaptureFixture[str]) -> None:
    scheduler, requests = FakeScheduler([LOAD]), StopRequests()
    scheduler.drained.set()

    assert await end(scheduler, requests, grace=0.5) is False

    assert scheduler.calls == [("drain", 0.5), ("stop", 0.0)]
    assert "1 task did not finish within 500 ms and will be ended: sales load (12.0 s)" in capsys.readouterr().err


async def test_a_second_request_ends_what_runs_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    scheduler, requests = FakeScheduler([LOAD]), StopRequests()
    requests.ask()

    ending = asyncio.ensure_future(end(scheduler, requests, grace=30))
    await settle()
    requests.ask()

    assert await ending is False
    assert scheduler.calls == [("drain", 30), ("stop", 0.0)]
    assert "ending 1 task: TERM now, KILL in 5.0 s" in capsys.readouterr().err


async def test_a_second_request_that_finds_nothing_running_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """As two terminals of `docker compose up` send it: nobody's task was ended, so that is a clean end."""
    scheduler, requests = FakeScheduler(), StopRequests()
    requests.ask()

    ending = asyncio.ensure_future(end(scheduler, requests, grace=30))
    await settle()
    requests.ask()

    assert await ending is True
    assert scheduler.calls == [("drain", 30), ("stop", 0.0)]
    assert capsys.readouterr().err == ""


async def test_the_third_request_exits_with_130() -> None:
    codes: list[int] = []
    requests = StopRequests(exit_now=codes.append)

    for _ in range(3):
        requests.ask()

    assert requests.asked.is_set()
    assert requests.insisted.is_set()
    assert codes == [130]


async def test_a_failing_drain_is_raised() -> None:
    class Broken(FakeScheduler):
        async def drain(self, grace: float) -> None:
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        await end(Broken(), StopRequests(), grace=1)


async def test_the_countdown_names_a_few_and_counts_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    scheduler = FakeScheduler([("sales", "r1", f"t{n}", 1.0) for n in range(7)])

    ending = asyncio.ensure_future(end(scheduler, StopRequests(), grace=30))
    await settle()
    scheduler.running = []
    scheduler.drained.set()
    await ending

    assert "7 tasks still run" in (said := capsys.readouterr().err)
    assert "sales t4 (1.0 s) and 2 more" in said
