"""Links that authors leave in a folder, a repository or a snapshot lead to nothing that is the service's own."""

from __future__ import annotations

import asyncio
import io
import os
import socket
import subprocess
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from aiosched.bundles.cache import BundleCache
from aiosched.bundles.git import GitBundle
from aiosched.bundles.snapshots import FolderReader
from aiosched.bundles.tree import LeadsOut, NotThere, Tree, TreeFile
from aiosched.bundles.zip_files import pack_folder
from aiosched.config import BundleSettings
from aiosched.errors import BundleError

SECRET = b"fernet key of the service"

Read = Callable[[Path], dict[str, bytes]]


def packed(folder: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(pack_folder(folder))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def snapshot(folder: Path) -> dict[str, bytes]:
    _, files = FolderReader(folder).read()
    assert files is not None
    return {name: content for name, (content, _) in files.items()}


@pytest.fixture(params=[packed, snapshot])
def read(request: pytest.FixtureRequest) -> Read:
    found: Read = request.param
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a DAG, beside a folder with a secret."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "fernet.key").write_bytes(SECRET)
    folder = tmp_path / "dags"
    (folder / "team").mkdir(parents=True)
    (folder / "team" / "own.py").write_text("own")
    return folder


OUTSIDE = {
    "an absolute path": lambda folder: str(folder.parent / "home/fernet.key"),
    "the way up": lambda folder: "../../home/fernet.key",
    "up and down again": lambda folder: "../team/../../home/fernet.key",
    "the folder": lambda folder: "../../home",
    "the folder above": lambda folder: "../..",
    "the root": lambda folder: "/",
    "the process": lambda folder: "/proc/self/environ",
    "its root": lambda folder: f"/proc/self/root{folder.parent / 'home' / 'fernet.key'}",
    "its descriptors": lambda folder: "/proc/self/fd",
    "a folder with the same beginning": lambda folder: f"{folder}-of-others/key",
    "its own name, from outside": lambda folder: f"../../{folder.name}/../home/fernet.key",
}


@pytest.mark.parametrize("target", OUTSIDE.values(), ids=OUTSIDE)
@pytest.mark.parametrize("chain", [0, 1, 3])
def test_a_link_that_leads_out_is_left_out(folder: Path, read: Read, target: Callable[[Path], str], chain: int) -> None:
    others = folder.parent / "dags-of-others"
    others.mkdir()
    (others / "key").write_bytes(SECRET)
    (folder / "team" / "l0").symlink_to(target(folder))
    for number in range(chain):
        (folder / "team" / f"l{number + 1}").symlink_to(f"l{number}")
    (folder / "through").symlink_to(f"team/l{chain}")

    assert read(folder) == {"team/own.py": b"own"}


def test_links_inside_are_followed(folder: Path, read: Read) -> None:
    (folder / ".data" / "v2").mkdir(parents=True)
    (folder / ".data" / "v2" / "job.py").write_text("job")
    (folder / ".data" / "now").symlink_to("v2")
    (folder / "job.py").symlink_to(".data/now/job.py")  # as in the volume of a ConfigMap
    (folder / "common").symlink_to(folder / "team")
    (folder / "again").symlink_to("team/../common/own.py")

    found = {name: content for name, content in read(folder).items() if not name.startswith(".data")}

    own = dict.fromkeys(["again", "common/own.py", "team/own.py"], b"own")
    assert found == {"job.py": b"job", **own}


def test_the_folder_itself_may_be_a_link(folder: Path, read: Read) -> None:
    current = folder.parent / "current"
    current.symlink_to("dags")
    (folder / "same").symlink_to(folder / "team" / "own.py")

    assert read(current) == {"same": b"own", "team/own.py": b"own"}


def test_what_leads_round_or_nowhere_and_what_is_no_file_is_left_out(folder: Path, read: Read) -> None:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    (folder / "self").symlink_to("self")
    (folder / "gone").symlink_to("team/gone")
    (folder / "below").symlink_to("team/own.py/x")
    (folder / "up").symlink_to(".")
    (folder / "team" / "up").symlink_to("..")
    os.mkfifo(folder / "fifo")
    (folder / "to_fifo").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "s"))
        (folder / "to_socket").symlink_to("s")

        assert read(folder) == {"team/own.py": b"own"}


