"""Which code the attempts of a run are to run, with rows of all kinds of versions, also those of an older aiosched."""

from __future__ import annotations

from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.config import Settings
from aiosched.core.graph.instances import Run
from aiosched.core.values.messages import RunInfo
from aiosched.db.server.engine import Database
from aiosched.db.statements.runs import StoredVersion, load_versions
from aiosched.errors import BundleError
from aiosched.parsing.bundle_keeper import BundleKeeper
from aiosched.scheduler.memory.versions import run_info
from tests.scheduler.harness import NEW_YEAR, Running, dag, running, task

Columns = tuple[str | None, str | None]  # bundle and version
PINNED: Columns = ("team", "1" * 40)
NEWER: Columns = ("team", "2" * 40)
NO_BUNDLE: Columns = (None, None)


SAY = """
    UPDATE dag_version SET file = 'team:d.py', source_hash = $2, bundle = $3, bundle_version = $4 WHERE number = $1
"""


async def put(it: Running, number: int, code: Columns) -> None:
    """Say that this version of the DAG `d` came from there."""
    await it.execute(SAY, number, f"hash{number}", *code)


async def begun(dsn: str, clock: FakeClock, first: Columns, second: Columns) -> RunInfo:
    """What an attempt of a run gets whose version is the first one, if there is a second one by the time it starts."""
    async with running(dsn, clock, dag("d", task("a"), task("b", after="a"))) as it:
        await it.trigger("d", "r")
        await put(it, 1, first)
    async with running(dsn, clock, dag("d", task("a"), task("c"))) as it:
        await put(it, 2, second)
    async with running(dsn, clock) as it:
        await it.finish("a")
        return (await it.attempt("b")).run


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        (PINNED, NEWER, (*PINNED, "hash1", None)),
        (PINNED, NO_BUNDLE, (*PINNED, "hash1", None)),  # as a scheduler of an older aiosched stores it
        (NO_BUNDLE, NEWER, (*NEWER, "hash2", 2)),  # before the upgrade there was nothing to keep
        (NO_BUNDLE, NO_BUNDLE, (*NO_BUNDLE, "hash2", 2)),  # decision 22
    ],
)
async def test_a_run_of_a_version_with_code_keeps_it_and_others_run_the_newest(
    dsn: str, clock: FakeClock, first: Columns, second: Columns, wanted: tuple[Any, ...]
) -> None:
    run = await begun(dsn, clock, first, second)

    assert (run.bundle, run.bundle_version, run.source_hash, run.code_version) == wanted
    assert run.version == 1


async def test_callbacks_have_the_code_of_their_run(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"))) as it:
        await put(it, 1, PINNED)
        async with it.db.acquire() as conn:
            versions, _ = await load_versions(conn, [r["id"] for r in await conn.fetch("SELECT id FROM dag_version")])
        (version,) = versions.values()
        newest = StoredVersion(9, 2, version.spec, "d.py", "hash2")
        run = Run(
            key=1, dag_id="d", run_id="r", version_id=version.id, run_type="manual", state="running", run_after=NEW_YEAR
        )  # fmt: skip

    assert run_info(run, version, newest).bundle_version == PINNED[1]


@pytest.mark.parametrize("version", ["../../etc", "1" * 39, "x" * 40, ""])
async def test_what_is_no_version_is_not_looked_for(db: Database, version: str) -> None:
    with pytest.raises(BundleError, match="is no version of a bundle"):
        await BundleKeeper(Settings(), db).prepare(None, version)
