"""A git bundle follows its ref, and its login is in no file, no error and on no command line."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from aiosched.bundles.cache import BundleCache
from aiosched.bundles.git import GitBundle
from aiosched.bundles.types import BundleLogin, Newest
from aiosched.config import BundleSettings
from aiosched.errors import BundleError, VersionGone
from tests.git_server import served
from tests.repositories import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repo")


def bundle(tmp_path: Path, url: str, **more: Any) -> GitBundle:
    settings = BundleSettings(name="team", kind="git", url=url, **{"ref": "main", **more})
    return GitBundle(settings, BundleCache(tmp_path / "cache"))


def newest(one: GitBundle, known: Newest | None = None, login: BundleLogin | None = None) -> Newest:
    return asyncio.run(one.newest(known, login))


def left(tmp_path: Path) -> list[str]:
    """What is in the cache besides versions."""
    return [path.name for path in (tmp_path / "cache").iterdir() if len(path.name) != 40]


def test_the_files_of_the_newest_commit_are_a_folder(tmp_path: Path, repository: Repository) -> None:
    commit = repository.commit({"a.py": "A = 1\n", "deep/b.txt": "b"})
    one = bundle(tmp_path, repository.url)

    found = newest(one)

    assert found.version == commit
    files = {str(p.relative_to(one.cache.path(commit))) for p in one.cache.path(commit).rglob("*") if p.is_file()}
    assert files == {"a.py", "deep/b.txt"}
    assert not (one.cache.path(commit) / "a.py").stat().st_mode & 0o222
    assert left(tmp_path) == []


def test_a_check_without_news_fetches_nothing(tmp_path: Path, repository: Repository) -> None:
    repository.commit({"a.py": "A = 1\n"})
    one = bundle(tmp_path, repository.url)
    known = newest(one)
    shutil.rmtree(one.cache.path(known.version))

    assert newest(one, known) == known
    assert not one.cache.has(known.version)


def test_a_commit_that_changes_nothing_in_the_subfolder_is_no_new_version(
    tmp_path: Path, repository: Repository
) -> None:
    first = repository.commit({"dags/a.py": "A = 1\n", "readme": "1"})
    one = bundle(tmp_path, repository.url, subfolder="dags")
    known = newest(one)
    second = repository.commit({"readme": "2"})

    again = newest(one, known)
    third = repository.commit({"dags/a.py": "A = 2\n"})

    assert (known.version, again.version, again.mark) == (first, first, second)
    assert newest(one, again).version == third
    assert (one.cache.path(third) / "a.py").read_text() == "A = 2\n"


def test_a_branch_is_not_mistaken_for_one_whose_name_ends_alike(tmp_path: Path, repository: Repository) -> None:
    commit = repository.commit({"a.py": ""})
    repository.git("checkout", "--quiet", "-b", "a/main")
    repository.commit({"a.py": "other"})

    assert newest(bundle(tmp_path, repository.url)).version == commit


def test_an_annotated_tag_means_its_commit(tmp_path: Path, repository: Repository) -> None:
    commit = repository.commit({"a.py": ""})
    repository.git("tag", "--annotate", "v1", "--message", "one")

    assert newest(bundle(tmp_path, repository.url, ref="v1")).version == commit


def test_a_ref_can_be_a_commit(tmp_path: Path, repository: Repository) -> None:
    commit = repository.commit({"a.py": "1"})
    repository.commit({"a.py": "2"})

    assert newest(bundle(tmp_path, repository.url, ref=commit)).version == commit


def test_after_a_force_push_the_new_commit_is_the_newest(tmp_path: Path, repository: Repository) -> None:
    repository.commit({"a.py": "1"})
    one = bundle(tmp_path, repository.url)
    known = newest(one)
    rewritten = repository.commit({"a.py": "2"}, amend=True)

    assert newest(one, known).version == rewritten
    assert (one.cache.path(rewritten) / "a.py").read_text() == "2"


def test_a_commit_that_the_repository_has_lost_is_gone_and_the_text_says_what_to_do(
    tmp_path: Path, repository: Repository
) -> None:
    lost = repository.commit({"a.py": "1"})
    repository.commit({"a.py": "2"}, amend=True)
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "--quiet", "--prune=now")

    with pytest.raises(VersionGone, match=rf"version {lost[:12]} of the bundle team is gone.*--newest-version"):
        asyncio.run(bundle(tmp_path, repository.url).fetch(lost, None))


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"ref": "none"}, "no branch or tag none"),
        ({"subfolder": "none"}, "has no folder none"),
        ({"url": "file:///nowhere/repo"}, "repo"),
        ({"timeout": 0.001}, "took longer than 0.001 s"),
    ],
)
def test_a_repository_that_cannot_be_used_says_why(
    tmp_path: Path, repository: Repository, more: dict[str, Any], text: str
) -> None:
    repository.commit({"a.py": ""})
    settings = {"url": repository.url, **more}

    with pytest.raises(BundleError, match=text):
        newest(bundle(tmp_path, **settings))


def test_a_repository_runs_no_hooks_and_no_filters_here(tmp_path: Path, repository: Repository) -> None:
    repository.commit({".gitattributes": "* filter=evil\n", "a.py": "1"})
    hook = repository.folder / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)

    newest(bundle(tmp_path, repository.url))

    assert not (tmp_path / "ran").exists()


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every command line of git, and of the programs that it starts, is written to this file."""
    real, folder, log = shutil.which("git"), tmp_path / "bin", tmp_path / "commands"
    folder.mkdir()
    (folder / "git").write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {real} "$@"\n')
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return log


def test_a_login_opens_a_repository_and_leaves_no_trace(
    tmp_path: Path, repository: Repository, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = repository.commit({"a.py": "1"})
    home = tmp_path / "userhome"
    home.mkdir()
    (home / ".gitconfig").write_text("[credential]\n\thelper = store\n")
    monkeypatch.setenv("HOME", str(home))
    with served(tmp_path, "ann:s3cret-word") as (address, seen):
        one = bundle(tmp_path, f"{address}/repo/.git")
        found = newest(one, login=BundleLogin("ann", "s3cret-word"))

    assert found.version == commit
    assert any(seen)
    texts = [p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()]
    assert not any(b"s3cret-word" in text for text in texts)
    assert "ls-remote" in recorded.read_text()


def test_a_wrong_login_is_an_error_without_the_password(tmp_path: Path, repository: Repository) -> None:
    repository.commit({"a.py": "1"})
    with served(tmp_path, "ann:right") as (address, _):
        one = bundle(tmp_path, f"{address}/repo/.git")
        with pytest.raises(BundleError, match="Authentication failed") as raised:
            newest(one, login=BundleLogin("ann", "wr0ng-word"))

    assert "wr0ng-word" not in str(raised.value)


def test_a_login_is_given_to_no_other_host(tmp_path: Path, repository: Repository) -> None:
    """The helper is configured for the host of the bundle's address only."""
    from aiosched.bundles.git import _environment

    env = _environment("https://one.example:8443/a.git", BundleLogin("u", "p"))

    assert env["GIT_CONFIG_KEY_1"] == "credential.https://one.example:8443.helper"
    assert (env["GIT_CONFIG_KEY_0"], env["GIT_CONFIG_VALUE_0"]) == ("credential.helper", "")
