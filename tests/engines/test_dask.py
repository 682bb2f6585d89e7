"""The engine Dask, with real Dask schedulers and workers."""

from __future__ import annotations

import pytest

pytest.importorskip("distributed", reason="Dask is not installed: pip install distributed")

from aiosched.config import Settings
from aiosched.executors.engines.dask_engine import DaskEngine
from tests.engines.test_engine_attempts import GUARD, LEFT, TRIES, VALUES, rows, serving


async def test_a_cluster_of_this_machine_runs_tasks(settings: Settings, worker_api: str) -> None:
    settings.dask.workers, settings.executor.slots = 1, 2
    (settings.core.dags_folder / "d.py").write_text(VALUES)
    async with serving(settings, DaskEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=GUARD) == "success"
        assert await rows(scheduler, TRIES) == [("success", 1, 0)] * 2
        assert await rows(scheduler, LEFT) == [(0,)]
