"""A scheduler that takes partitions over reads their DAGs and unfinished runs in parts, and loads all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.instances import Run
from aiosched.core.values.ids import PARTITIONS
from aiosched.db.statements import runs
from aiosched.scheduler.loops import notifications
from aiosched.scheduler.memory import version_reading
from aiosched.scheduler.memory.cache import StateCache
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


@pytest.mark.slow
async def test_runs_with_many_tasks_are_loaded_few_at_a_time(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[int] = []
    load_contents = loading.load_contents

    async def counting(session: Any, conn: Any, some: Sequence[Run]) -> Any:
        loaded.append(len(some))
        return await load_contents(session, conn, some)

    monkeypatch.setattr(loading, "TASKS_PER_LOAD", 7)
    monkeypatch.setattr(loading, "load_contents", counting)
    async with running(dsn, clock, dag("d", *map(task, "abc"), max_active_runs=9)) as it:
        for number in range(5):
            await it.trigger("d", f"r{number}")
        loaded.clear()

        await it.leave_and_come_back()

        assert loaded == [2, 2, 1]
        assert len(it.session.cache.boards) == 5
        await it.assert_consistent()


@pytest.mark.slow
async def test_dags_are_held_few_at_a_time_and_none_is_missing(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, planned = list[int](), list[int]()
    load_versions, set_next_runs = runs.load_versions, runs.set_next_runs

    async def counting_versions(conn: Any, ids: Sequence[int]) -> Any:
        read.append(len(ids))
        return await load_versions(conn, ids)

    async def counting_plans(conn: Any, next_runs: Sequence[Any]) -> None:
        planned.append(len(next_runs))
        await set_next_runs(conn, next_runs)

    monkeypatch.setattr(version_reading, "AT_ONCE", 2)
    monkeypatch.setattr(version_reading, "load_versions", counting_versions)
    monkeypatch.setattr(loading, "DAGS_PER_LOAD", 3)
    monkeypatch.setattr(loading, "PARTITIONS_PER_LOAD", PARTITIONS)
    monkeypatch.setattr(loading, "set_next_runs", counting_plans)
    async with running(dsn, clock, *(dag(f"d{number}") for number in range(7))) as it:
        planned.clear()

        await it.leave_and_come_back()

        assert (read, planned) == ([2, 2, 2, 1], [3, 3, 1])
        assert sorted(it.session.cache.dags) == [f"d{number}" for number in range(7)]
        await it.assert_consistent()


@pytest.mark.parametrize(("held", "pages"), [(0, 8), (100, 1), (8_000, 4), (1_000_000, 64)])
def test_the_rows_of_very_many_dags_are_compared_in_parts(held: int, pages: int) -> None:
    cache = StateCache()
    cache.partitions = set(range(PARTITIONS)) if held else set()
    cache.dags = dict.fromkeys(map(str, range(held)))  # type: ignore[assignment]

    found = list(loading._partition_pages(cache, range(PARTITIONS)))

    assert len(found) == pages
    assert [partition for page in found for partition in page] == list(range(PARTITIONS))


async def test_dags_that_are_announced_again_and_again_take_a_tenth_of_the_time(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reloaded: list[set[int]] = []

    async def reload(_: Any, partitions: set[int]) -> None:
        reloaded.append(set(partitions))
        clock.advance(1.0)

    async with running(dsn, clock) as it, it.session.locks.ownership:
        monkeypatch.setattr(notifications, "reload_dags", reload)
        news = it.session.notifications
        for partition in (3, 5, 6):
            news.changed_dags.add(partition)
            await notifications._reload_changed(it.session, overdue=False)
        assert reloaded == [{3}]

        clock.advance(9.0)
        await notifications._reload_changed(it.session, overdue=False)

        assert reloaded == [{3}, {5, 6}]
        assert news.changed_dags == set()
