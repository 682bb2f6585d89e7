"""The upgrade that is promised: version 0.1.0 and this one as one fleet under load, forth and back again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aiosched.core.values.ids import PARTITIONS, partition_of
from aiosched.db.server.engine import Database
from tests.faults.two_versions import (
    CHAINS,
    CLOCKED,
    REVISION,
    ROOT,
    TICKS,
    Version,
    beginnings,
    names,
    problems,
    unpack,
    why_not,
    write_dags,
)

WHY_NOT = why_not()
GUARD = 60.0
PAUSE = 0.4  # seconds between two requests

OWNED = """
    SELECT count(*) FROM partition_lease JOIN scheduler AS s USING (incarnation) WHERE s.name = $1 AND NOT s.draining
"""
SUCCEEDED = "SELECT count(*) FROM dag_run WHERE state = 'success'"
FAILED = "SELECT count(*) FROM dag_run WHERE state = 'failed'"
UNFINISHED = "SELECT count(*) FROM dag_run WHERE state IN ('queued', 'running')"
SCHEDULED = f"SELECT count(*) FROM dag_run WHERE dag_id = '{CLOCKED}'"
WAITING = "SELECT count(*) FROM command WHERE state = 'waiting'"
REFUSED = "SELECT dag_id, result ->> 'error' AS error FROM command WHERE state = 'refused' AND verb = 'trigger'"
LEFT = (
    "SELECT (SELECT count(*) FROM task_report) + (SELECT count(*) FROM callback_outbox) + (SELECT sum(used) FROM pool)"
)
REQUEST = """
    INSERT INTO command (partition, dag_id, verb, args, requested_by)
    VALUES ($1, $2, 'trigger', json_build_object('run_id', $3::text), 'test')
"""
UNPAUSE = """
    INSERT INTO command (partition, dag_id, verb, requested_by)
    SELECT partition, dag_id, 'unpause', 'test' FROM unnest($1::text[], $2::smallint[]) AS d (dag_id, partition)
