"""A worker that asks, reports and fires without end: it has its part of the scheduler's loop, and no more.

Code of authors can send whatever it likes over the socket of its worker.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiosched.core.values import allowance
from aiosched.core.values.allowance import AT_ONCE, MOST_AT_ONCE, MOST_REFS, MOST_WAITING, Allowance, at_once
from aiosched.core.values.messages import AssetTouch, AttemptKey, Deferral, Outcome, Report, XComRef, XComValue
from aiosched.core.values.received_reports import received
from aiosched.executors.local.service_calls import ServiceCalls
from aiosched.executors.local.worker_link import WorkerLink
from aiosched.executors.worker.protocol import (
    Ended,
    FrameReader,
    Ready,
    ServiceCall,
    ServiceResult,
    Withdraw,
    XComCall,
    XComResult,
    frame,
)
from tests.executors.attempt_builders import FakeServices, Reports, StartLocal, attempt, write_dag
from tests.executors.test_forged_messages import NOW_OF_SPEAKER, SPEAKER
from tests.patience import until


class Line(asyncio.Transport):
    """The socket of a worker: what was written to it, and whether it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = True
        self.said: list[Any] = []
        self._reader = FrameReader()

    def is_closing(self) -> bool:
        return False

    def write(self, data: Any) -> None:
        self.said += self._reader.feed(data)

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


class Hears:
    """Takes what links say, and has calls answered."""

    def __init__(self, answers: ServiceCalls | None = None) -> None:
        self.heard: list[Any] = []
        self._answers = answers

    def worker_asks(self, link: WorkerLink, call: XComCall | ServiceCall | Withdraw) -> None:
        self.heard.append(call)
        if self._answers is not None:
            self._answers.give(link, call)

    def __getattr__(self, name: str) -> Any:
        return lambda *said: self.heard.append((name, *said))


