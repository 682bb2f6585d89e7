"""Parsers that run alone are seen: what they read, wait for and fail with, and that one is silent."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from aiosched.db.server.engine import Database
from aiosched.db.statements import parsers
from aiosched.db.statements.parsers import ParserFigures, ParserRow, Severity, remarks_on
from aiosched.parsing.heartbeat import ParserHeartbeat, figures_of
from aiosched.web.server.exposition import exposition
from tests.cli.records import add_dag, add_file, add_scheduler
from tests.parsing.bench import Bench
from tests.parsing.builders import dag_source

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FOLDER = "the parser p reads the DAGs folder"


def row(silent_for: float = 1.0, *, bundles: Sequence[str] = (), **figures: Any) -> ParserRow:
    return ParserRow("p", "host", 7, "1", tuple(bundles), NOON, silent_for, ParserFigures(**figures))


@pytest.mark.parametrize(
    ("parser", "severity", "text"),
    [
        (row(listed_at=NOON), Severity.NONE, f"{FOLDER}, last looked at 2026-01-01 12:00:00Z"),
        (row(), Severity.NONE, FOLDER),
        (row(bundles=["a", "b"]), Severity.NONE, "the parser p reads the bundles a, b"),
        (row(bundles=["a"], files=9, unread=4), Severity.NONE,
         "the parser p reads the bundle a, 4 of 9 files are left of its first pass"),
        (row(waits_for="the bundle a is being fetched"), Severity.ATTENTION,
         "the parser p waits: the bundle a is being fetched"),
        (row(trouble="ValueError: no", waits_for="x"), Severity.BROKEN,
         "the parser p fails, and tries again: ValueError: no"),
        (row(31.0, listed_at=NOON), Severity.BROKEN,
         "no heartbeat from the parser p for 31.0 s, which reads the DAGs folder"),
        (row(3600.0, waits_for="it waits", bundles=["a"]), Severity.BROKEN,
         "no heartbeat from the parser p for 1 h, which reads the bundle a; it said last: it waits"),
    ],
)  # fmt: skip
def test_a_parser_says_what_it_does_or_what_is_wrong(parser: ParserRow, severity: Severity, text: str) -> None:
    (remark,) = remarks_on([parser], is_read=False, files=0)
    assert (remark.severity, remark.text) == (severity, text)
    assert (remark.fix is None) is (severity is Severity.NONE)


def test_a_silent_parser_is_less_bad_if_others_read() -> None:
    (remark,) = remarks_on([row(31.0)], is_read=True, files=3)
    assert remark.severity is Severity.ATTENTION


@pytest.mark.parametrize(
    ("rows", "is_read", "files", "is_missing"),
    [
        ([], False, 3, True),
        ([], False, 0, False),
        ([], True, 3, False),
        ([row(31.0)], False, 3, False),
    ],
    ids=["nobody", "no files", "a scheduler", "a silent one is named"],
)
def test_that_nobody_reads_is_said(rows: list[ParserRow], is_read: bool, files: int, is_missing: bool) -> None:
    texts = [remark.text for remark in remarks_on(rows, is_read=is_read, files=files)]
    assert ("no process reads DAG files: changes are not noticed" in texts) is is_missing


class Beating:
    """Heartbeats of parsers on one database."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def of(self, name: str, *bundles: str, figures: ParserFigures | None = None) -> ParserHeartbeat:
        said = figures or ParserFigures(listed_at=NOON)
        return ParserHeartbeat(self.db, lambda: said, name=name, bundles=bundles)

    async def is_silent(self, name: str, seconds: float) -> None:
        await self.execute(
            "UPDATE parser SET renewed_at = now() - make_interval(secs => $2) WHERE name = $1", name, seconds
        )

    async def names(self) -> list[str]:
        async with self.db.acquire() as conn:
            return [found.name for found in await parsers.list_parsers(conn)]

    async def execute(self, query: str, *args: Any) -> None:
        await self.db.execute(query, *args)


@pytest.fixture
def beating(db: Database) -> Beating:
    return Beating(db)


async def test_a_parser_enters_itself_renews_and_leaves(beating: Beating) -> None:
    one = beating.of("one", "git")
    await one.beat()
    await beating.is_silent("one", 20.0)
    await one.beat()

    async with beating.db.acquire() as conn:
        (found,) = await parsers.list_parsers(conn)
    assert (found.name, found.hostname, found.bundles, found.alive) == ("one", socket.gethostname(), ("git",), True)
    assert found.silent_for < 20.0
    assert found.figures == ParserFigures(listed_at=NOON)
    await one.leave()
    assert await beating.names() == []
    await one.beat()
    assert await beating.names() == ["one"], "whose row is gone enters itself again"


async def test_one_that_is_silent_stays_until_another_has_taken_its_place(beating: Beating) -> None:
    for name, bundles in {"killed": ["git"], "part": ["a"], "folder": [], "other": ["svn"], "slow": ["git"]}.items():
        await beating.of(name, *bundles).beat()
        await beating.is_silent(name, 29.0 if name == "slow" else 31.0)
    new = beating.of("new", "git", "a")
    await new.beat()
    assert await beating.names() == ["killed", "part", "folder", "other", "slow", "new"]

    await new.beat()

    assert await beating.names() == ["folder", "other", "slow", "new"]
    await beating.is_silent("other", 86_401.0)
    assert await beating.names() == ["folder", "slow", "new"]


