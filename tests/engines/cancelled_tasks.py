"""Tasks of an engine that are cancelled while they run: each ends in its worker, and the one beside it goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiosched.scheduler import Scheduler
from tests.engines.test_engine_attempts import GUARD, TRIES, calls, rows, until


async def check_that_cancelled_tasks_end(scheduler: Scheduler, folder: Path) -> None:
    """In one run of the DAG `d` that waits in this folder its function is cancelled, in the next its coroutine."""
    for number, task_id in enumerate(("plain", "coroutine"), 1):
        await scheduler.trigger("d", run_id=task_id)
        await until(lambda: len(calls(folder)) == 2, "both tasks")
        await scheduler.mark_task("d", task_id, task_id, "failed")
        async with asyncio.timeout(GUARD):
            while len(await rows(scheduler, "SELECT FROM engine_attempt")) > 1:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        (folder / "go").touch()
        await scheduler.wait_idle()
        states = sorted(row[0] for row in await rows(scheduler, TRIES))
        assert states == ["failed"] * number + ["success"] * number, task_id
        for name in ("calls", "go"):
            (folder / name).unlink()
