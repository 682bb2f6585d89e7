"""What attempts leave behind: processes are ended with the attempt, and its log says so."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

from aiosched.core.values.messages import Outcome
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import Reports, StartLocal, attempt, running, write_dag
from tests.patience import until

# Starts a process that has nothing to do with this one any more: it is no child, and in a session of its own.
ESCAPE = """
def escape(name):
    subprocess.run(["bash", "-c", f"(setsid bash -c 'echo $$ > {pids}/{{name}}; exec sleep 1000' > /dev/null 2>&1 &)"])
    while not os.path.exists(f"{pids}/{{name}}") or not open(f"{pids}/{{name}}").read():
        time.sleep(0.01)
"""


def write_tasks(dags_folder: Path, pids: Path, body: str) -> None:
    pids.mkdir()
    file = dags_folder / write_dag(dags_folder, body)
    file.write_text(file.read_text().replace("def task(", ESCAPE.format(pids=pids) + "\ndef task(", 1))


def pid_of(pids: Path, name: str) -> int:
    return int((pids / name).read_text())


@pytest.mark.parametrize(
    ("ends", "outcome"),
    [("return", Outcome.SUCCESS), ("raise ValueError", Outcome.FAILED), ("raise RescheduleTask(NOW)", "up")],
)
async def test_what_a_plain_function_left_behind_has_ended_when_its_attempt_has(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, tmp_path: Path, reports: Reports,
    ends: str, outcome: Outcome | str,
) -> None:  # fmt: skip
    ends = ends.replace("NOW", "datetime.now(timezone.utc)")
    pids = tmp_path / "pids"
    write_tasks(dags_folder, pids, f"def leave():\n    escape('left')\n    {ends}\ntask(leave)")
    executor = await start_local(slots=1)
    leave = attempt("leave")

    executor.submit([leave])

    report = await reports.of(leave)
    assert not running(pid_of(pids, "left"))
    assert report.outcome is (Outcome.RESCHEDULED if outcome == "up" else outcome)
    log = log_path(logs_folder, leave).read_text()
    assert "WARNING aiosched  ended processes that the attempt left behind: " in log
    assert f"(pid {pid_of(pids, 'left')})" in log


async def test_what_a_worker_left_behind_that_died_has_ended_when_its_attempt_has_failed(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, tmp_path: Path, reports: Reports
) -> None:
    pids = tmp_path / "pids"
    write_tasks(dags_folder, pids, "def crash():\n    escape('left')\n    os._exit(3)\ntask(crash)")
    executor = await start_local(slots=1)
    crash = attempt("crash")

    executor.submit([crash])

    assert (await reports.of(crash)).reason == "the worker process ended with exit code 3"
    assert not running(pid_of(pids, "left"))
    text = log_path(logs_folder, crash).read_text()
    assert "WARNING aiosched  ended processes that the worker process left behind: " in text
    assert f"(pid {pid_of(pids, 'left')})" in text


async def test_what_an_attempt_left_behind_that_ignores_every_request_has_ended_when_it_is_reported(
    start_local: StartLocal, dags_folder: Path, tmp_path: Path, reports: Reports
) -> None:
    pids = tmp_path / "pids"
    body = """
    def deaf():
        escape('left')
        while True:
            try: time.sleep(1000)
            except BaseException: pass
    task(deaf)
    """
    write_tasks(dags_folder, pids, body)
    executor = await start_local(slots=1)
    deaf = attempt("deaf")
    executor.submit([deaf])
    await until((pids / "left").exists)

    await executor.cancel(deaf.key, 0.1)

    await reports.of(deaf)
    assert not running(pid_of(pids, "left"))


async def test_a_coroutine_leaves_nothing_behind_and_what_others_run_in_its_worker_goes_on(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, tmp_path: Path, reports: Reports
) -> None:
    pids = tmp_path / "pids"
    body = f"""
    async def before(): await asyncio.to_thread(escape, 'before')
    async def goes_on():
        process = await asyncio.create_subprocess_exec("sleep", "1000")
        open({str(pids / "child")!r}, "w").write(str(process.pid))
        await process.wait()
    async def after(): await asyncio.to_thread(escape, 'after')
    task(before), task(goes_on), task(after)
    """
    write_tasks(dags_folder, pids, body)
    executor = await start_local(async_workers=1)
    before, goes_on, after = (
        attempt(name, is_async=True, number=n) for n, name in enumerate(("before", "goes_on", "after"))
    )

    executor.submit([before])
    await reports.of(before)
    assert not running(pid_of(pids, "before"))
    assert "ended processes that the attempt left behind: " in log_path(logs_folder, before).read_text()

    executor.submit([goes_on])
    await until(lambda: (pids / "child").exists() and (pids / "child").read_text() != "")
    executor.submit([after])
    assert (await reports.of(after)).outcome is Outcome.SUCCESS
    child = pid_of(pids, "child")
    assert running(child), "it belongs to an attempt that runs"

    await executor.cancel(goes_on.key, 5)
    await reports.of(goes_on)
    assert not running(child)
    assert not running(pid_of(pids, "after")), "nobody is left whose it could be"


async def test_what_a_coroutine_started_ends_with_it_while_its_neighbours_run(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, tmp_path: Path, reports: Reports
) -> None:
    left = tmp_path / "left"
    body = f"""
    async def goes_on(): await asyncio.sleep(1000)
    async def leave():
        escape = "(setsid bash -c 'echo $$ > {left}; exec sleep 1000' > /dev/null 2>&1 &)"
        process = await asyncio.create_subprocess_shell(escape, env={{"PATH": os.environ["PATH"]}})
        await process.wait()
        while not os.path.exists({str(left)!r}) or not open({str(left)!r}).read():
            await asyncio.sleep(0.01)
    task(goes_on), task(leave)
    """
    write_dag(dags_folder, body)
    executor = await start_local(async_workers=1)
    goes_on, leave = attempt("goes_on", is_async=True, number=1), attempt("leave", is_async=True, number=2)
    executor.submit([goes_on])
    await reports.of(goes_on, outcome=Outcome.STARTED)

    executor.submit([leave])

    report = await reports.of(leave)
    assert not running(int(left.read_text()))
    assert report.pid == (await reports.of(goes_on, outcome=Outcome.STARTED)).pid
    assert psutil.Process(report.pid).children() == [], "ended, and nobody has waited for it"
    log = log_path(logs_folder, leave).read_text()
    assert "ended processes that the attempt left behind: " in log
    assert f"(pid {left.read_text().strip()})" in log
    assert reports.final == [report]


async def test_what_begins_while_an_attempt_is_cleared_up_is_no_leftover_of_it(
    start_local: StartLocal, dags_folder: Path, tmp_path: Path, reports: Reports
) -> None:
    ends, began, pids = tmp_path / "ends", tmp_path / "began", tmp_path / "pids"
    body = f"""
    async def leave():
        from aiosched.executors.worker import async_worker
        find = async_worker.leftovers.end_children
        def late(*args, **kwargs):  # the thread that ends what was left behind takes its time
            open({str(ends)!r}, "w").close()
            while not os.path.exists({str(began)!r}):
                time.sleep(0.01)
            return find(*args, **kwargs)
        async_worker.leftovers.end_children = late
        await asyncio.to_thread(escape, 'left')
    async def next_one():
        process = await asyncio.create_subprocess_exec("sleep", "0.3")
        open({str(began)!r}, "w").close()
        return await process.wait()
    task(leave), task(next_one)
    """
    write_tasks(dags_folder, pids, body)
    executor = await start_local(async_workers=1)
    leave, next_one = (attempt(name, is_async=True, number=n) for n, name in enumerate(("leave", "next_one")))

    executor.submit([leave])
    await until(ends.exists)
    executor.submit([next_one])

    (xcom,) = (await reports.of(next_one)).xcoms
    assert xcom.value == "0"
    await reports.of(leave)
    assert not running(pid_of(pids, "left"))


async def test_a_worker_is_warm_again_for_the_next_attempt_when_nothing_was_left_behind(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    write_dag(dags_folder, "def child(): subprocess.run(['true'])\ntask(child)")
    executor = await start_local(slots=1)
    attempts = [attempt("child", number=n) for n in range(3)]

    executor.submit(attempts)

    assert len({(await reports.of(one)).pid for one in attempts}) == 1


async def test_a_process_pool_of_a_task_is_no_leftover_worth_a_word(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    body = """
    def pool():
        import multiprocessing
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.map(abs, [-1]) == [1]
    task(pool)
    """
    write_dag(dags_folder, body)
    executor = await start_local(slots=1)
    pool = attempt("pool")

    executor.submit([pool])

    assert (await reports.of(pool)).outcome is Outcome.SUCCESS
    log = log_path(logs_folder, pool)
    assert not log.exists() or "left behind" not in log.read_text()


async def test_two_deaths_at_once_leave_nothing_and_a_new_forkserver_serves_at_once(
    start_local: StartLocal, dags_folder: Path, tmp_path: Path, reports: Reports
) -> None:
    pids = tmp_path / "pids"
    body = "def wait():\n    escape('left')\n    time.sleep(1000)\ndef short(): pass\ntask(wait), task(short)"
    write_tasks(dags_folder, pids, body)
    executor = await start_local(slots=1)
    wait, short = attempt("wait", number=1), attempt("short", number=2)
    executor.submit([wait, short])
    await until((pids / "left").exists)
    worker = psutil.Process((await reports.of(wait, outcome=Outcome.STARTED)).pid)
    forkserver = worker.parent()
    assert forkserver is not None
    guard = forkserver.parent()
    assert guard is not None

    for process in (guard, forkserver):
        os.kill(process.pid, signal.SIGSTOP)
    for process in (guard, forkserver):
        os.kill(process.pid, signal.SIGKILL)

    assert (await reports.of(wait)).outcome is Outcome.LOST
    assert not running(pid_of(pids, "left"))
    assert (await reports.of(short)).outcome is Outcome.SUCCESS


async def test_the_scratch_folder_of_a_killed_worker_is_removed(
    start_local: StartLocal, dags_folder: Path, tmp_path: Path, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    told = tmp_path / "told"
    command = f"touch data; echo $PWD $PPID > {told}; exec sleep 1000"
    write_dag(
        dags_folder, f"from aiosched import BashOperator\nBashOperator(task_id='scratch', bash_command={command!r})"
    )
    executor = await start_local(slots=1)
    scratch = attempt("scratch")
    executor.submit([scratch])
    await until(lambda: told.exists() and told.read_text() != "")
    path, worker = told.read_text().split()
    folder = Path(path)
    await until((folder / "data").exists)

    os.kill(int(worker), signal.SIGKILL)

    assert (await reports.of(scratch)).reason == "the worker process was killed by SIGKILL"
    assert not await asyncio.to_thread(folder.exists)