async def test_figures_of_another_version_are_no_figures(beating: Beating) -> None:
    await beating.of("one").beat()
    for text in ('{"unread": "x"}', "[]", "null", '{"later": 1}'):
        await beating.execute("UPDATE parser SET figures = $1::json", text)
        async with beating.db.acquire() as conn:
            (found,) = await parsers.list_parsers(conn)
        assert found.figures == (ParserFigures() if "later" in text else None)
        assert str(found) == "the parser one reads the DAGs folder"


@pytest.mark.parametrize(
    "error",
    [asyncpg.InsufficientPrivilegeError("permission denied"), asyncpg.UndefinedTableError("no table"), OSError("gone"),
     RuntimeError("a bug")],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
async def test_no_failure_ends_the_heartbeat_and_it_is_said_once(
    beating: Beating, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    one = beating.of("one")
    with monkeypatch.context() as patch:

        async def fails(*args: Any, **options: Any) -> int:
            raise error

        patch.setattr(parsers, "register", fails)
        await one.beat()
        await one.beat()
        await one.leave()
    assert caplog.text.count("this parser") >= 1
    if isinstance(error, asyncpg.PostgresError):
        assert len(caplog.records) == 1
    await one.beat()
    assert await beating.names() == ["one"]


async def test_metrics_of_parsers_are_of_those_that_took_a_place(beating: Beating) -> None:
    """Two rows of a name that read the same are one series: a duplicate would spoil the whole answer."""
    await beating.of("p", "git").beat()
    await beating.is_silent("p", 60.0)
    await beating.of("p", "git").beat()
    await beating.of("p", "svn").beat()
    await beating.of("q").beat()
    await beating.is_silent("q", 31.0)

    found = [line for line in (await exposition(beating.db)).decode().splitlines() if "parser_alive{" in line]

    assert found == [
        'aiosched_parser_alive{parser="p",reads="the bundle git"} 1.0',
        'aiosched_parser_alive{parser="p",reads="the bundle svn"} 1.0',
        'aiosched_parser_alive{parser="q",reads="the DAGs folder"} 0.0',
    ]


READING: dict[str, tuple[str | None, bool]] = {
    "with the role": ('{"parsing": {"files": 1}}', True),
    "without it": ('{"parsing": null}', False),
    "of another version": ('{"other": 1}', True),
    "that has said nothing yet": (None, True),
}


@pytest.mark.parametrize(("figures", "reads"), READING.values(), ids=READING)
async def test_who_reads_follows_from_what_schedulers_and_parsers_say(
    beating: Beating, figures: str | None, reads: bool
) -> None:
    await add_scheduler(beating.db, "s", lease=60.0)
    await beating.execute("UPDATE scheduler SET figures = $1::json, started_at = now() - interval '1 hour'", figures)
    async with beating.db.acquire() as conn:
        assert await parsers.is_read(conn) is reads
        await beating.of("one").beat()
        assert await parsers.is_read(conn)
        await beating.is_silent("one", 31.0)
        assert await parsers.is_read(conn) is reads
        await beating.execute("UPDATE scheduler SET started_at = now()")
        assert await parsers.is_read(conn), "it may just begin"


async def test_a_real_parser_says_how_far_it_is(bench: Bench) -> None:
    bench.write("a.py", dag_source("a"))
    bench.write("bad.py", "raise ValueError  # aiosched dag")
    async with bench.running() as parser:
        said = figures_of(parser, "ValueError: what ended the one before it")
        assert (said.files, said.errors, said.unread, said.waits_for, said.trouble) == (2, 1, 0, None, None)
        assert said.listed_at == bench.clock.now()


async def seen(beating: Beating, name: str, *, silent: float, **figures: Any) -> None:
    await beating.of(name, figures=ParserFigures(**figures)).beat()
    await beating.is_silent(name, silent)


async def fleet_without_role(db: Database) -> None:
    """A living scheduler that reads no files, and a file."""
    await add_scheduler(db, "s", lease=60.0)
    times = "started_at = now() - interval '1 hour', renewed_at = '2020-01-01'"  # nobody asks for its lock
    await db.execute(f"UPDATE scheduler SET figures = '{{\"parsing\": null}}', {times}")
    await add_dag(db, "sales")
    await add_file(db, "sales.py", dag_ids=["sales"])


PARSERS: dict[str, tuple[float | None, dict[str, Any], str, str]] = {
    "reads": (1.0, {"listed_at": NOON}, "healthy", "p reads the DAGs folder"),
    "waits": (1.0, {"waits_for": "the bundle git is being fetched"}, "degraded", "p waits: the bundle git"),
    "fails": (1.0, {"trouble": "ValueError: no"}, "unhealthy", "p fails, and tries again: ValueError: no"),
    "silent": (61.0, {"listed_at": NOON}, "unhealthy", "no heartbeat from the parser p for 1 m 1 s"),
    "missing": (None, {}, "unhealthy", "no process reads DAG files"),
}


async def test_a_heartbeat_goes_on_until_it_is_cancelled(beating: Beating) -> None:
    running = asyncio.ensure_future(beating.of("one").run())
    while not await beating.names():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled()
