"""Folders for temporary files of commands: each is removed, also when its process was killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiosched import leftovers, scratch

KILLED = """
import os, signal, sys
from aiosched import leftovers, scratch
with scratch.scratch_folder(leftovers.new_mark()) as folder:
    open(os.path.join(folder, "data"), "w").close()
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_a_folder_is_there_for_a_while() -> None:
    with scratch.scratch_folder("1.2.3.4") as folder:
        assert Path(folder).is_dir()
        assert Path(folder).name.startswith("aiosched-1.2.3.4-")

    assert not Path(folder).exists()


def test_the_folder_of_a_killed_process_is_removed_with_its_other_orphans() -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, check=False)
    folder = Path(killed.stdout.strip())
    assert (folder / "data").exists()

    with scratch.scratch_folder(leftovers.new_mark()) as living:
        leftovers.end_orphans()

        assert not folder.exists()
        assert Path(living).is_dir()


def test_nothing_else_is_removed(temporary: Path) -> None:
    """Not what has another name, what only looks like a folder, and what it leads to."""
    kept = temporary / "kept"
    kept.mkdir()
    (kept / "data").write_text("mine")
    (temporary / "aiosched-1.2.3.4-9-link").symlink_to(kept)
    (temporary / "aiosched-1.2.3.4-9-file").write_text("mine")
    (temporary / "aiosched-words").mkdir()
    (temporary / "aiosched-1.2.3.4-x-y").mkdir()
    before = sorted(temporary.iterdir())

    scratch.remove_scratch_folders(lambda mark, pid: True)

    assert sorted(temporary.iterdir()) == before
    assert (kept / "data").read_text() == "mine"


def test_folders_are_removed_by_owner_and_by_process(temporary: Path) -> None:
    for name in ("1.2.3.4-8-a", "1.2.3.4-9-b", "1.2.3.5-9-c"):
        (temporary / f"aiosched-{name}" / "deep").mkdir(parents=True)

    scratch.remove_scratch_folders(lambda mark, pid: mark == "1.2.3.4" and pid == 9)

    assert sorted(path.name for path in temporary.iterdir()) == ["aiosched-1.2.3.4-8-a", "aiosched-1.2.3.5-9-c"]


def test_a_folder_that_disappears_while_others_are_listed_is_no_error(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("aiosched-1.2.3.4-8-a", "aiosched-1.2.3.4-9-b"):
        (temporary / name).mkdir()
    listed = os.scandir

    @contextlib.contextmanager
    def while_one_goes(path: str) -> Iterator[list[os.DirEntry[str]]]:
        with listed(path) as entries:
            found = list(entries)
        (temporary / "aiosched-1.2.3.4-8-a").rmdir()  # another process has ended
        yield found

    monkeypatch.setattr(os, "scandir", while_one_goes)
    scratch.remove_scratch_folders(lambda mark, pid: True)
    monkeypatch.undo()

    assert list(temporary.iterdir()) == []
