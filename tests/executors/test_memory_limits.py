"""A task that takes too much memory costs itself, and nothing else. Real processes."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from aiosched.core.values.messages import Attempt, Outcome
from aiosched.executors.worker.processes import resident_memory
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import Reports, StartLocal, attempt, write_dag

LIMIT = 150 << 20
TAKE = "held = bytearray(300 << 20); time.sleep(1000)"
REASON = "the worker process used more than 150 MiB of memory and was killed"


def limited(one: Attempt, size: int) -> Attempt:
    return msgspec.structs.replace(one, executor_config={"memory_limit": size})


def test_the_memory_of_a_process_is_known_here() -> None:
    assert (resident_memory(os.getpid()) or 0) > 1_000_000


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize(
    "body",
    [
        TAKE,
        "held = [bytes([i % 256]) * 1_000_000 for i in range(1_000_000)]",
        f"subprocess.run([sys.executable, '-c', {'import time; ' + TAKE!r}])",
        f"subprocess.run(['setsid', sys.executable, '-c', {'import time; ' + TAKE!r}])",
        f"""if os.fork() == 0:
        {TAKE}
    os.wait()""",
        f"signal.signal(signal.SIGTERM, signal.SIG_IGN); {TAKE}",
    ],
    ids=["at once", "bit by bit", "a command", "another session", "a fork", "no signals"],
)
async def test_what_uses_more_than_the_limit_fails_and_its_neighbours_go_on(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports, body: str
) -> None:
    write_dag(dags_folder, f"def greedy():\n    {body}\ndef good(): time.sleep(0.5)\ntask(greedy), task(good)")
    executor = await start_local(slots=2, memory_limit=LIMIT)
    greedy, good, waiting = attempt("greedy", number=1), attempt("good", number=2), attempt("good", number=3)

    executor.submit([greedy, good, waiting])

    report = await reports.of(greedy)
    assert (report.outcome, report.reason, report.fail_now) == (Outcome.FAILED, REASON, False)
    assert log_path(logs_folder, greedy).read_text().endswith(f"ERROR aiosched  {REASON}\n")
    assert [(await reports.of(one)).outcome for one in (good, waiting)] == [Outcome.SUCCESS] * 2


READS_A_FILE = """
    with open("big", "wb") as file: file.truncate(300 << 20)
    with open("big", "rb") as file: mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_{access})
    sum(mapped[place] for place in range(0, len(mapped), 4096))
    time.sleep(0.6)
"""


@pytest.mark.parametrize(
    "body",
    [
        READS_A_FILE.format(access="READ"),
        pytest.param(READS_A_FILE.format(access="COPY"), marks=pytest.mark.slow),
        pytest.param(
            f"""
    for _ in range(4):
        if os.fork() == 0:
            held = bytearray(10 << 20); time.sleep(1); os._exit(0)
    {READS_A_FILE.format(access="READ")}
""",
            marks=pytest.mark.slow,
        ),
        """
    held = bytearray(100 << 20)
    for _ in range(3):
        if os.fork() == 0:
            time.sleep(1); os._exit(sum(held[::4096]))
    time.sleep(0.9)
""",
        pytest.param(
            """
    held = mmap.mmap(-1, 100 << 20)
    for place in range(0, len(held), 4096): held[place] = 1
    for _ in range(3):
        if os.fork() == 0:
            sum(held[::4096]); time.sleep(1); os._exit(0)
    time.sleep(0.9)
