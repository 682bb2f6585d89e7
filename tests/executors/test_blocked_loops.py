"""A coroutine that blocks the event loop of its worker is named, counted, and not joined by others."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

import pytest

from aiosched.core.values.messages import Outcome
from aiosched.executors.local import blocked_loops
from aiosched.executors.local.executor import LocalExecutor
from aiosched.executors.worker.loop_heartbeat import BlockingAttempt, LoopHeartbeat
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import Reports, StartLocal, attempt, write_dag
from tests.patience import until

TASKS = """
async def block(): open({door!r}).read()
async def block_in_a_child():
    async def child(): open({door!r}).read()
    await asyncio.gather(child())
async def hold():
    import ctypes
    os.close(os.open({began!r}, os.O_CREAT))
    while not os.path.exists({door!r} + ".open"): ctypes.PyDLL(None).usleep(1_500_000)
async def wait():
    os.close(os.open({began!r}, os.O_CREAT))
    while not os.path.exists({door!r} + ".open"): await asyncio.sleep(0.01)
async def quick(ti=None): ti.xcom_push(key="pid", value=os.getpid())
task(block), task(block_in_a_child), task(hold), task(wait), task(quick)
"""


@pytest.fixture
def door(tmp_path: Path, dags_folder: Path) -> Path:
    """A pipe: whoever opens it blocks until somebody writes."""
    path = tmp_path / "door"
    os.mkfifo(path)
    write_dag(dags_folder, TASKS.format(door=str(path), began=str(tmp_path / "began")))
    return path


def open_door(door: Path) -> None:
    Path(f"{door}.open").touch()
    with contextlib.suppress(OSError):  # nobody stands before it
        os.close(os.open(door, os.O_WRONLY | os.O_NONBLOCK))


async def blocked(executor: LocalExecutor) -> dict[str, object]:
    """What is told of the first worker that is blocked, once it is known by whom."""
    await until(lambda: any(found["where"] for found in executor.blocked_loops.figures()))
    return executor.blocked_loops.figures()[0]


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("task_id", ["block", "block_in_a_child"])
async def test_who_blocks_the_loop_is_named_in_its_log_and_for_those_beside_it(
    start_local: StartLocal, door: Path, logs_folder: Path, reports: Reports, caplog: pytest.LogCaptureFixture,
    task_id: str,
) -> None:  # fmt: skip
    executor = await start_local(async_workers=1)
    beside, blocks = attempt("wait", is_async=True, number=1), attempt(task_id, is_async=True, number=2)
    executor.submit([beside])
    await until(door.with_name("began").exists)
    executor.submit([blocks])

    told = await blocked(executor)

    assert told["by"] == blocks.key
    assert told["who"] == f"d.{task_id} (run manual__2)"
    assert told["attempts"] == [beside.key, blocks.key]
    assert str(told["where"]).startswith("d.py:")
    assert "open(" in str(told["where"])
    path = log_path(logs_folder, blocks)
    await until(lambda: path.exists() and "asyncio.to_thread" in path.read_text())  # written by the blocked worker
    log = path.read_text()
    assert "WARNING aiosched  blocks the event loop, and 1 other attempt in its worker with it, at d.py:" in log
    assert "Await, or use asyncio.to_thread." in log
    assert f"d.{task_id} (run manual__2) blocks the event loop of worker process" in caplog.text
    assert executor.blocked_loops.total == 1
    caplog.set_level(logging.INFO)
    open_door(door)
    assert (await reports.of(blocks)).outcome is Outcome.SUCCESS
    assert (await reports.of(beside)).outcome is Outcome.SUCCESS
    await until(lambda: not executor.blocked_loops.figures())


@pytest.mark.slow
async def test_new_coroutines_go_to_another_worker_while_one_is_blocked_for_long(
    start_local: StartLocal, door: Path, reports: Reports
) -> None:
    executor = await start_local(async_workers=1, blocked_limit=1.2)
    blocks = attempt("block", is_async=True, number=1)
    executor.submit([blocks])
    told = await blocked(executor)
    since = float(str(told["since"]))
    await until(lambda: blocked_loops.time.time() - since > 1.3)
    quick = [attempt("quick", is_async=True, number=number) for number in range(2, 5)]

    executor.submit(quick)

    pids = {(await reports.of(one)).xcoms[0].value for one in quick}
    assert len(pids) == 1
    assert not [report for report in reports.final if report.key == blocks.key]
    open_door(door)
    assert str((await reports.of(blocks)).pid) not in pids


@pytest.mark.slow
async def test_a_loop_that_c_code_holds_is_noticed_too(start_local: StartLocal, door: Path, reports: Reports) -> None:
    executor = await start_local(async_workers=1)
    holds = attempt("hold", is_async=True, number=1)
    executor.submit([holds])

    await until(lambda: bool(executor.blocked_loops.figures()))

    assert executor.blocked_loops.figures()[0]["attempts"] == [holds.key]
    open_door(door)
    assert (await reports.of(holds)).outcome is Outcome.SUCCESS


@pytest.mark.slow
async def test_workers_beside_blocked_ones_are_not_without_limit(
    start_local: StartLocal, door: Path, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocked_loops, "MOST_BLOCKED", 1)
    executor = await start_local(async_workers=1, blocked_limit=0.0, async_slots=100)
    most = 1 + blocked_loops.MOST_BLOCKED
    blocks = [attempt("block", is_async=True, number=number) for number in range(1, most + 1)]
    for count, one in enumerate(blocks, 1):
        executor.submit([one])
        await until(lambda count=count: len(executor.blocked_loops.figures()) == count)  # type: ignore[misc]

    last = attempt("quick", is_async=True, number=99)
    executor.submit([last])

    assert len(executor._links) == most
    for _ in blocks:
        open_door(door)
    assert (await reports.of(last)).outcome is Outcome.SUCCESS


def test_the_page_of_a_loop_tells_what_fits_into_it() -> None:
    mine = LoopHeartbeat()
    theirs = LoopHeartbeat(os.dup(mine.descriptor))
    mine.last = 12.5
    mine.blocker = BlockingAttempt(None, "x" * 10_000)

    assert theirs.last == 12.5
    assert theirs.blocker == BlockingAttempt(None, "x" * 500)
    mine.blocker = None
    assert theirs.blocker is None
    mine.close()
    theirs.close()
