"""The versions of a bundle on a machine: complete or missing, made once, removed when nobody needs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiosched.bundles.cache import BundleCache
from aiosched.bundles.snapshots import FolderReader, pack, write_files
from aiosched.bundles.zip_files import unpack

MAKE = """
import sys, time
from pathlib import Path
from aiosched.bundles.cache import BundleCache

def fill(folder):
    for number in range(50):
        (folder / f"{number}.py").write_text(sys.argv[2])
    print("filled", flush=True)
    sys.stdin.readline()  # until all have written their files

path = BundleCache(Path(sys.argv[1])).make("v1", fill)
print(len(list(path.iterdir())), flush=True)
"""


def test_two_processes_that_need_a_version_at_once_both_get_it(tmp_path: Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", MAKE, str(tmp_path)]
    processes = [subprocess.Popen([*command, word], **pipes) for word in ("one", "two")]  # type: ignore[call-overload]
    for process in processes:
        assert process.stdout.readline() == "filled\n"

    answers = [process.communicate("\n", timeout=60)[0] for process in processes]

    assert answers == ["50\n", "50\n"]
    assert [path.name for path in tmp_path.iterdir()] == ["v1"]
    assert len({path.read_text() for path in (tmp_path / "v1").iterdir()}) == 1  # all from one of the two


def test_what_fails_halfway_leaves_nothing(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        (folder / "a.py").write_text("")
        raise ValueError("halfway")

    with pytest.raises(ValueError, match="halfway"):
        BundleCache(tmp_path).make("v1", fill)

    assert list(tmp_path.iterdir()) == []


def test_only_what_nobody_needs_and_was_not_used_lately_is_removed(tmp_path: Path) -> None:
    cache = BundleCache(tmp_path)
    for version in ("needed", "unneeded", "used"):
        cache.make(version, lambda folder: (folder / "a.py").touch())
        os.utime(cache.path(version), (0, 0))
    cache.touch("used")

    assert cache.sweep({"needed"}, unused_for=3600.0) == ["unneeded"]
    assert sorted(cache.versions()) == ["needed", "used"]


def test_unfinished_folders_of_killed_processes_are_removed_later(tmp_path: Path) -> None:
    cache = BundleCache(tmp_path)
    for name, when in ((".making-old", 0), (".making-new", None)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, None if when is None else (when, when))

    cache.sweep((), unused_for=0.0)

    assert [path.name for path in tmp_path.iterdir()] == [".making-new"]


def test_the_state_that_is_broken_is_unknown(tmp_path: Path) -> None:
    cache = BundleCache(tmp_path)
    cache.write_state({"version": "v1"})
    assert cache.read_state() == {"version": "v1"}

    (tmp_path / "newest.json").write_text("{")

    assert cache.read_state() == {}


def test_a_snapshot_has_the_files_but_no_byte_code_and_comes_back_from_its_archive(tmp_path: Path) -> None:
    folder = tmp_path / "dags"
    (folder / "deep" / "__pycache__").mkdir(parents=True)
    for name in ("a.py", "deep/b.sql", "deep/__pycache__/b.pyc", ".hidden", ".aioschedignore"):
        (folder / name).write_text(name)
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "loop").symlink_to(folder)
    version, files = FolderReader(folder).read()
    assert files is not None
    for target in (tmp_path / "one", tmp_path / "two"):
        target.mkdir()
    write_files(files, tmp_path / "one")
    (tmp_path / "packed.zip").write_bytes(pack(files))

    unpack(tmp_path / "packed.zip", tmp_path / "two")

    for target in (tmp_path / "one", tmp_path / "two"):
        names = {str(p.relative_to(target)) for p in target.rglob("*") if p.is_file()}
        assert names == {"a.py", "deep/b.sql", ".aioschedignore", "run.sh"}
        assert os.access(target / "run.sh", os.X_OK)
        assert FolderReader(target).read()[0] == version


def test_a_change_of_any_file_is_another_version_also_within_the_same_second(tmp_path: Path) -> None:
    reader = FolderReader(tmp_path)
    (tmp_path / "a.sql").write_text("one")
    first, _ = reader.read()
    stamp = (tmp_path / "a.sql").stat()
    (tmp_path / "a.sql").write_text("two")
    os.utime(tmp_path / "a.sql", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    second, _ = reader.read()
    (tmp_path / "a.sql").write_text("one")

    assert first != second
    assert reader.read()[0] == first