""",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["a file", "a private map of a file", "a file, with children", "memory of a fork", "shared memory"],
)
async def test_what_a_task_shares_counts_once_and_pages_of_files_do_not(
    start_local: StartLocal, dags_folder: Path, reports: Reports, tmp_path: Path, body: str
) -> None:
    write_dag(dags_folder, f"import mmap\ndef shares():\n    os.chdir({str(tmp_path)!r})\n    {body}\ntask(shares)")
    executor = await start_local(slots=1, memory_limit=LIMIT)
    shares = attempt("shares")

    executor.submit([shares])

    assert (await reports.of(shares)).outcome is Outcome.SUCCESS


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "held = mmap.mmap(-1, 300 << 20); [held.__setitem__(place, 1) for place in range(0, len(held), 4096)]",
        """[os.fork() for _ in range(2)]
    held = bytearray(80 << 20)""",
    ],
    ids=["shared memory", "children of their own"],
)
async def test_what_the_processes_of_a_task_have_together_counts(
    start_local: StartLocal, dags_folder: Path, reports: Reports, body: str
) -> None:
    write_dag(dags_folder, f"import mmap\ndef greedy():\n    {body}\n    time.sleep(1000)\ntask(greedy)")
    executor = await start_local(slots=1, memory_limit=LIMIT)
    greedy = attempt("greedy")

    executor.submit([greedy])

    assert (await reports.of(greedy)).reason == REASON


async def test_a_task_may_have_a_limit_of_its_own_in_both_directions(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    write_dag(dags_folder, "def take():\n    held = bytearray(200 << 20); time.sleep(0.6)\ntask(take)")
    executor = await start_local(slots=1, memory_limit=LIMIT)
    more, less = limited(attempt("take", number=1), 1 << 30), limited(attempt("take", number=2), 64 << 20)

    executor.submit([more, less])

    assert (await reports.of(more)).outcome is Outcome.SUCCESS
    assert (await reports.of(less)).reason == "the worker process used more than 64 MiB of memory and was killed"


async def test_a_task_does_not_pay_for_what_the_one_before_it_has_left(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    write_dag(
        dags_folder,
        "def keep():\n    sys.kept = bytearray(120 << 20)\ndef small(): time.sleep(0.6)\ntask(keep), task(small)",
    )
    executor = await start_local(slots=1)
    keep, small = attempt("keep", number=1), limited(attempt("small", number=2), 80 << 20)

    executor.submit([keep, small])

    assert (await reports.of(small)).outcome is Outcome.SUCCESS
    assert reports.final[0].pid == reports.final[1].pid


async def test_coroutines_share_a_limit_and_are_lost_together(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    body = """
    async def greedy():
        held = bytearray(300 << 20)
        await asyncio.sleep(1000)
    async def fine():
        await asyncio.sleep(1000)
    task(greedy), task(fine)
    """
    write_dag(dags_folder, body)
    executor = await start_local(async_workers=1, memory_limit=LIMIT)
    both = [attempt("fine", is_async=True, number=1), attempt("greedy", is_async=True, number=2)]

    executor.submit(both)

    for one in both:
        lost = await reports.of(one)
        assert (lost.outcome, lost.reason) == (Outcome.LOST, f"{REASON}, which ran 2 attempts at a time")


async def test_the_kernel_is_told_to_end_tasks_before_schedulers(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    body = "print(subprocess.check_output(['cat', '/proc/self/oom_score_adj'], text=True))"
    write_dag(dags_folder, f"def plain(): {body}\nasync def coroutine(): {body}\ntask(plain), task(coroutine)")
    executor = await start_local()
    both = [attempt("plain", number=1), attempt("coroutine", is_async=True, number=2)]

    executor.submit(both)

    for one in both:
        await reports.of(one)
        assert "INFO  stdout  500\n" in log_path(logs_folder, one).read_text()


async def test_a_task_that_closes_the_workers_connection_is_told_so(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    write_dag(dags_folder, "def closes():\n    os.closerange(3, 1000); time.sleep(1000)\ntask(closes)")
    executor = await start_local()
    closes = attempt("closes")

    executor.submit([closes])

    report = await reports.of(closes)
    assert report.outcome is Outcome.FAILED
    assert report.reason == "the worker process closed its connection to the scheduler and was killed"


async def test_a_kill_from_outside_is_not_taken_for_its_own(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    write_dag(dags_folder, "def wait(): os.kill(os.getpid(), signal.SIGKILL)\ntask(wait)")
    executor = await start_local(memory_limit=LIMIT)
    wait = attempt("wait")

    executor.submit([wait])

    assert (await reports.of(wait)).reason == "the worker process was killed by SIGKILL"
