"""Output that cannot be written: no task fails by it, and it is said what is lost."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiosched.core.values import unwritten
from aiosched.core.values.masking import secrets
from aiosched.core.values.messages import Attempt, Outcome
from aiosched.executors.attempt.logs import AttemptLog
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import FakeServices, Reports, StartLocal, attempt, write_dag
from tests.patience import PATIENCE

pytestmark = pytest.mark.usefixtures("no_secrets")

LOUD = """
@task
def loud():
    print("one")
    print("two")

@task
async def calm():
    logging.getLogger("lib").warning("three")

@task
def child():
    subprocess.run(["echo", "four"], stdout=sys.stdout, check=True)

@task
def killed():
    os.kill(os.getpid(), signal.SIGKILL)
"""


class Told(FakeServices):
    """Keeps what is said about logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: list[dict[str, Any]] = []
        self.news = asyncio.Event()

    async def call(self, run: int, name: str, args: str) -> str:
        assert name == "unwritten_log"
        self.lost.append(json.loads(args))
        self.news.set()
        return "null"


@pytest.fixture
def services() -> Told:
    return Told()


def in_the_way(logs: Path, one: Attempt) -> None:
    """A file is where the folder of the DAG's logs should be: root cannot write there either."""
    folder = next(parent for parent in log_path(logs, one).parents if parent.name.startswith("dag_id="))
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("")


@pytest.mark.parametrize("task_id", ["loud", "calm", "child", "killed"])
async def test_a_task_ends_as_it_would_and_what_it_wrote_last_is_told(
    task_id: str, dags_folder: Path, logs_folder: Path, services: Told, reports: Reports, start_local: StartLocal
) -> None:
    one = attempt(task_id, is_async=task_id == "calm", file=write_dag(dags_folder, LOUD))
    in_the_way(logs_folder, one)
    executor = await start_local()

    executor.submit([one])
    report = await reports.of(one)
    async with asyncio.timeout(PATIENCE):
        await services.news.wait()

    assert report.outcome is (Outcome.FAILED if task_id == "killed" else Outcome.SUCCESS)
    (lost,) = services.lost
    assert (lost["name"], lost["task_index"], lost["map_index"], lost["try_number"]) == (f"d.{task_id}", 0, -1, 1)
    assert lost["why"] == "File exists"
    expected = {"loud": ("  one\n", "  two\n"), "calm": ("lib  three\n",), "child": (), "killed": ("SIGKILL",)}[task_id]
    assert all(text in lost["tail"] for text in expected)
    assert lost["lost"] == len(lost["tail"].encode())


def test_only_the_end_is_kept_and_no_secret(tmp_path: Path) -> None:
    one = attempt("t")
    in_the_way(tmp_path, one)
    secrets.register("hunter2hunter2")
    log = AttemptLog(tmp_path, one, 10**6)

    for number in range(1000):
        log.line("INFO", "x", f"line {number}, hunter2hunter2")
    log.close()

    assert log.unwritten is not None
    assert len(log.unwritten.tail) == unwritten.TAIL
    assert log.unwritten.lost > 40_000
    assert log.unwritten.tail.endswith(b"line 999, ***\n")
    assert b"hunter2" not in log.unwritten.tail


@contextlib.contextmanager
def small_files() -> Iterator[None]:
    """No file of this process can have more than 100 bytes: the write that meets the limit is cut.

    Not a fixture: pytest writes what became of a test before its fixtures end, and its output may be a file.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_a_disk_that_is_full_in_the_middle_of_a_line_keeps_what_had_room(tmp_path: Path) -> None:
    one = attempt("t")
    log = AttemptLog(tmp_path, one, 10**6)

    with small_files():
        log.raw(b"a" * 79)
        log.raw(b"b" * 50)
        log.raw(b"c")
        log.close()

    assert log_path(tmp_path, one).read_bytes() == b"a" * 79 + b"\n" + b"b" * 20
    assert log.unwritten is not None
    assert (log.unwritten.why, log.unwritten.tail) == ("File too large", b"b" * 30 + b"\nc\n")
    assert log.unwritten.lost == 33


def test_children_can_write_somewhere_and_a_log_without_a_folder_has_no_file(tmp_path: Path) -> None:
    one = attempt("t")
    in_the_way(tmp_path, one)
    log = AttemptLog(tmp_path, one, 100)

    with open(log.fileno(), "w", closefd=False) as file:
        file.write("dropped")
    log.close()

    assert log.unwritten is not None
    with pytest.raises(io.UnsupportedOperation):
        AttemptLog(None, one, 100).fileno()


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_scheduler_that_does_not_know_the_service_changes_nothing(
    is_async: bool,
    dags_folder: Path,
    logs_folder: Path,
    services: Told,
    reports: Reports,
    start_local: StartLocal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = attempt("calm" if is_async else "loud", is_async=is_async, file=write_dag(dags_folder, LOUD))
    in_the_way(logs_folder, one)

    async def refuse(self: Told, run: int, name: str, args: str) -> str:
        raise ValueError("no service of this name")

    monkeypatch.setattr(Told, "call", refuse)
    executor = await start_local()
    executor.submit([one])

    assert (await reports.of(one)).outcome is Outcome.SUCCESS
