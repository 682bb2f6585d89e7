"""An import error is in the log once: when it appears, when it changes, and when it is gone."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from aiosched.config import BundleSettings
from aiosched.parsing.bundle_keeper import BundleKeeper
from aiosched.parsing.import_errors import ImportErrors
from aiosched.parsing.service import Parser
from tests.parsing.bench import Bench
from tests.parsing.builders import dag_source
from tests.patience import PATIENCE
from tests.repositories import Repository


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Level and text of what was said of import errors."""
    mine = [one for one in caplog.records if one.name == "aiosched.parsing.import_errors"]
    return [(one.levelname, one.getMessage()) for one in mine]


def test_an_error_is_said_when_it_appears_changes_and_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    errors = ImportErrors()

    for digest, error in (
        ("1", None),
        ("2", "ValueError: bad"),
        ("2", "ValueError: bad"),  # the next pass
        ("3", "ValueError: bad"),  # a comment was written
        ("4", "ValueError: worse"),
        ("5", None),
        ("5", None),
        ("4", "ValueError: worse"),
    ):
        errors.note("a.py", digest, error, line=None if error is None else 7)
    errors.forget(["a.py", "never seen"])

    assert said(caplog) == [
        ("WARNING", "a.py:7 cannot be used: ValueError: bad"),
        ("WARNING", "a.py:7 cannot be used: ValueError: worse"),
        ("INFO", "the import error of a.py is gone"),
        ("WARNING", "a.py:7 cannot be used: ValueError: worse"),
        ("INFO", "the import error of a.py is gone"),
    ]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("no such file /tmp/tmp1a2b", "no such file /tmp/tmp3a4b"),
        ("<object at 0x7f01ab>", "<object at 0x7fffcd>"),
        ("it is 10:31:07", "it is 10:31:38"),
    ],
    ids=["names", "addresses", "times"],
)
def test_an_error_that_differs_at_each_pass_is_said_once(one: str, two: str, caplog: pytest.LogCaptureFixture) -> None:
    errors = ImportErrors()
    for _ in range(3):
        errors.note("a.py", "same", one)
        errors.note("a.py", "same", two)
    assert len(said(caplog)) == 1

    errors.note("a.py", "edited", one)
    assert len(said(caplog)) == 2


def test_a_long_error_of_many_lines_is_one_short_line(caplog: pytest.LogCaptureFixture) -> None:
    ImportErrors().note("a.py", "1", "x\n" * 100_000)
    ((_, text),) = said(caplog)
    assert "\n" not in text
    assert len(text) < 1_100


async def test_the_parser_says_it_of_files_and_of_dags_that_are_taken(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bench.write("good.py", dag_source("good"))
    bench.write("bad.py", "from aiosched import DAG\nimport nothing_of_that_name\n")
    async with bench.running() as parser:
        bench.write("twice.py", dag_source("good"))  # when the DAG is taken: two processes read the first files
        parser.refresh()
        async with asyncio.timeout(PATIENCE):
            while len([level for level, _ in said(caplog) if level == "WARNING"]) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert [text for level, text in sorted(said(caplog)) if level == "WARNING"] == [
            "bad.py:2 cannot be used: ModuleNotFoundError: No module named 'nothing_of_that_name'",
            (
                "twice.py cannot be used: DAG 'good' is already defined in good.py. Give one of them another dag_id, "
                "or remove it."
            ),
        ]
        caplog.clear()
        parser.request(["bad.py", "twice.py"])
        bench.write("bad.py", dag_source("mended"))
        while "mended" not in await bench.heard.next():
            pass
        (bench.folder / "twice.py").unlink()
        parser.refresh()
        async with asyncio.timeout(PATIENCE):
            while len(said(caplog)) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    assert sorted(said(caplog)) == [
        ("INFO", "the import error of bad.py is gone"),
        ("INFO", "the import error of twice.py is gone"),
    ]


async def test_a_bundle_that_never_comes_is_named_and_the_others_are_read(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(keeper: BundleKeeper, bundle: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(BundleKeeper, "newest", never)
    settings = bench.settings.model_copy(deep=True)
    settings.core.home = tmp_path / "home"
    bench.write("here.py", dag_source("here"))
    settings.dags.bundles = [
        BundleSettings(name="away", kind="git", url="https://nowhere/r.git", ref="main"),
        BundleSettings(name="own", kind="folder", path=bench.folder),
    ]
    parser = Parser(settings, bench.db, clock=bench.clock, on_change=bench.heard)
    running = asyncio.create_task(parser.run())
    assert await bench.heard.next() == ["here"]
    assert not parser.first_pass.done()
    assert parser.waits_for == "the bundle away is being fetched"
    parser.stop()
    await running
    await parser.first_pass  # nobody waits for the rest
    assert not parser.has_read_all


async def test_a_bundle_that_cannot_be_fetched_is_an_error_of_the_first_pass(
    bench: Bench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = bench.settings.model_copy(deep=True)
    settings.core.home = tmp_path / "home"
    bench.write("here.py", dag_source("here"))
    settings.dags.bundles = [
        BundleSettings(name="away", kind="git", url=f"file://{tmp_path}/nothing", ref="main"),
        BundleSettings(name="own", kind="folder", path=bench.folder),
    ]
    async with bench.running(settings=settings) as parser:
        assert (parser.waits_for, parser.stats.errors, parser.stats.dags) == (None, 1, 1)
    assert caplog.text.count("bundle away: The newest version cannot be fetched") == 1
    assert said(caplog) == []


async def test_a_bundle_that_failed_before_another_one_came_does_not_hold_the_first_pass_open(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error was stored, and then it was waited for: `serve` said "still parsing" for ever."""
    original, comes = BundleKeeper.newest, asyncio.Event()

    async def newest(keeper: BundleKeeper, bundle: Any) -> Any:
        if bundle.name == "slow":
            await comes.wait()
        return await original(keeper, bundle)

    monkeypatch.setattr(BundleKeeper, "newest", newest)
    settings = bench.settings.model_copy(deep=True)
    settings.core.home = tmp_path / "home"
    repository = Repository(tmp_path / "repo")
    repository.commit({"late.py": dag_source("late")})
    settings.dags.bundles = [
        BundleSettings(name="away", kind="git", url=f"file://{tmp_path}/nothing", ref="main"),
        BundleSettings(name="slow", kind="git", url=repository.url, ref="main"),
    ]
    parser = Parser(settings, bench.db, clock=bench.clock, on_change=bench.heard)
    running = asyncio.create_task(parser.run())
    async with asyncio.timeout(PATIENCE):
        while parser.stats.errors == 0:  # noqa: ASYNC110  # the error of "away" is stored
            await asyncio.sleep(0.02)
        assert not parser.first_pass.done()
        comes.set()
        await parser.first_pass
    assert (parser.stats.errors, parser.stats.dags) == (1, 1)
    parser.stop()
    await running
