"""Names that are as long as they may be, or longer: they are stored or refused, and nothing stops."""

from __future__ import annotations

import random

import pytest

from aiosched import Asset
from aiosched.clock import FakeClock
from aiosched.core.graph.spec import AssetRef
from aiosched.core.values.messages import AssetTouch, Outcome
from aiosched.errors import DagError, Refused
from tests.scheduler.harness import dag, running, task


@pytest.mark.parametrize("length", [4000, 100_000])
async def test_a_run_id_that_is_too_long_is_refused(dsn: str, clock: FakeClock, length: int) -> None:
    async with running(dsn, clock, dag("d", task("a"))) as it:
        with pytest.raises(Refused, match="characters"):
            await it.ask("trigger", "d", run_id="x" * length)
        await it.trigger("d", "r")
        assert await it.runs("d") == {"r": "running"}


@pytest.mark.parametrize(("first", "letters", "size"), [("a", 26, 1), ("\u4e00", 20_000, 3), ("\U00020000", 40_000, 4)])
async def test_the_longest_asset_name_can_be_stored(
    dsn: str, clock: FakeClock, first: str, letters: int, size: int
) -> None:
    chance = random.Random(1)  # no compression makes it shorter
    name = "".join(chr(ord(first) + chance.randrange(letters)) for _ in range(1500 // size))
    with pytest.raises(DagError, match=r"give printable text of 1 to 1500 bytes"):
        Asset(name + first)
    asset = Asset(name)
    producer = task("a", outlets=(AssetRef(name=asset.name, uri=asset.uri),))
    async with running(dsn, clock, dag("d", producer)) as it:
        await it.trigger("d", "r")
        it.executor.report(await it.attempt("a"), Outcome.SUCCESS, assets=(AssetTouch(name=asset.name, uri=asset.uri),))
        await it.settled()

        assert await it.states("r") == {"a": "success"}
        assert [row["name"] for row in await it.fetch("SELECT name FROM asset")] == [name]
