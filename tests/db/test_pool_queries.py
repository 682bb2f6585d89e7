"""Which tasks use a pool, for people: db/queries/pool_queries.py."""

from __future__ import annotations

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DagSpec, decode_spec
from aiosched.db.queries import pool_queries
from aiosched.db.queries.pool_queries import pool_members
from aiosched.db.server.engine import Database
from tests.scheduler.harness import dag, running, task


async def test_versions_are_read_once_and_broken_ones_again(
    dsn: str, db: Database, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_queries, "READ_AT_ONCE", 2)
    dags = [dag(f"d{number}", task("a"), task("b", pool="etl", pool_slots=2)) for number in range(5)]
    async with running(dsn, clock, *dags) as it:
        await it.fetch("INSERT INTO pool (name, slots) VALUES ('etl', 100)")
        for number in range(4):
            await it.trigger(f"d{number}", "r")
        await it.trigger("d4", "r")

        read = list[int]()

        def counted(text: str) -> DagSpec:
            read.append(1)
            return decode_spec(text)

        monkeypatch.setattr(pool_queries, "decode_spec", counted)
        first, again = await pool_members(db, "etl"), await pool_members(db, "default_pool")

        assert [(member.task_id, member.slots) for member in first] == [("b", 2)] * 5
        assert [member.task_id for member in again] == ["a"] * 5
        assert len(read) == 5

        def broken(text: str) -> None:
            read.append(1)
            raise ValueError("no spec")

        monkeypatch.setattr(pool_queries, "decode_spec", broken)
        pool_queries._known.pop(db)
        assert await pool_members(db, "etl") == []
        assert await pool_members(db, "etl") == []
        assert len(read) == 15


async def test_no_more_versions_are_kept_than_allowed(
    dsn: str, db: Database, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_queries, "MOST_KEPT", 2)
    async with running(dsn, clock, *(dag(f"d{number}") for number in range(4))) as it:
        for number in range(4):
            await it.trigger(f"d{number}", "r")

        assert len(await pool_members(db, "default_pool")) == 4
        assert len(pool_queries._known[db]) == 2
        assert len(await pool_members(db, "default_pool")) == 4
