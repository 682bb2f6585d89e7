"""Logs are written to the store while attempts run, whatever becomes of the store, the task or this process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path

import pytest

from aiosched.core.values.masking import secrets
from aiosched.executors.attempt import logs as module
from aiosched.remote.folder import RemoteFolder
from aiosched.remote.logs import AttemptLogs
from aiosched.remote.pending import list_pending, lock_uploader
from aiosched.remote.uploads import LogUploader
from tests.remote.log_builders import FOLDER, local, names, new_log, read, upload, uploader_of
from tests.remote.stores import FailingFolder

ELSEWHERE = Path("/nowhere")  # the logs of a machine that has none


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "logs"


class Ticking:
    """A monotonic clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_log_is_read_elsewhere_while_it_is_written(logs: Path, store: RemoteFolder) -> None:
    log, uploader = new_log(logs), uploader_of(logs, store)

    log.line("INFO", "a", "first")
    upload(uploader)
    assert read(ELSEWHERE, store) == local(logs)
    log.line("INFO", "a", "second ü")
    upload(uploader)

    assert read(ELSEWHERE, store) == local(logs)
    assert b"second" in local(logs)
    assert len(names(store)) == 2
    log.close()


def test_when_it_is_closed_its_parts_become_one(logs: Path, store: RemoteFolder) -> None:
    log, uploader = new_log(logs), uploader_of(logs, store)
    for number in range(3):
        log.line("INFO", "a", f"line {number}")
        upload(uploader)

    log.close()
    upload(uploader)

    assert names(store) == [f"0-{len(local(logs))}"]
    assert list_pending(logs) == []
    assert read(ELSEWHERE, store) == local(logs)


def test_nothing_is_written_again_if_nothing_is_new(logs: Path, tmp_path: Path) -> None:
    store = FailingFolder(tmp_path / "store")
    log, uploader = new_log(logs), uploader_of(logs, store)
    log.line("INFO", "a", "only")
    upload(uploader)

    store.is_down = True
    upload(uploader)

    assert all(one.pause == 0 for one in uploader._known.values())
    log.close()


def test_many_parts_are_put_together_while_the_task_runs_and_large_ones_are_left_alone(
    logs: Path, store: RemoteFolder
) -> None:
    log, uploader = new_log(logs), uploader_of(logs, store)
    log.line("INFO", "a", "x" * 100_000)
    for number in range(200):
        log.line("INFO", "a", f"line {number}")
        upload(uploader)

    assert len(names(store)) < 60
    assert any(int(name.partition("-")[0]) > 100_000 for name in names(store))
    assert read(ELSEWHERE, store) == local(logs)
    log.close()


