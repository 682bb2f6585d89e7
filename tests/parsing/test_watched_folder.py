"""What becomes of the DAGs folder as a whole: it vanishes, is replaced, is a link, or tells of no changes.

Source: the semantics reference, sections 30.1 to 30.4.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from pathlib import Path
from typing import Any

import pytest
import watchfiles

from aiosched.parsing import bundle_sources, service, watcher
from aiosched.parsing.discovery import Discovery
from tests.parsing.bench import Bench
from tests.parsing.builders import dag_source, write
from tests.patience import until


async def test_deleting_a_file_while_nobody_ran_is_noticed_at_the_start(bench: Bench) -> None:
    bench.write("a.py", dag_source("a"))
    async with bench.running():
        pass
    (bench.folder / "a.py").unlink()

    async with bench.running():
        assert (await bench.dags())["a"] == ("a.py", True, False, 1)


async def test_a_folder_that_cannot_be_read_makes_nothing_stale(bench: Bench, tmp_path: Path) -> None:
    bench.write("a.py", dag_source("a"))
    async with bench.running():
        pass
    bench.folder.rename(tmp_path / "elsewhere")

    async with bench.running():
        assert (await bench.dags())["a"] == ("a.py", False, False, 1)


async def test_a_folder_that_is_replaced_as_a_whole_is_followed(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**(watcher.watch_folder.__kwdefaults__ or {}), "poll_every": 0.05}
    monkeypatch.setattr(watcher.watch_folder, "__kwdefaults__", options)
    write(tmp_path, "release1/a.py", dag_source("a"))
    write(tmp_path, "release2/a.py", dag_source("a", "b"))
    bench.folder.rmdir()
    bench.folder.symlink_to("release1")
    async with bench.running():
        await bench.heard.next()

        (tmp_path / "next").symlink_to("release2")
        os.replace(tmp_path / "next", bench.folder)  # noqa: PTH105
        assert await bench.heard.next() == ["a", "b"], "the source of both has changed"

        write(tmp_path, "release2/a.py", dag_source("a", "b", "c"))
        assert await bench.heard.next() == ["a", "b", "c"]


def put_link(link: Path, target: str) -> None:
    """Let a link lead elsewhere at once."""
    new = link.with_name(f"{link.name}_tmp")
    new.symlink_to(target)
    new.rename(link)


async def test_links_inside_the_folder_are_followed_when_they_move(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LIST_EVERY", 300.0)
    for release in ("release1", "release2"):
        write(tmp_path, f"{release}/a.py", dag_source(release))
        write(bench.folder, f"..{release}/b.py", dag_source(f"mounted_{release}"))
    (bench.folder / "team").symlink_to(tmp_path / "release1")
    (bench.folder / "..data").symlink_to("..release1")
    (bench.folder / "b.py").symlink_to("..data/b.py")  # as Kubernetes mounts a ConfigMap
    async with bench.running():
        assert await bench.heard.next() == ["mounted_release1", "release1"]

        put_link(bench.folder / "..data", "..release2")
        assert await bench.heard.next() == ["mounted_release1", "mounted_release2"]

        put_link(bench.folder / "team", str(tmp_path / "release2"))
        assert await bench.heard.next() == ["release1", "release2"]
        write(tmp_path, "release2/a.py", dag_source("release2", "more"))
        assert await bench.heard.next() == ["more", "release2"]


async def test_where_no_news_of_changes_comes_the_folder_is_listed_every_few_seconds(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hear_nothing(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(bundle_sources, "watch_folder", hear_nothing)
    monkeypatch.setattr(service, "LIST_EVERY", 0.05)
    monkeypatch.setattr(service, "LISTING_SHARE", 1.0)
    async with bench.running():
        bench.write("a.py", dag_source("a"))
        assert await bench.heard.next() == ["a"]
        bench.write("a.py", dag_source("a", "b"))
        assert await bench.heard.next() == ["a", "b"]


async def test_a_folder_that_cannot_be_read_is_told_of_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service, "LIST_EVERY", 0.01)
    monkeypatch.setattr(service, "LISTING_SHARE", 1.0)
    tries, look = itertools.count(1), Discovery.list

    def missing(self: Discovery, **options: Any) -> Any:
        if next(tries) <= 3:
            raise FileNotFoundError(2, "No such file or directory")
        return look(self, **options)

    monkeypatch.setattr(Discovery, "list", missing)
    bench.write("a.py", dag_source("a"))
    with caplog.at_level(logging.INFO, "aiosched.parsing"):
        async with bench.running():
            assert await bench.heard.next() == ["a"]

    assert caplog.text.count("cannot be read (No such file or directory)") == 1
    assert caplog.text.count("can be read again") == 1


async def test_without_watching_the_listing_finds_changes_and_the_log_says_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no inotify here")

    monkeypatch.setattr(watcher, "awatch", refuse)
    settings = bench.settings
    settings.parsing.refresh_interval = 0.05
    with caplog.at_level(logging.WARNING, "aiosched.parsing"):
        async with bench.running(settings=settings):
            bench.write("a.py", dag_source("a"))
            assert await bench.heard.next() == ["a"]

    assert "cannot be watched (no inotify here)" in caplog.text


@pytest.mark.slow
async def test_a_name_that_is_not_utf8_interrupts_watching_for_a_moment(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service, "LIST_EVERY", 300.0)
    monkeypatch.setattr(watcher, "AGAIN", (0.01, 0.02))
    with caplog.at_level(logging.INFO, "aiosched.parsing"):
        async with bench.running():
            notes = write(bench.folder, os.fsdecode(b"caf\xe9.txt"), "not even Python")
            await until(lambda: "cannot be watched" in caplog.text)
            bench.write("a.py", dag_source("a"))
            assert await bench.heard.next() == ["a"]
            bench.write("a.py", dag_source("a", "b"))
            assert await bench.heard.next() == ["a", "b"]

            notes.unlink()
            bench.write("a.py", dag_source("b"))
            assert "b" in await bench.heard.next()

    assert r"caf\xE9.txt" in caplog.text
    assert "rename the file" in caplog.text
    assert "TaskGroup" not in caplog.text


async def test_watching_is_tried_again_after_pauses_that_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries, real = itertools.count(1), watchfiles.awatch
    happened: list[float | str] = []

    def refuse(*arguments: Any, **options: Any) -> Any:
        if next(tries) <= 5:
            raise ExceptionGroup("several", [OSError("no inotify here")])
        happened.append("watching")
        return real(*arguments, **options)

    async def rest(seconds: float) -> None:
        happened.append(seconds)

    monkeypatch.setattr(watcher, "awatch", refuse)
    monkeypatch.setattr(watcher, "AGAIN", (1.0, 5.0))
    with caplog.at_level(logging.INFO, "aiosched.parsing"):
        watching = asyncio.create_task(
            watcher.watch_folder(tmp_path, lambda: happened.append("list"), poll_every=0.05, rest=rest)
        )
        await until(lambda: "is watched again" in caplog.text)
        assert happened == [1.0, "list", 2.0, "list", 4.0, "list", 5.0, "list", 5.0, "list", "watching"]

        write(tmp_path, "a.py", dag_source("a"))
        await until(lambda: happened[-1] == "list")
        watching.cancel()

    assert caplog.text.count("cannot be watched (no inotify here)") == 1
    assert caplog.text.count("is watched again") == 1
