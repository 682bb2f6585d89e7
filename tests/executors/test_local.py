"""The local executor: who gets which attempt, and what attempts see.

Source: the semantics reference, sections 19.1 and 19.6 (local).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aiosched.core.values.messages import Outcome
from aiosched.errors import ConfigError
from aiosched.executors.local.executor import LocalExecutor
from aiosched.executors.local.options import LocalOptions
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import FakeServices, Reports, StartLocal, attempt, write_dag


def value(report: object) -> object:
    return json.loads(report.xcoms[0].value)  # type: ignore[attr-defined]


async def test_many_attempts_each_give_one_final_report_and_share_warm_workers(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    body = """
    def plain(): return os.getpid()
    async def later(): return os.getpid()
    task(plain), task(later)
    """
    write_dag(dags_folder, body)
    executor = await start_local(slots=2, async_workers=1)
    plain = [attempt("plain", number=n) for n in range(100)]
    later = [attempt("later", is_async=True, number=n) for n in range(100, 200)]

    executor.submit([*plain, *later])

    final = await reports.count(200)
    assert {report.outcome for report in final} == {Outcome.SUCCESS}
    assert len({report.key for report in final}) == 200
    assert len({value(report) for report in final if report.key.run < 100}) <= 2
    assert len({value(report) for report in final if report.key.run >= 100}) == 1


async def test_plain_functions_run_one_to_a_process_and_at_most_slots_at_a_time(
    start_local: StartLocal, dags_folder: Path, tmp_path: Path, reports: Reports
) -> None:
    body = f"""
    def alone():
        marks = {str(tmp_path)!r}
        open(f"{{marks}}/run-{{os.getpid()}}", "x")
        now = len([name for name in os.listdir(marks) if name.startswith("run-")])
        time.sleep(0.01)
        os.unlink(f"{{marks}}/run-{{os.getpid()}}")
        return now
    task(alone)
    """
    write_dag(dags_folder, body)
    executor = await start_local(slots=3)

    executor.submit([attempt("alone", number=n) for n in range(12)])

    at_once = [value(report) for report in await reports.count(12)]
    assert max(at_once) <= 3  # type: ignore[type-var]


async def test_slots_are_counted_and_free_again_with_the_report(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    write_dag(
        dags_folder, "def wait(): time.sleep(1000)\nasync def nap(): await asyncio.sleep(1000)\ntask(wait), task(nap)"
    )
    executor = await start_local(slots=2, async_slots=10)
    wait, nap = attempt("wait", number=1), attempt("nap", is_async=True, number=2)
    assert (executor.slots, executor.open_slots, executor.open_async_slots) == (2, 2, 10)

    executor.submit([wait, nap])
    assert (executor.open_slots, executor.open_async_slots) == (1, 9)
    for one in (wait, nap):
        await reports.of(one, outcome=Outcome.STARTED)
    await executor.cancel(wait.key, 1)
    await executor.cancel(nap.key, 1)
    ended = [await reports.of(wait), await reports.of(nap)]

    assert [(report.outcome, report.reason) for report in ended] == [(Outcome.FAILED, "was stopped on request")] * 2
    assert executor.open_async_slots == 10
    assert executor.open_slots >= 2


async def test_a_long_attempt_is_reported_as_started_and_a_short_one_is_not(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    write_dag(dags_folder, "def wait(): time.sleep(1000)\ndef short(): pass\ntask(wait), task(short)")
    executor = await start_local(slots=1, notice_delay=0.5)
    warm, short, wait = attempt("short", number=1), attempt("short", number=2), attempt("wait", number=3)
    executor.submit([warm, short, wait])

    started = await reports.of(wait, outcome=Outcome.STARTED)

    assert started.pid is not None
    assert started.started_at is not None
    assert [report.outcome for report in reports.all if report.key == short.key] == [Outcome.SUCCESS]
    assert (await reports.of(short)).started_at is not None


async def test_the_outputs_of_two_async_tasks_in_one_process_do_not_mix(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    body = """
    async def chat(run_id):
        for number in range(5):
            print(run_id, number)
            logging.getLogger("any").warning("%s logs", run_id)
            await asyncio.sleep(0)
        warnings.warn(f"{run_id} warns")
        sys.stderr.write(f"{run_id} without a line end")
    task(chat)
    """
    write_dag(dags_folder, body)
    executor = await start_local(async_workers=1)
    one, two = attempt("chat", is_async=True, number=1), attempt("chat", is_async=True, number=2)

    executor.submit([one, two])

    await reports.count(2)
    for mine, other in ((one, two), (two, one)):
        text = log_path(logs_folder, mine).read_text()
        assert text.count(f"{mine.run.run_id} logs") == 5
        assert f"stdout  {mine.run.run_id} 4\n" in text
        assert f"stderr  {mine.run.run_id} without a line end\n" in text
        assert f"UserWarning: {mine.run.run_id} warns" in text
        assert other.run.run_id not in text


async def test_an_xcom_that_cannot_be_read_fails_the_task_that_wants_it(
    start_local: StartLocal, dags_folder: Path, services: FakeServices, reports: Reports
) -> None:
    async def broken(run: int, refs: object) -> list[list[tuple[int, str]]]:
        raise ConnectionError("the database is away")

    services.get_xcoms = broken  # type: ignore[method-assign, assignment]
    write_dag(dags_folder, "def plain(ti): return ti.xcom_pull('up')\ntask(plain)")
    executor = await start_local()

    executor.submit([attempt("plain")])

    report = (await reports.count(1))[0]
    assert report.reason == "ExecutorError: XComs cannot be read: ConnectionError: the database is away"


@pytest.mark.parametrize("is_async", [False, True])
async def test_isolation_fresh_gives_each_attempt_a_process_of_its_own(
    start_local: StartLocal, dags_folder: Path, reports: Reports, is_async: bool
) -> None:
    write_dag(
        dags_folder, "def plain(): return os.getpid()\nasync def later(): return os.getpid()\ntask(plain), task(later)"
    )
    executor = await start_local(isolation="fresh", slots=2)
    name = "later" if is_async else "plain"

    executor.submit([attempt(name, is_async=is_async, number=n) for n in range(5)])

    assert len({value(report) for report in await reports.count(5)}) == 5


async def test_a_worker_is_replaced_after_its_number_of_attempts(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    write_dag(dags_folder, "def plain(): return os.getpid()\ntask(plain)")
    executor = await start_local(max_attempts=2, slots=1)

    executor.submit([attempt("plain", number=n) for n in range(6)])

    pids = [value(report) for report in await reports.count(6)]
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4] == pids[5]


async def test_a_worker_whose_memory_has_grown_is_replaced(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    write_dag(dags_folder, "def eat():\n    bytearray(os.urandom(1)) * 50_000_000\n    return os.getpid()\ntask(eat)")
    executor = await start_local(max_growth_bytes=20_000_000, slots=1)

    executor.submit([attempt("eat", number=n) for n in range(2)])

    assert len({value(report) for report in await reports.count(2)}) == 2


async def test_a_dag_that_cannot_be_had_fails_the_attempt_with_the_reason(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    write_dag(dags_folder, "def plain(): pass\ntask(plain)")
    (dags_folder / "broken.py").write_text("import nosuchthing\n")
    (dags_folder / "leaving.py").write_text("import sys; sys.exit(4)\n")
    (dags_folder / "slow.py").write_text("import time; time.sleep(1000)\n")
    executor = await start_local(import_timeout=2)
    reasons: dict[str, dict[str, Any]] = {
        "broken.py cannot be imported: ModuleNotFoundError: No module named 'nosuchthing'": {"file": "broken.py"},
        "leaving.py cannot be imported: SystemExit: 4": {"file": "leaving.py"},
        "slow.py cannot be imported: ": {"file": "slow.py"},
        "gone.py cannot be imported: FileNotFoundError": {"file": "gone.py"},
        "d.py: the DAG 'd' has no task 'renamed' any more": {"task_id": "renamed"},
        "d.py no longer defines the DAG 'other', it defines d": {"dag_id": "other"},
        "The DAG 'd' was registered in the scheduler's own process": {"file": None},
    }
    cases = [(reason, is_async, facts) for reason, facts in reasons.items() for is_async in (False, True)]
    attempts = [
        attempt(**{"task_id": "plain", **facts}, is_async=is_async, number=number)
        for number, (_, is_async, facts) in enumerate(cases)
    ]

    executor.submit(attempts)

    for (reason, _, _), one in zip(cases, attempts, strict=True):
        report = await reports.of(one)
        assert report.outcome is Outcome.FAILED
        assert (report.reason or "").startswith(reason)
        assert report.dag_missing is (one.run.file is not None)


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_task_that_was_missing_is_found_when_its_file_has_it(
    start_local: StartLocal, dags_folder: Path, reports: Reports, is_async: bool
) -> None:
    write_dag(dags_folder, "def early(): pass\ntask(early)")
    executor = await start_local(slots=1)
    for number, (task_id, dag_id) in enumerate([("late", "d"), ("late", "other")], start=1):
        executor.submit([missing := attempt(task_id, dag_id=dag_id, number=number, is_async=is_async)])
        assert (await reports.of(missing)).dag_missing

    write_dag(dags_folder, "async def late(): pass\ntask(late)" if is_async else "def late(): pass\ntask(late)")
    executor.submit([again := attempt("late", number=3, is_async=is_async)])

    assert (await reports.of(again)).outcome is Outcome.SUCCESS


async def test_a_changed_file_is_loaded_again_and_an_unchanged_one_is_not(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    write_dag(dags_folder, "loaded = time.monotonic_ns()\ndef when(): return [1, loaded]\ntask(when)")
    executor = await start_local(slots=1)
    executor.submit([attempt("when", number=1), attempt("when", number=2)])
    before = [value(report) for report in await reports.count(2)]
    write_dag(dags_folder, "loaded = time.monotonic_ns()\ndef when(): return [2, loaded]\ntask(when)")

    values = []
    for number, source in ((3, "new"), (4, "h")):
        executor.submit([one := attempt("when", number=number, source_hash=source)])
        values.append(value(await reports.of(one)))
    new, late = values

    assert before[0] == before[1]
    assert new[0] == 2  # type: ignore[index]
    assert late == new  # made before the change was known: what has not changed is not loaded again


def test_an_unknown_isolation_is_refused() -> None:
    with pytest.raises(ConfigError, match="use 'warm' or 'fresh'"):
        LocalExecutor(LocalOptions(dags_folder=Path(), isolation="cold"))
