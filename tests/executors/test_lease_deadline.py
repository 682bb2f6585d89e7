"""Worker processes end when their scheduler has been silent for so long that others may take it for dead.

In place of the semantics reference, section 20.2.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from aiosched.core.values.messages import Outcome
from aiosched.executors.local.executor import LocalExecutor
from aiosched.executors.local.forkserver_client import ForkserverClient
from aiosched.executors.worker.lease_deadline import LeaseDeadline, windows_of
from tests.executors.attempt_builders import Reports, StartLocal, attempt, running, write_dag
from tests.patience import until

WAITS = "def wait(): time.sleep(1000)\nasync def nap(): await asyncio.sleep(1000)\ntask(wait), task(nap)"


def test_an_instant_is_seen_by_whoever_opens_the_same_file() -> None:
    ours = LeaseDeadline()
    theirs = LeaseDeadline(os.dup(ours.descriptor))
    assert theirs.until == 0.0

    ours.until = 12.5

    assert theirs.until == 12.5
    for window in (ours, theirs):
        window.close()
        window.close()


@pytest.fixture(scope="module")
def forkservers(no_process_left: None) -> type[ForkserverClient]:
    """Each executor has its own, which ends with it."""
    return ForkserverClient


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_processes_of_a_scheduler_that_is_silent_for_too_long_end_and_their_attempts_are_lost(
    start_local: StartLocal, dags_folder: Path, reports: Reports, is_async: bool
) -> None:
    write_dag(dags_folder, WAITS)
    executor = await start_local()
    waiting = attempt("nap" if is_async else "wait", is_async=is_async)
    executor.submit([waiting])
    started = await reports.of(waiting, outcome=Outcome.STARTED)
    assert started.pid is not None
    worker = started.pid

    executor.lease_deadline.until = time.monotonic() - 1.0

    await until(lambda: not running(worker))
    assert (await reports.of(waiting)).outcome is Outcome.LOST


async def test_the_end_of_workers_after_the_end_of_the_lease_is_no_error(
    start_local: StartLocal, dags_folder: Path, reports: Reports, caplog: pytest.LogCaptureFixture
) -> None:
    write_dag(dags_folder, WAITS)
    executor = await start_local()
    waiting = attempt("wait")
    executor.submit([waiting])
    await reports.of(waiting, outcome=Outcome.STARTED)

    executor.lease_deadline.until = time.monotonic() - 1.0

    assert (await reports.of(waiting)).outcome is Outcome.LOST
    said = [(each.levelname, each.getMessage()) for each in caplog.records if "workers" in each.getMessage()]
    assert said == [("WARNING", "the workers were ended: other schedulers may run their attempts after a lost lease")]


async def test_without_a_lease_nothing_ends(start_local: StartLocal, dags_folder: Path, reports: Reports) -> None:
    write_dag(dags_folder, "def short(): pass\ntask(short)")
    executor = await start_local()
    short = attempt("short")

    executor.submit([short])

    assert executor.lease_deadline.until == 0.0
    assert (await reports.of(short)).outcome is Outcome.SUCCESS


async def test_the_windows_are_those_of_executors_with_processes(start_local: StartLocal) -> None:
    executor = await start_local()
    assert isinstance(executor, LocalExecutor)

    assert windows_of([object(), executor]) == [executor.lease_deadline]
