"""A run with very many tasks is decided and stored a part at a time, so that it holds up no other run."""

from __future__ import annotations

import asyncio

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import TaskSpec
from aiosched.scheduler.concurrency import slices
from tests.scheduler.harness import Running, dag, running, task

MANY = 1_700


def wide(dag_id: str, count: int = MANY, **options: object) -> object:
    return dag(dag_id, *(task(f"t{number}") for number in range(count)), **options)


async def test_the_waiting_tasks_of_a_large_run_are_stored_in_several_commits(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, wide("large", max_active_tasks=3), dag("small")) as it:
        sizes = it.scheduler.metrics.journal_batch
        before = sizes.largest
        await it.trigger("large", "r")
        await it.trigger("small", "r")
        await it.finish("a", dag_id="small")

        assert before < sizes.largest <= 210
        assert await it.runs("small") == {"r": "success"}
        states = [row["state"] for row in await it.instances("r", "large")]
        assert (states.count("queued"), states.count("scheduled")) == (3, MANY - 3)
        await it.assert_consistent()


async def test_a_large_run_ends_whatever_was_not_stored_when_its_scheduler_died(dsn: str, clock: FakeClock) -> None:
    count = 1_200
    async with running(dsn, clock, wide("large", count, max_active_tasks=500)) as it:
        await it.scheduler.trigger("large", run_id="r")
        await it.until(lambda: it.executor.running, "the first tasks")
    async with running(dsn, clock) as it:
        await it.finish_all()

        assert await it.runs("large") == {"r": "success"}
        assert {row["state"] for row in await it.instances("r", "large")} == {"success"}
        await it.assert_consistent()


async def test_the_last_task_of_a_large_run_waits_for_all_others(dsn: str, clock: FakeClock) -> None:
    before = [TaskSpec(task_id=f"t{n}", operator="EmptyOperator", is_empty=True) for n in range(MANY)]
    last = task("last", after=[spec.task_id for spec in before])
    async with running(dsn, clock, dag("large", *before, last)) as it:
        await it.trigger("large", "r")
        await it.finish("last")

        assert await it.runs("large") == {"r": "success"}
        await it.assert_consistent()


class Turns:
    """How often others got their turn while runs of a DAG were about to start."""

    def __init__(self, it: Running, dag_id: str) -> None:
        self._it, self._dag_id, self.number = it, dag_id, 0
        self._task = asyncio.create_task(self._count())

    async def _count(self) -> None:
        while True:
            cache = self._it.session.cache
            self.number += bool(cache.dags[self._dag_id].runs.starting)
            assert all(board.total == len(board.graph) for board in cache.boards.values())  # nobody sees half a run
            await asyncio.sleep(0)

    async def end(self) -> int:
        assert not self._task.done()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        return self.number


async def test_others_get_their_turn_while_the_board_of_a_large_run_is_built(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    async with running(dsn, clock, wide("large", max_active_tasks=3)) as it:
        turns = Turns(it, "large")
        await it.trigger("large", "r")

        assert await turns.end() >= MANY // 250
        assert await it.runs("large") == {"r": "running"}
        await it.assert_consistent()


async def test_others_get_their_turn_between_the_starts_of_many_runs(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    async with running(dsn, clock, wide("large", 3, max_active_runs=20)) as it:
        await it.ask("pause", "large")
        for number in range(20):
            await it.trigger("large", f"r{number}")
        turns = Turns(it, "large")
        await it.ask("unpause", "large")

        assert await turns.end() >= 20
        await it.finish_all()
        assert set((await it.runs("large")).values()) == {"success"}
        await it.assert_consistent()
