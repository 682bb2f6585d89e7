"""The local executor: what the end of a process means, and stopping.

Source: the semantics reference, sections 19.2 and 19.6 (local).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import uvloop

from aiosched.core.values.messages import Outcome
from aiosched.executors.local.executor import LocalExecutor
from aiosched.executors.local.forkserver_client import ForkserverClient
from aiosched.executors.local.options import LocalOptions
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import FakeServices, Reports, StartLocal, attempt, running, write_dag
from tests.patience import until


@pytest.fixture(scope="module")
def forkservers(no_process_left: None) -> type[ForkserverClient]:
    """Each executor has its own, which ends with it."""
    return ForkserverClient


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
    assert report.unattended, "its callbacks could not run, so the scheduler asks for them"
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
    assert lost.reason == "the forkserver was killed by SIGKILL, along with its workers"
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
from tests.executors.attempt_builders import FakeServices, attempt
from aiosched.executors.local.executor import LocalExecutor
from aiosched.executors.local.options import LocalOptions

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
    assert report.reason == "no worker could be started: the forkserver ended with exit code 1, along with its workers"
    await executor.stop(0)


async def test_attempts_are_lost_with_the_reason_when_no_file_descriptor_is_left(
    start_local: StartLocal, dags_folder: Path, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OSError(24, "Too many open files")

    executor = await start_local()
    monkeypatch.setattr("aiosched.executors.local.forkserver_client.socket.socketpair", refuse)

    executor.submit([attempt("any", number=1), attempt("any", is_async=True, number=2)])

    for report in await reports.count(2):
        assert report.outcome is Outcome.LOST
        assert "no worker could be started: [Errno 24] Too many open files" in (report.reason or "")


@pytest.mark.slow(but_first=True)
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
        assert executor._forkservers.pids
        guard = psutil.Process(executor._forkservers.pids[0])
        await until(lambda: bool(guard.children()))
        (forkserver,) = guard.children()
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
