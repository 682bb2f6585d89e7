"""Rows of attempts on engines are stored with the claims of their slots, and survive their scheduler."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiosched.config import Settings
from aiosched.core.values.ids import PARTITIONS
from aiosched.db.engines import attempts as statements
from aiosched.scheduler.engines.engine_executor import EngineExecutor
from aiosched.scheduler.partitions.ownership import give_back
from tests.engines.agents import AgentEngine
from tests.engines.test_engine_attempts import LEFT, TRIES, rows, serving, until
from tests.patience import PATIENCE


async def test_an_attempt_is_stored_with_the_claim_of_its_slot(
    settings: Settings, engine: AgentEngine, waits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is stored between the claim and the engine: one commit less on the way of each task."""

    async def refuse(*args: Any, **options: Any) -> Any:
        raise AssertionError("a statement of its own")

    monkeypatch.setattr(statements, "insert_attempts", refuse)
    (waits / "go").touch()
    async with serving(settings, engine) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, LEFT) == [(0,)]
    assert len(engine.sent) == 2


async def test_what_a_scheduler_has_claimed_and_not_sent_is_sent_by_the_next_one(
    settings: Settings, engine: AgentEngine, waits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has died between the commit and the engine: that costs neither a retry nor a loss."""
    (waits / "go").touch()
    with monkeypatch.context() as patch:
        patch.setattr(EngineExecutor, "submit", lambda self, attempts: None)
        patch.setattr(EngineExecutor, "drop_rows", lambda self: None)
        async with serving(settings, engine) as first:
            await first.trigger("d", run_id="r")
            async with asyncio.timeout(PATIENCE):
                while await rows(first, LEFT) != [(2,)]:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
    assert engine.sent == []
    async with serving(settings, engine) as second:
        await asyncio.wait_for(second.wait_idle(), PATIENCE)
        assert await rows(second, TRIES) == [("success", 1, 0)] * 2
    assert len(engine.sent) == 2


async def test_what_nobody_waits_for_any_more_is_taken_back_by_who_gains_its_partition(
    settings: Settings, engine: AgentEngine, waits: Path
) -> None:
    """Its owner has died between the commit that ended the tasks and its word to the engine."""
    engine.loses = lambda job: True
    async with serving(settings, engine) as scheduler:
        await scheduler.trigger("d", run_id="r")
        await until(lambda: len(engine.sent) == 2, "the jobs")
        session = scheduler.session
        assert session is not None
        async with session.locks.ownership:
            await give_back(session, range(PARTITIONS))
            await rows(scheduler, "UPDATE task_instance SET state = 'success' RETURNING 1")
        async with asyncio.timeout(PATIENCE):
            while await rows(scheduler, LEFT) != [(0,)]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

        assert await rows(scheduler, "SELECT state FROM dag_run") == [("success",)]


async def test_a_row_whose_attempt_is_not_wanted_any_more_when_it_is_stored_is_removed(
    settings: Settings, engine: AgentEngine, waits: Path
) -> None:
    engine.loses = lambda job: True
    async with serving(settings, engine) as scheduler:
        await scheduler.trigger("d", run_id="r")
        await until(lambda: len(engine.sent) == 2, "the rows")
        executor = scheduler.executor
        assert isinstance(executor, EngineExecutor)
        for job in engine.sent:
            executor.has_row(executor._keys[job.id], job.id)
        executor.drop_rows()
        async with asyncio.timeout(PATIENCE):
            while await rows(scheduler, LEFT) != [(0,)]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