def test_a_large_log_is_written_in_parts_of_whole_lines(
    logs: Path, store: RemoteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiosched.remote.uploads.LARGEST", 1_000)
    log, uploader = new_log(logs), uploader_of(logs, store)
    for number in range(50):
        log.line("INFO", "a", f"line {number} " + "é" * 20)
    upload(uploader)

    found = sorted(store.find(""), key=lambda file: int(file.path.rpartition(".log")[0].split(".")[-1].split("-")[0]))

    assert len(found) > 3
    assert all(store.read(file.path).endswith(b"\n") for file in found)
    assert b"".join(store.read(file.path) for file in found) == local(logs)
    log.close()


def test_two_readers_see_the_same_while_parts_are_put_together(logs: Path, store: RemoteFolder) -> None:
    log, uploader = new_log(logs), uploader_of(logs, store)
    for number in range(5):
        log.line("INFO", "a", f"line {number}")
        upload(uploader)
    early, late = AttemptLogs(ELSEWHERE, store).view(FOLDER, 1), AttemptLogs(ELSEWHERE, store)
    first, after = early.lines(0)
    log.line("INFO", "a", "the last line")
    log.close()
    upload(uploader)  # the parts that `early` knows are gone

    assert len(names(store)) == 1
    assert early.read(0, 10) == local(logs)[:10]
    assert first + late.view(FOLDER, 1).lines(after)[0] == local(logs).decode()


# -- stores that fail or hang


def test_a_store_that_fails_for_a_while_costs_no_line_and_is_said_once(
    logs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    clock, store = Ticking(), FailingFolder(tmp_path / "store")
    log, uploader = new_log(logs), uploader_of(logs, store, monotonic=clock)
    store.is_down = True
    for number in range(4):
        log.line("INFO", "a", f"line {number}")
        upload(uploader)
        clock.now += 100
    log.close()

    store.is_down = False
    assert names(store) == []
    upload(uploader)

    assert read(ELSEWHERE, store) == local(logs)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "no route to the store" in caplog.text
    assert f"wait in {logs}" in caplog.text
    assert "are uploaded to" in caplog.messages[1]


def test_a_failing_store_is_tried_again_after_growing_pauses(logs: Path, tmp_path: Path) -> None:
    clock, store = Ticking(), FailingFolder(tmp_path / "store")
    log, uploader = new_log(logs), uploader_of(logs, store, monotonic=clock)
    log.line("INFO", "a", "line")
    store.is_down = True
    tried = []
    while clock.now < 300:
        if due := uploader.due():
            tried.append(clock.now)
            uploader.advance(due[0])
        clock.now += 1

    pauses = [after - before for before, after in pairwise(tried)]
    assert pauses[:6] == [2, 4, 8, 16, 32, 60]
    log.close()


def test_a_store_that_hangs_holds_up_neither_the_task_nor_the_end_of_the_scheduler(
    logs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = FailingFolder(tmp_path / "store")
    store.answers.clear()
    uploader = uploader_of(logs, store, interval=0.01)
    log = new_log(logs)
    log.line("INFO", "a", "before")
    uploader.start()
    assert store.waiting.wait(30)

    log.line("INFO", "a", "after")
    log.close()
    uploader.stop(0.05)

    assert "1 task logs are not in file://" in caplog.text
    assert lock_uploader(logs) is None  # nobody else uploads while a call of this process may still come through
    store.answers.set()


def test_what_was_left_is_uploaded_after_the_next_start(logs: Path, tmp_path: Path) -> None:
    store = FailingFolder(tmp_path / "store")
    log, first = new_log(logs), uploader_of(logs, store)
    log.line("INFO", "a", "one")
    upload(first)
    store.is_down = True
    log.line("INFO", "a", "two")
    log.close()
    upload(first)
    assert first._lock is not None
    os.close(first._lock)  # as when its process ends
    store.is_down = False

    second = uploader_of(logs, store, interval=0.01)
    second.start()
    second.stop(30)

    assert list_pending(logs) == []
    assert read(ELSEWHERE, store) == local(logs)
    assert len(names(store)) == 1


def test_a_stop_uploads_what_is_left(logs: Path, store: RemoteFolder) -> None:
    uploader = uploader_of(logs, store, interval=3600.0)
    uploader.start()
    log = new_log(logs)
    log.line("INFO", "a", "short")
    log.close()

    uploader.stop(30)

    assert read(ELSEWHERE, store) == local(logs)
    assert list_pending(logs) == []


def test_one_process_uploads_the_logs_of_a_folder(logs: Path, store: RemoteFolder) -> None:
    log = new_log(logs)
    log.line("INFO", "a", "line")
    first, second = uploader_of(logs, store), uploader_of(logs, store)

    assert [len(one.due()) for one in (first, second)] == [1, 0]
    log.close()


# -- processes that are killed


WRITER = """
    import sys
    from pathlib import Path
    from tests.remote.log_builders import new_log
    log = new_log(Path(sys.argv[1]))
    log.line("INFO", "a", "written before the end")
    if "shared" in sys.argv:
        log.fileno()
    print("ready", flush=True)
    sys.stdin.read()
"""


def killed_writer(logs: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-c", textwrap.dedent(WRITER), str(logs), *arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    with process:
        process.send_signal(signal.SIGKILL)


def test_the_log_of_a_process_that_is_killed_is_complete_at_once(logs: Path, store: RemoteFolder) -> None:
    process, uploader = killed_writer(logs), uploader_of(logs, store)
    upload(uploader)
    assert len(list_pending(logs)) == 1

    end(process)
    upload(uploader)

    assert list_pending(logs) == []
    assert read(ELSEWHERE, store) == local(logs)


def test_a_part_that_a_killed_process_wrote_by_half_is_written_again(logs: Path, store: RemoteFolder) -> None:
    log, uploader = new_log(logs), uploader_of(logs, store)
    log.line("INFO", "a", "one")
    upload(uploader)
    (whole,) = store.find("")
    content = store.read(whole.path)
    store.write(whole.path, content[:10])  # this is how far it came
    assert read(ELSEWHERE, store) == b""
    assert uploader._lock is not None
    os.close(uploader._lock)

    upload(uploader_of(logs, store))

    assert store.read(whole.path) == content
    log.close()


def test_a_process_that_was_killed_while_it_put_parts_together_leaves_nothing(logs: Path, store: RemoteFolder) -> None:
    log, uploader = new_log(logs), uploader_of(logs, store)
    for text in ("one", "two"):
        log.line("INFO", "a", text)
        upload(uploader)
    (pending,) = list_pending(logs)
    size = len(local(logs))
    store.write(f"{FOLDER}/attempt=1.{pending.segment}.0-{size}.log", local(logs))  # then it was killed
    assert read(ELSEWHERE, store) == local(logs)
    assert uploader._lock is not None
    os.close(uploader._lock)
    log.close()

    upload(uploader_of(logs, store))

    assert names(store) == [f"0-{size}"]


# -- local copies


def test_without_local_copies_the_file_goes_and_the_log_stays_readable(logs: Path, store: RemoteFolder) -> None:
    log, uploader = new_log(logs), uploader_of(logs, store, keep_local=False)
    log.line("INFO", "a", "line")
    upload(uploader)
    written = local(logs)

    log.close()
    upload(uploader)

    assert [path for path in logs.rglob("*") if "dag_id" in path.name] == []
    assert read(logs, store) == written


@pytest.mark.parametrize("keep_local", [True, False])
def test_a_try_that_goes_on_later_continues_its_log(logs: Path, store: RemoteFolder, keep_local: bool) -> None:
    uploader, written = uploader_of(logs, store, keep_local=keep_local), b""
    for text in ("before the deferral", "the trigger", "after it"):
        log = new_log(logs)
        log.line("INFO", "a", text)
        written += local(logs) if not keep_local else b""
        log.close()
        upload(uploader)
    written = written or local(logs)

    assert read(ELSEWHERE, store) == written
    assert read(logs, store) == written
    assert len(names(store)) == 3


def test_a_log_that_is_opened_while_its_file_is_removed_is_continued_in_a_new_one(
    logs: Path, store: RemoteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, uploader = new_log(logs), uploader_of(logs, store, keep_local=False)
    first.line("INFO", "a", "one")
    first.close()
    opened = module._open_file

    def and_upload(path: Path, flags: int) -> int:
        monkeypatch.setattr(module, "_open_file", opened)
        descriptor = opened(path, flags)
        upload(uploader)  # between the open and the lock
        return descriptor

    monkeypatch.setattr(module, "_open_file", and_upload)
    second = new_log(logs)
    second.line("INFO", "a", "two")
    second.close()
    upload(uploader)

    assert read(ELSEWHERE, store).count(b"\n") == 2


def test_the_logs_of_a_removed_run_are_no_longer_pending(logs: Path, store: RemoteFolder) -> None:
    log, uploader = new_log(logs), uploader_of(logs, store)
    log.line("INFO", "a", "line")
    log.close()
    shutil.rmtree(logs / "dag_id=d")

    upload(uploader)

    assert list_pending(logs) == []
    assert store.find("") == []


# -- secrets


def test_secrets_are_masked_in_the_store(logs: Path, store: RemoteFolder) -> None:
    log, uploader = new_log(logs), uploader_of(logs, store)
    secrets.register("hunter2hunter2")
    try:
        log.line("INFO", "a", "the password is hunter2hunter2")
        upload(uploader)
        log.close()
    finally:
        secrets.clear()

    assert b"the password is ***" in read(ELSEWHERE, store)


def test_what_a_child_process_writes_into_the_log_is_uploaded_once_its_secrets_are_masked(
    logs: Path, store: RemoteFolder
) -> None:
    log, uploader = new_log(logs), uploader_of(logs, store)
    secrets.register("hunter2hunter2")
    try:
        log.line("INFO", "a", "before")
        subprocess.run(["echo", "hunter2hunter2"], stdout=log.fileno(), check=True)
        log.line("INFO", "a", "after")
        upload(uploader)
        assert b"hunter2" in local(logs)
        assert read(ELSEWHERE, store).count(b"\n") == 1
        log.close()
    finally:
        secrets.clear()
    upload(uploader)

    assert b"hunter2" not in read(ELSEWHERE, store)
    assert read(ELSEWHERE, store) == local(logs)
    assert b"***" in local(logs)


def test_what_nobody_masked_stays_on_the_machine(
    logs: Path, store: RemoteFolder, caplog: pytest.LogCaptureFixture
) -> None:
    process, uploader = killed_writer(logs, "shared"), uploader_of(logs, store)
    end(process)
    file = logs / FOLDER / "attempt=1.log"
    with file.open("ab") as shared:
        shared.write(b"hunter2hunter2\n")
    upload(uploader)
    assert len(list_pending(logs)) == 1
    os.utime(file, (0, 0))  # long ago

    upload(uploader)

    assert list_pending(logs) == []
    assert read(ELSEWHERE, store).endswith(b"written before the end\n")
    assert "could mask secrets" in caplog.text
    assert b"hunter2" in local(logs)


def test_the_threads_upload_what_grows(logs: Path, store: RemoteFolder) -> None:
    uploader = LogUploader(logs, store, interval=0.01)
    uploader.start()
    log = new_log(logs)
    log.line("INFO", "a", "line")
    while not store.find(""):
        pass
    log.close()
    while list_pending(logs):
        pass
    uploader.stop(30)

    assert read(ELSEWHERE, store) == local(logs)
