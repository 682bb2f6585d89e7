"""Schedulers of one fleet whose DAG files differ: it is said who has what, once, and not during a deployment."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest

from aiosched.clock import FakeClock
from aiosched.core.figures.metrics import Metrics
from aiosched.core.values.ids import PARTITIONS, partition_of
from aiosched.db.server.engine import Database
from aiosched.parsing.discovery import DagFile, FileProblem, Listing
from aiosched.parsing.other_folders import ADVICE, TOLERATED, OtherFolders, differences, listed
from aiosched.parsing.service import Parser
from aiosched.scheduler.observability.metrics_snapshot import figures_of
from tests.cli.records import add_scheduler
from tests.parsing.bench import Bench
from tests.parsing.builders import dag_source
from tests.patience import PATIENCE

EVEN, ODD = set(range(0, PARTITIONS, 2)), set(range(1, PARTITIONS, 2))


def name_in(partitions: set[int], number: int = 0) -> str:
    """A file name of these partitions."""
    return [name for n in range(200) if partition_of(name := f"f{n}.py") in partitions][number]


A, B, C = (name_in(ODD, n) for n in range(3))
OWNERS: Final = dict.fromkeys(ODD, "two")


def listing(files: dict[str, str], *problems: str, unknown: tuple[str, ...] = ()) -> Listing:
    return Listing(
        {name: DagFile(name, Path(name), digest, 0) for name, digest in files.items()},
        problems={name: FileProblem(name, "broken") for name in problems},
        unknown=frozenset(unknown),
    )


def found(here: Listing, read: dict[str, str | None]) -> set[tuple[str, str]]:
    return {(each.name, each.what) for each in differences(here, read, ODD)}


def test_a_file_can_be_missing_here_or_there_or_have_another_text() -> None:
    assert found(listing({A: "1", B: "1"}), {A: "2", C: "1"}) == {(A, "other"), (B, "has"), (C, "lacks")}
    assert found(listing({A: "1", name_in(EVEN): "1"}), {A: "1"}) == set(), "files of this one's own partitions"


def test_what_cannot_be_read_here_or_there_does_not_differ() -> None:
    assert found(listing({}, A, unknown=("far/",)), {A: "1", "far/x.py": "1"}) == set()
    assert found(listing({A: "1"}), {A: None}) == set()
    assert found(listing({}, "a.zip"), {"a.zip/x.py": "1"}) == set(), "a damaged archive hides its members"


def test_a_deployment_says_nothing_and_what_stays_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    others = OtherFolders()
    for minute in range(20):  # new texts again and again: each has its time
        others.compare(listing({A: str(minute // 4)}), {A: str(minute // 4 - 1)}, OWNERS, 60.0 * minute)
    assert (others.texts, caplog.messages) == ((), [])

    for minute in range(30, 45):
        others.compare(listing({A: "new", B: "1"}), {A: "old"}, OWNERS, 60.0 * minute)
    texts = (f"has another text of {A} than two", f"has {B}, which two lacks")
    assert set(others.texts) == set(texts)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].endswith(ADVICE)

    others.compare(listing({A: "new", B: "1"}), {A: "old"}, dict.fromkeys(ODD, "three"), 60.0 * 46)
    assert "three" in str(others.texts)
    assert len(caplog.messages) == 1, "only its owner is another one"

    others.compare(listing({A: "new", B: "1"}), {A: "new", B: "1"}, OWNERS, 60.0 * 47)
    assert others.texts == ()
    assert caplog.messages[1:] == ["the DAG files here are those of the other schedulers again"]


def test_of_many_files_the_first_are_named() -> None:
    assert listed(["b", "a"]) == "a, b"
    assert listed([f"{n:04}" for n in range(1003)]) == "0000, 0001, 0002 and 1,000 more"


# -- two real parsers ----------------------------------------------------------------------------------------------


@dataclass
class Fleet:
    """The schedulers one and two, whose parsers have a folder each, on one database."""

    one: Bench
    two: Bench
    owned: dict[str, set[int]]

    async def move(self, **owned: set[int]) -> None:
        """Partitions change hands; the parsers hear of it when they list."""
        self.owned.update(owned)
        for name, partitions in owned.items():
            await self.one.db.execute(
                "UPDATE partition_lease SET incarnation = (SELECT incarnation FROM scheduler WHERE name = $1) "
                "WHERE partition = ANY($2::smallint[])", name, sorted(partitions),
            )  # fmt: skip

    async def parsed_at(self, name: str) -> datetime:
        found: datetime = await self.one.db.fetchval("SELECT parsed_at FROM dag_file WHERE file = $1", name)
        return found

    async def read_again(self, name: str, before: datetime) -> None:
        async with asyncio.timeout(PATIENCE):
            while await self.parsed_at(name) == before:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def tasks_of(self, dag_id: str) -> int:
        found: int = await self.one.db.fetchval(
            "SELECT json_array_length(v.spec -> 'tasks') FROM dag AS d JOIN dag_version AS v "
            "ON v.id = d.version_id WHERE d.dag_id = $1", dag_id,
        )  # fmt: skip
        return found

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[tuple[Parser, Parser]]:
        one, two = self.one, self.two
        async with (
            one.running(owns=lambda p: p in self.owned["one"]) as first,
            two.running(owns=lambda p: p in self.owned["two"]) as second,
        ):
            yield first, second


@pytest.fixture
async def fleet(tmp_path: Path, db: Database, clock: FakeClock) -> Fleet:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
        await add_scheduler(db, folder.name, lease=86_400.0)
    found = Fleet(Bench(folders[0], db, clock), Bench(folders[1], db, clock), {})
    await found.move(one=EVEN, two=ODD)
    return found


async def test_two_folders_that_differ_change_nothing_by_themselves_and_are_named(
    fleet: Fleet, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    mine, theirs, both = name_in(EVEN), name_in(ODD), name_in(ODD, 1)
    fleet.one.write(mine, dag_source("mine"))
    fleet.two.write(theirs, dag_source("theirs"))
    fleet.one.write(both, dag_source("both"))
    fleet.two.write(both, dag_source("both", tasks=2))
    async with fleet.running() as (one, two):
        before = await fleet.one.dags()
        for _ in range(3):  # what timers do
            for bench, parser in ((fleet.one, one), (fleet.two, two)):
                parser.request([mine, theirs, both])
                parser.refresh()
                await bench.until(parser, None)
                await parser.compare()
            clock.advance(TOLERATED)
        assert await fleet.one.dags() == before, "each file has one reader"
        assert set(one.stats.differences) == {f"lacks {theirs}, which two has", f"has another text of {both} than two"}
        assert figures_of(None, Metrics(), two.stats)["remarks"] == [f"lacks {mine}, which one has"]
        assert sum("differ from those of other schedulers" in text for text in caplog.messages) == 2

        fleet.one.write(theirs, dag_source("theirs"))
        fleet.one.write(both, dag_source("both", tasks=2))
        one.refresh()
        await fleet.one.until(one, None)
        await one.compare()
        assert one.stats.differences == ()


async def test_a_scheduler_that_takes_files_over_which_it_lacks_says_so(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    """So does one that starts with another folder. The text of a file changes once with each move of its partition."""
    gone, other = name_in(EVEN), name_in(EVEN, 1)
    fleet.one.write(gone, dag_source("gone"))
    fleet.one.write(other, dag_source("other"))
    fleet.two.write(other, dag_source("other", tasks=2))
    async with fleet.running() as (one, two):
        moved = {partition_of(gone), partition_of(other)}
        await fleet.move(one=EVEN - moved, two=ODD | moved)
        for bench, parser in ((fleet.one, one), (fleet.two, two)):
            parser.refresh()
            await bench.until(parser, None)
        assert (await fleet.one.dags())["gone"][1], "stale"
        assert await fleet.tasks_of("other") == 2
        assert [text for text in caplog.messages if "not here" in text] == [
            f"DAG files are not here any more: {gone}; no new runs of gone. If another scheduler has them: {ADVICE}"
        ]
        await two.compare()
        assert two.stats.differences == ()

    caplog.clear()
    (fleet.one.folder / other).unlink()
    await fleet.move(one=EVEN, two=ODD)
    async with fleet.one.running(owns=lambda p: p in fleet.owned["one"]):
        assert f"DAG files are not here any more: {other}; no new runs of other. If" in caplog.text


async def test_who_is_alone_deletes_files_without_a_warning(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench.write("a.py", dag_source("a"))
    async with bench.running() as parser:
        (bench.folder / "a.py").unlink()
        parser.refresh()
        await bench.until(parser, None)
        await parser.compare()
        assert parser.stats.differences == ()
    (said,) = [record for record in caplog.records if "not here" in record.getMessage()]
    assert (said.levelname, said.getMessage()) == ("INFO", "DAG files are not here any more: a.py; no new runs of a")


@pytest.mark.slow
async def test_a_dag_in_two_files_of_different_folders_stays_with_one_of_them(fleet: Fleet, clock: FakeClock) -> None:
    """A file was renamed, and one container was not updated: its reader lacks the file that the other one reads."""
    old, new = name_in(EVEN), name_in(ODD)
    fleet.one.write(old, dag_source("d"))
    async with fleet.one.running(owns=lambda p: p in fleet.owned["one"]) as one:
        clock.advance(60)
        fleet.two.write(new, dag_source("d", tasks=2))
        async with fleet.two.running(owns=lambda p: p in fleet.owned["two"]) as two:
            seen = []
            for _ in range(3):  # as they do now and then
                for bench, parser, name in ((fleet.one, one, old), (fleet.two, two, new)):
                    clock.advance(60)
                    before = await fleet.parsed_at(name)
                    parser.request([name])
                    await bench.until(parser, None)
                    await fleet.read_again(name, before)
                    seen.append((await fleet.one.dags())["d"][0])
            assert seen == [new] * 6, "who read it last, when the other one came"
            assert new in str((await fleet.one.errors())[old])
            fleet.one.write(new, dag_source("d", tasks=2))
            (fleet.one.folder / old).unlink()
            one.refresh()
            await fleet.one.until(one, None)
            assert await fleet.one.errors() == {new: None}


@pytest.mark.slow
async def test_a_file_that_is_renamed_keeps_its_dag_whoever_reads_it(fleet: Fleet, clock: FakeClock) -> None:
    """In one folder, or in two that are updated at once: nobody waits for the reader of the old name."""
    old, new = name_in(EVEN), name_in(ODD)
    for bench in (fleet.one, fleet.two):
        bench.write(old, dag_source("d"))
    async with fleet.running() as (_, two):
        clock.advance(60)
        fleet.two.write(new, dag_source("d"))
        (fleet.two.folder / old).unlink()
        two.refresh()
        await fleet.two.until(two, None)
        assert (await fleet.one.dags())["d"][0] == new