def test_few_links_do_not_become_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiosched.bundles.zip_files.MOST_FILES", 1_000)
    monkeypatch.setattr("aiosched.bundles.snapshots.MOST_FILES", 1_000)
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "a.py").write_text("a")
    for depth in range(1, 40):
        (tmp_path / str(depth)).mkdir()
        for side in "lr":
            (tmp_path / str(depth) / side).symlink_to(f"../{depth - 1}")

    for read in (packed, snapshot):
        with pytest.raises(BundleError, match="more than 1,000 files and folders"):
            read(tmp_path)


def test_a_file_that_grows_is_read_up_to_the_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiosched.bundles.snapshots.MOST_BYTES", 1_000)
    opened = Tree.open

    def open_grown(tree: Tree, name: str) -> BinaryIO:
        (folder / name).write_bytes(b"x" * 5_000)
        return opened(tree, name)

    monkeypatch.setattr(Tree, "open", open_grown)
    (folder / "large.bin").touch()

    with pytest.raises(BundleError, match="the folder has 1,001 bytes, and 1,000 are the limit"):
        FolderReader(folder).read()


def test_what_is_exchanged_after_the_look_is_not_followed(folder: Path) -> None:
    with Tree(folder) as tree:
        (one,) = tree.files(skip=lambda name: False, most=10, refused=print)
        (folder / "team" / "own.py").unlink()
        (folder / "team" / "own.py").symlink_to(folder.parent / "home" / "fernet.key")
        with pytest.raises(LeadsOut):
            tree.open(one.name)
        (folder / "team").rename(folder / "before")
        (folder / "team").symlink_to(folder.parent / "home")
        with pytest.raises(LeadsOut):
            tree.open("team/fernet.key")
        with pytest.raises(LeadsOut):
            tree.open("before/../../home/fernet.key")


def test_a_folder_that_is_exchanged_between_the_look_and_the_opening_is_not_listed(
    folder: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = os.stat

    def exchanging(path: Any, *args: Any, **options: Any) -> os.stat_result:
        status = looked(path, *args, **options)
        if path == "team" and not (folder / "team").is_symlink():
            (folder / "team").rename(folder / ".before")
            (folder / "team").symlink_to(folder.parent / "home")
        return status

    listed: list[str] = []
    files = Tree.files

    def listing(tree: Tree, **options: Any) -> Iterator[TreeFile]:
        for file in files(tree, **options):
            listed.append(file.name)
            yield file

    monkeypatch.setattr(Tree, "files", listing)
    monkeypatch.setattr(os, "stat", exchanging)
    assert read(folder) == {}
    assert (folder / "team").is_symlink()
    assert listed == []


def test_whoever_exchanges_files_all_the_time_gets_nothing(folder: Path, read: Read) -> None:
    stop, path, other = threading.Event(), folder / "team", folder / "other"
    other.symlink_to(folder.parent / "home")

    def exchange() -> None:
        while not stop.is_set():
            path.rename(folder / ".aside")
            other.rename(path)
            path.rename(other)
            (folder / ".aside").rename(path)

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        for _ in range(100):
            try:
                found = read(folder)
            except NotThere:  # the packer's folders stay as they are
                continue
            assert SECRET not in found.values()
    finally:
        stop.set()
        thread.join()


def test_a_refused_link_is_said_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "key.txt").symlink_to("../home/fernet.key")
    reader = FolderReader(folder)

    reader.read()
    reader.read()

    (line,) = caplog.messages
    assert line == f"the link key.txt in {folder} leads out of this folder: it is left out"


def test_links_of_a_repository_are_not_packed(folder: Path, tmp_path: Path) -> None:
    """As committed: by whoever may write to the repository."""
    (folder / "a.txt").symlink_to(folder.parent / "home" / "fernet.key")
    (folder / "b.txt").symlink_to("/proc/self/environ")
    (folder / "c").symlink_to("../../../../../../../../../..")
    (folder / "good.py").symlink_to("team/own.py")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*who, "commit", "-q", "-m", "links"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    settings = BundleSettings(name="team", kind="git", url=f"file://{folder}", ref="main")
    bundle = GitBundle(settings, BundleCache(tmp_path / "cache"))

    newest = asyncio.run(bundle.newest(None, None))

    assert packed(bundle.cache.path(newest.version)) == {"good.py": b"own", "team/own.py": b"own"}
