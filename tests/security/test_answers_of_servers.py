"""Servers of others that never end their answers, send byte by byte, or lead elsewhere: each client has its limits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiosched.authoring.notifiers import WebhookNotifier
from aiosched.bundles import archive, git
from aiosched.bundles.archive import ArchiveBundle
from aiosched.bundles.cache import BundleCache
from aiosched.bundles.git import GitBundle
from aiosched.config import BundleSettings
from aiosched.core.values.messages import XComPlace
from aiosched.errors import BundleError, CommandFailed, RemoteStorageError
from aiosched.remote.folder import RemoteFolder
from aiosched.remote.values import XComRemote, XComStore
from tests.patience import PATIENCE
from tests.repositories import Repository
from tests.security.endless_servers import ENDLESS, Server, starting


@pytest.fixture
def serve() -> Iterator[Callable[[str], Server]]:
    with starting() as start:
        yield start


# ---- bundles


def archive_at(url: str, tmp_path: Path, **more: Any) -> ArchiveBundle:
    return ArchiveBundle(BundleSettings(name="b", kind="archive", url=url, **more), BundleCache(tmp_path / "cache"))


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("how", ENDLESS)
async def test_an_archive_without_an_end_is_left(
    serve: Callable[[str], Server], how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_GRACE", 0.2)
    monkeypatch.setattr(archive, "MOST_BYTES", 2**20)
    one = archive_at(f"{serve(how).url}/dags.zip", tmp_path, timeout=0.4 if "byte" in how else PATIENCE)
    words = r"took longer than 0.4 s \(timeout of the bundle\)" if "byte" in how else "more than 1,048,576 bytes"
    for _ in range(3):  # threads do not add up
        with pytest.raises(BundleError, match=words):
            await one.newest(None, None)
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("aiosched bundle b") <= 1


@pytest.mark.parametrize(
    ("before", "after", "follows"),
    [
        ("https", "https", True),
        ("http", "https", True),
        ("http", "http", True),
        ("https", "http", False),
        ("https", "ftp", False),
        ("http", "ftp", False),
        ("http", "file", False),
    ],
)
def test_a_redirect_of_an_archive_never_leaves_https(before: str, after: str, follows: bool) -> None:
    request = SimpleNamespace(
        full_url=f"{before}://a/x.zip", get_method=lambda: "GET", headers={}, origin_req_host="a"
    )  # fmt: skip
    redirect = archive._Redirects().redirect_request
    asked: tuple[Any, ...] = (request, None, 302, "Found", {}, f"{after}://b/x.zip")
    if follows:
        assert redirect(*asked).full_url == f"{after}://b/x.zip"
    else:
        with pytest.raises(BundleError, match=f"of the kind {after!r}: not followed"):
            redirect(*asked)


def git_at(url: str, tmp_path: Path, **more: Any) -> GitBundle:
    settings = BundleSettings(name="b", kind="git", url=url, **{"ref": "main", **more})
    return GitBundle(settings, BundleCache(tmp_path / "cache"))


async def test_a_repository_that_says_too_much_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Repository(tmp_path / "repo")
    repository.commit({"a.py": ""})
    monkeypatch.setattr(git, "_MOST_SAID", 20)
    with pytest.raises(BundleError, match="git ls-remote says more than 20 bytes"):
        await git_at(repository.url, tmp_path).newest(None, None)


@pytest.mark.parametrize(
    ("limit", "words"), [("MOST_FILES", "2 files, and the limit is 1"), ("MOST_BYTES", "3 bytes, and the limit is 1")]
)
async def test_a_commit_with_too_much_is_refused_before_it_is_written(
    tmp_path: Path, limit: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = Repository(tmp_path / "repo")
    repository.commit({"a.py": "a", "deep/b.py": "bb"})
    monkeypatch.setattr(git, limit, 1)
    with pytest.raises(BundleError, match=words):
        await git_at(repository.url, tmp_path).newest(None, None)
    assert not [path for path in (tmp_path / "cache").iterdir() if len(path.name) == 40]


async def test_a_pack_without_an_end_does_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Repository(tmp_path / "repo")
    repository.commit({"a.py": "".join(map(str, range(100_000)))})
    monkeypatch.setattr(git, "_MOST_KEPT", 20_000)
    with pytest.raises(BundleError):
        await git_at(repository.url, tmp_path).newest(None, None)


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("how", ENDLESS)
async def test_a_git_server_without_an_end_is_left(serve: Callable[[str], Server], how: str, tmp_path: Path) -> None:
    with pytest.raises(BundleError):
        await git_at(f"{serve(how).url}/r.git", tmp_path, timeout=1.0).newest(None, None)


@pytest.mark.parametrize(
    ("url", "ways"),
    [
        ("https://a/r.git", "https"),
        ("http://a/r.git", "http:https"),
        ("ssh://a/r.git", "ssh"),
        ("git@a:r.git", "ssh:file"),
        ("file:///r.git", "file"),
        ("/srv/r.git", "ssh:file"),
    ],
)
def test_git_takes_only_the_way_of_its_address(url: str, ways: str) -> None:
    assert git._environment(url, None)["GIT_ALLOW_PROTOCOL"] == ways


# ---- remote storage, secrets, webhooks


def test_no_more_of_a_value_is_read_than_was_written(tmp_path: Path) -> None:
    url = f"file://{tmp_path}"
    RemoteFolder(url, setting="xcom.remote").write("long", b"1" * 1_000_000)
    store = XComStore(XComRemote(url=url, options=None, remote_from=1, most=1000), pause=lambda seconds: None)
    with pytest.raises(RemoteStorageError, match="has more than 5 bytes instead of 5"):
        store.read(XComPlace("long", 5))


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("how", ENDLESS)
async def test_a_webhook_without_an_end_is_left(serve: Callable[[str], Server], how: str) -> None:
    context: Any = SimpleNamespace(get=lambda name: None, run=SimpleNamespace(dag_id="d", run_id="r"))
    notifier = WebhookNotifier(serve(how).url, timeout=0.5 if "byte" in how else PATIENCE)
    async with asyncio.timeout(PATIENCE):
        if "byte" not in how:
            await notifier.notify(context)  # its status was 200: the rest is not read
            return
        with pytest.raises(CommandFailed, match=r"has not answered within 0.5 s"):
            await notifier.notify(context)