"""
UNPAUSED = "SELECT count(DISTINCT dag_id) FROM command WHERE verb = 'unpause' AND state = 'applied'"
# As docs/operations.md says: version 0.1.0 starts only where it finds its own revision.
SHOW_RELEASED_REVISION = (
    "CREATE SCHEMA aiosched_0_1",
    f"CREATE VIEW aiosched_0_1.alembic_version AS SELECT '{REVISION}'::text AS version_num",
)
SEEN_BY_RELEASED = "search_path=aiosched_0_1,public"


@dataclass
class Fleet:
    """Both versions on one database, and requests that arrive all the time."""

    db: Database
    old: Version
    new: Version
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def number(self, query: str, *args: object) -> int:
        async with self.db.acquire() as conn:
            found: int = await conn.fetchval(query, *args)
        return found

    async def until(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        """Wait for something that must happen while no process ends by itself."""
        try:
            async with asyncio.timeout(GUARD):
                while not await condition():
                    await asyncio.sleep(0.05)
                    self.old.check()
                    self.new.check()
        except TimeoutError:
            words = "\n".join(version.last_words() for version in (self.old, self.new))
            raise AssertionError(f"waited {GUARD:.0f} s for {what}:\n{words}") from None

    async def owning(self, version: Version, partitions: int) -> None:
        async def is_so() -> bool:
            return await self.number(OWNED, version.name) == partitions

        await self.until(is_so, f"{version.name} to own {partitions} partitions")

    async def all_dags(self) -> None:
        """Wait until the owner knows every DAG: requests for those that it does not know are refused."""

        async def is_known() -> bool:
            async with self.db.acquire() as conn:
                await conn.execute(UNPAUSE, names(), list(map(partition_of, names())))
                await conn.execute("SELECT pg_notify('aiosched_news', 'commands ')")
            await self.until(self.is_answered, "answers")
            return await self.number(UNPAUSED) == CHAINS

        await self.until(is_known, "the DAGs to be known")

    async def is_answered(self) -> bool:
        return await self.number(WAITING) == 0

    async def more_runs(self, count: int = 6) -> None:
        """Wait until so many more runs have succeeded."""
        goal = await self.number(SUCCEEDED) + count

        async def is_so() -> bool:
            return await self.number(SUCCEEDED) >= goal

        await self.until(is_so, f"{count} more runs")

    async def stop(self, version: Version) -> None:
        """Stop one version in order, while requests arrive."""
        version.ask_to_stop()

        async def has_ended() -> bool:
            return version.has_ended()

        await self.until(has_ended, f"{version.name} to end")

    async def finished(self) -> None:
        """Wait until every request is answered, the schedule is at its end, and every run has ended."""

        async def is_so() -> bool:
            if await self.number(SCHEDULED) < TICKS:
                return False
            return await self.number(WAITING) + await self.number(UNFINISHED) == 0

        await self.until(is_so, "all runs to end")

    async def keep_asking(self) -> None:
        """Request one run after the other."""
        while True:
            dag_id = names()[len(self.asked) % len(names())]
            run_id = f"asked{len(self.asked)}"
            async with self.db.acquire() as conn:
                await conn.execute(REQUEST, partition_of(dag_id), dag_id, run_id)
                await conn.execute("SELECT pg_notify('aiosched_news', $1)", f"commands {partition_of(dag_id)}")
            self.asked.append((dag_id, run_id))
            await asyncio.sleep(PAUSE)


@contextlib.asynccontextmanager
async def asking(fleet: Fleet) -> AsyncIterator[None]:
    task = asyncio.create_task(fleet.keep_asking())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.mark.timeout(240)
@pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
async def test_version_0_1_0_and_this_one_are_one_fleet_through_an_upgrade_and_back(
    empty_dsn: str, tmp_path: Path
) -> None:
    unpack(tmp_path / "released")
    write_dags(tmp_path, datetime.now(UTC))
    old = Version("old", tmp_path / "released", tmp_path, empty_dsn)
    new = Version("new", ROOT, tmp_path, empty_dsn)
    await asyncio.to_thread(old.run, "db", "migrate")
    async with await Database.open(empty_dsn, application_name="test", check=False) as db:
        fleet = Fleet(db, old, new)
        try:
            old.start()
            await fleet.owning(old, PARTITIONS)
            await fleet.all_dags()
            async with asking(fleet):
                await fleet.more_runs()

                await asyncio.to_thread(new.run, "db", "migrate")
                await fleet.more_runs()  # the old one goes on with the new schema

                new.start()
                await fleet.owning(new, PARTITIONS // 2)
                await fleet.more_runs()
                await asyncio.to_thread(new.run, "dags", "trigger", names()[0], "--run-id", "from_new")

                await fleet.stop(old)
                await fleet.owning(new, PARTITIONS)
                await fleet.more_runs()

                for statement in SHOW_RELEASED_REVISION:  # and back
                    async with db.acquire() as conn:
                        await conn.execute(statement)
                old.dsn = f"{empty_dsn}{'&' if '?' in empty_dsn else '?'}{SEEN_BY_RELEASED}"
                old.start()
                await fleet.owning(old, PARTITIONS // 2)
                await fleet.more_runs()
                await asyncio.to_thread(old.run, "dags", "trigger", names()[1], "--run-id", "from_old")

                await fleet.stop(new)
                await fleet.owning(old, PARTITIONS)
                await fleet.more_runs()
            await fleet.finished()
            await fleet.stop(old)
        finally:
            old.kill()
            new.kill()

        assert await fleet.number(FAILED) == 0
        assert await fleet.number(LEFT) == 0
        async with db.acquire() as conn:
            assert [tuple(row) for row in await conn.fetch(REFUSED)] == []
            runs = {tuple(row) for row in await conn.fetch("SELECT dag_id, run_id FROM dag_run")}
    asked = {*fleet.asked, (names()[0], "from_new"), (names()[1], "from_old")}
    assert {run for run in runs if run[0] != CLOCKED} == asked
    assert len(runs) - len(asked) == TICKS
    assert problems(tmp_path, runs) == []
    assert min(beginnings(tmp_path).values()) > 20, "both versions have run tasks"
    assert [line for version in (old, new) for line in version.complaints()] == []
