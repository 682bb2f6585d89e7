"""A log is read from wherever it is: this machine, others that wrote to the store, or both."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from aiosched.errors import RemoteStorageError
from aiosched.remote.folder import RemoteFolder
from aiosched.remote.log_ranges import LogRange
from aiosched.remote.logs import AttemptLogs
from aiosched.remote.plain_files import create_plain, open_plain
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


# -- files of this machine ------------------------------------------------------------------------------


def plain(folder: Path, text: str, number: int = 1) -> AttemptLogs:
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    (folder / FOLDER / f"attempt={number}.log").write_text(text)
    return AttemptLogs(folder)


def test_tries_are_listed_in_order_and_read_from_an_offset_in_whole_lines(here: Path) -> None:
    logs = plain(here, "ten\n", 10)
    plain(here, "two\nhalf", 2)
    plain(here, "no number", 3).folder.joinpath(FOLDER, "attempt=3.log").rename(here / FOLDER / "attempt=x.log")

    assert logs.tries(FOLDER) == [2, 10]
    assert logs.tries("none") == []
    assert logs.view(FOLDER, 2).lines(0) == ("two\n", 4)
    assert logs.view(FOLDER, 2).lines(4) == ("", 4)
    assert logs.view(FOLDER, 3).lines(0) == ("", 0)


def test_a_long_log_is_read_in_parts_of_whole_lines(here: Path) -> None:
    lines = [f"line {number} é\n" for number in range(300_000)]
    view = plain(here, "".join(lines)).view(FOLDER, 1)

    parts, offset = [], 0
    while (part := view.lines(offset))[0]:
        text, offset = part
        parts.append(text)

    assert "".join(parts) == "".join(lines)
    assert len(parts) > 3
    assert all(len(part.encode()) <= 2**20 and part.endswith("\n") for part in parts)


def test_a_line_that_is_longer_than_a_part_does_not_stop_the_reader(here: Path) -> None:
    view = plain(here, "x" * (2**20 + 10) + "\nend\n").view(FOLDER, 1)

    first, offset = view.lines(0)
    second, _ = view.lines(offset)

    assert first + second == "x" * (2**20 + 10) + "\nend\n"


@pytest.mark.parametrize("trap", ["link to a file", "linked folder", "linked run", "fifo", "folder", "socket"])
def test_only_regular_files_below_the_folder_are_logs(tmp_path: Path, here: Path, trap: str) -> None:
    """A task could have a log shown that is another file, and a FIFO blocked what reads it."""
    secret = tmp_path / "elsewhere" / FOLDER / "attempt=1.log"
    secret.parent.mkdir(parents=True)
    secret.write_text("secret\n")
    log = here / FOLDER / "attempt=1.log"
    log.parent.mkdir(parents=True)
    match trap:
        case "link to a file":
            log.symlink_to(secret)
        case "linked folder":
            log.parent.rmdir()
            log.parent.symlink_to(secret.parent)
        case "linked run":
            log.parent.rmdir()
            (here / RUN).rmdir()
            (here / RUN).symlink_to(tmp_path / "elsewhere" / RUN)
        case "fifo":
            os.mkfifo(log)
        case "folder":
            log.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as sock, contextlib.chdir(log.parent):
                sock.bind(log.name)

    view = AttemptLogs(here).view(FOLDER, 1)

    assert (view.size, view.lines(0)) == (0, ("", 0))


def test_a_log_that_becomes_a_link_while_it_is_read_is_not_followed(tmp_path: Path, here: Path) -> None:
    logs = plain(here, "shown\n")
    view = logs.view(FOLDER, 1)
    (tmp_path / "secret").write_text("secret\n")
    (here / FOLDER / "attempt=1.log").unlink()
    (here / FOLDER / "attempt=1.log").symlink_to(tmp_path / "secret")

    assert view.lines(0) == ("", 0)


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a/../../secret"])
def test_no_path_leaves_the_folder(tmp_path: Path, here: Path, path: str) -> None:
    (here / "a").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")

    assert open_plain(here, path) is None


@pytest.mark.parametrize("flags", [os.O_WRONLY, os.O_RDWR], ids=["write", "both"])
@pytest.mark.parametrize(
    "make",
    [
        os.mkfifo,
        os.mkdir,
        lambda path: os.mknod(path, stat.S_IFCHR | 0o600, 0x103),
        lambda path: path.symlink_to("/dev/null"),
    ],
    ids=["fifo", "folder", "device", "link"],
)
def test_what_is_no_regular_file_is_not_opened_to_write_a_log(tmp_path: Path, make: Any, flags: int) -> None:
    """An author who may write there leaves a FIFO: whoever opened it to write would wait for its reader."""
    try:
        make(tmp_path / "log")
    except PermissionError:  # devices are made by root
        os.mkfifo(tmp_path / "log")
    with pytest.raises(OSError, match=r"no regular file|No such device|symbolic links|directory"):
        create_plain(tmp_path / "log", flags | os.O_APPEND)


def test_a_log_that_is_opened_blocks_as_other_files_do(tmp_path: Path) -> None:
    descriptor = create_plain(tmp_path / "deep" / "log", os.O_WRONLY)
    assert os.get_blocking(descriptor)
    os.close(descriptor)


def test_logs_are_for_their_owner_and_group(here: Path) -> None:
    say(here, "text")

    modes = {path.relative_to(here).as_posix(): path.stat().st_mode & 0o777 for path in here.rglob("dag_id=*/**/*")}
    assert {modes[f"{FOLDER}/attempt=1.log"], here.stat().st_mode & 0o777} <= {0o640, 0o750}
    assert all(mode & 0o007 == 0 for mode in modes.values())
