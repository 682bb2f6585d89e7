"""The local executor: who gets which attempt, what the end of a process means, and stopping."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import uvloop
from attempt_builders import FakeServices, Reports, StartLocal, attempt, running, until, write_dag

from aiosched.core.messages import Attempt, Outcome
from aiosched.errors import ConfigError
from aiosched.executors.local import LocalExecutor
from aiosched.executors.log_files import log_path
from aiosched.executors.options import LocalOptions


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


async def test_a_silent_attempt_leaves_no_log_file(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    write_dag(dags_folder, "def quiet(): return 1\ntask(quiet)")
    executor = await start_local()

    executor.submit([attempt("quiet")])

    await reports.count(1)
    assert not list(logs_folder.rglob("*"))  # noqa: ASYNC240


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_task_in_a_worker_reads_xcoms_through_the_scheduler(
    start_local: StartLocal, dags_folder: Path, services: FakeServices, reports: Reports, is_async: bool
) -> None:
    body = """
    def plain(ti): return ti.xcom_pull("up") + 1
    async def later(ti): return await ti.axcom_pull("up") + 1
    async def wrong(ti): return ti.xcom_pull("up") + 1
    task(plain), task(later), task(wrong)
    """
    write_dag(dags_folder, body)
    services.xcoms["up", "return_value"] = [(-1, "41")]
    executor = await start_local()
    right = attempt("later" if is_async else "plain", is_async=is_async, number=1)
    wrong = attempt("wrong", is_async=True, number=2)

    executor.submit([right, wrong])

    assert value(await reports.of(right)) == 42
    assert "await ti.axcom_pull" in ((await reports.of(wrong)).reason or "")


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


async def test_a_worker_killed_from_outside_fails_what_it_ran_and_nothing_else(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    write_dag(
        dags_folder, "def wait():\n    print('on')\n    time.sleep(1000)\ndef short(): pass\ntask(wait), task(short)"
    )
    executor = await start_local(slots=1)
    wait, short = attempt("wait", number=1), attempt("short", number=2)
    executor.submit([wait, short])
    await until(log_path(logs_folder, wait).exists)
    started = await reports.of(wait, outcome=Outcome.STARTED)

    os.kill(started.pid or 0, signal.SIGKILL)

    report = await reports.of(wait)
    assert (report.outcome, report.reason) == (Outcome.FAILED, "the worker process was killed by SIGKILL")
    assert report.started_at == started.started_at
    assert (
        log_path(logs_folder, wait).read_text().endswith("ERROR aiosched  the worker process was killed by SIGKILL\n")
    )
    assert (await reports.of(short)).outcome is Outcome.SUCCESS


@pytest.mark.parametrize(("neighbours", "outcome"), [(0, Outcome.FAILED), (1, Outcome.LOST)])
async def test_an_async_worker_killed_from_outside_loses_its_attempts_but_fails_a_single_one(
    start_local: StartLocal, dags_folder: Path, reports: Reports, neighbours: int, outcome: Outcome
) -> None:
    write_dag(dags_folder, "async def nap(): await asyncio.sleep(1000)\ntask(nap)")
    executor = await start_local(async_workers=1)
    naps = [attempt("nap", is_async=True, number=n) for n in range(neighbours + 1)]
    executor.submit(naps)
    started = [await reports.of(nap, outcome=Outcome.STARTED) for nap in naps]

    os.kill(started[0].pid or 0, signal.SIGKILL)

    assert [(await reports.of(nap)).outcome for nap in naps] == [outcome] * (neighbours + 1)


async def test_when_the_forkserver_is_killed_its_workers_go_and_new_attempts_get_new_ones(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    write_dag(
        dags_folder, "def wait():\n    print('on')\n    time.sleep(1000)\ndef short(): pass\ntask(wait), task(short)"
    )
    executor = await start_local(slots=1)
    wait, short = attempt("wait", number=1), attempt("short", number=2)
    executor.submit([wait, short])
    await until(log_path(logs_folder, wait).exists)
    started = await reports.of(wait, outcome=Outcome.STARTED)

    os.kill(psutil.Process(started.pid or 0).ppid(), signal.SIGKILL)

    lost = await reports.of(wait)
    assert lost.outcome is Outcome.LOST
    assert lost.reason == "the forkserver was killed by SIGKILL, and its workers with it"
    assert (await reports.of(short)).outcome is Outcome.SUCCESS
    await until(lambda: not running(started.pid or 0))


async def test_processes_die_with_their_scheduler(dags_folder: Path, tmp_path: Path) -> None:
    write_dag(
        dags_folder,
        "def wait():\n    open(os.environ['MARK'], 'w').write(str(os.getpid()))\n    time.sleep(1000)\ntask(wait)",
    )
    mark = tmp_path / "mark"
    program = f"""
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from attempt_builders import FakeServices, attempt
from aiosched.executors.local import LocalExecutor
from aiosched.executors.options import LocalOptions

