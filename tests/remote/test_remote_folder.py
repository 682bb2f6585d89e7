"""A folder of a store: files, listings, and what is said when something is wrong."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from aiosched.errors import ConfigError, RemoteStorageError
from aiosched.remote.folder import RemoteFolder, open_folder
from tests.remote.stores import FailingFolder

ODD = "dag_id=a b/run_id=manual__2026-01-01T00:00:00+00:00/task_id=ü%2F#?"


def test_what_was_written_is_read_in_full_and_in_parts(store: RemoteFolder) -> None:
    store.write(f"{ODD}/one", b"0123456789")

    assert store.read(f"{ODD}/one") == b"0123456789"
    assert store.read(f"{ODD}/one", 2, 5) == b"234"


def test_a_file_is_replaced(store: RemoteFolder) -> None:
    store.write("one", b"before")
    store.write("one", b"after")

    assert store.read("one") == b"after"


def test_a_part_of_an_open_file_is_copied(store: RemoteFolder) -> None:
    store.copy_from("folder/part", io.BytesIO(b"0123456789"), 3, 7)

    assert store.read("folder/part") == b"3456"


def test_a_listing_has_the_files_of_one_folder_and_a_search_those_below_it(store: RemoteFolder) -> None:
    store.write(f"{ODD}/one", b"1")
    store.write(f"{ODD}/deeper/two", b"22")

    assert [(file.path, file.size) for file in store.files(ODD)] == [(f"{ODD}/one", 1)]
    assert sorted((file.path, file.size) for file in store.find("dag_id=a b")) == [
        (f"{ODD}/deeper/two", 2),
        (f"{ODD}/one", 1),
    ]
    assert store.folders(ODD) == [f"{ODD}/deeper"]
    assert store.folders("") == ["dag_id=a b"]


def test_a_listing_is_never_old(store: RemoteFolder, url: str) -> None:
    store.write("folder/one", b"1")
    assert len(store.files("folder")) == 1

    RemoteFolder(url, setting="logs.remote").write("folder/two", b"2")

    assert len(store.files("folder")) == 2


def test_a_folder_that_does_not_exist_is_empty(store: RemoteFolder) -> None:
    assert (store.files("no/such"), store.find("no/such"), store.folders("no/such")) == ([], [], [])
    assert store.remove_tree("no/such") == 0


def test_files_and_trees_are_removed_and_missing_ones_are_no_error(store: RemoteFolder) -> None:
    for name in ("a/1", "a/b/2", "c"):
        store.write(name, b"x")

    store.remove(["c", "never/was"])
    assert store.remove_tree("a") == 2

    assert store.find("") == []


def test_no_empty_folders_are_left_in_a_file_system(tmp_path: Path) -> None:
    store = RemoteFolder(f"file://{tmp_path}/store", setting="logs.remote")
    for name in ("a/b/1", "a/c/2", "d/3"):
        store.write(name, b"x")

    store.remove(["a/b/1"])
    store.remove_tree("d")

    assert sorted(path.name for path in (tmp_path / "store").rglob("*")) == ["2", "a", "c"]


@pytest.mark.parametrize("mode", [0o777, 0o2775, 0o700])
def test_folders_in_a_file_system_have_the_mode_of_the_store(tmp_path: Path, mode: int) -> None:
    """Tasks of one run may run as several users, and whoever removes files may be another one."""
    root = tmp_path / "store"
    root.mkdir()
    root.chmod(mode)
    before = os.umask(0o077)
    try:
        RemoteFolder(f"file://{root}", setting="xcom.remote").write("a/b/1", b"x")
    finally:
        os.umask(before)

    assert [stat.S_IMODE((root / folder).stat().st_mode) for folder in ("a", "a/b")] == [mode, mode]


def test_to_read_a_missing_file_is_its_own_error(store: RemoteFolder) -> None:
    with pytest.raises(FileNotFoundError, match="no/such"):
        store.read("no/such")


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/../../b"])
def test_no_path_leaves_the_folder(store: RemoteFolder, path: str) -> None:
    with pytest.raises(RemoteStorageError, match="not a path below"):
        store.read(path)


def test_a_failure_names_the_address_and_what_to_check(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = RemoteFolder(f"file://{tmp_path}/file", setting="logs.remote")

    with pytest.raises(RemoteStorageError, match=r"file://.*/file/one cannot be used.*logs\.remote.*credentials"):
        folder.write("one", b"1")


def test_no_other_reader_sees_a_file_that_is_half_written(tmp_path: Path) -> None:
    folder = RemoteFolder(f"file://{tmp_path}", setting="logs.remote")
    folder.write("one", b"before")

    class Failing(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            assert folder.read("one") == b"before"
            raise OSError("the disk is gone")

    with pytest.raises(RemoteStorageError, match="the disk is gone"):
        folder.copy_from("one", Failing(b"x" * 10), 0, 10)

    assert folder.read("one") == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_a_store_that_hangs_is_given_up_after_the_limit_and_later_not_asked_at_all(tmp_path: Path) -> None:
    folder = FailingFolder(tmp_path, limit=0.01)
    folder.answers.clear()
    try:
        for _ in range(16):
            with pytest.raises(RemoteStorageError, match=r"one: the store did not answer within 0\.01 s"):
                folder.read("one")
        with pytest.raises(RemoteStorageError, match="16 earlier calls still wait"):
            folder.read("one")
    finally:
        folder.answers.set()
        for thread in folder._hanging:
            thread.join()

    folder.write("one", b"1")
    assert folder.read("one") == b"1"


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)

    with pytest.raises(ConfigError, match=r"logs\.remote needs the package fsspec.*pip install 'aiosched\[remote\]'"):
        RemoteFolder("s3://bucket", setting="logs.remote")


@pytest.mark.parametrize(
    ("url", "options", "text"),
    [
        ("abfs://bucket/x", None, "xcom.remote = abfs://bucket/x needs a package .*pip install adlfs"),
        ("nosuch://bucket", None, "xcom.remote = nosuch://bucket cannot be opened.*nosuch"),
        ("sftp://me:secret@host/x", None, r"xcom.remote = sftp://me:\*\*\*@host/x needs a package"),
    ],
)
def test_a_url_that_cannot_be_used_is_named_without_its_password(url: str, options: str | None, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        RemoteFolder(url, options, setting="xcom.remote")


@pytest.mark.slow
def test_nothing_imports_the_package_before_a_folder_is_opened() -> None:
    modules = "aiosched.scheduler.service, aiosched.executors.worker.worker, aiosched.web.app, aiosched.remote.uploads"
    code = f"import sys, {modules}; print('fsspec' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_an_unset_setting_has_no_folder_and_needs_no_package() -> None:
    assert open_folder(None, setting="logs.remote") is None
