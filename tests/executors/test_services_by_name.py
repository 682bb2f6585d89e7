"""What running tasks ask of the scheduler by name arrives and comes back, in every kind of worker."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from aiosched import DAG, PythonOperator
from aiosched.authoring.runtime.services import acall, call
from aiosched.core.values.messages import Attempt, Outcome, Report
from aiosched.errors import AttemptStopped
from aiosched.executors.inline.executor import InlineExecutor
from tests.executors.attempt_builders import FakeServices, Reports, StartLocal, attempt, write_dag
from tests.patience import PATIENCE

TASKS = """
    from aiosched.authoring.runtime.services import acall, call

    def plain():
        return call("echo", number=1)

    async def waiting():
        return await acall("echo", number=1)

    def refused():
        from aiosched.errors import Refused
        try:
            call("refuse")
        except Refused as error:
            return str(error)

    async def refused_waiting():
        from aiosched.errors import Refused
        try:
            await acall("refuse")
        except Refused as error:
            return str(error)

    async def in_a_thread():
        return await asyncio.to_thread(call, "echo", number=1)

    def broken():
        call("break")

    async def broken_waiting():
        await acall("break")

    async def blocking():
        call("echo")

    def patient():
        try:
            call("hang")
        finally:
            print("cleaned up")

    async def patient_waiting():
        try:
            await acall("hang")
        finally:
            print("cleaned up")

    for function in (
        plain, waiting, refused, refused_waiting, in_a_thread, broken, broken_waiting, blocking, patient,
        patient_waiting,
    ):
        task(function)
"""
ECHO = {"run": 0, "name": "echo", "args": {"number": 1}}


def one(name: str, is_async: bool) -> Attempt:
    return attempt(name, is_async=is_async)


def logged(folder: Path) -> str:
    """What the only log holds."""
    (file,) = folder.rglob("*.log")
    return file.read_text()


async def report_of(start_local: StartLocal, dags_folder: Path, reports: Reports, task: Attempt) -> Report:
    write_dag(dags_folder, TASKS)
    executor = await start_local()
    executor.submit([task])
    return await reports.of(task)


@pytest.mark.parametrize(
    ("name", "is_async", "answer"),
    [
        ("plain", False, ECHO),
        ("waiting", True, ECHO),
        ("in_a_thread", True, ECHO),
        ("refused", False, "not now: ask later"),
        ("refused_waiting", True, "not now: ask later"),
    ],
)
async def test_a_worker_process_asks_and_gets_the_answer_or_the_refusal(
    start_local: StartLocal, dags_folder: Path, reports: Reports, name: str, is_async: bool, answer: Any
) -> None:
    report = await report_of(start_local, dags_folder, reports, one(name, is_async))

    assert report.outcome is Outcome.SUCCESS, report.details
    assert json.loads(report.xcoms[0].value) == answer


@pytest.mark.parametrize(("name", "is_async"), [("broken", False), ("broken_waiting", True)])
async def test_a_service_that_breaks_fails_the_task_and_says_which(
    start_local: StartLocal, dags_folder: Path, reports: Reports, name: str, is_async: bool
) -> None:
    report = await report_of(start_local, dags_folder, reports, one(name, is_async))

    assert report.outcome is Outcome.FAILED
    assert "the service 'break' failed: ValueError: broken" in (report.reason or "")


async def test_a_blocking_call_in_a_coroutine_says_what_to_write_instead(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    report = await report_of(start_local, dags_folder, reports, one("blocking", True))

    assert report.outcome is Outcome.FAILED
    assert "use the awaitable form" in (report.reason or "")


async def test_tasks_of_the_inline_executor_ask_directly(reports: Reports) -> None:
    def plain() -> Any:
        return call("echo", number=1)

    async def waiting() -> Any:
        return await asyncio.gather(acall("echo", number=1), asyncio.to_thread(call, "echo", number=1))

    with DAG("d", schedule=None) as dag:
        PythonOperator(task_id="plain", python_callable=plain)
        PythonOperator(task_id="waiting", python_callable=waiting)
    executor = InlineExecutor({"d": dag})
    await executor.start(reports, FakeServices())
    first, second = one("plain", False), attempt("waiting", is_async=True, number=1)
    try:
        executor.submit([first, second])

        assert json.loads((await reports.of(first)).xcoms[0].value) == ECHO
        assert json.loads((await reports.of(second)).xcoms[0].value) == [{**ECHO, "run": 1}] * 2
    finally:
        await executor.stop(0)


class Hanging(FakeServices):
    """Services of which one has no answer; whether it was withdrawn."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.withdrawn = asyncio.Event(), asyncio.Event()

    async def call(self, run: int, name: str, args: str) -> str:
        if name != "hang":
            return await super().call(run, name, args)
        self.asked.set()
        try:
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]
        finally:
            self.withdrawn.set()


@pytest.fixture
def services() -> FakeServices:
    return Hanging()


@pytest.mark.parametrize(("name", "is_async"), [("patient", False), ("patient_waiting", True)])
async def test_a_question_without_an_answer_ends_with_the_timeout_of_its_attempt(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, services: Hanging, reports: Reports, name: str,
    is_async: bool,
) -> None:  # fmt: skip
    write_dag(dags_folder, TASKS)
    executor = await start_local(cleanup_time=30.0)
    task = attempt(name, is_async=is_async, timeout=0.3)

    executor.submit([task])
    report = await reports.of(task)

    assert report.outcome is Outcome.FAILED
    assert not report.unattended  # the task ended by itself, nobody had to kill it
    assert "0.3" in (report.reason or "")
    assert "cleaned up" in logged(logs_folder)
    async with asyncio.timeout(PATIENCE):
        await services.withdrawn.wait()
    after = attempt("waiting" if is_async else "plain", is_async=is_async, number=1)
    executor.submit([after])
    assert (await reports.of(after)).outcome is Outcome.SUCCESS


@pytest.mark.parametrize(("name", "is_async"), [("patient", False), ("patient_waiting", True)])
async def test_a_question_ends_with_the_attempt_that_is_stopped(
    start_local: StartLocal, dags_folder: Path, services: Hanging, reports: Reports, name: str, is_async: bool
) -> None:
    write_dag(dags_folder, TASKS)
    executor = await start_local()
    task = attempt(name, is_async=is_async)
    executor.submit([task])
    await services.asked.wait()

    await executor.cancel(task.key, 30.0)

    assert (await reports.of(task)).outcome is Outcome.FAILED
    async with asyncio.timeout(PATIENCE):
        await services.withdrawn.wait()


class Fenced(FakeServices):
    """Services of a scheduler that has lost its lease."""

    async def call(self, run: int, name: str, args: str) -> str:
        raise AttemptStopped("was lost with the lease of its scheduler")


async def test_an_attempt_that_asks_when_the_lease_is_lost_is_lost_and_has_not_failed(reports: Reports) -> None:
    def plain() -> Any:
        return call("echo", number=1)

    async def waiting() -> Any:
        return await acall("echo", number=1)

    with DAG("d", schedule=None) as dag:
        PythonOperator(task_id="plain", python_callable=plain)
        PythonOperator(task_id="waiting", python_callable=waiting)
    executor = InlineExecutor({"d": dag})
    await executor.start(reports, Fenced())
    attempts = [one("plain", False), attempt("waiting", is_async=True, number=1)]
    try:
        executor.submit(attempts)

        for each in attempts:
            report = await reports.of(each)
            assert report.outcome is Outcome.LOST
            assert report.reason == "was lost with the lease of its scheduler"
    finally:
        await executor.stop(0)