async def main():
    executor = LocalExecutor(LocalOptions(dags_folder=Path({str(dags_folder)!r}), slots=1))
    await executor.start(lambda report: None, FakeServices())
    executor.submit([attempt("wait")])
    await asyncio.sleep(1000)

asyncio.run(main())
"""
    import sys

    scheduler = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, env={**os.environ, "MARK": str(mark)}
    )
    await until(lambda: mark.exists() and mark.read_text() != "")
    family = psutil.Process(scheduler.pid).children(recursive=True)
    assert int(mark.read_text()) in {process.pid for process in family}

    scheduler.kill()
    await scheduler.wait()

    await until(lambda: not any(running(process.pid) for process in family))


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


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_dag_that_cannot_be_had_fails_the_attempt_with_the_reason(
    start_local: StartLocal, dags_folder: Path, reports: Reports, is_async: bool
) -> None:
    write_dag(dags_folder, "def plain(): pass\ntask(plain)")
    (dags_folder / "broken.py").write_text("import nosuchthing\n")
    (dags_folder / "leaving.py").write_text("import sys; sys.exit(4)\n")
    (dags_folder / "slow.py").write_text("import time; time.sleep(1000)\n")
    executor = await start_local(import_timeout=2)
    cases: dict[str, Attempt] = {
        "broken.py cannot be imported: ModuleNotFoundError: No module named 'nosuchthing'": attempt(
            "plain", file="broken.py", number=1, is_async=is_async
        ),
        "leaving.py cannot be imported: SystemExit: 4": attempt(
            "plain", file="leaving.py", number=2, is_async=is_async
        ),
        "slow.py cannot be imported: ": attempt("plain", file="slow.py", number=3, is_async=is_async),
        "gone.py cannot be imported: FileNotFoundError": attempt("plain", file="gone.py", number=4, is_async=is_async),
        "The DAG 'd' has no task 'renamed' any more": attempt("renamed", number=5, is_async=is_async),
        "d.py does not define the DAG 'other' any more; it defines d.": attempt(
            "plain", dag_id="other", number=6, is_async=is_async
        ),
        "The DAG 'd' was registered in the scheduler's own process": attempt(
            "plain", file=None, number=7, is_async=is_async
        ),
    }

    executor.submit(list(cases.values()))

    for reason, one in cases.items():
        report = await reports.of(one)
        assert report.outcome is Outcome.FAILED
        assert (report.reason or "").startswith(reason)


async def test_a_changed_file_is_loaded_again_and_an_unchanged_one_is_not(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    write_dag(dags_folder, "loaded = time.monotonic_ns()\ndef when(): return [1, loaded]\ntask(when)")
    executor = await start_local(slots=1)
    executor.submit([attempt("when", number=1), attempt("when", number=2)])
    await reports.count(2)
    write_dag(dags_folder, "loaded = time.monotonic_ns()\ndef when(): return [2, loaded]\ntask(when)")

    executor.submit([attempt("when", number=3, file_hash="new"), attempt("when", number=4, file_hash="h")])

    values = [value(report) for report in await reports.count(4)]
    assert values[0] == values[1] == values[3]  # the run that is pinned to the old content still finds it
    assert values[2][0] == 2  # type: ignore[index]


async def test_stop_waits_for_what_ends_within_the_grace(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    write_dag(
        dags_folder, "def brief(): time.sleep(0.2)\nasync def nap(): await asyncio.sleep(0.2)\ntask(brief), task(nap)"
    )
    executor = await start_local()
    executor.submit([attempt("brief", number=1), attempt("nap", is_async=True, number=2)])

    await executor.stop(20)

    assert [report.outcome for report in reports.final] == [Outcome.SUCCESS] * 2


async def test_stop_loses_what_is_stopped_so_that_it_costs_no_retry(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    body = """
    def wait():
        print("on")
        time.sleep(1000)
    def deaf():
        print("on")
        while True:
            try: time.sleep(1000)
            except BaseException: pass
    async def nap():
        print("on")
        await asyncio.sleep(1000)
    async def stubborn():
        print("on")
        while True:
            try: await asyncio.sleep(1000)
            except BaseException: pass
    task(wait), task(deaf), task(nap), task(stubborn)
    """
    write_dag(dags_folder, body)
    executor = await start_local(slots=2)
    plain = [attempt("wait", number=1), attempt("deaf", number=2)]
    later = [attempt("nap", number=3, is_async=True), attempt("stubborn", number=4, is_async=True)]
    in_line = attempt("wait", number=5)
    executor.submit([*plain, *later, in_line])
    for one in (*plain, *later):
        await until(log_path(logs_folder, one).exists)

    await executor.stop(0.05)

    final = {report.key: report for report in reports.final}
    assert {report.outcome for report in final.values()} == {Outcome.LOST}
    assert set(final) == {one.key for one in (*plain, *later, in_line)}
    assert final[in_line.key].reason == "the scheduler stopped"
    assert executor.open_slots == executor.open_async_slots == 0


async def test_a_second_stop_hurries_the_first(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    write_dag(dags_folder, "def wait():\n    print('on')\n    time.sleep(1000)\ntask(wait)")
    executor = await start_local()
    wait = attempt("wait")
    executor.submit([wait])
    await until(log_path(logs_folder, wait).exists)
    patient = asyncio.create_task(executor.stop(1000))
    await asyncio.sleep(0)

    await executor.stop(0)
    await patient

    assert (await reports.of(wait)).outcome is Outcome.LOST


async def test_submitting_to_a_stopped_executor_loses_the_attempt(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    executor = await start_local()
    await executor.stop(0)

    executor.submit([attempt("any")])

    assert (await reports.count(1))[0].outcome is Outcome.LOST


async def test_workers_that_cannot_start_lose_their_attempts_with_the_reason(
    dags_folder: Path, services: FakeServices, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    executor = LocalExecutor(LocalOptions(dags_folder=dags_folder, slots=1))
    await executor.start(reports, services)

    executor.submit([attempt("any")])

    report = (await reports.count(1))[0]
    assert report.outcome is Outcome.LOST
    assert report.reason == "no worker could be started: the forkserver ended with exit code 1, and its workers with it"
    await executor.stop(0)


async def test_attempts_are_lost_with_the_reason_when_no_file_descriptor_is_left(
    start_local: StartLocal, dags_folder: Path, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OSError(24, "Too many open files")

    executor = await start_local()
    monkeypatch.setattr("aiosched.executors.forkserver_client.socket.socketpair", refuse)

    executor.submit([attempt("any", number=1), attempt("any", is_async=True, number=2)])

    for report in await reports.count(2):
        assert report.outcome is Outcome.LOST
        assert "no worker could be started: [Errno 24] Too many open files" in (report.reason or "")


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_whatever_dies_every_attempt_gets_exactly_one_final_report(
    no_process_left: None, dags_folder: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    body = """
    def quick(): return 1
    def crash(): os._exit(1)
    def nap(): time.sleep(0.02)
    async def later(): await asyncio.sleep(0.01)
    async def crash_later():
        await asyncio.sleep(0.05)
        os._exit(1)
    for function in (quick, crash, nap, later, crash_later): task(function)
    """
    write_dag(dags_folder, body)
    names = ["quick", "nap", "later", "quick", "later", "crash", "later", "nap"]
    attempts = [attempt(names[n % 8], is_async=names[n % 8] == "later", number=n) for n in range(160)]
    attempts += [attempt("crash_later", is_async=True, number=n) for n in range(160, 164)]

    async def story() -> None:
        reports = Reports()
        executor = LocalExecutor(LocalOptions(dags_folder=dags_folder, slots=3, max_attempts=20, kill_after=0.3))
        await executor.start(reports, FakeServices())
        (forkserver,) = psutil.Process().children()
        for start in range(0, len(attempts), 20):
            executor.submit(attempts[start : start + 20])
            await executor.cancel(attempts[start + 1].key, 0.05)
            await reports.count(max(1, start - 20))
            for worker in forkserver.children()[::3] if start < 100 else []:
                with contextlib.suppress(psutil.NoSuchProcess):
                    worker.kill()
        final = await reports.count(len(attempts))

        assert sorted(report.key for report in final) == sorted(one.key for one in attempts)
        assert executor.open_async_slots == 1000
        assert executor.open_slots >= 3
        await executor.stop(1)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(story())


def test_an_unknown_isolation_is_refused() -> None:
    with pytest.raises(ConfigError, match="use 'warm' or 'fresh'"):
        LocalExecutor(LocalOptions(dags_folder=Path(), isolation="cold"))
