"""A log is read from wherever it is: this machine, others that wrote to the store, or both."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aiosched.errors import RemoteStorageError
from aiosched.remote.folder import RemoteFolder
from aiosched.remote.log_ranges import LogRange
from aiosched.remote.logs import AttemptLogs
from aiosched.web.views.log_index import find_errors, find_text, index_log
from tests.remote.log_builders import FOLDER, RUN, local, new_log, read, upload, uploader_of
from tests.remote.stores import FailingFolder

ELSEWHERE = Path("/nowhere")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path / "here"


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return tmp_path / "there"


def say(logs: Path, text: str, store: RemoteFolder | None = None, *, try_number: int = 1) -> None:
    """An attempt on a machine writes a line; with `store` it is uploaded at once."""
    log = new_log(logs, try_number)
    log.line("INFO", "a", text)
    log.close()
    if store is not None:
        uploader = uploader_of(logs, store)
        upload(uploader)
        assert uploader._lock is not None
        os.close(uploader._lock)


def texts(data: bytes) -> list[str]:
    return [line.rpartition("  ")[2] for line in data.decode().splitlines()]


def test_a_try_that_went_on_on_another_machine_has_one_log_everywhere(
    here: Path, there: Path, store: RemoteFolder
) -> None:
    say(here, "began here", store)
    say(there, "waited there", store)
    say(here, "ended here", store)

    everything = ["began here", "waited there", "ended here"]
    assert texts(read(here, store)) == everything
    assert texts(read(there, store)) == everything
    assert texts(read(ELSEWHERE, store)) == everything


def test_the_local_file_is_ahead_of_the_store(here: Path, there: Path, store: RemoteFolder) -> None:
    say(there, "waited there", store)
    say(here, "uploaded", store)
    say(here, "not uploaded yet")

    assert texts(read(here, store)) == ["waited there", "uploaded", "not uploaded yet"]
    assert texts(read(there, store)) == ["waited there", "uploaded"]


def test_a_log_that_is_only_here_is_read_from_here(here: Path, store: RemoteFolder) -> None:
    say(here, "only here")

    assert texts(read(here, store)) == ["only here"]
    assert texts(read(here, None)) == ["only here"]
    assert read(ELSEWHERE, store) == b""


def test_reading_creates_nothing(here: Path, tmp_path: Path, store: RemoteFolder) -> None:
    say(here, "line", store)

    assert texts(read(tmp_path / "reader", store)) == ["line"]
    assert not (tmp_path / "reader").exists()


def test_the_tries_are_those_of_all_machines(here: Path, there: Path, store: RemoteFolder) -> None:
    say(here, "one", store, try_number=1)
    say(there, "two", store, try_number=2)
    say(here, "three", try_number=3)

    assert AttemptLogs(here, store).tries(FOLDER) == [1, 2, 3]
    assert AttemptLogs(there, store).tries(FOLDER) == [1, 2]
    assert AttemptLogs(here).tries(FOLDER) == [1, 3]
    assert texts(read(here, store, 2)) == ["two"]


def test_without_an_answer_of_the_store_the_local_log_is_shown(
    here: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = FailingFolder(tmp_path / "store")
    say(here, "here", store)
    store.is_down = True

    assert texts(read(here, store)) == ["here"]
    assert AttemptLogs(here, store).tries(FOLDER) == [1]
    assert "only the logs on this machine are shown" in caplog.text
    with pytest.raises(RemoteStorageError, match="no route to the store"):
        read(ELSEWHERE, store)


def test_a_gap_is_named(store: RemoteFolder) -> None:
    segment = "20260101T000000000000Z-host-0a1b2c3d"
    for start, text in ((0, b"first\n"), (10, b"third\n")):
        one = LogRange(1, segment, "", start, start + len(text))
        store.write(f"{FOLDER}/{one.name}", text)

    first, gap, third = read(ELSEWHERE, store).splitlines()

    assert (first, third) == (b"first", b"third")
    assert gap.startswith(b"... 4 bytes of the log are missing in ")


def test_any_part_of_a_log_in_many_files_can_be_read(there: Path, here: Path, store: RemoteFolder) -> None:
    for number in range(3):
        say(there, f"there {number}", store)
        say(here, f"here {number}", store)
    whole = read(ELSEWHERE, store)
    view = AttemptLogs(ELSEWHERE, store).view(FOLDER, 1)

    assert view.size == len(whole)
    with view.open() as file:
        for start in range(0, len(whole), 7):
            file.seek(start)
            assert file.read(50) == whole[start : start + 50]
    assert index_log(view, limit=10)[0].size == len(whole)
    assert find_text(view, "HERE 2") == 4  # "there 2"
    assert find_errors(view, limit=10) == []


def test_following_gives_whole_lines_only(here: Path, store: RemoteFolder) -> None:
    uploader, log = uploader_of(here, store), new_log(here)
    log.line("INFO", "a", "ü" * 10)
    upload(uploader)
    (file,) = store.find("")
    content = store.read(file.path)
    cut = len(content) - 4  # inside a character
    store.remove([file.path])
    for start, end in ((0, cut), (cut, len(content))):
        name = file.path.rpartition(".log")[0].rpartition(".")[0]
        store.write(f"{name}.{start}-{end}.log", content[start:end])
        logs = AttemptLogs(ELSEWHERE, store)
        text, offset = logs.view(FOLDER, 1).lines(0)

    assert (text.encode(), offset) == (content, len(content))
    log.close()


def test_nothing_is_read_twice_from_the_store(there: Path, tmp_path: Path) -> None:
    store = FailingFolder(tmp_path / "store")
    say(there, "once", store)
    logs = AttemptLogs(ELSEWHERE, store, monotonic=lambda: 0.0)
    first = logs.view(FOLDER, 1).read(0, 100)

    store.is_down = True

    assert logs.view(FOLDER, 1).read(0, 100) == first != b""


def test_the_logs_of_a_run_are_counted_and_removed_here_and_in_the_store(
    here: Path, there: Path, store: RemoteFolder
) -> None:
    say(here, "one", store)
    say(there, "two", store, try_number=2)
    logs = AttemptLogs(here, store)

    assert logs.count(RUN) == 3
    assert logs.remove(RUN) == 3

    assert store.find("") == []
    assert logs.tries(FOLDER) == []
    assert logs.remove(RUN) == 0
    assert local(there, 2)  # nobody reaches the files of another machine


def test_logs_that_cannot_be_removed_from_the_store_are_an_error_and_stay(here: Path, tmp_path: Path) -> None:
    store = FailingFolder(tmp_path / "store")
    say(here, "one", store)
    store.is_down = True

    with pytest.raises(RemoteStorageError, match="no route to the store"):
        AttemptLogs(here, store).remove(RUN)

    assert local(here)


def test_old_logs_are_removed_from_the_store_but_not_those_that_are_kept(here: Path, store: RemoteFolder) -> None:
    say(here, "line", store)
    store.write("dag_id=d/run_id=unfinished/task_id=t/attempt=1.x.log", b"")
    store.write("something else/of somebody", b"")
    logs, later = AttemptLogs(here, store), time.time() + 60

    assert logs.remove_old(time.time() - 60, lambda run: False) == 0
    assert logs.remove_old(later, lambda run: run == "dag_id=d/run_id=unfinished") == 1

    assert sorted(file.path.split("/")[1] for file in store.find("")) == ["of somebody", "run_id=unfinished"]


@pytest.mark.parametrize(("seconds", "settled"), [(1, False), (60, True)])
def test_a_log_from_elsewhere_is_complete_some_seconds_after_the_end(
    here: Path, store: RemoteFolder, seconds: int, settled: bool
) -> None:
    ended = datetime.now(UTC) - timedelta(seconds=seconds)

    assert AttemptLogs(here, store).are_settled(FOLDER, 1, ended) is settled
    assert AttemptLogs(here).are_settled(FOLDER, 1, ended)
    say(here, "line")
    assert AttemptLogs(here, store).are_settled(FOLDER, 1, ended)