class Gate(FakeServices):
    """Services that answer when they are let, and know how many calls they have at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = self.most = self.asked = 0
        self.open = asyncio.Event()

    async def _pass(self) -> None:
        self.asked += 1
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await self.open.wait()
        finally:
            self.inside -= 1

    async def call(self, run: int, name: str, args: str) -> str:
        if name == "echo":
            return args
        await self._pass()
        return "{}"

    async def get_xcoms(self, run: int, refs: Any) -> list[list[tuple[int, str]]]:
        await self._pass()
        return [[] for _ in refs]


@pytest.fixture
def services() -> Gate:
    """For `start_local`, too."""
    return Gate()


class Timer:
    """A timer whose time the test lets come."""

    def cancel(self) -> None:
        pass


async def turns_until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something is so."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not come about")


def link_of(listener: Any, *runs: int, is_async: bool = False) -> tuple[WorkerLink, Line]:
    """A worker that runs an attempt of each of these runs."""
    link, line = WorkerLink(runs[0], is_async=is_async, listener=listener), Line()
    link._transport = line
    for run in runs:
        one = attempt("t", number=run, is_async=is_async)
        link.attempts[one.key] = one
    return link, line


def bytes_of(*messages: Any) -> bytes:
    return b"".join(map(frame, messages))


FLOODS: dict[str, Any] = {
    "calls": lambda n: ServiceCall(n, 1, "slow", "{}"),
    "xcoms": lambda n: XComCall(n, 1, [XComRef("t")]),
    "calls of others": lambda n: ServiceCall(n, 2, "slow", "{}"),
    "withdrawals": Withdraw,
    "starts": lambda n: Ready(),
    "ends of others": lambda n: Ended(
        [Report(key=AttemptKey(2, 0, -1, 1), outcome=Outcome.SUCCESS, at=NOW_OF_SPEAKER)]
    ),
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_others_have_their_turn_between_some_messages_and_the_next(flood: Any) -> None:
    listener = Hears()
    link, line = link_of(listener, 1)
    link._take = listener.heard.append  # type: ignore[assignment, method-assign]
    turns: list[int] = []

    def turn() -> None:
        turns.append(len(listener.heard))
        if len(listener.heard) < 1_000:
            asyncio.get_running_loop().call_soon(turn)

    link.data_received(bytes_of(*map(flood, range(1_000))))
    assert not line.reads
    turn()
    await turns_until(lambda: line.reads)

    assert len(listener.heard) == 1_000
    assert max(after - before for before, after in itertools.pairwise(turns)) <= 100


@pytest.mark.parametrize("flood", ["calls", "xcoms"])
async def test_a_worker_that_asks_without_end_has_few_questions_at_a_time_and_is_not_read_further(
    flood: str, caplog: pytest.LogCaptureFixture
) -> None:
    services = Gate()
    answers = ServiceCalls(services)
    (hostile, line), (other, quiet) = link_of(Hears(answers), 1), link_of(Hears(answers), 2)
    hostile.data_received(bytes_of(*(FLOODS[flood](number) for number in range(3_000))))
    await turns_until(lambda: len(answers._asking[hostile].waiting) >= MOST_WAITING)

    other.data_received(bytes_of(ServiceCall(1, 2, "echo", '"answered"')))
    await turns_until(lambda: bool(quiet.said))
    for _ in range(100):  # turns in which nothing more is begun
        await asyncio.sleep(0)

    assert quiet.said == [ServiceResult(1, '"answered"')]
    assert (line.reads, services.most, line.said) == (False, AT_ONCE, [])
    assert "calls services faster than they answer" in caplog.text
    assert len(caplog.records) == 1
    services.open.set()
    await turns_until(lambda: len(line.said) == 3_000)
    assert line.reads
    assert {message.number for message in line.said} == set(range(3_000))
    await answers.close()


async def test_what_is_beyond_the_allowance_is_answered_when_there_is_some_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(allowance, "WITHOUT_PAUSE", 10)
    loop = asyncio.get_running_loop()
    pauses: list[float] = []
    later: list[Callable[[], object]] = []
    monkeypatch.setattr(loop, "time", lambda: 1_000.0 + sum(pauses))
    answers = ServiceCalls(Gate())
    link, line = link_of(Hears(answers), 1)

    def call_later(pause: float, ask: Any, *args: Any) -> Any:
        later.append(lambda: (pauses.append(pause), ask(*args)))
        return Timer()

    monkeypatch.setattr(loop, "call_later", call_later)
    link.data_received(bytes_of(*(ServiceCall(number, 1, "echo", "1") for number in range(13))))
    for wanted in (10, 11, 12, 13):
        await turns_until(lambda wanted=wanted: len(line.said) == wanted)  # type: ignore[misc]
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(line.said) == wanted
        if wanted < 13:
            later.pop()()
    assert pauses == pytest.approx([1 / 300] * 3)
    await answers.close()


async def test_a_question_that_waits_can_be_withdrawn_and_goes_with_its_worker() -> None:
    services = Gate()
    answers = ServiceCalls(services)
    link, line = link_of(Hears(answers), 1)
    link.data_received(
        bytes_of(*(ServiceCall(number, 1, "slow", "{}") for number in range(20)), Withdraw(19), Withdraw(0))
    )
    await asyncio.sleep(0)
    services.open.set()
    await turns_until(lambda: len(line.said) == 18)
    assert {message.number for message in line.said} == set(range(1, 19))
    assert services.asked <= 19

    services.open.clear()
    link.data_received(bytes_of(*(ServiceCall(number, 1, "slow", "{}") for number in range(100, 200))))
    await asyncio.sleep(0)
    link.connection_lost(None)
    answers.gone(link)
    link.data_received(bytes_of(ServiceCall(300, 1, "slow", "{}")))
    for _ in range(10):
        await asyncio.sleep(0)
    assert (services.inside, answers._asking) == (0, {})


async def test_a_worker_of_many_coroutines_asks_for_each_of_them() -> None:
    services = Gate()
    answers = ServiceCalls(services)
    link, _ = link_of(Hears(answers), *range(1, 11), is_async=True)
    link.data_received(bytes_of(*(ServiceCall(number, 1 + number % 10, "slow", "{}") for number in range(90))))
    for _ in range(20):
        await asyncio.sleep(0)
    assert services.inside == 10 * AT_ONCE
    await answers.close()
    assert services.inside == 0


async def test_two_questions_of_one_number_are_one() -> None:
    services = Gate()
    answers = ServiceCalls(services)
    link, line = link_of(Hears(answers), 1)
    link.data_received(bytes_of(*(ServiceCall(7, 1, "slow", "{}") for _ in range(500))))
    for _ in range(2_000):
        await asyncio.sleep(0)
    assert services.inside == 1
    services.open.set()
    await turns_until(lambda: bool(line.said))
    assert line.said == [ServiceResult(7, "{}")]
    await answers.close()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (XComCall(1, 1, [XComRef("t")] * (MOST_REFS + 1)), "One call names at most 10,000 XComs, not 10,001"),
        (ServiceCall(1, 1, "echo", "1" * 1_001), "What 'echo' is asked has 1,001 characters, the limit is 1,000"),
    ],
)
async def test_a_question_that_is_too_large_is_refused(
    call: XComCall | ServiceCall, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiosched.executors.local.service_calls.LARGEST", 1_000)
    answers = ServiceCalls(FakeServices())
    link, line = link_of(Hears(answers), 1)
    link.data_received(frame(call))
    (said,) = line.said
    assert isinstance(said, XComResult | ServiceResult)
    assert (said.error or "").startswith(words)


async def test_refusals_fill_no_log(caplog: pytest.LogCaptureFixture) -> None:
    answers = ServiceCalls(FakeServices())
    link, line = link_of(Hears(answers), 1)
    link.data_received(bytes_of(*(ServiceCall(number, 2, "echo", "{}") for number in range(2_500))))
    await turns_until(lambda: len(line.said) == 2_500)
    assert [record.args[-1] for record in caplog.records if record.args] == [1, 10, 100, 1_000]


def test_who_asks_one_thing_after_the_other_is_never_slowed() -> None:
    """A call takes about a millisecond and more; a day of them at 300 a second, after the first 5,000."""
    left, now = Allowance(0.0), 0.0
    for _ in range(allowance.WITHOUT_PAUSE):
        assert left.take(now, 1) == 0.0
    assert left.take(now, 1) == pytest.approx(1 / 300)
    for _ in range(100_000):
        now += 1 / 300
        assert left.take(now + 1e-6, 1) == 0.0
    assert left.take(now + 3_600, 1) == 0.0
    assert left.used == 1.0


def test_an_allowance_is_for_each_attempt_up_to_a_limit() -> None:
    for attempts, share in {0: 1, 1: 1, 3: 3, 32: 32, 1_000: 32}.items():
        left = Allowance(0.0)
        taken = 0
        while left.take(0.0, attempts) == 0.0:
            taken += 1
        assert taken == share * allowance.WITHOUT_PAUSE
        assert at_once(attempts) == min(AT_ONCE * share, MOST_AT_ONCE)


def report_of(**facts: Any) -> Report:
    return Report(key=AttemptKey(1, 0, -1, 1), outcome=Outcome.SUCCESS, at=NOW_OF_SPEAKER, **facts)


@pytest.mark.parametrize(
    ("facts", "fits"),
    [
        ({"xcoms": (XComValue("k", "1" * 100),)}, True),
        ({"xcoms": (XComValue("k", "1" * 101),)}, False),
        ({"xcoms": tuple(XComValue(f"k{n}", "1" * 100) for n in range(16))}, True),
        ({"xcoms": tuple(XComValue(f"k{n}", "1" * 100) for n in range(17))}, False),
        ({"details": "x" * 2**24}, True),
        ({"details": "x" * 2**24, "map_label": "y"}, False),
        ({"rendered": "x" * 2**25}, False),
        ({"hostname": "x" * 2**25}, False),
        ({"source": "x" * 2**25}, False),
        ({"xcoms": (XComValue("k" * 2**25, "1"),)}, False),
        ({"deferral": Deferral(classpath="c", kwargs="x" * 2**25, next_method="m")}, False),
        ({"assets": (AssetTouch(name="a", uri="a", extra="x" * 1_601),)}, False),
    ],
)  # fmt: skip
def test_values_that_no_worker_sends_are_no_result(facts: dict[str, Any], fits: bool) -> None:
    report = report_of(**facts)
    found = received(report, attempt("t", number=1), 100)
    if fits:
        assert found is report
    else:
        assert (found.outcome, found.xcoms, found.rendered) == (Outcome.FAILED, (), None)
        assert len(msgspec.json.encode(found)) < 1_000


async def test_a_task_that_floods_its_scheduler_slows_nobody_but_itself(
    start_local: StartLocal, dags_folder: Path, reports: Reports, services: Gate
) -> None:
    """From a real process, with all kinds of messages; a task of another team asks and ends meanwhile."""
    flood = """
    from speaker import *
    from aiosched.executors.worker.protocol import XComCall
    def flood():
        for n in range(2**40):
            for message in (
                ServiceCall(n, 2, "slow", "{}"), XComCall(n, 2, [XComRef("t")]), ServiceCall(n, 1, "slow", "{}"),
                Ready(), FieldsRendered(AttemptKey(2, 0, -1, 1), '{"n": 1}'), Withdraw(2**60),
                Fired(n, report("failed")),
            ):
                speaker().send(message)
    task(flood)
    """
    write_dag(dags_folder, flood)
    dags_folder.joinpath("speaker.py").write_text(SPEAKER)
    asks = "async def asks(): return [await running_services().acall('echo') for _ in range(50)]\ntask(asks)"
    write_dag(dags_folder, f"from aiosched.authoring.runtime.services import running_services\n{asks}", name="v")
    executor = await start_local()
    author = attempt("flood", number=2, team="red")
    executor.submit([author])
    await until(lambda: services.inside == AT_ONCE)

    for number in (3, 4):
        victim = attempt("asks", number=number, file="v.py", dag_id="v", team="blue", is_async=True)
        executor.submit([victim])
        assert (await reports.of(victim)).outcome is Outcome.SUCCESS

    assert services.most == AT_ONCE
    assert not [report for report in reports.final if report.key == author.key]
    await executor.cancel(author.key, 0.1)
    assert (await reports.of(author)).outcome is Outcome.FAILED
