"""An attempt that cannot be sent to a worker process fails, gives its slot back, and holds up no other one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from aiosched.core.values.messages import Attempt, Outcome
from aiosched.executors.worker import protocol
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import FakeServices, Reports, StartLocal, attempt, trigger_attempt, write_dag

BODY = """
def plain(run_id): return run_id
async def waits(run_id): return run_id
def asks(): return Variable.get("huge")
task(plain), task(waits), task(asks)
"""


def unsendable(task_id: str, number: int, **options: bool) -> Attempt:
    """An attempt whose conf has an integer that no message can hold."""
    one = attempt(task_id, number=number, **options)
    return msgspec.structs.replace(one, run=msgspec.structs.replace(one.run, conf={"big": 2**70}))


@pytest.mark.parametrize(("task_id", "is_async"), [("plain", False), ("waits", True)])
async def test_it_fails_with_the_reason_and_the_others_run(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports, task_id: str, is_async: bool
) -> None:
    write_dag(dags_folder, BODY)
    executor = await start_local(slots=2)
    bad = [unsendable(task_id, number, is_async=is_async) for number in range(10)]
    good = [attempt(task_id, number=number, is_async=is_async) for number in range(10, 20)]

    executor.submit([one for pair in zip(bad, good, strict=True) for one in pair])
    await reports.count(20)

    outcomes = {report.key: report.outcome for report in reports.final}
    assert {outcomes[one.key] for one in bad} == {Outcome.FAILED}
    assert {outcomes[one.key] for one in good} == {Outcome.SUCCESS}
    report = await reports.of(bad[0])
    assert "cannot be sent to a worker process: OverflowError" in (report.reason or "")
    assert "cannot be sent to a worker process" in log_path(logs_folder, bad[0]).read_text()
    assert executor.open_async_slots == 1000 if is_async else executor.open_slots >= 2


async def test_attempts_that_are_too_large_together_are_sent_one_by_one(
    start_local: StartLocal, dags_folder: Path, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dag(dags_folder, BODY)
    executor = await start_local(slots=1)
    monkeypatch.setattr(protocol, "LARGEST_FRAME", 2_000)

    executor.submit([attempt("waits", number=number, is_async=True) for number in range(20)])
    await reports.count(20)

    assert {report.outcome for report in reports.final} == {Outcome.SUCCESS}


async def test_a_trigger_that_cannot_be_sent_fails_alone(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    write_dag(dags_folder, BODY)
    executor = await start_local(slots=1)
    bad, good = (trigger_attempt("aiosched.triggers.TimeDeltaTrigger", '{"seconds": 0}', number=n) for n in (1, 2))
    bad = msgspec.structs.replace(bad, run=msgspec.structs.replace(bad.run, conf={"big": 2**70}))

    executor.submit([bad, good])
    await reports.count(2)

    assert (await reports.of(bad)).outcome is Outcome.FAILED
    assert "cannot be sent" in ((await reports.of(bad)).reason or "")
    assert "cannot be sent" not in ((await reports.of(good)).reason or "")


async def test_an_answer_that_cannot_be_sent_fails_the_question(
    start_local: StartLocal,
    dags_folder: Path,
    reports: Reports,
    services: FakeServices,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_dag(dags_folder, "from aiosched import Variable\n" + BODY)
    executor = await start_local(slots=1)

    async def call(run: int, name: str, args: str) -> str:
        return "half a character: \ud800"

    monkeypatch.setattr(services, "call", call)
    executor.submit([asking := attempt("asks")])

    report = await reports.of(asking)
    assert report.outcome is Outcome.FAILED
    assert "the answer cannot be sent to a worker process: UnicodeEncodeError" in (
        report.details or report.reason or ""
    )
