"""A coroutine that blocks its worker: `why` of it and of those beside it says so, in rows, and figures count it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from aiosched import Scheduler
from aiosched.config import Settings
from aiosched.core.values.states import RunState
from aiosched.core.why.explanation import Verdict
from aiosched.db.queries.schedulers import list_schedulers
from tests.patience import PATIENCE

pytestmark = pytest.mark.usefixtures("kept_supervisors")

DAG = """
import asyncio, os
from aiosched import dag, task

@dag(schedule=None, is_paused_upon_creation=False)
def busy():
    @task
    async def blocks():
        while not os.path.exists({beside!r}):
            await asyncio.sleep(0.01)
        open({door!r}).read()

    @task
    async def beside():
        os.close(os.open({beside!r}, os.O_CREAT))
        while not os.path.exists({done!r}):
            await asyncio.sleep(0.01)

    blocks()
    beside()

busy()
"""


@pytest.mark.slow
async def test_why_names_who_blocks_the_loop_of_a_worker(dsn: str, tmp_path: Path) -> None:
    dags, door = tmp_path / "dags", tmp_path / "door"
    dags.mkdir()
    os.mkfifo(door)
    (dags / "busy.py").write_text(
        DAG.format(door=str(door), beside=str(tmp_path / "beside"), done=str(tmp_path / "done"))
    )
    settings = Settings()
    settings.core.home = tmp_path / "home"
    settings.scheduler.lease = 600.0  # renewed when there is news, not only every 200 s

    async with Scheduler(dsn=dsn, dags_folder=dags, executor="local", settings=settings) as scheduler:
        await scheduler.wait_idle()
        run = await scheduler.trigger("busy", run_id="r")

        async def worker_gate(task_id: str, verdict: Verdict) -> str:
            async with asyncio.timeout(PATIENCE):
                while True:
                    said = await scheduler.why("busy", "r", task_id)
                    for gate in said.gates:
                        if gate.name == "worker" and gate.verdict is verdict and said.state == "running":
                            return gate.detail
                    await asyncio.sleep(0.05)

        beside = await worker_gate("beside", Verdict.WAIT)
        itself = await worker_gate("blocks", Verdict.WAIT)
        (row,) = await list_schedulers(scheduler.db)
        (tmp_path / "done").touch()
        os.close(os.open(door, os.O_WRONLY))
        assert await run.wait(timeout=PATIENCE) is RunState.SUCCESS

    assert beside.startswith("cannot continue: busy.blocks (run r) blocks the event loop of its worker process for ")
    assert " at busy.py:11 in blocks: open(" in beside
    assert itself.startswith("it blocks the event loop of its worker process for ")
    assert itself.endswith(": await, or use asyncio.to_thread")
    assert row.figures is not None
    assert row.figures["executor"]["local"]["times_blocked"] == 1
    assert len(row.figures["executor"]["local"]["blocked"]) == 1
