"""What running tasks ask of the scheduler by name arrives and comes back, in every kind of worker."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from attempt_builders import FakeServices, Reports, StartLocal, attempt, write_dag

from aiosched.authoring import DAG, PythonOperator
from aiosched.authoring.services import acall, call
from aiosched.core.messages import Attempt, Outcome, Report
from aiosched.executors.inline import InlineExecutor

TASKS = """
    from aiosched.authoring.services import acall, call

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

    for function in (plain, waiting, refused, refused_waiting, in_a_thread, broken, broken_waiting, blocking):
        task(function)
"""
ECHO = {"run": 0, "name": "echo", "args": {"number": 1}}


def one(name: str, is_async: bool) -> Attempt:
    return attempt(name, is_async=is_async)


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
