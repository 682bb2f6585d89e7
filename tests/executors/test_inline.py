"""The inline executor: attempts in the host's own process."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from aiosched import DAG, BaseOperator, PythonOperator
from aiosched.core.values.messages import Outcome
from aiosched.executors.attempt.dag_cache import FileDags
from aiosched.executors.attempt.environment import AttemptEnvironment
from aiosched.executors.inline.executor import InlineExecutor
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import FakeServices, Reports, attempt, write_dag
from tests.patience import until

StartInline = Callable[..., Awaitable[InlineExecutor]]


@pytest.fixture
async def start(services: FakeServices, reports: Reports, logs_folder: Path) -> AsyncIterator[StartInline]:
    started: list[InlineExecutor] = []

    async def begin(*functions: Callable[..., Any], **options: Any) -> InlineExecutor:
        with DAG("d", schedule=None) as dag:
            for function in functions:
                if isinstance(function, type):
                    function(task_id=function.__name__.lower())
                else:
                    PythonOperator(task_id=function.__name__, python_callable=function)
        defaults: dict[str, Any] = {"slots": 2, "kill_after": 0.1, "cleanup_time": 0.05}
        executor = InlineExecutor({"d": dag}, AttemptEnvironment(logs_folder=logs_folder), **{**defaults, **options})
        await executor.start(reports, services)
        started.append(executor)
        return executor

    yield begin
    for executor in started:
        await executor.stop(0)


async def test_coroutines_run_on_the_callers_loop_and_functions_in_threads(
    start: StartInline, reports: Reports
) -> None:
    loop, main = asyncio.get_running_loop(), threading.get_ident()
    seen: dict[str, Any] = {}

    async def later() -> int:
        seen["loop"] = asyncio.get_running_loop()
        return 1

    def plain() -> int:
        seen["thread"] = threading.get_ident()
        return 2

    executor = await start(later, plain)
    executor.submit([attempt("later", is_async=True, number=1), attempt("plain", number=2)])

    final = await reports.count(2)
    assert {(report.outcome, report.xcoms[0].value) for report in final} == {
        (Outcome.SUCCESS, "1"),
        (Outcome.SUCCESS, "2"),
    }
    assert seen["loop"] is loop
    assert seen["thread"] != main


async def test_submit_returns_before_anything_runs(start: StartInline, reports: Reports) -> None:
    async def later() -> None: ...

    executor = await start(later)
    executor.submit([attempt("later", is_async=True)])

    assert reports.all == []
    await reports.count(1)


async def test_slots_bound_the_functions_that_run_at_a_time(start: StartInline, reports: Reports) -> None:
    together = threading.Barrier(2)
    most = running = 0
    lock = threading.Lock()

    def plain() -> None:
        nonlocal most, running
        with lock:
            running += 1
            most = max(most, running)
        together.wait(10)
        with lock:
            running -= 1

    executor = await start(plain, slots=2)
    executor.submit([attempt("plain", number=n) for n in range(6)])
    assert executor.open_slots == 0

    await reports.count(6)
    assert most == 2
    assert executor.open_slots == 2


async def test_a_cancelled_coroutine_is_reported_once_it_has_cleaned_up(start: StartInline, reports: Reports) -> None:
    log: list[str] = []

    class Waits(BaseOperator):
        async def execute(self, context: Any) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                log.append("finally")

        def on_kill(self) -> None:
            log.append("on_kill")

    executor = await start(Waits)
    one = attempt("waits", is_async=True)
    executor.submit([one])
    await reports.of(one, outcome=Outcome.STARTED)

    await executor.cancel(one.key, 5)

    report = await reports.of(one)
    assert (report.outcome, report.reason) == (Outcome.FAILED, "was stopped on request")
    assert log == ["finally", "on_kill"]


async def test_what_is_cancelled_says_so_in_its_log_if_it_has_one(
    start: StartInline, reports: Reports, logs_folder: Path
) -> None:
    async def waits(run_id: str) -> None:
        if run_id == "manual__1":
            logging.getLogger("aiosched.task").info("hello")
        await asyncio.Event().wait()

    executor = await start(waits)
    speaks, is_quiet = (attempt("waits", is_async=True, number=number) for number in (1, 2))
    executor.submit([speaks, is_quiet])
    for one in (speaks, is_quiet):
        await reports.of(one, outcome=Outcome.STARTED)
        await executor.cancel(one.key, 5)
        await reports.of(one)

    *_, last = log_path(logs_folder, speaks).read_text().splitlines()
    assert last.endswith("WARNING aiosched  the attempt was told to stop")
    assert not log_path(logs_folder, is_quiet).exists()  # thousands can be cancelled at a time


async def test_a_coroutine_that_is_cancelled_before_it_begins_never_does(start: StartInline, reports: Reports) -> None:
    began: list[str] = []

    async def body() -> None:
        began.append("body")

    executor = await start(body)
    one = attempt("body", is_async=True)
    executor.submit([one])

    await executor.cancel(one.key, 3600)

    report = await reports.of(one)
    assert (report.outcome, report.reason, began) == (Outcome.FAILED, "was stopped on request", [])


async def test_a_coroutine_that_ignores_its_cancellation_is_given_up(start: StartInline, reports: Reports) -> None:
    leave = asyncio.Event()

    async def stubborn() -> None:
        while not leave.is_set():
            try:
                await leave.wait()
            except asyncio.CancelledError:
                continue

    executor = await start(stubborn)
    one = attempt("stubborn", is_async=True)
    executor.submit([one])
    await reports.of(one, outcome=Outcome.STARTED)

    await executor.cancel(one.key, 0.01)

    report = await reports.of(one)
    assert (report.outcome, report.reason) == (
        Outcome.FAILED, "was stopped on request, but still runs: this process cannot end it",
    )  # fmt: skip
    assert executor.open_async_slots == 999
    leave.set()
    await until(lambda: executor.open_async_slots == 1000)
    assert len(reports.final) == 1


async def test_a_function_is_told_by_on_kill_and_may_end_in_time(start: StartInline, reports: Reports) -> None:
    told = threading.Event()

    class Waits(BaseOperator):
        def execute(self, context: Any) -> None:
            told.wait(10)
            raise ConnectionError("the query was cancelled")

        def on_kill(self) -> None:
            told.set()

    executor = await start(Waits)
    one = attempt("waits")
    executor.submit([one])
    await reports.of(one, outcome=Outcome.STARTED)

    await executor.cancel(one.key, 10)

    report = await reports.of(one)
    assert (report.outcome, report.reason) == (Outcome.FAILED, "was stopped on request")


async def test_a_function_past_its_time_is_failed_and_keeps_its_slot_until_it_ends(
    start: StartInline, reports: Reports
) -> None:
    leave = threading.Event()

    def slow() -> None:
        leave.wait(10)

    executor = await start(slow, slots=1)
    one = attempt("slow", timeout=0.02)
    executor.submit([one])

    report = await reports.of(one)
    assert report.outcome is Outcome.FAILED
    assert report.reason == (
        "ran longer than its execution_timeout of 0.02 s; it cannot be interrupted and still runs in this process"
    )
    assert executor.open_slots == 0
    leave.set()
    await until(lambda: executor.open_slots == 1)
    assert len(reports.final) == 1


async def test_a_coroutine_past_its_time_is_cancelled_and_then_given_up(start: StartInline, reports: Reports) -> None:
    leave = asyncio.Event()

    async def polite() -> None:
        await asyncio.Event().wait()

    async def stubborn() -> None:
        while not leave.is_set():
            try:
                await leave.wait()
            except asyncio.CancelledError:
                continue

    executor = await start(polite, stubborn)
    first = attempt("polite", is_async=True, timeout=0.01, number=1)
    second = attempt("stubborn", is_async=True, timeout=0.01, number=2)
    executor.submit([first, second])

    try:
        assert (await reports.of(first)).reason == "ran longer than its execution_timeout of 0.01 s"
        assert "still runs in this process" in ((await reports.of(second)).reason or "")
    finally:
        leave.set()  # otherwise the loop of the test would wait for it for ever


async def test_cancelling_a_function_that_waits_for_a_thread(start: StartInline, reports: Reports) -> None:
    leave = threading.Event()

    def slow() -> None:
        leave.wait(10)

    executor = await start(slow, slots=1)
    first, second = attempt("slow", number=1), attempt("slow", number=2)
    executor.submit([first, second])

    await executor.cancel(second.key, 10)

    assert (await reports.of(second)).reason == "was stopped on request"
    leave.set()
    assert (await reports.of(first)).outcome is Outcome.SUCCESS
    await until(lambda: executor.open_slots == 1)


async def test_stop_waits_for_what_ends_within_the_grace(start: StartInline, reports: Reports) -> None:
    async def brief() -> None:
        await asyncio.sleep(0.01)

    executor = await start(brief)
    one = attempt("brief", is_async=True)
    executor.submit([one])

    await executor.stop(3600)

    assert (await reports.of(one)).outcome is Outcome.SUCCESS


async def test_stop_loses_what_goes_on_after_the_grace(start: StartInline, reports: Reports) -> None:
    leave = threading.Event()

    async def endless() -> None:
        await asyncio.Event().wait()

    def slow() -> None:
        leave.wait(10)

    executor = await start(endless, slow)
    one, two = attempt("endless", is_async=True, number=1), attempt("slow", number=2)
    executor.submit([one, two])

    await executor.stop(0.05)

    assert [(await reports.of(each)).outcome for each in (one, two)] == [Outcome.LOST] * 2
    assert executor.open_slots == executor.open_async_slots == 0
    leave.set()


async def test_a_task_that_raises_system_exit_does_not_end_the_host(start: StartInline, reports: Reports) -> None:
    async def leaves() -> None:
        sys.exit(3)

    def leaves_too() -> None:
        raise KeyboardInterrupt

    executor = await start(leaves, leaves_too)
    executor.submit([attempt("leaves", is_async=True, number=1), attempt("leaves_too", number=2)])

    assert {report.reason for report in await reports.count(2)} == {"SystemExit: 3", "KeyboardInterrupt"}


async def test_what_tasks_log_goes_to_their_own_files_and_print_to_the_host(
    start: StartInline, reports: Reports, logs_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def chat(run_id: str) -> None:
        for _ in range(3):
            logging.getLogger("aiosched.task").info("%s logs", run_id)
            await asyncio.sleep(0)
        print(run_id, "prints")

    executor = await start(chat)
    one, two = attempt("chat", is_async=True, number=1), attempt("chat", is_async=True, number=2)
    executor.submit([one, two])

    await reports.count(2)
    for mine, other in ((one, two), (two, one)):
        text = log_path(logs_folder, mine).read_text()
        assert text.count(f"{mine.run.run_id} logs") == 3
        assert other.run.run_id not in text
    assert capsys.readouterr().out.count("prints") == 2


async def test_each_attempt_has_a_context_of_its_own(start: StartInline, reports: Reports) -> None:
    mine: contextvars.ContextVar[str] = contextvars.ContextVar("mine", default="unset")

    async def later(run_id: str) -> str:
        before = mine.get()
        mine.set(run_id)
        await asyncio.sleep(0)
        return f"{before} {mine.get()}"

    executor = await start(later)
    executor.submit([attempt("later", is_async=True, number=n) for n in range(2)])

    assert {report.xcoms[0].value for report in await reports.count(2)} == {'"unset manual__0"', '"unset manual__1"'}


async def test_dags_may_come_from_files(services: FakeServices, reports: Reports, dags_folder: Path) -> None:
    write_dag(
        dags_folder,
        "loaded = time.monotonic_ns()\ndef plain(): return loaded\nasync def later(): return loaded\n"
        "task(plain), task(later)",
    )
    (dags_folder / "broken.py").write_text("import nosuchthing\n")
    executor = InlineExecutor(FileDags(dags_folder), slots=2)
    await executor.start(reports, services)
    good = [attempt("plain", number=n) for n in range(4)] + [
        attempt("later", number=n, is_async=True) for n in range(4, 8)
    ]
    bad = [attempt("plain", number=8, file="broken.py"), attempt("later", number=9, is_async=True, file="broken.py")]

    executor.submit([*good, *bad])

    assert len({(await reports.of(one)).xcoms[0].value for one in good}) == 1  # imported once
    for one in bad:
        assert ((await reports.of(one)).reason or "").startswith("broken.py cannot be imported: ModuleNotFoundError")
    await executor.stop(1)
