"""A scheduler that takes partitions over reads their unfinished runs in parts, and loads all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.instances import Run
from aiosched.db.statements import runs
from aiosched.scheduler.partitions import loading
from tests.scheduler.harness import dag, running, task


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows of unfinished runs each statement has returned, in pages of two."""
    found: list[int] = []
    read = runs.load_unfinished_runs

    class Counting:
        def __init__(self, conn: Any) -> None:
            self.conn = conn

        async def fetch(self, query: str, *args: Any) -> Any:
            rows = await self.conn.fetch(query, *args)
            if query == runs.LOAD_UNFINISHED:
                found.append(len(rows))
            return rows

    async def load(conn: Any, *args: Any, **options: Any) -> list[Run]:
        return await read(Counting(conn), *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(loading, "load_unfinished_runs", load)
    monkeypatch.setattr(runs, "PAGE", 2)
    return found


async def test_unfinished_runs_are_read_in_pages_and_none_is_missing(
    dsn: str, clock: FakeClock, sizes: list[int]
) -> None:
    async with running(dsn, clock, dag("d", max_active_runs=3)) as it:
        for number in range(5):
            await it.trigger("d", f"r{number}")
        assert list((await it.runs("d")).values()) == ["running"] * 3 + ["queued"] * 2
        sizes.clear()

        await it.leave_and_come_back()

        assert sizes == [2, 2, 1]
        assert len(it.session.cache.boards) == 3
        await it.assert_consistent()
        await it.finish_all()
        assert set((await it.runs("d")).values()) == {"success"}


async def test_runs_with_many_tasks_are_loaded_few_at_a_time(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[int] = []
    resume = loading._resume_runs

    async def counting(session: Any, conn: Any, some: Sequence[Run], *args: Any) -> None:
        loaded.append(len(some))
        await resume(session, conn, some, *args)

    monkeypatch.setattr(loading, "_TASKS_PER_LOAD", 7)
    monkeypatch.setattr(loading, "_resume_runs", counting)
    async with running(dsn, clock, dag("d", *map(task, "abc"), max_active_runs=9)) as it:
        for number in range(5):
            await it.trigger("d", f"r{number}")
        loaded.clear()

        await it.leave_and_come_back()

        assert loaded == [2, 2, 1]
        assert len(it.session.cache.boards) == 5
        await it.assert_consistent()
