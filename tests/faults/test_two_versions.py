"""The upgrade that is promised: an older version and this one as one fleet under load, forth and back again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aiosched.db.server.engine import Database
from tests.faults.two_versions import (
    CLOCKED,
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
from tests.faults.two_versions_fleet import (
    FAILED,
    LEFT,
    REFUSED,
    Fleet,
    Visitor,
    asking,
    looking,
)
from tests.ports import free_port

WHY_NOT = why_not()


def test_a_process_of_the_older_version_runs_the_older_package(tmp_path: Path) -> None:
    unpack(tmp_path / "older")

    said = Version("old", tmp_path / "older", tmp_path, "").python("-c", "import aiosched; print(aiosched.__file__)")

    assert said.strip() == str(tmp_path / "older" / "aiosched" / "__init__.py")


@pytest.mark.slow
@pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
async def test_an_older_version_and_this_one_are_one_fleet_through_an_upgrade_and_back(
    empty_dsn: str, tmp_path: Path
) -> None:
    unpack(tmp_path / "older")
    write_dags(tmp_path, datetime.now(UTC))
    old = Version("old", tmp_path / "older", tmp_path, empty_dsn)
    new = Version("new", ROOT, tmp_path, empty_dsn)
    old_web = Version("old_web", tmp_path / "older", tmp_path, empty_dsn, port=free_port())
    new_web = Version("new_web", ROOT, tmp_path, empty_dsn, port=free_port())
    visitors = Visitor(old_web), Visitor(new_web)
    await asyncio.to_thread(old.run, "db", "migrate")
    async with await Database.open(empty_dsn, application_name="test", check=False) as db:
        fleet = Fleet(db, old, new, (old_web, new_web))
        try:
            old_web.start()
            old.start()
            await fleet.owning_all(old)
            await fleet.all_dags()
            async with asking(fleet):
                await fleet.more_runs()

                await asyncio.to_thread(new.run, "db", "migrate")
                new_web.start()
                await fleet.more_runs()  # the old one goes on with the new schema

                new.start()
                await fleet.sharing(new)
                async with looking(*visitors):
                    await fleet.more_runs()
                    await asyncio.to_thread(new.run, "dags", "trigger", names()[0], "--run-id", "from_new")
                    await fleet.looked(*visitors)
                    for visitor, dag_id in zip(visitors, names(), strict=False):
                        await visitor.trigger(dag_id, f"from_{visitor.web.name}")
                for visitor in visitors:
                    visitor.web.ask_to_stop()

                await fleet.stop(old)
                await fleet.owning_all(new)
                await fleet.more_runs()

                old.start()  # and back
                await fleet.sharing(old)
                await fleet.more_runs()
                await asyncio.to_thread(old.run, "dags", "trigger", names()[1], "--run-id", "from_old")

                await fleet.stop(new)
                await fleet.owning_all(old)
                await fleet.more_runs()
            await fleet.finished()
            await fleet.stop(old)
            for visitor in visitors:
                assert visitor.web.has_ended()
        finally:
            for process in fleet.processes:
                process.kill()

        assert await fleet.number(FAILED) == 0
        assert await fleet.number(LEFT) == 0
        async with db.acquire() as conn:
            assert [tuple(row) for row in await conn.fetch(REFUSED)] == []
            runs = {tuple(row) for row in await conn.fetch("SELECT dag_id, run_id FROM dag_run")}
    asked = {*fleet.asked, (names()[0], "from_new"), (names()[1], "from_old")}
    asked |= {(names()[0], "from_old_web"), (names()[1], "from_new_web")}
    assert {run for run in runs if run[0] != CLOCKED} == asked
    assert len(runs) - len(asked) == TICKS
    assert problems(tmp_path, runs) == []
    assert min(beginnings(tmp_path).values()) > 20, "both versions have run tasks"
    for visitor in visitors:
        assert (visitor.failures, visitor.unanswered) == ([], 0)
        assert set(visitor.answers) <= {200, 201, 202}, visitor
    assert [line for version in fleet.processes for line in version.complaints()] == []
