"""The local executor: attempts that wait in the line of a worker have not begun, whatever happens to the worker."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from aiosched.core.values.messages import Attempt, Outcome, Report
from aiosched.executors.local.affinity import FileTimes
from aiosched.executors.local.executor import LocalExecutor
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import Reports, StartLocal, attempt, write_dag
from tests.patience import until

BODY = """
def quick(run_id):
    print(run_id)
    return os.getpid()
def wait():
    print("on")
    time.sleep(1000)
def crash(): os._exit(3)
def leave(): subprocess.Popen(["sleep", "1000"])
task(quick), task(wait), task(crash), task(leave)
"""


def pid_of(report: Report) -> int:
    return int(json.loads(report.xcoms[0].value))


def quick(*numbers: int) -> list[Attempt]:
    return [attempt("quick", number=number) for number in numbers]


@pytest.fixture
async def executor(
    start_local: StartLocal, dags_folder: Path, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> LocalExecutor:
    """One worker, which has imported the file; attempts are expected to take no time."""
    monkeypatch.setattr(FileTimes, "run", lambda times, file: 0.0)
    write_dag(dags_folder, BODY)
    executor = await start_local(slots=1, notice_delay=0)
    executor.submit(quick(900))
    await reports.count(1)
    reports.all.clear()
    return executor


def stand_in_line(executor: LocalExecutor, first: Attempt, others: list[Attempt]) -> None:
    """Submit all, and make sure that the others were sent to the worker."""
    executor.submit([first, *others])
    (link,) = executor._links.values()
    assert list(link.attempts) == [first.key, *(one.key for one in others)]


async def test_a_line_is_run_in_its_order(executor: LocalExecutor, logs_folder: Path, reports: Reports) -> None:
    first, *others = quick(*range(20))
    stand_in_line(executor, first, others)

    assert [report.key.run for report in await reports.count(20)] == list(range(20))
    assert len({pid_of(report) for report in reports.final}) == 1


async def test_when_a_worker_is_killed_its_line_goes_to_another_one(
    executor: LocalExecutor, logs_folder: Path, reports: Reports
) -> None:
    wait, others = attempt("wait", number=1), quick(2, 3, 4)
    stand_in_line(executor, wait, others)
    started = await reports.of(wait, outcome=Outcome.STARTED)
    await until(log_path(logs_folder, wait).exists)

    os.kill(started.pid or 0, signal.SIGKILL)

    assert (await reports.of(wait)).reason == "the worker process was killed by SIGKILL"
    ended = [await reports.of(one) for one in others]
    assert [report.outcome for report in ended] == [Outcome.SUCCESS] * 3
    assert started.pid not in {pid_of(report) for report in ended}
    assert len(reports.final) == 4


async def test_when_an_attempt_ends_its_process_only_that_attempt_fails(
    executor: LocalExecutor, reports: Reports
) -> None:
    crash, others = attempt("crash", number=1), quick(2, 3)
    stand_in_line(executor, crash, others)

    final = {report.key: report for report in await reports.count(3)}

    assert final[crash.key].reason == "the worker process ended with exit code 3"
    assert [final[one.key].outcome for one in others] == [Outcome.SUCCESS] * 2


async def test_an_attempt_that_waits_in_a_line_is_cancelled_without_its_worker(
    executor: LocalExecutor, logs_folder: Path, reports: Reports
) -> None:
    wait, (gone, after) = attempt("wait", number=1), quick(2, 3)
    stand_in_line(executor, wait, [gone, after])
    await until(log_path(logs_folder, wait).exists)

    await executor.cancel(gone.key, 20)

    report = await reports.of(gone)
    assert (report.outcome, report.reason) == (Outcome.FAILED, "was stopped on request, before it began")
    assert [report.key for report in reports.final] == [gone.key]
    await executor.cancel(wait.key, 20)
    assert (await reports.of(wait)).reason == "was stopped on request"
    assert (await reports.of(after)).outcome is Outcome.SUCCESS
    assert not log_path(logs_folder, gone).exists()


async def test_the_execution_timeout_of_an_attempt_begins_when_it_begins(
    executor: LocalExecutor, logs_folder: Path, reports: Reports
) -> None:
    wait, late = attempt("wait", number=1, timeout=0.5), attempt("quick", number=2, timeout=0.4)
    stand_in_line(executor, wait, [late])

    assert (await reports.of(wait)).reason == "ran longer than its execution_timeout of 0.5 s"
    assert (await reports.of(late)).outcome is Outcome.SUCCESS


async def test_an_attempt_that_waits_is_not_reported_as_started(
    executor: LocalExecutor, logs_folder: Path, reports: Reports
) -> None:
    wait, (late,) = attempt("wait", number=1), quick(2)
    stand_in_line(executor, wait, [late])
    await until(log_path(logs_folder, wait).exists)
    await reports.of(wait, outcome=Outcome.STARTED)

    assert [report.key for report in reports.all] == [wait.key]


async def test_a_worker_that_is_to_be_replaced_begins_nothing_more(executor: LocalExecutor, reports: Reports) -> None:
    leave, others = attempt("leave", number=1), quick(2, 3)
    (before,) = executor._links.values()
    stand_in_line(executor, leave, others)

    final = {report.key: report for report in await reports.count(3)}

    assert final[leave.key].outcome is Outcome.SUCCESS
    assert before.pid not in {pid_of(final[one.key]) for one in others}


async def test_a_stop_runs_nothing_that_waits(executor: LocalExecutor, logs_folder: Path, reports: Reports) -> None:
    wait, others = attempt("wait", number=1), quick(2, 3)
    stand_in_line(executor, wait, others)
    await until(log_path(logs_folder, wait).exists)

    await executor.stop(0)

    assert {report.outcome for report in reports.final} == {Outcome.LOST}
    assert sorted(report.key.run for report in reports.final) == [1, 2, 3]
    assert not any(log_path(logs_folder, one).exists() for one in others)


async def test_short_attempts_of_a_file_go_to_the_worker_that_has_imported_it(
    start_local: StartLocal, dags_folder: Path, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileTimes, "run", lambda times, file: 0.0)
    write_dag(dags_folder, "time.sleep(0.5)\ndef quick(): return os.getpid()\ntask(quick)")
    executor = await start_local(slots=4)
    executor.submit([attempt("quick", number=0)])
    await reports.count(1)

    executor.submit([attempt("quick", number=number) for number in range(1, 4)])

    assert len({pid_of(report) for report in await reports.count(4)}) == 1
